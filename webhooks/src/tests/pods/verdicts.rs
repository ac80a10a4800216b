//! Verdicts about pods, row by row, with the whole message.

use rstest::rstest;
use serde_json::{Value, json};

use crate::review::mutate;
use crate::tests::*;

type Pairs = &'static [(&'static str, &'static str)];

const Q: Pairs = &[(QUEUE, "a")];
const MANAGED: (&str, &str) = ("sluice.dev/managed", "true");
const HIDDEN: (&str, &str) = ("sluice.dev/managed", "false");
const OPT_IN: Pairs = &[(GATE, "true")];
const GROUP: &str = "sluice.dev/pod-group-name";
const TOTAL: &str = "sluice.dev/pod-group-total-count";
const ADMITTED: &str = "sluice.dev/admitted";

fn created(pod: &Value) -> Verdict {
    mutate(&mk_request(USER, None, pod), &mk_policy())
}

/// The pod as it is stored.
fn stored(pod: Value) -> Value {
    let verdict = created(&pod);
    assert_eq!(verdict.message(), "");
    let mut pod = pod;
    json_patch::patch(&mut pod, &verdict.patch).unwrap();
    assert_eq!(created(&pod).patch, vec![], "twice is once");
    pod
}

fn gates(pod: &Value) -> Vec<&str> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates
        .into_iter()
        .flatten()
        .map(|gate| gate["name"].as_str().unwrap())
        .collect()
}

#[rstest]
#[case::plain(mk_pod(&[], &[], &[]), &[], None)]
#[case::opt_in(mk_pod(&[], OPT_IN, &[]), &[GATE], Some("true"))]
#[case::alias(mk_pod(&[], &[(GATE_ALIAS, "true")], &[]), &[GATE_ALIAS], None)]
#[case::queue(mk_pod(Q, &[], &[]), &[GATE], Some("true"))]
#[case::queue_alias(mk_pod(&[(ALIAS, "a")], &[], &[]), &[GATE], Some("true"))]
#[case::replicaset(owned(mk_pod(Q, &[], &[]), "apps/v1", "ReplicaSet"), &[GATE], Some("true"))]
#[case::somebody_names_a_job(owned(mk_pod(Q, &[], &[]), "batch/v1", "Job"), &[GATE], Some("true"))]
#[case::gate_without_a_queue(mk_pod(&[], &[], &[GATE]), &[GATE], Some("true"))]
#[case::group(mk_pod(&[(GROUP, "g"), Q[0]], &[(TOTAL, "2")], &[]), &[GATE], None)]
#[case::gate(mk_pod(&[], &[(GATED, "acme.io/foo")], &[]), &["acme.io/foo"], None)]
#[case::external(mk_pod(Q, &[], &["acme.io/x"]), &["acme.io/x", GATE], Some("true"))]
#[case::mirror(mk_pod(Q, &[("kubernetes.io/config.mirror", "x")], &[]), &[], None)]
fn creation(#[case] pod: Value, #[case] expected: &[&str], #[case] mark: Option<&str>) {
    let pod = stored(pod);
    assert_eq!(gates(&pod), expected);
    assert_eq!(pod["metadata"]["annotations"][GATE].as_str(), mark);
    let is_managed = pod["metadata"]["labels"].get(MANAGED.0).is_some();
    assert_eq!(is_managed, !expected.is_empty());
    assert_eq!(validate(USER, None, &pod).message(), "");
}

/// Whoever made it, and whatever holds it: a pod that Sluice does not watch uses quota unseen.
#[rstest]
#[case::admitted_with_its_job(owned(mk_pod(&[HIDDEN], &[], &[]), "batch/v1", "Job"))]
#[case::gated_by_its_template(owned(mk_pod(&[HIDDEN, Q[0]], OPT_IN, &[GATE]), "batch/v1", "Job"))]
#[case::bare(mk_pod(&[HIDDEN], &[], &[]))]
fn no_new_pod_hides(#[case] pod: Value) {
    for user in [USER, JOB_CONTROLLER, JOBSET_CONTROLLER] {
        // Where another webhook has hidden it again.
        let rule = "metadata.labels[sluice.dev/managed]: Forbidden: is set by Sluice alone";
        assert!(validate(user, None, &pod).message().contains(rule));
        let (stored, verdict) = created_by(user, &pod, &mk_policy());
        assert_eq!(verdict.message(), "");
        assert_eq!(stored["metadata"]["labels"][MANAGED.0], MANAGED.1);
    }
}

