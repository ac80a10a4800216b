//! `sluice config policies`: the admission policies of the variant without webhooks, as a configuration has them.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use k8s_openapi::api::rbac::v1::ClusterRole;
use serde::de::DeserializeOwned;
use sluice_configuration::{Configuration, parse};
use sluice_crds::{JobKind, QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_webhooks::manifests::policies::{HeldKind, unknown_to_policies, yaml};
use sluice_webhooks::manifests::{ManagedResource, Options};

use crate::process::config::file::text;

/// What the name of a file with the role of a JobKind ends with.
const ROLE: &str = "-role.yaml";

/// Prints the admission policies for those without webhooks, as a configuration has them: aliases of the queue label and of
/// the queue gate, and managedNamespaces. Tells on the standard error what policies can't do, and then ends with status 1.
#[derive(Debug, Args)]
pub struct PoliciesArgs {
    /// The configuration file; `-` is the standard input.
    #[arg(env = "SLUICE_CONFIG", default_value = "-")]
    file: PathBuf,
    /// The folder with the JobKinds, NAME.yaml, each with its role, NAME-role.yaml: config/jobkinds of the sources.
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
        write!(output, "{}", yaml(&options, &kinds(&self.jobkinds)?)?)?;
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

/// The kinds in a folder, by their names.
fn kinds(folder: &Path) -> Result<Vec<HeldKind>> {
    let listed = || format!("list {}", folder.display());
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).with_context(listed)? {
        let file = entry.with_context(listed)?.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(ROLE));
        names.extend(name.map(str::to_owned));
    }
    if names.is_empty() {
        bail!("{} has no files that end with {ROLE}", folder.display());
    }
    names.iter().map(|name| kind(folder, name)).collect()
}

fn kind(folder: &Path, name: &str) -> Result<HeldKind> {
    let spec = read::<JobKind>(&folder.join(format!("{name}.yaml")))?.spec;
    let file = folder.join(format!("{name}{ROLE}"));
    let role: ClusterRole = read(&file)?;
    let first = role.rules.into_iter().flatten().next();
    let resource = first
        .filter(|rule| rule.api_groups.iter().flatten().eq([&spec.group]))
        .and_then(|rule| rule.resources?.into_iter().next())
        .ok_or_else(|| {
            let file = file.display();
            anyhow!("{file}: the first rule must name the group and the resource of the kind")
        })?;
    let resource = ManagedResource {
        group: spec.group.clone(),
        version: spec.version.clone(),
        resource,
        subresources: vec!["status".to_owned()],
        pod_metadata: Vec::new(),
    };
    HeldKind::new(resource, spec).map_err(|problem| anyhow!("JobKind {name}: {problem}"))
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let read = || format!("read {}", file.display());
    let text = std::fs::read_to_string(file).with_context(read)?;
    serde_saphyr::from_str(&text).with_context(read)
}
