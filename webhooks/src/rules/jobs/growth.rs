//! What an admitted job may not do: ask for more than it was admitted with, or for other nodes. It may shrink.

use serde_json::Value;
use sluice_crds::Quantity;
use sluice_kinds::CompiledKind;
use sluice_kinds::problem::{Problem, fill};
use sluice_kinds::requests::{PodDefaults, beyond};
use sluice_kinds::view::PodSetView;

/// What every refusal ends with.
pub(crate) const ADVICE: &str = "while the job is admitted; suspend the job in the same update, and it is queued with the new value";

/// The rules for the number of pods, and for their claims for devices.
pub(crate) const GROWN: &str = "may not grow from {} to {} pods";
pub(crate) const CLAIMS_CHANGED: &str = "the resourceClaims of its pods may not change";

/// The rule for the nodes that its pods may run on. Sluice wrote there those of the flavor whose quota they use. Fewer
/// nodes are fine: a manifest that is applied again may take the tolerations of the flavor out.
pub(crate) const PLACEMENT_CHANGED: &str = "the nodeSelector and the required node affinity of its pods may not change, nor may tolerations be added";

/// The rule for what each pod requests: the resource, and the amount before and after. Requests that shrink are fine, as
/// for the controller, which compares them with what was admitted.
const REQUESTS_GROWN: &str = "the {} that each pod requests may not grow from {} to {}";

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
            .flat_map(|set| check_set(&before, set))
            .collect(),
    }
}

fn check_set(before: &[PodSetView], set: &PodSetView) -> Vec<Problem> {
    let field = format!("pod set {:?}", set.name);
    let Some(was) = before.iter().find(|other| other.name == set.name) else {
        let detail = format!("may not be added {ADVICE}");
        return vec![Problem::forbidden(field, detail)];
    };
    if was.count < set.count {
        let grown = fill(GROWN, &[&was.count.to_string(), &set.count.to_string()]);
        let detail = format!("{grown} {ADVICE}");
        return vec![Problem::forbidden(field, detail)];
    }
    let more = beyond(&set.requests, |name| was.requests.get(name).copied());
    let more = more.map(|(name, was, is)| {
        let [was, is] = [was.unwrap_or_default(), is].map(|nanos| Quantity::of(name, nanos).0);
        let grown = fill(REQUESTS_GROWN, &[name, &was, &is]);
        Problem::forbidden(set.place.spec_field(), format!("{grown} {ADVICE}"))
    });
    let mut problems: Vec<_> = more.collect();
    if was.claims != set.claims {
        let detail = format!("{CLAIMS_CHANGED} {ADVICE}");
        problems.push(Problem::forbidden(field.clone(), detail));
    }
    if allows_other_nodes(was, set) {
        let detail = format!("{PLACEMENT_CHANGED} {ADVICE}");
        problems.push(Problem::forbidden(field, detail));
    }
    problems
}

/// Whether pods may run on nodes that they could not run on before.
fn allows_other_nodes(was: &PodSetView, is: &PodSetView) -> bool {
    let selects = &is.placement.node_selector;
    let mut selected = was.placement.node_selector.iter();
    let mut tolerations = is.placement.tolerations.iter();
    selected.any(|(key, value)| selects.get(key) != Some(value))
        || tolerations.any(|toleration| !was.placement.tolerations.contains(toleration))
        || was.required_affinity != is.required_affinity
}
