//! What is seen of pods, case by case, and how new ones are made to wait.
#![allow(clippy::needless_pass_by_value)]

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

const ALIAS: &str = "scheduling.volcano.sh/queue-allocation-gate";
const QUEUE: &str = "sluice.dev/queue-name";
const GATED: &str = "kueue.x-k8s.io/scheduling-gated-by";

fn gates() -> QueueGates {
    QueueGates::new([ALIAS.to_owned()])
}

/// A pod of 1 cpu with these labels and annotations.
fn mk_pod(labels: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    })
}

fn owned(mut pod: Value, api_version: &str, kind: &str) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u0", "controller": true}]);
    pod
}

fn gated(mut pod: Value, names: &[&str]) -> Value {
    pod["spec"]["schedulingGates"] = names.iter().map(|name| json!({"name": name})).collect();
    pod
}

fn view(pod: &Value) -> PodView {
    PodView::read(pod, &QueueLabels::default(), &gates())
}

fn names(gates: &[Arc<str>]) -> Vec<&str> {
    gates.iter().map(|name| &**name).collect()
}

#[test]
fn all_that_matters_is_read() {
    let mut pod = gated(
        mk_pod(
            json!({QUEUE: "a", "sluice.dev/priority-class": "high", "sluice.dev/managed": "true"}),
            json!({
                QUEUE_GATE: "true",
                GATED: "b.io/y",
                POD_SET_ANNOTATION: "workers",
                "sluice.dev/propagated-gates": "b.io/y,c.io/z",
                ADMITTED_ANNOTATION: "{\"clusterQueue\":\"q\",\"flavors\":{\"cpu\":\"spot\"},\"at\":\"2026-01-02T03:04:05Z\"}",
            }),
        ),
        &["acme.io/x", QUEUE_GATE, "b.io/y"],
    );
    pod["spec"]["priority"] = json!(7);
    pod["spec"]["priorityClassName"] = json!("seven");
    pod["spec"]["nodeName"] = json!("n1");
    pod["status"] = json!({"phase": "Running"});
    let view = view(&pod);
    assert_eq!(view.queue, QueueName::Named("a".to_owned()));
    assert_eq!(view.mode, PodMode::Single);
    assert_eq!(view.queue_gate.as_deref(), Some(QUEUE_GATE));
    assert_eq!(names(&view.other_gates), ["acme.io/x", "b.io/y"]);
    assert_eq!(names(&view.propagated), ["b.io/y", "c.io/z"]);
    assert_eq!(view.propagated_left().count(), 1);
    assert!(view.gates.is_held());
    assert_eq!(view.priority_class_label.as_deref(), Some("high"));
    assert_eq!(view.priority, Some(7));
    assert_eq!(view.priority_class.as_deref(), Some("seven"));
    assert_eq!(view.phase, PodPhase::Live);
    assert!(view.is_bound);
    assert_eq!(view.pod_set.as_deref(), Some("workers"));
    let admission = view.admitted.unwrap().unwrap();
    assert_eq!(admission.cluster_queue, "q");
    assert_eq!(admission.flavors["cpu"], "spot");
    let asks = view.asks.unwrap();
    assert_eq!((&*asks.name, asks.count), ("main", 1));
    assert_eq!(asks.requests["cpu"], sluice_crds::quantity::NANOS);
    assert!(asks.has_external_gates, "acme.io/x is somebody else's");
}

#[rstest]
#[case::nothing(json!({}))]
#[case::null(Value::Null)]
#[case::odd(json!({"metadata": 7, "spec": [], "status": "x"}))]
#[case::odd_below(json!({"metadata": {"labels": [], "annotations": 7},
    "spec": {"schedulingGates": {"name": 7}, "nodeName": 7, "priority": 1e99}, "status": {"phase": 7}}))]
fn what_is_no_pod_is_read_as_nothing(#[case] pod: Value) {
    let view = view(&pod);
    assert_eq!(view.queue, QueueName::None);
    assert_eq!(view.mode, PodMode::Child);
    assert_eq!(view.queue_gate, None);
    assert!(view.other_gates.is_empty() && !view.is_bound);
    assert_eq!(view.phase, PodPhase::Live);
}

#[rstest]
#[case::own(&[QUEUE_GATE], Some(QUEUE_GATE), false)]
#[case::alias(&[ALIAS], Some(ALIAS), false)]
#[case::own_and_external(&["acme.io/x", QUEUE_GATE], Some(QUEUE_GATE), true)]
#[case::external(&["acme.io/x"], None, true)]
#[case::none(&[], None, false)]
fn gates_are_told_apart(
    #[case] carried: &[&str],
    #[case] queue_gate: Option<&str>,
    #[case] has_external: bool,
) {
    let view = view(&gated(mk_pod(json!({}), json!({})), carried));
    assert_eq!(view.queue_gate.as_deref(), queue_gate);
    assert_eq!(view.asks.unwrap().has_external_gates, has_external);
}

