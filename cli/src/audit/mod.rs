//! `kubectl sluice audit`: which objects name no queue, and what would become of them if they were created now. Asks a
//! cluster with the caller's rights.
//!
//! | file | what it holds |
//! |---|---|
//! | `judge` | what becomes of objects that name no queue, by the rules of the webhooks. Pure |
//! | `finding` | what is found about an object. Pure |
//! | `listing` | what is asked of the cluster |
//! | `settings` | the configuration that counts |
//! | `outcome` | why the command can't be run |
//! | `text` | what is printed. Pure |
//!
//! Must not know the rules by which objects are judged: those of the webhooks count.

mod finding;
mod judge;
mod listing;
mod outcome;
mod settings;
mod text;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use sluice_gates::Unlabelled;

use crate::cluster::{Cluster, Connection, Format, NAMESPACE, Namespaces, home, run, unknown_keys};
use finding::{Auditor, NamespaceLabels};
use judge::Judge;
use outcome::AuditError;
use settings::Settings;

const EXIT_CODES: &str = "\
Exit codes:
  0  every object names a queue
  1  some do not, a kind could not be listed, or a namespace has a key of sluice.dev that means nothing
  2  wrong usage, or the cluster does not answer what is asked for";

/// List the objects that name no queue, and what would become of them if they were created now.
///
/// What is required of objects, which keys name a queue, and what is an exception is read from Sluice's configuration: that
/// of the cluster, where you may get the ConfigMap, or a file.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Audit {
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    settings: Settings,
    /// What to try in all namespaces without the label sluice.dev/enforcement, whatever the configuration says of them.
    #[arg(long, value_name = "ACTION")]
    unlabelled: Option<Action>,
    /// Output format: json, yaml, or wide, which says where each object is to name its queue.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten)]
    connection: Connection,
}

/// What becomes of objects without a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Action {
    /// Objects get the label of the default LocalQueue.
    Default,
    /// Objects are held until they name a queue.
    Hold,
    /// Objects are refused.
    Refuse,
    /// Objects run without a queue.
    Ignore,
}

/// What was found.
pub struct Audited {
    /// The findings, in the form that was asked for.
    pub text: String,
    /// What could not be read or listed, and what namespaces say that means nothing.
    pub notes: Vec<String>,
    /// Whether every object names a queue, and nothing else is to be told.
    pub is_clean: bool,
}

impl Audit {
    /// Runs the command.
    ///
    /// # Errors
    /// The cluster does not answer what is asked for.
    pub fn run(&self) -> Result<Audited, AuditError> {
        run(self.audit()).map_err(AuditError::NoRuntime)?
    }

    async fn audit(&self) -> Result<Audited, AuditError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?;
        let found = listing::namespaces(&cluster.client, namespace.as_deref()).await?;
        let mut told: Vec<String> = found.iter().flat_map(unknown_keys).collect();
        let labels = |found: &Namespace| (found.name_any(), Arc::new(found.labels().clone()));
        let known: NamespaceLabels = found.iter().map(labels).collect();
        // Who may not read where it is may see the objects all the same.
        let home = home(&cluster.client).await;
        let home = home.unwrap_or_else(|_| NAMESPACE.to_owned());
        let (configuration, mut notes) = self.settings.read(&cluster.client, &home).await?;
        let kinds = listing::kinds(&cluster.client).await?;
        let judge = {
            let rules: Vec<_> = kinds.iter().filter_map(|kind| kind.rules.clone()).collect();
            let (surroundings, missing) =
                listing::surroundings(&cluster.client, &known, &configuration).await;
            notes.extend(missing);
            let tried = self.unlabelled.map(Unlabelled::from);
            Judge::new(&configuration, tried, home, &rules, surroundings)
        };
        let auditor = Auditor::new(known, &kinds, judge);
        let mut findings = Vec::new();
        for kind in &kinds {
            match listing::objects(&cluster.client, kind, namespace.as_deref()).await {
                Ok(objects) => {
                    let found = objects.iter();
                    findings.extend(found.filter_map(|object| auditor.find(kind, object)));
                }
                Err(error) => told.push(format!("can't list {}: {error}", kind.resource.name)),
            }
        }
        findings.sort();
        Ok(Audited {
            text: text::shown(&findings, self.output)?,
            // An object that names a queue does so whatever is not known of the configuration.
            is_clean: findings.is_empty() && told.is_empty(),
            notes: notes.into_iter().chain(told).collect(),
        })
    }
}

impl From<Action> for Unlabelled {
    fn from(action: Action) -> Self {
        match action {
            Action::Default => Self::Default,
            Action::Hold => Self::Hold,
            Action::Refuse => Self::Refuse,
            Action::Ignore => Self::Ignore,
        }
    }
}
