//! Gates that apply to objects (`spec.appliesTo`): a policy that is evaluated for each Gate. It can't give an object the
//! gate, as it can't say what else then changes; it refuses an object that does not name the gate.

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use sluice_crds::{GROUP, VERSION};

use crate::manifests::cel::applying;
use crate::manifests::cel::lifting::no_problems_or_owner;
use crate::manifests::conditions::entry::condition;
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, Validating};
use crate::manifests::webhook_rules::{job_rule, pod_rule};

/// The name of the policy.
const NAME: &str = "sluice-gate-policy";

/// The policy.
pub(super) fn policy(options: &Options, kinds: &[HeldKind]) -> Validating {
    let of_kinds = kinds.iter().map(|kind| {
        let resource = &kind.resource;
        job_rule(resource, &resource.subresources, &["CREATE", "UPDATE"])
    });
    let requests = of_kinds.chain([pod_rule("pods", &["CREATE", "UPDATE"])]);
    let mut outcome = no_problems_or_owner();
    // Whoever may lift the gate creates objects with it too, and may then lift it.
    outcome.expression = format!(
        "size(variables.problems) == 0 ||\nrequest.operation == 'UPDATE' && ({})",
        outcome.expression
    );
    let rules = Rules {
        name: NAME.to_owned(),
        requests: requests.collect(),
        condition: condition("may-make-a-gate-apply", applying::joins(options)),
        judges_deleted: false,
        variables: applying::variables(options, kinds),
        outcomes: vec![outcome],
    };
    let mut validating = rules.validating(options);
    if let Some(spec) = &mut validating.policy.spec {
        // As in `gate_owners.rs`: where the API server doesn't know Gates yet, all requests would fail.
        spec.failure_policy = Some("Ignore".to_owned());
        spec.param_kind = Some(ParamKind {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some("Gate".to_owned()),
        });
    }
    // Where there is no Gate, none applies.
    validating.binding.spec.param_ref = Some(ParamRef {
        selector: Some(LabelSelector::default()),
        parameter_not_found_action: Some("Allow".to_owned()),
        ..ParamRef::default()
    });
    validating
}
