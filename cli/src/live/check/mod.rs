//! `kubectl sluice check`: whether Sluice is installed and well, as far as the caller may see it.
//!
//! | file | what it holds |
//! |---|---|
//! | `finding` | what was looked at, and how it is |
//! | `installed` | the version of Kubernetes, kinds, replicas, JobKinds, what namespaces say |
//! | `leader` | who leads, and whose clock differs |
//! | `rights` | whether Sluice's account may do what its roles say |
//! | `admission` | webhook configurations, and whether a bad object is refused |
//! | `certificate` | how long the certificate of the webhooks is valid, and who renews it |
//! | `visibility` | whether visibility.sluice.dev answers through the API server |
//!
//! Must not change anything: what is created is a dry run, or a question.

mod admission;
mod certificate;
mod finding;
mod installed;
mod leader;
mod rights;
mod visibility;

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;

use self::finding::{Health, table};
use super::outcome::{Ended, LiveError, shown};
use super::version::deployment_in;
use crate::cluster::{Cluster, Connection, Format, NAMESPACE, Namespace, Served, Tell, Told, home};

/// The name of Sluice's account if its Deployment says no other.
const ACCOUNT: &str = "sluice";

const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  a check has failed
  2  wrong usage, or the cluster does not answer what is asked for";

/// Check whether Sluice is installed and well: the version of Kubernetes, its kinds, replicas, rights, leader, clocks, certificate, webhooks, visibility.sluice.dev and JobKinds.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Check {
    /// The namespace that Sluice is in; by default the one that its ClusterRoleBinding names, or sluice-system.
    #[arg(long, value_name = "NAME")]
    system_namespace: Option<String>,
    /// Output format: json or yaml.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    connection: Connection,
}

impl Check {
    /// Checks.
    ///
    /// # Errors
    /// The cluster does not answer at all.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.one_namespace(&self.namespace)?;
        let client = &cluster.client;
        let system = match &self.system_namespace {
            Some(system) => system.clone(),
            // Not everybody may read the binding, and much of the rest can be told all the same.
            None => home(client).await.unwrap_or_else(|_| NAMESPACE.to_owned()),
        };
        let system = system.as_str();
        let served = Served::ask(client).await?;
        let deployment = deployment_in(client, system).await;
        let account = deployment.as_ref().ok().and_then(Option::as_ref);
        let account = account.and_then(account_of);
        let account = account.as_deref().unwrap_or(ACCOUNT);
        let job_kinds = installed::job_kinds(client).await;
        let rights = rights::check(client, &served, system, account, &job_kinds);
        let mut findings = vec![
            installed::version(client).await,
            installed::kinds(&served),
            installed::replicas(deployment, system),
            rights.await,
        ];
        findings.extend(leader::check(client, system).await);
        findings.extend([
            certificate::check(client, system).await,
            admission::configured(client).await,
            admission::reached(client, &namespace, installed::read_jobs(&job_kinds)).await,
            visibility::check(client, system).await,
            installed::are_ready(job_kinds),
            installed::namespaces(client).await,
        ]);
        let text = shown(self.output, &findings, |_| table(&findings))?;
        tell(Told::Result(text))?;
        let is_well = findings
            .iter()
            .all(|finding| finding.health != Health::Failed);
        Ok(if is_well { Ended::Done } else { Ended::NotDone })
    }
}

/// The account that Sluice runs with.
fn account_of(deployment: &Deployment) -> Option<String> {
    let template = &deployment.spec.as_ref()?.template;
    template.spec.as_ref()?.service_account_name.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Job that is to be refused is created, as a dry run, in one namespace.
    #[test]
    fn it_is_not_for_all_namespaces() {
        let parsed = |arguments: &[&str]| {
            let command = Check::augment_args(clap::Command::new("check"));
            let words = ["check"].iter().chain(arguments);
            command.try_get_matches_from(words).is_ok()
        };
        assert!(!parsed(&["-A"]));
        assert!(parsed(&["-n", "blue", "--system-namespace", "infra"]));
    }
}