const LISTED: &str = "supported values: \"false\", \"true\"";

#[rstest]
#[case::admitted(owned(mk_pod(&[], &[(ADMITTED, "{}")], &[]), "apps/v1", "ReplicaSet"),
    "metadata.annotations[sluice.dev/admitted]: Forbidden: is set by Sluice alone")]
#[case::bound(with(mk_pod(Q, &[], &[]), "/spec/nodeName", json!("n1")),
    "spec.nodeName: Forbidden: may not be set on a pod that waits: the pod would run at once")]
#[case::opt_in(mk_pod(&[], &[(GATE, "yes")], &[]), &format!(
    "metadata.annotations[{GATE}]: Unsupported value: \"yes\": {LISTED}"))]
#[case::opt_in_by_alias(mk_pod(&[], &[(GATE_ALIAS, "")], &[]), &format!(
    "metadata.annotations[{GATE_ALIAS}]: Unsupported value: \"\": {LISTED}"))]
#[case::aliases_disagree(mk_pod(&[(QUEUE, "a"), (ALIAS, "b")], &[], &[]),
    "metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: \"b\": must equal the label \
     sluice.dev/queue-name, which names \"a\"")]
#[case::bad_gate(mk_pod(&[], &[(GATED, "mygate")], &[]),
    "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]: Invalid value: \"mygate\": must be a \
     domain-prefixed path (such as \"acme.io/foo\")")]
#[case::group_without_total(mk_pod(&[(GROUP, "g")], &[], &[]),
    "metadata.annotations[sluice.dev/pod-group-total-count]: Required value: must say how many pods \
     the group has")]
#[case::total_without_group(mk_pod(&[], &[(TOTAL, "2")], &[]),
    "metadata.labels[sluice.dev/pod-group-name]: Required value: must name the group whose pods \
     sluice.dev/pod-group-total-count counts")]
#[case::bad_total(mk_pod(&[(GROUP, "g")], &[(TOTAL, "0")], &[]),
    "metadata.annotations[sluice.dev/pod-group-total-count]: Invalid value: \"0\": must be a whole \
     number between 1 and 1000")]
#[case::retriable(mk_pod(&[(GROUP, "g")], &[(TOTAL, "1"), ("sluice.dev/retriable-in-group", "no")], &[]),
    &format!("metadata.annotations[sluice.dev/retriable-in-group]: Unsupported value: \"no\": {LISTED}"))]
#[case::group_by_itself(mk_pod(&[(GROUP, "g")], &[(TOTAL, "1"), OPT_IN[0]], &[]), &format!(
    "metadata.annotations[{GATE}]: Forbidden: must be absent with the label sluice.dev/pod-group-name: the pod is admitted with its group, not by itself"))]
#[case::uncountable(with(mk_pod(Q, &[], &[]), "/spec/containers",
    json!([{"name": "c", "resources": {"requests": {"cpu": "-1"}}}])),
    "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal \
     to 0")]
fn refused_at_creation(#[case] pod: Value, #[case] expected: &str) {
    // Asked first by the mutating webhook, and by the other where that did not see the pod.
    assert_eq!(created(&pod).message(), expected);
    assert_eq!(validate(USER, None, &pod).message(), expected);
}

