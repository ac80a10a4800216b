//! What is in the patch, and what holds of it for any gates.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn placement(value: &Value) -> Placement {
    Placement::read(value, "spec").unwrap()
}

fn lifting(gates: Vec<&'static str>) -> Lifting<'static> {
    Lifting {
        uid: "u1",
        gates,
        add: None,
        admission: None,
        resource_version: "7",
    }
}

fn spot() -> Placement {
    placement(
        &json!({"nodeSelector": {"spot": "true"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}),
    )
}

#[rstest]
#[case::one(vec!["a.io/x"], json!({
    "metadata": {"uid": "u1"},
    "spec": {"schedulingGates": [{"$patch": "delete", "name": "a.io/x"}]},
}))]
#[case::two(vec!["a.io/x", "b.io/y"], json!({
    "metadata": {"uid": "u1"},
    "spec": {"schedulingGates": [
        {"$patch": "delete", "name": "a.io/x"}, {"$patch": "delete", "name": "b.io/y"}]},
}))]
#[case::none(vec![], json!({"metadata": {"uid": "u1"}}))]
fn gates_go_by_name(#[case] gates: Vec<&'static str>, #[case] expected: Value) {
    assert_eq!(lifting_patch(&lifting(gates)), expected);
}

#[test]
fn placement_and_record_go_with_the_gate() {
    let has = placement(&json!({
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
    }));
    let admission = PodAdmission {
        term: None,
        cluster_queue: "q".to_owned(),
        cohort: None,
        flavors: [("cpu".to_owned(), "spot".to_owned())].into(),
        at: serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap(),
        priority: None,
        job: None,
        group: None,
    };
    let lifting = Lifting {
        add: Some((&has, &spot())),
        admission: Some(&admission),
        ..lifting(vec!["sluice.dev/queue-allocation-gate"])
    };
    assert_eq!(
        lifting_patch(&lifting),
        json!({
            "metadata": {
                "uid": "u1",
                "resourceVersion": "7",
                "annotations": {"sluice.dev/admitted":
                    "{\"at\":\"2026-01-02T03:04:05Z\",\"clusterQueue\":\"q\",\"flavors\":{\"cpu\":\"spot\"}}"},
            },
            "spec": {
                "schedulingGates": [{"$patch": "delete", "name": "sluice.dev/queue-allocation-gate"}],
                "nodeSelector": {"spot": "true"},
                "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}],
            },
        })
    );
}

#[rstest]
#[case::nothing_to_add(Placement::default())]
#[case::all_there(spot())]
fn what_is_there_is_not_written_again(#[case] add: Placement) {
    let lifting = Lifting {
        add: Some((&spot(), &add)),
        ..lifting(vec![])
    };
    assert_eq!(lifting_patch(&lifting), json!({"metadata": {"uid": "u1"}}));
}

#[test]
fn labels_alone_need_no_revision() {
    let add = placement(&json!({"nodeSelector": {"zone": "a"}}));
    let lifting = Lifting {
        add: Some((&spot(), &add)),
        ..lifting(vec![])
    };
    assert_eq!(
        lifting_patch(&lifting),
        json!({"metadata": {"uid": "u1"}, "spec": {"nodeSelector": {"zone": "a"}}})
    );
}

#[test]
fn a_record_replaces_none_that_was_not_seen() {
    let admission = PodAdmission {
        term: None,
        cluster_queue: "q".to_owned(),
        cohort: None,
        flavors: BTreeMap::new(),
        at: serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap(),
        priority: None,
        job: None,
        group: None,
    };
    let lifting = Lifting {
        admission: Some(&admission),
        ..lifting(vec!["a.io/x"])
    };
    let patch = lifting_patch(&lifting);
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
}

/// What the API server makes of the gates of a pod: a delete directive for each entry, by name.
fn apply(carried: &[String], patch: &Value) -> Vec<String> {
    let gone: Vec<&str> = patch["spec"]["schedulingGates"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| {
            assert_eq!(entry["$patch"], "delete");
            entry["name"].as_str().unwrap()
        })
        .collect();
    let left = carried.iter().filter(|name| !gone.contains(&name.as_str()));
    left.cloned().collect()
}

proptest! {
    #[test]
    fn only_named_gates_are_removed(
        carried in proptest::collection::vec("[a-c]\\.io/[x-z]", 0..6),
        named in proptest::collection::vec("[a-c]\\.io/[x-z]", 0..4),
    ) {
        let lifting = Lifting {
            gates: named.iter().map(String::as_str).collect(),
            add: None,
            admission: None,
            uid: "u1",
            resource_version: "7",
        };
        let left = apply(&carried, &lifting_patch(&lifting));
        let expected: Vec<_> = carried.into_iter().filter(|name| !named.contains(name)).collect();
        prop_assert_eq!(left, expected);
    }
}
