//! Keeps on objects who lifted their gates, labels those that gates hold, and takes from new ones what was kept on an
//! earlier object: one policy for all managed kinds, as what
//! is written lies in the metadata, and one for bare pods.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, Mutation, RuleWithOperations};

use crate::manifests::cel::{gate_marks, gates, metadata};
use crate::manifests::conditions;
use crate::manifests::held::HeldKind;
use crate::manifests::policies::policy::{Rules, json_patch};
use crate::manifests::webhook_rules::{job_rule, pod_rule};

/// The name of the policy for managed kinds.
const NAME: &str = "sluice-gate-marks";
/// The name of the policy for pods.
const NAME_FOR_PODS: &str = "sluice-gate-marks-pods";

/// Both policies.
pub(super) fn policies(kinds: &[HeldKind]) -> [Rules<Mutation>; 2] {
    let operations = ["CREATE", "UPDATE"];
    let of_kinds = kinds.iter().map(|kind| {
        let resource = &kind.resource;
        job_rule(resource, &resource.subresources, &operations)
    });
    let of_pods = vec![
        pod_rule("pods", &operations),
        pod_rule("pods/status", &["UPDATE"]),
    ];
    let for_pods = conditions::pods::marks_gates_of_pod();
    [
        policy(NAME, of_kinds.collect(), conditions::marks::marks_gates()),
        policy(NAME_FOR_PODS, of_pods, for_pods),
    ]
}

fn policy(
    name: &str,
    requests: Vec<RuleWithOperations>,
    condition: MatchCondition,
) -> Rules<Mutation> {
    let mut variables = metadata::variables();
    variables.push(gates::held_by());
    variables.extend(gate_marks::lifted());
    variables.push(gate_marks::labels());
    Rules {
        name: name.to_owned(),
        requests,
        condition,
        judges_deleted: false,
        variables,
        outcomes: [
            gate_marks::mark_labels(),
            gate_marks::keep_lifted(),
            gate_marks::forget(),
        ]
        .map(json_patch)
        .into(),
    }
}
