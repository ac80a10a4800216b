//! `sluice config policies`: the admission policies of the variant without webhooks, as a configuration has them.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use sluice_configuration::{Configuration, parse};
use sluice_crds::{QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_webhooks::manifests::Options;
use sluice_webhooks::manifests::policies::{unknown_to_policies, yaml};

use crate::process::config::file::text;
use crate::process::config::held_kinds;

/// Prints the admission policies for those without webhooks, as a configuration has them: aliases of the queue label and of
/// the queue gate, and managedNamespaces. Tells on the standard error what policies can't do, and then ends with status 1.
#[derive(Debug, Args)]
pub struct PoliciesArgs {
    /// The configuration file; `-` is the standard input.
    #[arg(env = "SLUICE_CONFIG", default_value = "-")]
    file: PathBuf,
    /// The folder with the JobKinds, each in a file of its own with its ClusterRole, or with that in NAME-role.yaml beside
    /// it: config/jobkinds of the sources.
    #[arg(long, value_name = "FOLDER")]
    jobkinds: PathBuf,
    /// The namespace that Sluice runs in.
    #[arg(long, default_value = "sluice-system")]
    namespace: String,
    /// Sluice's own service account.
    #[arg(long, default_value = "sluice")]
    service_account: String,
}

impl PoliciesArgs {
    /// Prints the policies to `output`, which goes into a manifest, and to `problems` what they can't do.
    ///
    /// # Errors
    /// A JobKind can't be read or held, or nothing can be written.
    pub fn run(&self, output: &mut impl Write, problems: &mut impl Write) -> Result<ExitCode> {
        let configuration = match text(&self.file).and_then(|text| parse(&text)) {
            Ok(configuration) => configuration,
            Err(error) => {
                for line in error.lines() {
                    writeln!(problems, "{line}")?;
                }
                return Ok(ExitCode::FAILURE);
            }
        };
        let options = self.options(&configuration);
        let unknown = unknown_to_policies(&options.managed_namespaces, "managedNamespaces");
        if !unknown.is_empty() {
            for problem in unknown {
                writeln!(problems, "{problem}")?;
            }
            return Ok(ExitCode::FAILURE);
        }
        let annotations = configuration.aliases.queue_annotations();
        if !annotations.is_empty() {
            let annotations = annotations.join(", ");
            writeln!(
                problems,
                "Warning: queueAnnotationAliases, aliasPresets: policies don't read annotations that name a queue ({annotations}): where a queue is required, an object needs the label"
            )?;
        }
        write!(
            output,
            "{}",
            yaml(&options, &held_kinds::read(&self.jobkinds)?)?
        )?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self, configuration: &Configuration) -> Options {
        let with = |own: &str, others: Vec<String>| {
            let own = std::iter::once(own.to_owned());
            own.chain(others).collect()
        };
        let aliases = &configuration.aliases;
        Options {
            namespace: self.namespace.clone(),
            service_account: self.service_account.clone(),
            queue_labels: with(QUEUE_NAME_LABEL, aliases.queue_labels()),
            queue_gates: with(QUEUE_GATE, aliases.queue_gates()),
            managed_namespaces: configuration.managed_namespaces_spec(),
            ..Options::default()
        }
    }
}
