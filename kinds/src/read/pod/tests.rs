//! What is seen of pods, case by case.
#![allow(clippy::needless_pass_by_value)]

use rstest::rstest;
use serde_json::json;
use sluice_crds::QUEUE_GATE;

use super::*;
use crate::fixtures::{
    ALIAS, GATED, POD_GROUP_TOTAL, QUEUE, gate_names, gated, group, mk_pod, owned, view,
};

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
    assert_eq!(view.queue, LabelledQueue::Named("a".to_owned()));
    assert_eq!(view.mode, PodMode::Single);
    assert_eq!(view.queue_gate.as_deref(), Some(QUEUE_GATE));
    assert_eq!(gate_names(&view.other_gates), ["acme.io/x", "b.io/y"]);
    assert_eq!(gate_names(&view.propagated), ["b.io/y", "c.io/z"]);
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
    assert_eq!(view.queue, LabelledQueue::None);
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

/// The kubelet says of a pod that is deleted, and whose containers then end with 0, that it has succeeded.
#[rstest]
#[case::deleted("Always", true, PodPhase::Failed)]
#[case::kept("Always", false, PodPhase::Succeeded)]
#[case::ended_by_itself("Never", true, PodPhase::Succeeded)]
fn what_is_stopped_by_its_deletion_has_not_succeeded(
    #[case] restarts: &str,
    #[case] is_deleted: bool,
    #[case] expected: PodPhase,
) {
    let mut pod = mk_pod(json!({}), json!({}));
    pod["spec"]["restartPolicy"] = json!(restarts);
    pod["status"] = json!({"phase": "Succeeded"});
    if is_deleted {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    }
    assert_eq!(view(&pod).phase, expected);
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut pod = mk_pod(json!({QUEUE: "A!"}), json!({ADMITTED_ANNOTATION: "yes"}));
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("-1");
    let view = view(&pod);
    assert!(matches!(view.queue, LabelledQueue::Invalid(_)));
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
    let long = "x".repeat(62);
    let too_long = format!(
        "metadata.annotations[sluice.dev/pod-group-labels]: Invalid value: \"{long}-0\": names labels whose values, joined by '-', are the name of the group: must be no more than 63 characters"
    );
    for (labels, annotations, expected) in [
        (
            json!({"a.io/set": long, "a.io/index": "0"}),
            marks.clone(),
            too_long.as_str(),
        ),
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

/// It is kept for as long as it waits. What runs uses quota, whatever its user adds.
#[test]
fn what_a_pod_that_waits_asks_for_is_bounded() {
    let pod = |tolerations: usize, values: usize| {
        let mut pod = mk_pod(json!({QUEUE: "a"}), json!({}));
        let toleration = json!({"key": "a", "operator": "Exists"});
        pod["spec"]["tolerations"] = json!(vec![toleration; tolerations]);
        let term = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": vec!["b"; values]}]});
        pod["spec"]["affinity"] = json!({"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        pod
    };
    let told = |pod| match view(&gated(pod, &[QUEUE_GATE])).asks {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(told(pod(256, 2000)), Vec::<String>::new());
    assert_eq!(
        told(pod(257, 3000)),
        [
            "spec.tolerations: Too many: 257: a pod that waits must have at most 256 tolerations",
            "spec.affinity.nodeAffinity: Too many: 3001: a pod that waits must have at most 2048 values",
        ]
    );
    assert!(view(&pod(40_000, 3000)).asks.is_ok());
    let claim = json!({"name": "gpu", "resourceClaimTemplateName": "one"});
    let mut claims = pod(0, 0);
    claims["spec"]["resourceClaims"] = json!(vec![claim; 65]);
    assert_eq!(view(&claims).asks.unwrap().claims.len(), 65);
    assert_eq!(
        told(claims),
        ["spec.resourceClaims: Too many: 65: a pod that waits must have at most 64 claims"]
    );
}

/// As kube-scheduler counts them: the node has what the status says until the kubelet has resized the pod.
#[rstest]
#[case::not_resized(json!({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"},
    "resources": {"requests": {"cpu": "1"}}}]}), "1")]
#[case::not_begun(json!({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "4"}}]}), "4")]
#[case::allocated(json!({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"},
    "resources": {"requests": {"cpu": "3500m"}}}]}), "3500m")]
#[case::to_grow(json!({"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}), "1")]
#[case::of_another(json!({"containerStatuses": [{"name": "d", "allocatedResources": {"cpu": "4"}}]}), "1")]
#[case::sum_of_the_containers(json!({"allocatedResources": {"cpu": "4"}}), "1")]
#[case::odd(json!({"containerStatuses": [7, {"name": "c", "allocatedResources": {"cpu": "x"}, "resources": 7}]}), "1")]
fn a_pod_that_shrinks_has_what_its_node_has_not_taken(
    #[case] status: Value,
    #[case] expected: &str,
) {
    let mut pod = mk_pod(json!({}), json!({}));
    pod["spec"]["containers"] =
        json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}, {"name": "e"}]);
    pod["status"] = status;
    let cpu = view(&pod).asks.unwrap().requests["cpu"];
    assert_eq!(Quantity::of("cpu", cpu).0, expected);
}

#[test]
fn sidecars_and_whole_pods_shrink_the_same() {
    let mut pod = mk_pod(json!({}), json!({}));
    let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
    pod["spec"]["containers"] = json!([{"name": "c", "resources": asks("1")}]);
    pod["spec"]["initContainers"] =
        json!([{"name": "s", "restartPolicy": "Always", "resources": asks("1")}]);
    pod["status"] =
        json!({"initContainerStatuses": [{"name": "s", "allocatedResources": {"cpu": "2"}}]});
    assert_eq!(
        view(&pod).asks.unwrap().requests["cpu"],
        3 * sluice_crds::quantity::NANOS
    );
    pod["spec"]["resources"] = asks("1");
    pod["status"] = json!({"resources": asks("5"), "allocatedResources": {"cpu": "1"}});
    assert_eq!(
        view(&pod).asks.unwrap().requests["cpu"],
        5 * sluice_crds::quantity::NANOS
    );
}