#[test]
fn a_bad_queue_or_group_name_is_refused_in_the_words_of_the_api_server() {
    for (key, other) in [(QUEUE, None), (GROUP, Some((TOTAL, "1")))] {
        let pod = mk_pod(&[(key, "A!")], other.as_slice(), &[]);
        let message = created(&pod).message();
        let start = format!(
            "metadata.labels[{key}]: Invalid value: \"A!\": a lowercase RFC 1123 subdomain must \
             consist of"
        );
        assert!(message.starts_with(&start), "{message}");
    }
}

#[rstest]
#[case::bound(with(mk_pod(&[], &[], &[]), "/spec/nodeName", json!("n1")))]
#[case::group_of_a_job(owned(mk_pod(&[(GROUP, "G!")], &[], &[]), "batch/v1", "Job"))]
#[case::gate_of_a_job(owned(mk_pod(&[], &[(GATED, "x")], &[]), "batch/v1", "Job"))]
fn what_concerns_sluice_not(#[case] pod: Value) {
    assert_eq!(created(&pod), Verdict::allowed());
    assert_eq!(validate(USER, None, &pod).message(), "");
}

const LIST: &str = "sluice.dev/propagated-gates";

#[rstest]
#[case::waits(mk_pod(Q, &[(LIST, "acme.io/x")], &["acme.io/x"]), None)]
#[case::gated(mk_pod(&[], &[(LIST, "acme.io/x"), (GATED, "b.io/y")], &["acme.io/x"]), Some("b.io/y"))]
#[case::does_not_wait(mk_pod(&[MANAGED], &[(LIST, "acme.io/x")], &["acme.io/x"]), None)]
fn a_pod_lists_no_gates_of_others(#[case] pod: Value, #[case] expected: Option<&str>) {
    assert_eq!(
        validate(USER, None, &pod).message(),
        "metadata.annotations[sluice.dev/propagated-gates]: Forbidden: is set by Sluice alone"
    );
    let pod = stored(pod);
    assert_eq!(pod["metadata"]["annotations"][LIST].as_str(), expected);
    assert_eq!(gates(&pod)[0], "acme.io/x");
    assert_eq!(validate(USER, None, &pod).message(), "");
}

#[test]
fn a_member_of_a_group_that_is_adopted_keeps_its_usage() {
    let pod = edited(of_group(&[]), "annotations", ADMITTED, Some("{}"));
    let old = owned(pod, "apps/v1", "ReplicaSet");
    let judge = |map, key, value| {
        let new = edited(old.clone(), map, key, Some(value));
        validate(USER, Some(&old), &new).message()
    };
    assert_eq!(
        judge("labels", QUEUE, "b"),
        format!("metadata.labels[{QUEUE}]: Forbidden: {MOVED}")
    );
    assert_eq!(
        judge("annotations", "sluice.dev/retriable-in-group", "no"),
        format!(
            "metadata.annotations[sluice.dev/retriable-in-group]: Unsupported value: \"no\": {LISTED}"
        )
    );
}

fn waiting() -> Value {
    stored(mk_pod(Q, &[(GATES, "a.io/x,b.io/y")], &["acme.io/z"]))
}

fn admitted() -> Value {
    mk_pod(&[Q[0], MANAGED], &[OPT_IN[0], (ADMITTED, "{}")], &[])
}

fn of_group(gates: &[&str]) -> Value {
    mk_pod(&[(GROUP, "g"), MANAGED, Q[0]], &[(TOTAL, "2")], gates)
}

/// `pod` with a label or annotation set, or taken away.
fn edited(pod: Value, map: &str, key: &str, value: Option<&str>) -> Value {
    let mut pod = pod;
    let entries = pod["metadata"][map].as_object_mut().unwrap();
    match value {
        Some(value) => entries.insert(key.to_owned(), json!(value)),
        None => entries.remove(key),
    };
    pod
}

const ALONE: &str = "is set by Sluice alone";
const FIXED: &str = "is immutable";
const MOVED: &str =
    "is immutable while the pod is admitted; delete the pod and create it again in the other queue";
const LEFT: &str = "may not be removed while the pod is admitted; delete the pod and create it again \
     without the label";