#[rstest]
#[case::succeeded("Succeeded", PodPhase::Succeeded)]
#[case::failed("Failed", PodPhase::Failed)]
#[case::pending("Pending", PodPhase::Live)]
#[case::unknown("Unknown", PodPhase::Live)]
fn phases(#[case] phase: &str, #[case] expected: PodPhase) {
    let mut pod = mk_pod(json!({}), json!({}));
    pod["status"] = json!({"phase": phase});
    assert_eq!(view(&pod).phase, expected);
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut pod = mk_pod(json!({QUEUE: "A!"}), json!({ADMITTED_ANNOTATION: "yes"}));
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("-1");
    let view = view(&pod);
    assert!(matches!(view.queue, QueueName::Invalid(_)));
    assert_eq!(
        view.admitted.unwrap().unwrap_err().to_string(),
        "metadata.annotations[sluice.dev/admitted]: Invalid value: \"yes\": must be the record of an \
         admission: expected value at line 1 column 1"
    );
    assert_eq!(
        view.asks.unwrap_err()[0].to_string(),
        "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or \
         equal to 0"
    );
}

#[rstest]
#[case::waits_by_itself(json!({QUEUE: "q"}), true, false, None)]
#[case::waits_in_a_group(json!({QUEUE: "q", POD_GROUP_LABEL: "g"}), true, false, None)]
#[case::runs_by_itself(json!({QUEUE: "q"}), false, false, Some(0))]
#[case::waits_with_its_job(json!({}), true, true, Some(1))]
#[case::runs_with_its_job(json!({}), false, true, Some(1))]
fn claims_are_counted_with_a_job_alone(
    #[case] labels: Value,
    #[case] waits: bool,
    #[case] is_child: bool,
    #[case] claims: Option<usize>,
) {
    let annotations = if is_child {
        json!({})
    } else {
        json!({QUEUE_GATE: "true"})
    };
    let is_member = labels.get(POD_GROUP_LABEL).is_some();
    let annotations = if is_member {
        json!({POD_GROUP_TOTAL: "2"})
    } else {
        annotations
    };
    let mut pod = mk_pod(labels, annotations);
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
    let gates: &[&str] = if waits { &[QUEUE_GATE] } else { &[] };
    let pod = view(&gated(pod, gates));
    let usage = pod.usage();
    assert_eq!(
        usage.as_ref().ok().map(|set| set.claims.len()),
        claims,
        "{usage:?}"
    );
    let asks = pod.asks.unwrap();
    assert_eq!(asks.claims.len(), 1);
    if let Err(problems) = usage {
        let told = problems[0].to_string();
        let expected = "spec.resourceClaims[0]: Invalid value: \"gpu\": devices of a claim can't be counted \
                        for a pod that is admitted by itself or in a group";
        assert!(told.starts_with(expected), "{told}");
    }
}

fn group(name: &str, total: Option<&str>, retriable: Option<&str>) -> Value {
    let mut annotations = json!({});
    if let Some(total) = total {
        annotations[POD_GROUP_TOTAL] = json!(total);
    }
    if let Some(retriable) = retriable {
        annotations["sluice.dev/retriable-in-group"] = json!(retriable);
    }
    mk_pod(json!({POD_GROUP_LABEL: name}), annotations)
}

const POD_GROUP_TOTAL: &str = "sluice.dev/pod-group-total-count";
const TOTAL_RULE: &str = "must be a whole number between 1 and 1000";

#[rstest]
#[case::plain(group("g", Some("3"), None), 3, true)]
#[case::one(group("g", Some("1"), Some("true")), 1, true)]
#[case::most(group("g", Some("1000"), Some("false")), 1000, false)]
fn a_group(#[case] pod: Value, #[case] total: u32, #[case] is_retriable: bool) {
    let expected = PodGroup {
        name: "g".into(),
        total,
        is_retriable,
    };
    assert_eq!(view(&pod).mode, PodMode::Group(Ok(expected)));
    // What a controller makes belongs to that.
    let mut child = owned(pod, "batch/v1", "Job");
    assert_eq!(view(&child).mode, PodMode::Child);
    // Unless it was admitted with its group: its quota stays there, whatever adopts it.
    child["metadata"]["annotations"][ADMITTED_ANNOTATION] = json!("{}");
    assert!(matches!(view(&child).mode, PodMode::Group(Ok(_))));
    child["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(POD_GROUP_TOTAL);
    assert_eq!(view(&child).mode, PodMode::Child);
}

#[rstest]
#[case::no_total(
    group("g", None, None),
    "metadata.annotations[sluice.dev/pod-group-total-count]: Required value: must say how many pods \
     the group has"
)]
#[case::zero(group("g", Some("0"), None), &format!(
    "metadata.annotations[sluice.dev/pod-group-total-count]: Invalid value: \"0\": {TOTAL_RULE}"))]
