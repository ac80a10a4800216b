//! How a pod that is being created is to wait: in a queue by itself, with its group, for its gates alone, or not at all. The
//! patch for that is in `patch/gate_pod.rs`; the webhook's match conditions say which pods are asked about.

use serde_json::Value;
use sluice_crds::{MANAGED_LABEL, POD_GROUP_LABEL};

use crate::field::metadata::{self, label};
use crate::gates;
use crate::gates::scheduling::{QueueGates, propagated};
use crate::read::view::QueueLabels;

/// The annotation on the pods of a kubelet's own manifests: copies, which nothing can hold.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Whom a pod was made for that names a controller, as far as its author is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeFor {
    /// Nobody knows.
    Unknown,
    /// An object that is queued, or waits for its gates, with its pods: they bring what they need.
    Owner,
    /// An object with only the metadata of its pods in it, which waits by them: they list its gates, and get those when
    /// they are created.
    GatedByPods,
}

/// How a pod that is being created is to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodHold {
    /// In a queue, by itself.
    Single,
    /// In a queue, with its group.
    Group,
    /// For its gates alone.
    Gates,
}

impl PodHold {
    /// How `pod` is to wait that is being created; none if Sluice has no part in it.
    ///
    /// A queue label came down from what owns the pod only if its controller is believed: then it is the owner that is
    /// queued. The queue gate says that the pod waits for quota: one that Sluice did not put there by a template waits
    /// in a queue by itself.
    pub fn at_creation(
        pod: &Value,
        labels: &QueueLabels,
        gates: &QueueGates,
        made_for: MadeFor,
    ) -> Option<Self> {
        if metadata::annotation(pod, MIRROR_ANNOTATION).is_some() {
            return None;
        }
        let is_bare = metadata::controller(pod).is_none();
        let goes_with_owner = !is_bare && made_for == MadeFor::Owner;
        let is_labelled = labels.keys().any(|key| label(pod, key).is_some());
        let is_gated = gates.carried(pod).is_some();
        let is_managed = label(pod, MANAGED_LABEL).is_some();
        if gates.opt_in(pod).is_some() {
            Some(Self::Single)
        } else if is_bare && label(pod, POD_GROUP_LABEL).is_some() {
            Some(Self::Group)
        } else if is_labelled && !goes_with_owner || is_gated && !(goes_with_owner && is_managed) {
            Some(Self::Single)
        } else if is_bare && !gates::gate_annotations(pod).is_empty() {
            // It gets its scheduling gates now or never: also the one for a queue that it names later.
            let held_by = gates::read(&gates::gate_annotations(pod));
            Some(if held_by.require_queue() {
                Self::Single
            } else {
                Self::Gates
            })
        } else if made_for == MadeFor::GatedByPods && propagated(pod).next().is_some() {
            Some(Self::Gates)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value)]

    use rstest::rstest;
    use serde_json::json;
    use sluice_crds::QUEUE_GATE;

    use super::*;
    use crate::fixtures::{ALIAS, GATED, QUEUE, gated, mk_pod as bare, owned, queue_gates};

    #[rstest]
    #[case::plain(bare(json!({}), json!({})), None)]
    #[case::opt_in(bare(json!({}), json!({QUEUE_GATE: "true"})), Some(PodHold::Single))]
    #[case::opt_in_alias(bare(json!({}), json!({ALIAS: "true"})), Some(PodHold::Single))]
    #[case::opted_out(bare(json!({}), json!({QUEUE_GATE: "false"})), None)]
    #[case::opt_in_of_a_job(
        owned(bare(json!({}), json!({QUEUE_GATE: "true"})), "batch/v1", "Job"), Some(PodHold::Single))]
    #[case::queue(bare(json!({QUEUE: "a"}), json!({})), Some(PodHold::Single))]
    #[case::queue_of_a_replicaset(
        owned(bare(json!({QUEUE: "a"}), json!({})), "apps/v1", "ReplicaSet"), Some(PodHold::Single))]
    #[case::queue_of_a_statefulset(
        owned(bare(json!({QUEUE: "a"}), json!({})), "apps/v1", "StatefulSet"), Some(PodHold::Single))]
    #[case::queue_of_a_daemonset(
        owned(bare(json!({QUEUE: "a"}), json!({})), "apps/v1", "DaemonSet"), Some(PodHold::Single))]
    #[case::queue_gate_alone(gated(bare(json!({}), json!({})), &[QUEUE_GATE]), Some(PodHold::Single))]
    #[case::group(bare(json!({POD_GROUP_LABEL: "g", QUEUE: "a"}), json!({})), Some(PodHold::Group))]
    #[case::group_of_a_job(
        owned(bare(json!({POD_GROUP_LABEL: "g"}), json!({})), "batch/v1", "Job"), None)]
    #[case::gate(bare(json!({}), json!({GATED: "a.io/x"})), Some(PodHold::Gates))]
    #[case::gate_and_queue(bare(json!({QUEUE: "a"}), json!({GATED: "a.io/x"})), Some(PodHold::Single))]
    #[case::gate_of_a_job(owned(bare(json!({}), json!({GATED: "a.io/x"})), "batch/v1", "Job"), None)]
    #[case::mirror(
        bare(json!({QUEUE: "a"}), json!({QUEUE_GATE: "true", "kubernetes.io/config.mirror": "x"})), None)]
    fn who_waits(#[case] pod: Value, #[case] expected: Option<PodHold>) {
        let hold = PodHold::at_creation(
            &pod,
            &QueueLabels::default(),
            &queue_gates(),
            MadeFor::Unknown,
        );
        assert_eq!(hold, expected);
    }

    /// What came down from an owner counts only where the controller is not believed to be that.
    #[rstest]
    #[case::labelled(bare(json!({QUEUE: "a"}), json!({})), None)]
    #[case::gated_by_a_template(
        gated(bare(json!({QUEUE: "a", "sluice.dev/managed": "true"}), json!({})), &[QUEUE_GATE]), None)]
    #[case::gated_by_a_user(
        gated(bare(json!({QUEUE: "a"}), json!({})), &[QUEUE_GATE]), Some(PodHold::Single))]
    #[case::opted_in(bare(json!({}), json!({QUEUE_GATE: "true"})), Some(PodHold::Single))]
    fn who_waits_of_an_owner(#[case] pod: Value, #[case] believed: Option<PodHold>) {
        let pod = owned(pod, "batch/v1", "Job");
        let hold = |made_for| {
            PodHold::at_creation(&pod, &QueueLabels::default(), &queue_gates(), made_for)
        };
        assert_eq!(hold(MadeFor::Owner), believed);
        assert_eq!(hold(MadeFor::Unknown), Some(PodHold::Single));
    }
}