#[rstest]
#[case::managed(admitted(), "labels", MANAGED.0, None, ALONE)]
#[case::managed_changed(waiting(), "labels", MANAGED.0, Some("no"), ALONE)]
#[case::managed_added(mk_pod(&[], &[], &[]), "labels", MANAGED.0, Some("true"), ALONE)]
#[case::admitted(admitted(), "annotations", ADMITTED, Some("{\"x\":1}"), ALONE)]
#[case::admitted_added(waiting(), "annotations", ADMITTED, Some("{}"), ALONE)]
#[case::admitted_removed(admitted(), "annotations", ADMITTED, None, ALONE)]
#[case::propagated(waiting(), "annotations", "sluice.dev/propagated-gates", None, ALONE)]
#[case::pod_set(waiting(), "annotations", "sluice.dev/pod-set", Some("x"), ALONE)]
#[case::opt_in(admitted(), "annotations", GATE, None, FIXED)]
#[case::opt_in_changed(admitted(), "annotations", GATE, Some("false"), FIXED)]
#[case::opt_in_alias(admitted(), "annotations", GATE_ALIAS, Some("true"), FIXED)]
#[case::total(of_group(&[GATE]), "annotations", TOTAL, Some("3"), FIXED)]
#[case::group(of_group(&[GATE]), "labels", GROUP, Some("h"), FIXED)]
#[case::group_added(admitted(), "labels", GROUP, Some("h"), FIXED)]
#[case::queue(admitted(), "labels", QUEUE, Some("b"), MOVED)]
#[case::queue_removed(admitted(), "labels", QUEUE, None, LEFT)]
#[case::queue_of_group(of_group(&[]), "labels", QUEUE, Some("b"), MOVED)]
#[case::queue_of_what_gates_held(mk_pod(&[MANAGED], &[], &["acme.io/foo"]), "labels", QUEUE, Some("a"),
    "may only be set at creation, when a pod gets its scheduling gates; delete the pod and create it again with the label")]
#[case::gate(
    waiting(),
    "annotations",
    GATED,
    Some("c.io/z"),
    "may only be set at creation and removed later"
)]
#[case::gates_grown(
    waiting(),
    "annotations",
    GATES,
    Some("a.io/x,b.io/y,c.io/z"),
    "may only be set at creation and removed later"
)]
fn refused_edits(
    #[case] old: Value,
    #[case] map: &str,
    #[case] key: &str,
    #[case] value: Option<&str>,
    #[case] rule: &str,
) {
    let new = edited(old.clone(), map, key, value);
    assert_eq!(
        validate(USER, Some(&old), &new).message(),
        format!("metadata.{map}[{key}]: Forbidden: {rule}")
    );
    assert_eq!(validate(SLUICE, Some(&old), &new).message(), "");
    // It runs on for as long as its grace period is.
    let at = json!("2026-01-01T00:00:00Z");
    let deleted = |pod| with(pod, "/metadata/deletionTimestamp", at.clone());
    let both = (deleted(old), deleted(new));
    assert_eq!(
        validate(USER, Some(&both.0), &both.1).message(),
        format!("metadata.{map}[{key}]: Forbidden: {rule}")
    );
}

#[rstest]
#[case::queue_while_waiting(waiting(), "labels", QUEUE, Some("b"))]
#[case::leaving_while_waiting(waiting(), "labels", QUEUE, None)]
#[case::respelt(edited(admitted(), "labels", ALIAS, Some("a")), "labels", QUEUE, None)]
#[case::queue_when_finished(
    with(admitted(), "/status", json!({"phase": "Succeeded"})), "labels", QUEUE, Some("b"))]
#[case::gates_shrink(waiting(), "annotations", GATES, Some("b.io/y"))]
#[case::gates_go(waiting(), "annotations", GATES, None)]
#[case::retriable(of_group(&[]), "annotations", "sluice.dev/retriable-in-group", Some("false"))]
#[case::other_label(admitted(), "labels", "x", Some("y"))]
#[case::finished(
    with(mk_pod(&[], &[], &[]), "/status", json!({"phase": "Failed"})), "labels", QUEUE, Some("b"))]