#[case::too_many(group("g", Some("1001"), None), &format!(
    "metadata.annotations[sluice.dev/pod-group-total-count]: Invalid value: \"1001\": {TOTAL_RULE}"))]
#[case::no_number(group("g", Some("two"), None), &format!(
    "metadata.annotations[sluice.dev/pod-group-total-count]: Invalid value: \"two\": {TOTAL_RULE}"))]
#[case::retriable(
    group("g", Some("1"), Some("no")),
    "metadata.annotations[sluice.dev/retriable-in-group]: Unsupported value: \"no\": supported \
     values: \"false\", \"true\""
)]
fn a_bad_group(#[case] pod: Value, #[case] expected: &str) {
    let PodMode::Group(Err(problem)) = view(&pod).mode else {
        panic!("not refused");
    };
    assert_eq!(problem.to_string(), expected);
}

#[test]
fn a_bad_group_name_and_a_total_without_a_group() {
    let problems = PodGroup::read(&group("G!", Some("1"), None)).unwrap_err();
    let start =
        "metadata.labels[sluice.dev/pod-group-name]: Invalid value: \"G!\": a lowercase RFC 1123";
    assert!(
        problems[0].to_string().starts_with(start),
        "{}",
        problems[0]
    );
    let problems = PodGroup::read(&mk_pod(json!({}), json!({POD_GROUP_TOTAL: "2"}))).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "metadata.labels[sluice.dev/pod-group-name]: Required value: must name the group whose pods \
         sluice.dev/pod-group-total-count counts"
    );
    assert_eq!(PodGroup::read(&mk_pod(json!({}), json!({}))), Ok(None));
}

#[test]
fn a_group_that_a_controller_makes() {
    let marks = json!({(QUEUE_GATE): "true", "sluice.dev/pod-group-labels": "a.io/set,a.io/index",
        "sluice.dev/pod-group-total-from": "a.io/size", "a.io/size": "5"});
    let labels = json!({"a.io/set": "serve", "a.io/index": "0"});
    let mode = |labels: &Value, annotations: &Value| {
        let pod = owned(
            mk_pod(labels.clone(), annotations.clone()),
            "apps/v1",
            "StatefulSet",
        );
        view(&pod).mode
    };
    let group = PodGroup {
        name: "serve-0".into(),
        total: 5,
        is_retriable: true,
    };
    assert_eq!(mode(&labels, &marks), PodMode::Group(Ok(group)));
    let changed = |key: &str, value: Value| {
        let mut changed = marks.clone();
        changed[key] = value;
        changed
    };
    let none = changed("sluice.dev/pod-group-labels", json!(""));
    assert_eq!(mode(&labels, &none), PodMode::Single);
    let not_asked = changed(QUEUE_GATE, json!("false"));
    assert_eq!(mode(&labels, &not_asked), PodMode::Child);
    for (labels, annotations, expected) in [
        (
            json!({"a.io/set": "serve"}),
            marks.clone(),
            "metadata.labels[a.io/index]: Required value: must be set: sluice.dev/pod-group-labels names it as part of the group name",
        ),
        (
            labels.clone(),
            changed("a.io/size", json!("0")),
            "metadata.annotations[a.io/size]: Invalid value: \"0\": must be a whole number between 1 and 1000",
        ),
        (
            labels.clone(),
            changed("sluice.dev/pod-group-total-from", json!("a.io/other")),
            "metadata.annotations[a.io/other]: Required value: must say how many pods the group has",
        ),
    ] {
        let PodMode::Group(Err(problem)) = mode(&labels, &annotations) else {
            panic!("{expected}");
        };
        assert_eq!(problem.to_string(), expected);
    }
}

fn bare(labels: Value, annotations: Value) -> Value {
    mk_pod(labels, annotations)
}

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
    let hold = PodHold::at_creation(&pod, &QueueLabels::default(), &gates(), false);
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
    let hold =
        |is_believed| PodHold::at_creation(&pod, &QueueLabels::default(), &gates(), is_believed);
    assert_eq!(hold(true), believed);
    assert_eq!(hold(false), Some(PodHold::Single));
}

fn held(mut pod: Value) -> Value {
    let hold = PodHold::at_creation(&pod, &QueueLabels::default(), &gates(), false).unwrap();
    let patch = hold.patch(&pod, &gates());
    json_patch::patch(&mut pod, &patch).unwrap();
    pod
}

