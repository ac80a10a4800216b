//! What an admitted job may not do: ask for more than it was admitted with. It may shrink.

use serde_json::Value;
use sluice_kinds::CompiledKind;
use sluice_kinds::problem::{Problem, fill};
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::PodSetView;

/// What every refusal ends with.
pub(crate) const ADVICE: &str = "while the job is admitted; suspend the job in the same update, and it is queued with the new value";

/// The rules for the number of pods, and for their claims for devices.
pub(crate) const GROWN: &str = "may not grow from {} to {} pods";
pub(crate) const CLAIMS_CHANGED: &str = "the resourceClaims of its pods may not change";

/// What is wrong with editing the pod sets of an admitted job.
///
/// Only what the object itself says is compared: defaults from elsewhere are the same before and
/// after. An object that could not be read before is left alone, so that it can be mended.
pub(crate) fn check(old: &Value, new: &Value, kind: &CompiledKind) -> Vec<Problem> {
    let defaults = PodDefaults::default();
    let Ok(before) = kind.pod_sets(old, &defaults) else {
        return Vec::new();
    };
    match kind.pod_sets(new, &defaults) {
        Err(problems) => problems,
        Ok(after) => after
            .iter()
            .filter_map(|set| check_set(&before, set))
            .collect(),
    }
}

fn check_set(before: &[PodSetView], set: &PodSetView) -> Option<Problem> {
    let field = format!("pod set {:?}", set.name);
    let Some(was) = before.iter().find(|other| other.name == set.name) else {
        return Some(Problem::forbidden(
            field,
            format!("may not be added {ADVICE}"),
        ));
    };
    if was.count < set.count {
        let grown = fill(GROWN, &[&was.count.to_string(), &set.count.to_string()]);
        let detail = format!("{grown} {ADVICE}");
        return Some(Problem::forbidden(field, detail));
    }
    if was.requests != set.requests {
        let detail = format!("the requests of its pods may not change {ADVICE}");
        return Some(Problem::forbidden(field, detail));
    }
    if was.claims != set.claims {
        let detail = format!("{CLAIMS_CHANGED} {ADVICE}");
        return Some(Problem::forbidden(field, detail));
    }
    None
}
