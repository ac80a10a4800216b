//! What may be on a pod at its creation. How such a pod is to wait is told in `sluice_kinds::pod_hold`.

use serde_json::Value;
use sluice_crds::{ADMITTED_ANNOTATION, POD_GROUP_LABEL};
use sluice_kinds::gates;
use sluice_kinds::marks::BY_SLUICE_ALONE;
use sluice_kinds::metadata::{annotation, annotation_text, controller, label};
use sluice_kinds::pod::{GROUP_MARK_BYTES_MAX, PodGroup, PodView, too_long_marks};
use sluice_kinds::pod_hold::PodHold;
use sluice_kinds::problem::{Problem, fill};

use crate::admission::policy::Policy;
use crate::rules::queue_label;

/// The rule for a pod that asks for both ways; with the label of its group.
pub(crate) const WITH_ITS_GROUP: &str =
    "must be absent with the label {}: the pod is admitted with its group, not by itself";
/// The rule for a node that is set from the start.
pub(crate) const WOULD_RUN: &str = "may not be set on a pod that waits: the pod would run at once";

/// What is wrong with creating `pod`, which is to wait as `hold` says.
pub(super) fn problems(pod: &Value, hold: Option<PodHold>, policy: &Policy) -> Vec<Problem> {
    let mut problems = Vec::new();
    if annotation(pod, ADMITTED_ANNOTATION).is_some() {
        let field = gates::field_of(ADMITTED_ANNOTATION);
        problems.push(Problem::forbidden(field, BY_SLUICE_ALONE));
    }
    let too_long = too_long_marks(pod);
    problems
        .extend(too_long.map(|key| Problem::too_long(gates::field_of(key), GROUP_MARK_BYTES_MAX)));
    problems.extend(check_opt_in(pod, policy));
    if controller(pod).is_none() {
        problems.extend(gates::check_create(&gates::gate_annotations(pod)));
        problems.extend(PodGroup::read(pod).err().unwrap_or_default());
        problems.extend(check_one_way(pod, policy));
    }
    if hold.is_some() {
        problems.extend(check_not_bound(pod));
    }
    if matches!(hold, Some(PodHold::Single | PodHold::Group)) {
        let labels = policy.queue_labels();
        problems.extend(queue_label::check_value(pod, None, labels));
        // What can't be counted could never be admitted: better told now than by an event. Claims for devices
        // are held and told by the controller, as those of jobs are.
        let view = PodView::read(pod, labels, policy.queue_gates());
        problems.extend(view.asks.err().unwrap_or_default());
    }
    problems
}

/// The annotations by which a pod asks to be queued by itself, or says that it doesn't.
fn check_opt_in(pod: &Value, policy: &Policy) -> Vec<Problem> {
    let values = policy
        .queue_gates()
        .names()
        .filter_map(|key| annotation_text(pod, key).map(|value| (key, value)));
    values
        .filter(|(_, value)| !matches!(*value, "true" | "false"))
        .map(|(key, value)| Problem::not_supported(gates::field_of(key), value, &["false", "true"]))
        .collect()
}

/// A pod is admitted by itself or with its group.
fn check_one_way(pod: &Value, policy: &Policy) -> Option<Problem> {
    label(pod, POD_GROUP_LABEL)?;
    let key = policy.queue_gates().opt_in(pod)?;
    Some(Problem::forbidden(
        gates::field_of(key),
        fill(WITH_ITS_GROUP, &[POD_GROUP_LABEL]),
    ))
}

fn check_not_bound(pod: &Value) -> Option<Problem> {
    let node = pod.pointer("/spec/nodeName")?.as_str()?;
    (!node.is_empty()).then(|| Problem::forbidden("spec.nodeName", WOULD_RUN))
}
