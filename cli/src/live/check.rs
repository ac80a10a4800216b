//! `kubectl sluice check`: whether Sluice is installed and well, as far as the caller may see it.

use std::fmt;

use clap::Args;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde::Serialize;
use serde_json::json;
use sluice_crds::JobKind;
use sluice_crds::kubernetes::OLDEST_MINOR;

use super::outcome::{EXIT_CODES, Ended, LiveError, shown};
use super::version::LABEL;
use crate::cluster::{
    Cluster, ClusterError, Connection, Format, Namespaces, Served, Tell, Told, answer,
};
use crate::table::columns;

/// The name of Sluice's Lease, and of the shipped webhook configurations.
const NAME: &str = "sluice";
/// The name of those that Sluice makes itself: for declared kinds, Gates, and namespaces that require a queue.
const DECLARED: &str = "sluice-declared";
/// The Lease is renewed every few seconds: what is older than this has no leader.
const LEASE_STALE: SignedDuration = SignedDuration::from_secs(20);
/// The kinds that Sluice brings.
const KINDS: [&str; 8] = [
    "clusterqueues",
    "cohorts",
    "gates",
    "jobkinds",
    "localqueues",
    "resourceflavors",
    "workloadpriorityclasses",
    "workloads",
];

/// Check whether Sluice is installed and well: the version of Kubernetes, its kinds, replicas, leader, webhooks and JobKinds.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Check {
    /// The namespace of Sluice.
    #[arg(long, value_name = "NAME", default_value = "sluice-system")]
    system_namespace: String,
    /// Output format: json or yaml.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    connection: Connection,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Health {
    Ok,
    Failed,
    /// The caller may not see it.
    Unknown,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    health: Health,
    detail: String,
}

impl Check {
    /// Checks.
    ///
    /// # Errors
    /// The cluster does not answer at all.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?;
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        let client = &cluster.client;
        let findings = vec![
            version(client).await,
            kinds(&Served::ask(client).await?),
            self.replicas(client).await,
            self.leader(client).await,
            configured(client).await,
            reached(client, &namespace).await,
            job_kinds(client).await,
        ];
        let text = shown(self.output, &findings, |_| table(&findings))?;
        tell(Told::Result(text))?;
        let is_well = findings
            .iter()
            .all(|finding| finding.health != Health::Failed);
        Ok(if is_well { Ended::Done } else { Ended::NotDone })
    }

    async fn replicas(&self, client: &Client) -> Finding {
        let api: Api<Deployment> = Api::namespaced(client.clone(), &self.system_namespace);
        let params = ListParams::default().labels(LABEL);
        let found = answer("list deployments", api.list(&params)).await;
        of("replicas", found, |list| {
            let deployment = list.items.into_iter().next();
            let deployment = deployment.ok_or_else(|| {
                format!(
                    "there is no Deployment of Sluice in {}",
                    self.system_namespace
                )
            })?;
            let wanted = deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1);
            let status = deployment.status.unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or_default();
            let told = format!("{ready} of {wanted} replicas are ready");
            if 0 < ready { Ok(told) } else { Err(told) }
        })
    }

    async fn leader(&self, client: &Client) -> Finding {
        let api: Api<Lease> = Api::namespaced(client.clone(), &self.system_namespace);
        let found = answer("read the Lease", api.get(NAME)).await;
        of("leader", found, |lease| leader(lease, Timestamp::now()))
    }
}

/// Whether the API server is new enough.
async fn version(client: &Client) -> Finding {
    let found = answer("read the version", client.apiserver_version()).await;
    of("kubernetes", found, |info| {
        let minor = info.emulation_minor.unwrap_or(info.minor);
        is_new_enough(&info.major, &minor)
    })
}

/// Some providers write `33+`.
fn is_new_enough(major: &str, minor: &str) -> Result<String, String> {
    let digits = minor.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let told = format!("version {major}.{digits}");
    match (major, digits.parse::<u32>()) {
        ("1", Ok(minor)) if OLDEST_MINOR <= minor => Ok(told),
        ("1", Ok(_)) => Err(format!(
            "{told}: must be 1.{OLDEST_MINOR} or newer, as older ones refuse the policies that limit Sluice's account"
        )),
        _ => Err(format!("{told} can't be compared with 1.{OLDEST_MINOR}")),
    }
}