fn allowed_edits(
    #[case] old: Value,
    #[case] map: &str,
    #[case] key: &str,
    #[case] value: Option<&str>,
) {
    let new = edited(old.clone(), map, key, value);
    assert_eq!(validate(USER, Some(&old), &new).message(), "");
}

#[test]
fn a_group_learns_only_known_values() {
    let old = of_group(&[]);
    let new = edited(
        old.clone(),
        "annotations",
        "sluice.dev/retriable-in-group",
        Some("no"),
    );
    assert_eq!(
        validate(USER, Some(&old), &new).message(),
        format!(
            "metadata.annotations[sluice.dev/retriable-in-group]: Unsupported value: \"no\": {LISTED}"
        )
    );
}

#[test]
fn a_malformed_queue_is_refused_while_waiting_too() {
    let new = edited(waiting(), "labels", QUEUE, Some("A!"));
    let message = validate(USER, Some(&waiting()), &new).message();
    assert!(
        message.starts_with("metadata.labels[sluice.dev/queue-name]: Invalid value: \"A!\": "),
        "{message}"
    );
}

#[rstest]
#[case::named(Q, GATE, "LocalQueue \"a\" admits the pod")]
#[case::alias(Q, GATE_ALIAS, "LocalQueue \"a\" admits the pod")]
#[case::unnamed(&[], GATE, "its queue admits the pod")]
fn the_queue_gate_stays(#[case] labels: Pairs, #[case] gate: &str, #[case] when: &str) {
    let labels: Vec<_> = labels.iter().copied().chain([MANAGED]).collect();
    let old = mk_pod(&labels, OPT_IN, &["acme.io/x", gate]);
    let new = mk_pod(&labels, OPT_IN, &["acme.io/x"]);
    assert_eq!(
        validate(USER, Some(&old), &new).message(),
        format!(
            "spec.schedulingGates: Forbidden: the gate {gate:?} is removed by Sluice when {when}"
        )
    );
    assert_eq!(validate(SLUICE, Some(&old), &new).message(), "");
    // The gates of others go as they like.
    let new = mk_pod(&labels, OPT_IN, &[gate]);
    assert_eq!(validate(USER, Some(&old), &new).message(), "");
}

fn resized(pod: &Value, pointer: &str, value: Value) -> Value {
    with(pod.clone(), pointer, value)
}

fn resize(user: &str, old: &Value, new: &Value) -> String {
    let mut review = mk_review(user, Some(old), new);
    review["request"]["subResource"] = json!("resize");
    let request = Request::parse(review.to_string().as_bytes()).unwrap();
    crate::review::validate(&request, &mk_policy()).message()
}

const SET: Pairs = &[("sluice.dev/pod-set", "main")];
const LISTS: Pairs = &[("sluice.dev/propagated-gates", "acme.io/budget")];
const NO_LIST: Pairs = &[SET[0], ("sluice.dev/propagated-gates", " ,")];
const LISTS_WITH_SET: Pairs = &[LISTS[0], SET[0]];
const REQUESTS: &str = "/spec/containers/0/resources/requests";

#[rstest]
#[case::grow(REQUESTS, json!({"cpu": "2"}),
    "spec.containers[0].resources.requests[cpu]: Forbidden: may not grow from 1 to 2 while the pod is \
     admitted")]
#[case::more(REQUESTS, json!({"cpu": "1", "memory": "1Gi"}),
    "spec.containers[0].resources.requests[memory]: Forbidden: may not grow from 0 to 1Gi while the \
     pod is admitted")]
#[case::pod_level("/spec/resources", json!({"requests": {"cpu": 3}}),
    "spec.resources.requests[cpu]: Forbidden: may not grow from 0 to 3 while the pod is admitted")]
#[case::sidecar("/spec/initContainers", json!([{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1m"}}}]),
    "spec.initContainers[0].resources.requests[cpu]: Forbidden: may not grow from 0 to 1m while the \
     pod is admitted")]
