//! What the author of a new object is warned of, though it is taken: it would wait for what never comes, or for nothing.
//! Never a refusal, and nothing is said of what is not known yet.

use serde_json::Value;
use sluice_crds::{
    ADMISSION_ANNOTATION, AFTER_ANNOTATION, GROUP, NOT_BEFORE_ANNOTATION,
    POD_GROUP_TOTAL_ANNOTATION, PRIORITY_CLASS_LABEL, QUEUE_GATE, QUEUE_NAME_LABEL,
    RETRIABLE_IN_GROUP_ANNOTATION,
};
use sluice_kinds::PodView;
use sluice_kinds::gates::{self, Gate};
use sluice_kinds::metadata::label;
use sluice_kinds::problem::fill;
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::PodSetView;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::queue_states::Idle;
use crate::admission::request::Request;
use crate::rules::queue_label::queue_of;
use crate::rules::top::is_top;

/// Most warnings about one object.
const WARNINGS_MAX: usize = 8;
/// How many letters off a key is that is taken for another one.
const LETTERS_OFF_MAX: usize = 2;
/// The label by which Kueue names a queue.
const KUEUE_QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";

/// The keys that users write.
const LABELS: [&str; 3] = [
    QUEUE_NAME_LABEL,
    PRIORITY_CLASS_LABEL,
    sluice_crds::POD_GROUP_LABEL,
];
const ANNOTATIONS: [&str; 7] = [
    ADMISSION_ANNOTATION,
    AFTER_ANNOTATION,
    NOT_BEFORE_ANNOTATION,
    POD_GROUP_TOTAL_ANNOTATION,
    QUEUE_GATE,
    RETRIABLE_IN_GROUP_ANNOTATION,
    "sluice.dev/min-parallelism",
];

const NO_LOCAL_QUEUE: &str =
    "{}: there is no LocalQueue {} in namespace {}; the object waits until there is";
const NO_CLUSTER_QUEUE: &str =
    "{}: there is no ClusterQueue {}, which LocalQueue {} names; the object waits until there is";
const STOPPED: &str = "{}: {} is stopped (stopPolicy); the object waits until it is not";
const NO_PRIORITY_CLASS: &str = "metadata.labels[sluice.dev/priority-class]: there is no WorkloadPriorityClass {}; the object can't be queued until there is";
const NO_REQUESTS: &str =
    "pod set {}: its pods request nothing, so they use no quota, unless a LimitRange adds requests";
/// What the namespace adds is in a pod before anybody is asked.
const POD_WITHOUT_REQUESTS: &str = "spec.containers: request nothing, so the pod uses no quota";
const LETTERS_OFF: &str = "{}: is not a key that Sluice knows; did you mean {}?";
const NO_ALIAS: &str = "metadata.labels[kueue.x-k8s.io/queue-name]: has no effect, as queueLabelAliases of Sluice's configuration does not list it; use sluice.dev/queue-name";
const NO_GATE: &str =
    "gate {} has no Gate, as other gates of {} have; whoever may edit the object may lift it";