fn kinds(served: &Served) -> Finding {
    let missing: Vec<&str> = KINDS
        .into_iter()
        .filter(|kind| served.named(&format!("{kind}.sluice.dev")).is_err())
        .collect();
    let (health, detail) = if missing.is_empty() {
        (Health::Ok, format!("all {} kinds are served", KINDS.len()))
    } else {
        (
            Health::Failed,
            format!("not served: {}", missing.join(", ")),
        )
    };
    Finding {
        check: "kinds",
        health,
        detail,
    }
}

/// Who leads, if that is not long ago. A Lease from the future tells of clocks that differ.
fn leader(lease: Lease, now: Timestamp) -> Result<String, String> {
    let spec = lease.spec.unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let (Some(holder), Some(renewed)) = (holder, spec.renew_time) else {
        return Err("nobody holds the Lease: nothing is admitted".to_owned());
    };
    let age = now.duration_since(renewed.0);
    let seconds = age.as_secs();
    if LEASE_STALE < age {
        return Err(format!(
            "{holder} has not renewed the Lease for {seconds} s: nothing is admitted, or the clocks of this machine and of {holder} differ"
        ));
    }
    if age < -LEASE_STALE {
        return Err(format!(
            "the clock of {holder} is {} s ahead of this machine's",
            seconds.abs()
        ));
    }
    Ok(format!("{holder} leads"))
}

/// Whether the webhook configurations are there, both that are shipped and both that Sluice makes, and trust somebody.
async fn configured(client: &Client) -> Finding {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let named = async |name: &str| -> Result<_, ClusterError> {
        let mutating = answer("read the webhooks", mutating.get_opt(name)).await?;
        let validating = answer("read the webhooks", validating.get_opt(name)).await?;
        Ok(mutating.zip(validating))
    };
    let found = async { Ok((named(NAME).await?, named(DECLARED).await?)) };
    of(
        "webhook configurations",
        found.await,
        |(shipped, declared)| {
            let Some(shipped) = shipped else {
                return Ok("not installed: objects are held by admission policies, or a moment after their creation".to_owned());
            };
            let Some(declared) = declared else {
                return Err(format!(
                    "{DECLARED} is not there: of kinds that the shipped webhooks don't name, nothing is judged; no replica has led since they were installed"
                ));
            };
            let untrusted = untrusted(&shipped) + untrusted(&declared);
            if untrusted == 0 {
                Ok("installed, with a CA".to_owned())
            } else {
                Err(format!(
                    "{untrusted} webhooks have no CA yet: no replica has led since they were installed"
                ))
            }
        },
    )
}

/// How many webhooks have no CA.
fn untrusted(
    (mutating, validating): &(MutatingWebhookConfiguration, ValidatingWebhookConfiguration),
) -> usize {
    let mutating = mutating.webhooks.iter().flatten();
    let validating = validating.webhooks.iter().flatten();
    let configs = mutating
        .map(|webhook| &webhook.client_config)
        .chain(validating.map(|webhook| &webhook.client_config));
    configs.filter(|config| config.ca_bundle.is_none()).count()
}

/// Whether a webhook or policy refuses what breaks a rule: by a request that changes nothing.
async fn reached(client: &Client, namespace: &str) -> Finding {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "generateName": "sluice-check-",
            "annotations": {"kueue.x-k8s.io/scheduling-gated-by": "no gate"},
        },
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "none", "image": "example.com/none"}],
        }}},
    });
    let finding = |health, detail: String| Finding {
        check: "admission",
        health,
        detail,
    };
    let Ok(job) = serde_json::from_value::<Job>(job) else {
        return finding(Health::Unknown, "the request can't be made".to_owned());
    };
    let api: Api<Job> = Api::namespaced(client.clone(), namespace);
    let params = PostParams {
        dry_run: true,
        field_manager: None,
    };
    match answer("create a Job as a dry run", api.create(&params, &job)).await {
        Err(ClusterError::Refused(status)) if status.message.contains("domain-prefixed path") => {
            finding(Health::Ok, "a Job with a bad gate is refused".to_owned())
        }
        Err(ClusterError::Refused(status))
            if status.code == 403 && status.message.contains("cannot create") =>
        {
            finding(Health::Unknown, status.message.clone())
        }
        Err(error) => finding(Health::Failed, error.to_string()),
        Ok(_) => finding(
            Health::Failed,
            "a Job with a bad gate is not refused: neither a webhook nor a policy looks at Jobs"
                .to_owned(),
        ),
    }
}