#[case::shrink(REQUESTS, json!({"cpu": "500m"}), "")]
#[case::respelt(REQUESTS, json!({"cpu": "1000m"}), "")]
#[case::uncounted(REQUESTS, json!({"cpu": "64e-4294967296"}),
    "spec.containers[0].resources.requests[cpu]: Invalid value: \"64e-4294967296\": has an exponent that can't be counted: must not be below -99")]
fn resizing_an_admitted_pod(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
    for pod in [
        admitted(),
        of_group(&[]),
        owned(mk_pod(&[MANAGED], SET, &[]), "batch/v1", "Job"),
        owned(mk_pod(&[MANAGED], NO_LIST, &[]), "batch/v1", "Job"),
        owned(mk_pod(&[MANAGED, Q[0]], &[], &[]), "batch/v1", "Job"),
        owned(
            mk_pod(&[MANAGED], &[LISTS[0], (ADMITTED, "{}")], &[]),
            "apps/v1",
            "ReplicaSet",
        ),
    ] {
        let new = resized(&pod, pointer, value.clone());
        assert_eq!(resize(USER, &pod, &new), expected);
        assert_eq!(resize(SLUICE, &pod, &new), "");
    }
}

#[rstest]
#[case::waiting(waiting())]
#[case::finished(with(admitted(), "/status", json!({"phase": "Failed"})))]
#[case::unmanaged(mk_pod(&[], &[], &[]))]
#[case::held_by_gates_alone(mk_pod(&[MANAGED], &[], &[]))]
#[case::made_for_what_gates_alone_held(owned(mk_pod(&[MANAGED], LISTS, &[]), "apps/v1", "ReplicaSet"))]
#[case::made_for_what_gates_alone_held_as_a_whole(owned(mk_pod(&[MANAGED], LISTS_WITH_SET, &[]), "apps/v1", "ReplicaSet"))]
#[case::left_by_what_gates_alone_held_as_a_whole(mk_pod(&[MANAGED], LISTS_WITH_SET, &[]))]
fn resizing_what_holds_no_quota(#[case] pod: Value) {
    let new = resized(&pod, REQUESTS, json!({"cpu": "9"}));
    assert_eq!(resize(USER, &pod, &new), "");
}

#[test]
fn pods_and_other_kinds_of_that_name_are_told_apart() {
    let other = with(
        mk_pod(&[], &[(ADMITTED, "{}")], &[]),
        "/apiVersion",
        json!("acme.io/v1"),
    );
    assert_eq!(validate(USER, None, &other).message(), "");
}

#[test]
fn only_a_controller_gives_a_pod_another_controller() {
    let of = |uid: &str| {
        let pod = owned(admitted(), "apps/v1", "StatefulSet");
        with(pod, "/metadata/ownerReferences/0/uid", json!(uid))
    };
    let refused = "metadata.ownerReferences: Forbidden: only a controller may name another one as the controller of a pod that is in a queue";
    let adopts = "system:serviceaccount:kube-system:statefulset-controller";
    for (what, user, old, new, expected) in [
        ("moved", USER, of("a"), of("b"), refused),
        ("given away", USER, admitted(), of("b"), refused),
        (
            "by an account of the namespace",
            "system:serviceaccount:n:x",
            of("a"),
            of("b"),
            refused,
        ),
        ("the same", USER, of("a"), of("a"), ""),
        ("set free", USER, of("a"), admitted(), ""),
        ("adopted", adopts, admitted(), of("b"), ""),
    ] {
        assert_eq!(
            validate(user, Some(&old), &new).message(),
            expected,
            "{what}"
        );
    }
    let plain = |uid: &str| {
        let pod = owned(mk_pod(&[], &[], &[]), "apps/v1", "StatefulSet");
        with(pod, "/metadata/ownerReferences/0/uid", json!(uid))
    };
    assert_eq!(validate(USER, Some(&plain("a")), &plain("b")).message(), "");
}
