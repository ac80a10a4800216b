//! What is put on new pods that wait.
#![allow(clippy::needless_pass_by_value)]

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::fixtures::{
    ALIAS, GATED, POD_GROUP_TOTAL, QUEUE, gate_names, gated, group, mk_pod, owned, queue_gates,
    view,
};
use crate::gates::scheduling::scheduling_gates;
use crate::read::pod::PodMode;
use crate::read::view::QueueLabels;

const LISTED: &str = "sluice.dev/propagated-gates";

fn bare(labels: Value, annotations: Value) -> Value {
    mk_pod(labels, annotations)
}

/// Of a SparkApplication there is only the metadata of its pods: they list its gates.
#[rstest]
#[case::gated(json!({LISTED: "a.io/x,b.io/y"}), Some(PodHold::Gates), &["a.io/x", "b.io/y"])]
#[case::gated_and_queued(
    json!({LISTED: "a.io/x", QUEUE_GATE: "true"}), Some(PodHold::Single), &[QUEUE_GATE, "a.io/x"])]
#[case::neither(json!({LISTED: ""}), None, &[])]
fn the_gates_of_what_waits_by_its_pods(
    #[case] annotations: Value,
    #[case] expected: Option<PodHold>,
    #[case] gates: &[&str],
) {
    let mut pod = owned(bare(json!({}), annotations), "s.io/v1", "SparkApplication");
    let made_for = MadeFor::GatedByPods;
    let hold = PodHold::at_creation(&pod, &QueueLabels::default(), &queue_gates(), made_for);
    assert_eq!(hold, expected);
    let before = pod["metadata"]["annotations"][LISTED].clone();
    let Some(hold) = hold else { return };
    let patch = hold.patch(&pod, &queue_gates(), made_for);
    json_patch::patch(&mut pod, &patch).unwrap();
    assert!(scheduling_gates(&pod).eq(gates.iter().copied()), "{pod}");
    assert_eq!(pod["metadata"]["annotations"][LISTED], before);
    assert_eq!(pod["metadata"]["labels"]["sluice.dev/managed"], "true");
    let again = hold.patch(&pod, &queue_gates(), made_for);
    assert!(again.0.is_empty(), "{again}");
}

fn held(mut pod: Value) -> Value {
    let hold = PodHold::at_creation(
        &pod,
        &QueueLabels::default(),
        &queue_gates(),
        MadeFor::Unknown,
    )
    .unwrap();
    let patch = hold.patch(&pod, &queue_gates(), MadeFor::Unknown);
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
    assert_eq!(gate_names(&view(&pod).propagated), ["b.io/y"]);
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
    assert_eq!(gate_names(&view(&held(listed())).propagated), ["b.io/y"]);
    // What came down from an owner was judged there.
    let owned = held(owned(listed(), "apps/v1", "ReplicaSet"));
    assert_eq!(gate_names(&view(&owned).propagated), ["acme.io/x"]);
}

#[test]
fn a_pod_that_does_not_wait_lists_nothing() {
    let mut pod = bare(
        json!({}),
        json!({"sluice.dev/propagated-gates": "acme.io/x", "a": "b"}),
    );
    assert!(unheld_patch(&owned(pod.clone(), "batch/v1", "Job")).is_empty());
    let patch = unheld_patch(&pod);
    json_patch::patch(&mut pod, &patch).unwrap();
    assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
    assert!(unheld_patch(&pod).is_empty());
}

/// KubeRay copies the labels of a group over those of its template, where Sluice wrote the mark.
#[test]
fn a_pod_that_hides_is_marked_again() {
    let managed = |value: &str| json!({"a": "b", "sluice.dev/managed": value});
    let mut pod = owned(bare(managed("false"), json!({})), "ray.io/v1", "RayCluster");
    let patch = unheld_patch(&pod);
    json_patch::patch(&mut pod, &patch).unwrap();
    assert_eq!(pod["metadata"]["labels"], managed("true"));
    assert!(unheld_patch(&pod).is_empty());
    // Nor do those that never said so get the mark, nor copies of manifests on a node.
    let mirror = json!({"kubernetes.io/config.mirror": "x"});
    for pod in [bare(json!({}), json!({})), bare(managed("false"), mirror)] {
        assert!(unheld_patch(&pod).is_empty(), "{pod}");
    }
    let held = held(bare(
        json!({QUEUE: "a", "sluice.dev/managed": "no"}),
        json!({}),
    ));
    assert_eq!(held["metadata"]["labels"]["sluice.dev/managed"], "true");
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
            let patch = hold.patch(&pod, &queue_gates(), MadeFor::Unknown);
            json_patch::patch(&mut pod, &patch).unwrap();
            prop_assert!(hold.patch(&pod, &queue_gates(), MadeFor::Unknown).is_empty());
            let after: Vec<_> = scheduling_gates(&pod).take(carried.len()).collect();
            prop_assert_eq!(&after, &carried, "what was there stays first and in order");
            prop_assert_eq!(hold == PodHold::Gates || queue_gates().carried(&pod).is_some(), true);
        }
    }
}