/// Whether all JobKinds are ready, or wait for their CRDs.
async fn job_kinds(client: &Client) -> Finding {
    let api: Api<JobKind> = Api::all(client.clone());
    let found = answer("list JobKinds", api.list(&ListParams::default())).await;
    of("job kinds", found, |list| {
        let (mut ready, mut waiting, mut failed) = (0, 0, Vec::new());
        for kind in list.items {
            let conditions = kind
                .status
                .map(|status| status.conditions)
                .unwrap_or_default();
            let told = conditions
                .into_iter()
                .find(|condition| condition.type_ == "Ready");
            match told {
                Some(told) if told.status == "True" => ready += 1,
                Some(told) if told.reason == "Waiting" => waiting += 1,
                told => {
                    let name = kind.metadata.name.unwrap_or_default();
                    let reason =
                        told.map_or_else(|| "no condition yet".to_owned(), |told| told.reason);
                    failed.push(format!("{name} ({reason})"));
                }
            }
        }
        let told = format!("{ready} are ready, {waiting} wait for their CRD");
        if failed.is_empty() {
            Ok(told)
        } else {
            Err(format!("{told}, not ready: {}", failed.join(", ")))
        }
    })
}

/// What follows from an answer. What the caller may not see is not known.
fn of<T>(
    check: &'static str,
    answered: Result<T, ClusterError>,
    judge: impl FnOnce(T) -> Result<String, String>,
) -> Finding {
    let (health, detail) = match answered.map(judge) {
        Ok(Ok(detail)) => (Health::Ok, detail),
        Ok(Err(detail)) => (Health::Failed, detail),
        Err(ClusterError::Refused(status)) if status.code == 403 => {
            (Health::Unknown, status.message.clone())
        }
        Err(error) => (Health::Failed, error.to_string()),
    };
    Finding {
        check,
        health,
        detail,
    }
}

fn table(findings: &[Finding]) -> String {
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|finding| {
            let detail = finding.detail.clone();
            vec![finding.check.to_owned(), finding.health.to_string(), detail]
        })
        .collect();
    columns(&["CHECK", "RESULT", "DETAIL"], &rows, 0)
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Unknown => "unknown",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kubernetes_is_told() {
        let told = |minor| is_new_enough("1", minor);
        assert_eq!(told("33+"), Ok("version 1.33".to_owned()));
        assert_eq!(told("36"), Ok("version 1.36".to_owned()));
        assert_eq!(
            told("32"),
            Err("version 1.32: must be 1.33 or newer, as older ones refuse the policies that limit Sluice's account".to_owned())
        );
        assert!(is_new_enough("", "").is_err());
    }

    #[test]
    fn a_lease_tells_who_leads_and_whose_clock_differs() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| {
            let spec = json!({"holderIdentity": holder, "renewTime": renewed});
            serde_json::from_value::<Lease>(json!({"spec": spec})).unwrap()
        };
        let cases = [
            (
                lease("sluice-0", "2026-03-01T11:59:55.000000Z"),
                Ok("sluice-0 leads"),
            ),
            (
                lease("", "2026-03-01T11:59:55.000000Z"),
                Err("nobody holds the Lease: nothing is admitted"),
            ),
            (
                lease("sluice-0", "2026-03-01T11:59:00.000000Z"),
                Err(
                    "sluice-0 has not renewed the Lease for 60 s: nothing is admitted, or the clocks of this machine and of sluice-0 differ",
                ),
            ),
            (
                lease("sluice-0", "2026-03-01T12:01:00.000000Z"),
                Err("the clock of sluice-0 is 60 s ahead of this machine's"),
            ),
        ];
        for (lease, expected) in cases {
            let told = leader(lease, now);
            let told = told.as_deref().map_err(String::as_str);
            assert_eq!(told, expected);
        }
    }
}
