//! Gates that apply to objects (`spec.appliesTo`): a policy that is evaluated for each Gate. It can't give an object the
//! gate, as it can't say what else then changes; it refuses an object that does not name the gate.

use crate::manifests::applied::requests_for;
use crate::manifests::cel::applying;
use crate::manifests::cel::lifting::no_problems_or_owner;
use crate::manifests::conditions;
use crate::manifests::conditions::entry::condition;
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, Validating};
use crate::manifests::webhook_rules::{job_rule, pod_edits};
use crate::rules::applies::makers::{self, Maker};

/// The name of the policy.
const NAME: &str = "sluice-gate-policy";

/// The name of the policy for what makes pods and is not managed.
const NAME_FOR_MAKERS: &str = "sluice-gate-policy-makers";

/// Both policies.
pub(super) fn policies(options: &Options, kinds: &[HeldKind]) -> [Validating; 2] {
    [policy(options, kinds), makers(options, kinds)]
}

/// Who may lift the gate of a Gate may write a template whose pods the Gate applies to.
fn makers(options: &Options, kinds: &[HeldKind]) -> Validating {
    let is_managed = |maker: &&Maker| {
        let mut kinds = kinds.iter().map(|kind| &kind.job_kind);
        kinds.any(|kind| kind.group == maker.group && kind.kind == maker.kind)
    };
    let makers = makers::of_pods().filter(|maker| !is_managed(maker));
    let rules = Rules {
        name: NAME_FOR_MAKERS.to_owned(),
        requests: makers.map(requests_for).collect(),
        condition: conditions::templates::maker(options),
        judges_deleted: false,
        variables: applying::of_makers(options, kinds),
        outcomes: vec![no_problems_or_owner()],
    };
    rules.validating(options).for_each_gate()
}

fn policy(options: &Options, kinds: &[HeldKind]) -> Validating {
    let of_kinds = kinds.iter().map(|kind| {
        let resource = &kind.resource;
        job_rule(resource, &resource.subresources, &["CREATE", "UPDATE"])
    });
    // A pod may be moved into another queue by its status too.
    let requests = of_kinds.chain(pod_edits());
    let mut outcome = no_problems_or_owner();
    // Whoever may lift the gate creates objects with it too, and may then lift it.
    outcome.expression = format!(
        "size(variables.problems) == 0 ||\nrequest.operation == 'UPDATE' && ({})",
        outcome.expression
    );
    let rules = Rules {
        name: NAME.to_owned(),
        requests: requests.collect(),
        condition: condition("may-make-a-gate-apply", applying::joins(options, kinds)),
        judges_deleted: false,
        variables: applying::variables(options, kinds),
        outcomes: vec![outcome],
    };
    rules.validating(options).for_each_gate()
}
