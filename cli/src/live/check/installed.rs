//! What is installed: the version of Kubernetes, Sluice's kinds, its replicas, and the JobKinds.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use sluice_crds::conditions::find;
use sluice_crds::kubernetes::OLDEST_MINOR;
use sluice_crds::{ConditionType, ENFORCEMENT_LABEL, JobKind};

use super::finding::{Finding, Health, of};
use crate::cluster::{ClusterError, Served, answer, unknown_keys};

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

/// Whether the API server is new enough.
pub(super) async fn version(client: &Client) -> Finding {
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

pub(super) fn kinds(served: &Served) -> Finding {
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

/// Whether a replica is ready.
pub(super) fn replicas(
    found: Result<Option<Deployment>, ClusterError>,
    namespace: &str,
) -> Finding {
    of("replicas", found, |deployment| {
        let deployment =
            deployment.ok_or_else(|| format!("there is no Deployment of Sluice in {namespace}"))?;
        let wanted = deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let status = deployment.status.unwrap_or_default();
        let ready = status.ready_replicas.unwrap_or_default();
        let told = format!("{ready} of {wanted} replicas are ready");
        if 0 < ready { Ok(told) } else { Err(told) }
    })
}

/// The JobKinds of the cluster.
pub(super) async fn job_kinds(client: &Client) -> Result<Vec<JobKind>, ClusterError> {
    let api: Api<JobKind> = Api::all(client.clone());
    let list = answer("list JobKinds", api.list(&ListParams::default())).await?;
    Ok(list.items)
}

/// Whether one of the JobKinds reads Jobs. Where they can't be listed, one may.
pub(super) fn read_jobs(found: &Result<Vec<JobKind>, ClusterError>) -> bool {
    let reads_jobs = |kind: &JobKind| kind.spec.group == "batch" && kind.spec.kind == "Job";
    found
        .as_ref()
        .map_or(true, |kinds| kinds.iter().any(reads_jobs))
}

/// Whether all JobKinds are ready, or wait for their CRDs.
pub(super) fn are_ready(found: Result<Vec<JobKind>, ClusterError>) -> Finding {
    of("job kinds", found, |kinds| {
        let (mut ready, mut waiting, mut failed) = (0, 0, Vec::new());
        for kind in kinds {
            let status = kind.status.unwrap_or_default();
            let told = find(&status.conditions, ConditionType::Ready);
            match told {
                Some(told) if told.status == "True" => ready += 1,
                Some(told) if told.reason == "Waiting" => waiting += 1,
                told => {
                    let name = kind.metadata.name.unwrap_or_default();
                    let reason = told.map_or("no condition yet", |told| told.reason.as_str());
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

/// How many misspelt keys are named.
const NAMED_MAX: usize = 5;

/// Whether what namespaces say to Sluice means something.
pub(super) async fn namespaces(client: &Client) -> Finding {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = answer("list namespaces", api.list(&ListParams::default())).await;
    of("namespaces", found, |found| {
        let unknown: Vec<String> = found.items.iter().flat_map(unknown_keys).collect();
        let managed = found.items.iter();
        let managed = managed.filter(|found| found.labels().contains_key(ENFORCEMENT_LABEL));
        if unknown.is_empty() {
            return Ok(format!(
                "{} have the label {ENFORCEMENT_LABEL}",
                managed.count()
            ));
        }
        let more = unknown.len().saturating_sub(NAMED_MAX);
        let named = unknown.into_iter().take(NAMED_MAX);
        let more = (0 < more).then(|| format!("and {more} more"));
        Err(named.chain(more).collect::<Vec<_>>().join("\n"))
    })
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
}