#[test]
fn a_single_pod_is_gated_and_marked() {
    let pod = held(gated(
        bare(json!({QUEUE: "a"}), json!({GATED: "b.io/y"})),
        &["acme.io/x"],
    ));
    assert_eq!(
        pod["metadata"]["labels"],
        json!({QUEUE: "a", "sluice.dev/managed": "true"})
    );
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({GATED: "b.io/y", QUEUE_GATE: "true", "sluice.dev/propagated-gates": "b.io/y"})
    );
    assert_eq!(
        pod["spec"]["schedulingGates"],
        json!([{"name": "acme.io/x"}, {"name": QUEUE_GATE}, {"name": "b.io/y"}])
    );
}

#[test]
fn an_alias_is_mark_and_gate() {
    let pod = held(bare(json!({}), json!({ALIAS: "true"})));
    assert_eq!(pod["metadata"]["annotations"], json!({ALIAS: "true"}));
    assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": ALIAS}]));
    assert_eq!(view(&pod).mode, PodMode::Single);
}

#[test]
fn a_pod_of_a_group_is_gated_and_not_marked() {
    let pod = held(group("g", Some("2"), None));
    assert_eq!(
        pod["spec"]["schedulingGates"],
        json!([{"name": QUEUE_GATE}])
    );
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({POD_GROUP_TOTAL: "2"})
    );
    assert!(matches!(view(&pod).mode, PodMode::Group(Ok(_))));
}

#[test]
fn gates_alone_bring_no_queue_gate() {
    let pod = held(bare(json!({}), json!({GATED: "b.io/y"})));
    assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": "b.io/y"}]));
    assert_eq!(view(&pod).queue_gate, None);
    assert_eq!(names(&view(&pod).propagated), ["b.io/y"]);
}

#[test]
fn names_listed_without_a_gate_are_dropped() {
    let pod = held(bare(
        json!({QUEUE: "a"}),
        json!({"sluice.dev/propagated-gates": "acme.io/x"}),
    ));
    assert_eq!(pod["metadata"]["annotations"], json!({QUEUE_GATE: "true"}));
}

#[test]
fn the_gates_of_others_are_not_listed() {
    let listed = || {
        let annotations = json!({GATED: "b.io/y", "sluice.dev/propagated-gates": "acme.io/x"});
        gated(bare(json!({QUEUE: "a"}), annotations), &["acme.io/x"])
    };
    assert_eq!(names(&view(&held(listed())).propagated), ["b.io/y"]);
    // What came down from an owner was judged there.
    let owned = held(owned(listed(), "apps/v1", "ReplicaSet"));
    assert_eq!(names(&view(&owned).propagated), ["acme.io/x"]);
}

#[test]
fn a_pod_that_does_not_wait_lists_nothing() {
    let mut pod = bare(
        json!({}),
        json!({"sluice.dev/propagated-gates": "acme.io/x", "a": "b"}),
    );
    assert!(unlist_patch(&owned(pod.clone(), "batch/v1", "Job")).is_empty());
    let patch = unlist_patch(&pod);
    json_patch::patch(&mut pod, &patch).unwrap();
    assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
    assert!(unlist_patch(&pod).is_empty());
}

proptest! {
    #[test]
    fn twice_is_once(
        queue in proptest::option::of("[a-z]"),
        gate in proptest::option::of("[a-z~]{1,3}\\.io/[a-z~]{1,3}"),
        mark in proptest::option::of(prop_oneof![Just("true"), Just("false"), Just("x")]),
        listed in proptest::option::of("[a-b]\\.io/x(,[a-b]\\.io/x)?"),
        carried in proptest::option::of(proptest::collection::vec(
            prop_oneof![Just("a.io/x"), Just("b.io/x"), Just(QUEUE_GATE), Just(ALIAS)], 0..3)),
        has_metadata: bool,
    ) {
        let mut pod = mk_pod(json!({}), json!({}));
        let entries = [
            ("labels", QUEUE, queue.as_deref()), ("annotations", GATED, gate.as_deref()),
            ("annotations", ALIAS, mark), ("annotations", "sluice.dev/propagated-gates", listed.as_deref()),
        ];
        for (map, key, value) in entries {
            if let Some(value) = value {
                pod["metadata"][map][key] = json!(value);
            }
        }
        if !has_metadata {
            pod.as_object_mut().unwrap().remove("metadata");
        }
        let carried = carried.unwrap_or_default();
        pod = gated(pod, &carried);
        for hold in [PodHold::Single, PodHold::Group, PodHold::Gates] {
            let mut pod = pod.clone();
            let patch = hold.patch(&pod, &gates());
            json_patch::patch(&mut pod, &patch).unwrap();
            prop_assert!(hold.patch(&pod, &gates()).is_empty());
            let after: Vec<_> = scheduling_gates(&pod).take(carried.len()).collect();
            prop_assert_eq!(&after, &carried, "what was there stays first and in order");
            prop_assert_eq!(hold == PodHold::Gates || gates().carried(&pod).is_some(), true);
        }
    }
}
