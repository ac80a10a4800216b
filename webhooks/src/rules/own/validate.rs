//! The rules for Sluice's own objects that a CRD schema can't express.

use serde::de::DeserializeOwned;
use serde_json::Value;
use sluice_crds::{ClusterQueue, Cohort, Gate, JobKind};
use sluice_kinds::problem::Problem;

use crate::admission::edit::{Edit, brought_in};
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::schemas::Schemas;
use crate::admission::verdict::Verdict;
use crate::rules::own::{gates, job_kinds, quotas};

/// Whether an object of group `sluice.dev` may be created or edited.
pub(crate) fn validate(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    if !request.sub_resource.is_empty() {
        return Verdict::allowed();
    }
    match request.kind.kind.as_str() {
        "ClusterQueue" => verdict(edit, |queue: &ClusterQueue| {
            let has_cohort = queue
                .spec
                .cohort_name
                .as_ref()
                .is_some_and(|name| !name.is_empty());
            quotas::check(
                &queue.spec.resource_groups,
                quotas::Lending::of_queue(has_cohort),
            )
        }),
        "Cohort" => verdict(edit, |cohort: &Cohort| {
            let has_parent = cohort
                .spec
                .parent_name
                .as_ref()
                .is_some_and(|name| !name.is_empty());
            quotas::check(
                &cohort.spec.resource_groups,
                quotas::Lending::of_cohort(has_parent),
            )
        }),
        "JobKind" => verdict(edit, |kind: &JobKind| job_kinds::check(kind)),
        "Gate" => {
            let mut verdict = verdict(edit, |gate: &Gate| gates::check(gate));
            if let Ok(gate) = read::<Gate>(edit.new) {
                verdict.warnings = gates::warnings(&gate, policy);
            }
            verdict
        }
        _ => Verdict::allowed(),
    }
}

/// What only the API server's schemas can say of an object that is right by itself.
pub(crate) async fn look_up(request: &Request, edit: &Edit<'_>, schemas: &dyn Schemas) -> Verdict {
    if request.kind.kind != "JobKind" || !request.sub_resource.is_empty() {
        return Verdict::allowed();
    }
    let Ok(kind) = read::<JobKind>(edit.new) else {
        return Verdict::allowed();
    };
    let old = edit.old.and_then(|old| read::<JobKind>(old).ok());
    job_kinds::look_up(&kind, old.as_ref(), schemas).await
}

/// What `check` finds in the new object and did not find in the old one: an object that was stored
/// under older rules can still be edited.
fn verdict<T: DeserializeOwned>(edit: &Edit<'_>, check: impl Fn(&T) -> Vec<Problem>) -> Verdict {
    let stored = edit.old.and_then(|old| read::<T>(old).ok());
    let problems = match read::<T>(edit.new) {
        Ok(new) => check(&new),
        Err(problem) => vec![problem],
    };
    Verdict::of(brought_in(problems, stored.map(|old| check(&old))))
}

pub(super) fn read<T: DeserializeOwned>(object: &Value) -> Result<T, Problem> {
    T::deserialize(object).map_err(|error| Problem::invalid("spec", "object", error.to_string()))
}
