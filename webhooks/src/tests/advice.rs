//! What the author of an object is warned of that is taken.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::GateSpec;
use sluice_kinds::gates::Gate;

use super::*;
use crate::{ClusterQueueState, LocalQueueState, QueueStates};

fn policy(are_listed: bool) -> Policy {
    let state = |cluster_queue: &str, is_stopped| {
        Some(LocalQueueState {
            cluster_queue: cluster_queue.to_owned(),
            is_stopped,
        })
    };
    let mut states = QueueStates::default();
    states.set_local_queue("n", "q", state("a", false));
    states.set_local_queue("n", "stopped", state("a", true));
    states.set_local_queue("n", "of-stopped", state("b", false));
    states.set_local_queue("n", "of-none", state("c", false));
    states.set_local_queue("n", "of-counted", state("counted", false));
    let state = |is_stopped, counts_pods| {
        Some(ClusterQueueState {
            is_stopped,
            counts_pods,
        })
    };
    states.set_cluster_queue("a", state(false, false));
    states.set_cluster_queue("b", state(true, false));
    states.set_cluster_queue("counted", state(false, true));
    states.set_complete(are_listed);
    let budget = Gate::parse("acme.io/budget", "").unwrap();
    mk_policy()
        .with_gates([(budget, Arc::new(GateSpec::default()))])
        .with_queue_states(Arc::new(arc_swap::ArcSwap::from_pointee(states)))
}

fn warnings(object: &Value, policy: &Policy) -> Vec<String> {
    let verdict = crate::review::validate(&mk_request(USER, None, object), policy);
    assert_eq!(verdict.problems, []);
    verdict.warnings
}

fn job(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Value {
    mk_job(labels, annotations, true)
}

fn idle_pod(queue: &str) -> Value {
    with(
        mk_pod(&[(QUEUE, queue)], &[], &[]),
        "/spec/containers",
        json!([{"name": "c"}]),
    )
}

fn idle(queue: &str) -> Value {
    with(
        job(&[(QUEUE, queue)], &[]),
        "/spec/template/spec/containers",
        json!([{"name": "c"}]),
    )
}

#[rstest]
#[case::well(job(&[(QUEUE, "q")], &[(GATES, "acme.io/budget")]), &[])]
#[case::no_queue(job(&[(QUEUE, "none")], &[]), &[
    "metadata.labels[sluice.dev/queue-name]: there is no LocalQueue \"none\" in namespace \"n\"; the object waits until there is"])]
#[case::stopped(job(&[(QUEUE, "stopped")], &[]), &[
    "metadata.labels[sluice.dev/queue-name]: LocalQueue \"stopped\" is stopped (stopPolicy); the object waits until it is not"])]
#[case::of_a_stopped_one(job(&[(QUEUE, "of-stopped")], &[]), &[
    "metadata.labels[sluice.dev/queue-name]: ClusterQueue \"b\" is stopped (stopPolicy); the object waits until it is not"])]
#[case::of_none(job(&[(QUEUE, "of-none")], &[]), &[
    "metadata.labels[sluice.dev/queue-name]: there is no ClusterQueue \"c\", which LocalQueue \"of-none\" names; the object waits until there is"])]
#[case::no_class(job(&[(QUEUE, "q"), ("sluice.dev/priority-class", "high")], &[]), &[
    "metadata.labels[sluice.dev/priority-class]: there is no WorkloadPriorityClass \"high\"; the object can't be queued until there is"])]
#[case::no_requests_where_pods_count(idle("of-counted"), &[])]
#[case::no_requests_in_a_queue_that_is_missing(idle("none"), &[
    "metadata.labels[sluice.dev/queue-name]: there is no LocalQueue \"none\" in namespace \"n\"; the object waits until there is"])]
#[case::no_requests(idle("q"), &[
    "pod set \"main\": its pods request nothing, so they use no quota, unless a LimitRange adds requests"])]
#[case::a_letter_off(job(&[("sluice.dev/queue-nam", "q")], &[]), &[
    "metadata.labels[sluice.dev/queue-nam]: is not a key that Sluice knows; did you mean sluice.dev/queue-name?"])]
#[case::a_letter_off_the_domain(job(&[("sluce.dev/queue-name", "q")], &[]), &[
    "metadata.labels[sluce.dev/queue-name]: is not a key that Sluice knows; did you mean sluice.dev/queue-name?"])]
#[case::an_annotation(job(&[], &[("sluice.dev/not-befor", "x")]), &[
    "metadata.annotations[sluice.dev/not-befor]: is not a key that Sluice knows; did you mean sluice.dev/not-before?"])]
#[case::far_off(job(&[("sluice.dev/team", "q"), ("acme.io/queue-nam", "q")], &[]), &[])]
#[case::no_gate(job(&[(QUEUE, "q")], &[(GATES, "acme.io/budgt,other.io/x")]), &[
    "gate \"acme.io/budgt\" has no Gate, as other gates of acme.io have; whoever may edit the object may lift it"])]
fn what_is_warned_of(#[case] object: Value, #[case] expected: &[&str]) {
    assert_eq!(warnings(&object, &policy(true)), expected);
}

#[rstest]
#[case::that_requests(mk_pod(&[(QUEUE, "q")], &[], &[]), &[])]
#[case::without_requests(idle_pod("q"), &["spec.containers: request nothing, so the pod uses no quota"])]
#[case::where_pods_count(idle_pod("of-counted"), &[])]
#[case::without_a_queue(with(idle_pod("q"), "/metadata/labels", json!({})), &[])]
fn of_a_pod_the_same_is_told(#[case] pod: Value, #[case] expected: &[&str]) {
    let policy = policy(true);
    let (stored, _) = created_by(USER, &pod, &policy);
    assert_eq!(warnings(&stored, &policy), expected);
}

#[test]
fn nothing_is_said_of_queues_that_are_not_listed() {
    assert_eq!(
        warnings(&job(&[(QUEUE, "none")], &[]), &policy(false)),
        [""; 0]
    );
}

#[test]
fn a_label_of_kueue_that_is_no_alias_is_told() {
    let object = job(&[(QUEUE, "q"), (ALIAS, "q")], &[]);
    assert_eq!(warnings(&object, &policy(true)), [""; 0]);
    let kind: JobKind = mk_job_kind("batch", "Job");
    let policy = Policy::new(
        [Arc::new(CompiledKind::compile(&kind).unwrap())],
        QueueLabels::default(),
        SLUICE,
    )
    .with_applied([], Arc::new(surroundings()));
    assert_eq!(
        warnings(&object, &policy),
        [
            "metadata.labels[kueue.x-k8s.io/queue-name]: has no effect, as queueLabelAliases of Sluice's configuration does not list it; use sluice.dev/queue-name"
        ]
    );
}

#[test]
fn an_edit_is_not_warned_of() {
    let (old, new) = (job(&[(QUEUE, "q")], &[]), job(&[(QUEUE, "none")], &[]));
    let verdict = crate::review::validate(&mk_request(USER, Some(&old), &new), &policy(true));
    assert_eq!(verdict.warnings, [""; 0]);
}
