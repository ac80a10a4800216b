//! Who may lift a gate that has owners: policies that are evaluated for each Gate. One for all managed kinds, and one
//! for pods, which sees only those that Sluice looks after: pods are edited all the time.

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use sluice_crds::{GROUP, MANAGED_LABEL, VERSION};

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
    let mut validating = rules.validating(options);
    if let Some(spec) = &mut validating.policy.spec {
        // An API server that doesn't know the kind fails before it looks at the conditions: without the CRD, and for
        // the half minute in which it doesn't see a new one, nobody could edit any job at all, nor its controller
        // write its status. Without Gates no gate has owners. Nothing that an edit holds makes an expression fail:
        // they tolerate what is missing, and the largest object stays far below the budget for their cost.
        // <https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go>
        spec.failure_policy = Some("Ignore".to_owned());
        spec.param_kind = Some(ParamKind {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some("Gate".to_owned()),
        });
    }
    // Where there is no Gate, no gate has owners.
    validating.binding.spec.param_ref = Some(ParamRef {
        selector: Some(LabelSelector::default()),
        parameter_not_found_action: Some("Allow".to_owned()),
        ..ParamRef::default()
    });
    validating
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