/// What the author of a new object is warned of.
pub(crate) fn warnings(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<String> {
    if edit.old.is_some() || !request.sub_resource.is_empty() || !is_top(request, edit.new, policy)
    {
        return Vec::new();
    }
    let mut warnings = letters_off(edit.new);
    warnings.extend(kueue(edit.new, policy));
    warnings.extend(queue(request, edit.new, policy));
    warnings.extend(priority_class(edit.new, policy));
    warnings.extend(without_requests(request, edit.new, policy));
    warnings.extend(unknown_gates(edit.new, policy));
    warnings.truncate(WARNINGS_MAX);
    warnings
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// A queue that is missing or stopped.
fn queue(request: &Request, object: &Value, policy: &Policy) -> Option<String> {
    let named = queue_of(object, policy.queue_labels())?;
    let field = &named.field();
    let queue = &quoted(named.queue);
    let states = policy.queue_states().load();
    Some(match states.check(&request.namespace, named.queue)? {
        Idle::Missing => fill(NO_LOCAL_QUEUE, &[field, queue, &quoted(&request.namespace)]),
        Idle::WithoutClusterQueue(name) => fill(NO_CLUSTER_QUEUE, &[field, &quoted(&name), queue]),
        Idle::Stopped => fill(STOPPED, &[field, &format!("LocalQueue {queue}")]),
        Idle::InStoppedClusterQueue(name) => {
            fill(STOPPED, &[field, &format!("ClusterQueue {name:?}")])
        }
    })
}

fn priority_class(object: &Value, policy: &Policy) -> Option<String> {
    let class = label(object, PRIORITY_CLASS_LABEL)?;
    let is_known = policy
        .surroundings()
        .workload_priorities
        .contains_key(class);
    (!is_known).then(|| fill(NO_PRIORITY_CLASS, &[&quoted(class)]))
}

/// A queued pod that requests nothing, or pod sets of another object whose pods do; unless each pod uses quota there.
fn without_requests(request: &Request, object: &Value, policy: &Policy) -> Option<String> {
    let queue = queue_of(object, policy.queue_labels())?.queue;
    let states = policy.queue_states().load();
    if states.counts_pods(&request.namespace, queue) != Some(false) {
        return None;
    }
    let is_idle = |set: &PodSetView| set.requests.is_empty() && set.claims.is_empty();
    if request.is_pod() {
        let pod = PodView::read(object, policy.queue_labels(), policy.queue_gates());
        return is_idle(&pod.asks.ok()?).then(|| POD_WITHOUT_REQUESTS.to_owned());
    }
    let kind = policy.kind(&request.kind.group, &request.kind.kind)?;
    if kind.is_opaque() || kind.has_pods_of_children() {
        return None;
    }
    let sets = kind.pod_sets(object, &PodDefaults::default()).ok()?;
    let idle = sets.into_iter().find(is_idle)?;
    Some(fill(NO_REQUESTS, &[&quoted(&idle.name)]))
}

/// A label of Kueue that names no queue here.
fn kueue(object: &Value, policy: &Policy) -> Option<String> {
    label(object, KUEUE_QUEUE_NAME)?;
    let is_alias = policy
        .queue_labels()
        .keys()
        .any(|key| key == KUEUE_QUEUE_NAME);
    (!is_alias).then(|| NO_ALIAS.to_owned())
}

/// Keys of Sluice's domain that are nearly those that users write.
fn letters_off(object: &Value) -> Vec<String> {
    let of = |map: &'static str, known: &'static [&'static str]| {
        let entries = object.pointer(&format!("/metadata/{map}"));
        let keys = entries.and_then(Value::as_object).into_iter().flatten();
        let keys = keys.filter_map(|(key, _)| Some((key, key.split_once('/')?.0)));
        let near = keys.filter_map(move |(key, domain)| {
            if known.contains(&key.as_str()) || 1 < distance(domain, GROUP) {
                return None;
            }
            let meant = known
                .iter()
                .find(|known| distance(key, known) <= LETTERS_OFF_MAX)?;
            Some(fill(
                LETTERS_OFF,
                &[&format!("metadata.{map}[{key}]"), meant],
            ))
        });
        near.collect::<Vec<_>>()
    };
    let mut all = of("labels", &LABELS);
    all.extend(of("annotations", &ANNOTATIONS));
    all
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

/// How many letters have to be added, removed or replaced to make one text of the other: of long ones, too many.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    if one.len().abs_diff(other.chars().count()) > LETTERS_OFF_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=one.len()).collect();
    for (line, letter) in other.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line.saturating_add(1);
        let mut next = vec![left];
        for (above, known) in row.iter().skip(1).zip(&one) {
            let replaced = diagonal.saturating_add(usize::from(*known != letter));
            left = replaced.min(left.min(*above).saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn letters_that_are_off_are_counted() {
        let cases = [
            ("queue-name", "queue-name", 0),
            ("queue-nam", "queue-name", 1),
            ("queue-name", "queue-nam", 1),
            ("queue-mame", "queue-name", 1),
            ("qeuue-name", "queue-name", 2),
            ("queue_names", "queue-name", 2),
        ];
        for (one, other, expected) in cases {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
        assert_eq!(distance("queue", "queue-name"), usize::MAX);
    }
}
