//! Who may lift a gate that has owners: policies that are evaluated for each Gate. One for all managed kinds, and one
//! for pods, which sees only those that Sluice looks after: pods are edited all the time.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use sluice_crds::MANAGED_LABEL;

use crate::manifests::cel::lifting;
use crate::manifests::conditions;
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, Validating};
use crate::manifests::webhook_rules::{job_rule, pod_rule};

/// The name of the policy for managed kinds.
const NAME: &str = "sluice-gate-owners";
/// The name of the policy for pods.
const NAME_FOR_PODS: &str = "sluice-gate-owners-pods";

/// Both policies.
pub(super) fn policies(options: &Options, kinds: &[HeldKind]) -> [Validating; 2] {
    let of_kinds = kinds.iter().map(|kind| {
        let resource = &kind.resource;
        job_rule(resource, &resource.subresources, &["UPDATE"])
    });
    let of_pods = ["pods", "pods/status"].map(|resource| pod_rule(resource, &["UPDATE"]));
    let for_pods = policy(NAME_FOR_PODS, options, kinds, of_pods.to_vec());
    [
        policy(NAME, options, kinds, of_kinds.collect()),
        of_managed(for_pods),
    ]
}

fn policy(
    name: &str,
    options: &Options,
    kinds: &[HeldKind],
    requests: Vec<RuleWithOperations>,
) -> Validating {
    let rules = Rules {
        name: name.to_owned(),
        requests,
        condition: conditions::lifting::may_lift(),
        judges_deleted: false,
        variables: lifting::variables(kinds),
        outcomes: vec![lifting::no_problems_or_owner()],
    };
    rules.validating(options).for_each_gate()
}

/// The policy for pods that Sluice looks after, before or after the edit.
fn of_managed(mut validating: Validating) -> Validating {
    let spec = validating.policy.spec.as_mut();
    if let Some(matching) = spec.and_then(|spec| spec.match_constraints.as_mut()) {
        matching.object_selector = Some(LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: MANAGED_LABEL.to_owned(),
                operator: "Exists".to_owned(),
                values: None,
            }]),
            ..LabelSelector::default()
        });
    }
    validating
}
