//! Gates that apply to objects (`spec.appliesTo`): a policy that is evaluated for each Gate. It can't give an object the
//! gate, as it can't say what else then changes; it refuses an object that does not name the gate.

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
    rules.validating(options).for_each_gate()
}
