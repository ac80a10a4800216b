//! Which requests a webhook or policy is asked about, as rules.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

use crate::manifests::options::ManagedResource;

pub(crate) fn job_rule(
    resource: &ManagedResource,
    subresources: &[String],
    operations: &[&str],
) -> RuleWithOperations {
    let name = &resource.resource;
    let below = subresources.iter().map(|sub| format!("{name}/{sub}"));
    let resources = std::iter::once(name.clone()).chain(below).collect();
    rule(
        &resource.group,
        &resource.version,
        operations,
        resources,
        "Namespaced",
    )
}

pub(crate) fn pod_rule(resource: &str, operations: &[&str]) -> RuleWithOperations {
    rule(
        "",
        "v1",
        operations,
        vec![resource.to_owned()],
        "Namespaced",
    )
}

/// Pods when they are created and edited, and edits of their status, by which their metadata can be edited too.
pub(crate) fn pod_edits() -> [RuleWithOperations; 2] {
    [
        pod_rule("pods", &["CREATE", "UPDATE"]),
        pod_rule("pods/status", &["UPDATE"]),
    ]
}

pub(crate) fn own_rule() -> RuleWithOperations {
    let resources = ["clusterqueues", "cohorts", "gates", "jobkinds"]
        .map(str::to_owned)
        .to_vec();
    let (group, version) = (sluice_crds::GROUP, sluice_crds::VERSION);
    rule(group, version, &["CREATE", "UPDATE"], resources, "Cluster")
}

pub(crate) fn rule(
    group: &str,
    version: &str,
    operations: &[&str],
    resources: Vec<String>,
    scope: &str,
) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![group.to_owned()]),
        api_versions: Some(vec![version.to_owned()]),
        operations: Some(operations.iter().map(|&o| o.to_owned()).collect()),
        resources: Some(resources),
        scope: Some(scope.to_owned()),
    }
}
