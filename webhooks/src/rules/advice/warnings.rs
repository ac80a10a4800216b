//! All warnings about one object. Those about keys, priority classes, quota and deadlines are in files of their own.

use serde_json::Value;
use sluice_kinds::PodView;
use sluice_kinds::gates::{self, Gate};
use sluice_kinds::hold::Hold;
use sluice_kinds::problem::fill;
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::PodSetView;

use crate::admission::edit::{Edit, brought_in};
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::advice::{classes, deadlines, fits, gate_annotations, keys, queues, templates};
use crate::rules::jobs::reason_to_hold::hold_of;
use crate::rules::queue_label::queue_of;
use crate::rules::top::is_top;

/// Most warnings about one object.
const WARNINGS_MAX: usize = 8;
const NO_REQUESTS: &str =
    "pod set {}: its pods request nothing, so they use no quota, unless a LimitRange adds requests";
/// What the namespace adds is in a pod before anybody is asked.
const POD_WITHOUT_REQUESTS: &str = "spec.containers: request nothing, so the pod uses no quota";
const NO_GATE: &str =
    "gate {} has no Gate, as other gates of {} have; whoever may edit the object may lift it";

/// What the author of a new object is warned of, and that of an edit, as far as the edit brings it in: another queue, other
/// requests, a gate, or a key.
pub(crate) fn warnings(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<String> {
    if !request.sub_resource.is_empty() || !is_top(request, edit.new, policy) {
        return Vec::new();
    }
    let old = edit.old.map(|old| {
        let before = Edit {
            new: old,
            old: Some(old),
        };
        all(request, &before, policy)
    });
    let mut warnings = brought_in(all(request, edit, policy), old);
    warnings.truncate(WARNINGS_MAX);
    warnings
}

/// All that there is to tell of the object.
fn all(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<String> {
    let sets = pod_sets(request, edit, policy);
    let mut warnings = keys::letters_off(edit.new);
    warnings.extend(keys::in_wrong_map(edit.new, policy));
    warnings.extend(keys::without_alias(edit.new, policy));
    warnings.extend(keys::without_counterpart(edit.new));
    let named = queue_of(edit.new, policy.queue_labels());
    warnings.extend(
        named.and_then(|named| {
            queues::idle(&named.field(), named.queue, &request.namespace, policy)
        }),
    );
    warnings.extend(classes::warnings(request, edit.new, &sets, policy));
    warnings.extend(without_requests(request, edit.new, &sets, policy));
    warnings.extend(fits::warning(request, edit.new, &sets, policy));
    warnings.extend(deadlines::warning(request, edit, policy));
    warnings.extend(unknown_gates(edit.new, policy));
    warnings.extend(gate_annotations::warnings(edit.new, policy));
    warnings.extend(templates::warnings(request, edit, policy));
    warnings
}

/// What the pods of an object ask for, as far as the object says. Of those that are queued by themselves, one counts.
fn pod_sets(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<PodSetView> {
    if request.is_pod() {
        let pod = PodView::read(edit.new, policy.queue_labels(), policy.queue_gates());
        return pod.asks.into_iter().collect();
    }
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    let kind = kind.filter(|kind| !kind.is_opaque() && !kind.has_pods_of_children());
    let Some(kind) = kind else {
        return Vec::new();
    };
    let sets = kind.pod_sets(edit.new, &PodDefaults::default());
    let mut sets = sets.unwrap_or_default();
    if hold_of(kind, edit) == Hold::EachPod {
        for set in &mut sets {
            set.count = set.count.min(1);
        }
    }
    sets
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// A queued pod that requests nothing, or pod sets of another object whose pods do; unless each pod uses quota there.
fn without_requests(
    request: &Request,
    object: &Value,
    sets: &[PodSetView],
    policy: &Policy,
) -> Option<String> {
    let queue = queue_of(object, policy.queue_labels())?.queue;
    let states = policy.queue_states().load();
    if states
        .cluster_queue(&request.namespace, queue)?
        .1
        .counts_pods
    {
        return None;
    }
    let mut sets = sets.iter();
    let idle = sets.find(|set| set.requests.is_empty() && set.claims.is_empty())?;
    if request.is_pod() {
        return Some(POD_WITHOUT_REQUESTS.to_owned());
    }
    Some(fill(NO_REQUESTS, &[&quoted(&idle.name)]))
}

/// Gates without a Gate, of a domain that has Gates for others.
fn unknown_gates(object: &Value, policy: &Policy) -> Vec<String> {
    let domain = |gate: &Gate| {
        gate.as_str()
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let named = gates::named(&gates::gate_annotations(object));
    let unknown = named.iter().filter(|gate| policy.gate(gate).is_none());
    let told = unknown.filter(|gate| policy.has_gate_of(&domain(gate)));
    told.map(|gate| fill(NO_GATE, &[&quoted(gate.as_str()), &domain(gate)]))
        .collect()
}
