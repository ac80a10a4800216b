use serde_json::json;
use sluice_crds::{Admission, QUEUE_GATE};

use super::*;
use crate::plan::fixtures::{mk_pod, release};

fn held_by(gates: &[&str]) -> HeldBy {
    HeldBy::Gates(gates.iter().map(|gate| (*gate).to_owned()).collect())
}

fn removed(write: Option<&Write>) -> Vec<String> {
    let Some(Write::PatchPod { patch, .. }) = write else {
        return Vec::new();
    };
    let gates = patch["spec"]["schedulingGates"].as_array().unwrap();
    let gone = gates.iter().filter(|gate| gate["$patch"] == "delete");
    gone.map(|gate| gate["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn only_gates_that_stand_for_a_lifted_annotation_are_lifted() {
    let cases = [
        ("still held", held_by(&["a.io/x"]), "a.io/x", vec![]),
        ("lifted", held_by(&[]), "a.io/x", vec!["a.io/x"]),
        (
            "one of two",
            held_by(&["a.io/x"]),
            "a.io/x,b.io/y",
            vec!["b.io/y"],
        ),
        ("nobody's annotation", held_by(&[]), "", vec![]),
        ("the owner is not known", HeldBy::Unknown, "a.io/x", vec![]),
        (
            "the annotation can't be read",
            HeldBy::All,
            "a.io/x",
            vec![],
        ),
        (
            "the queue gate, by forgery",
            held_by(&[]),
            QUEUE_GATE,
            vec![],
        ),
    ];
    for (name, held_by, propagated, expected) in cases {
        let (key, pod) = mk_pod("p", 0, &["a.io/x", "b.io/y", "other.io/z"], |pod| {
            pod["metadata"]["annotations"]["sluice.dev/propagated-gates"] = json!(propagated);
        });
        assert_eq!(
            removed(lift(&key, &pod, &held_by).as_ref()),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_pod_without_a_controller_loses_the_gates_that_were_its_own() {
    let lifted =
        |gate: &str, uid: &str| json!([{"gate": gate, "by": "ann", "uid": uid}]).to_string();
    let cases = [
        ("came down", None, None, held_by(&["a.io/x"])),
        ("its own", Some("a.io/x"), None, held_by(&["a.io/x"])),
        (
            "lifted",
            None,
            Some(lifted("a.io/x", "uid-p")),
            held_by(&[]),
        ),
        (
            "lifted elsewhere",
            None,
            Some(lifted("a.io/x", "u9")),
            held_by(&["a.io/x"]),
        ),
        (
            "another was",
            None,
            Some(lifted("b.io/y", "uid-p")),
            held_by(&["a.io/x"]),
        ),
    ];
    for (name, own, record, expected) in cases {
        let (_, pod) = mk_pod("p", 0, &["a.io/x"], |pod| {
            let annotations = &mut pod["metadata"]["annotations"];
            annotations["sluice.dev/propagated-gates"] = json!("a.io/x");
            if let Some(own) = own {
                annotations["kueue.x-k8s.io/scheduling-gated-by"] = json!(own);
            }
            if let Some(record) = record {
                annotations["sluice.dev/lifted-gates"] = json!(record);
            }
            pod["metadata"]["uid"] = json!("uid-p");
            pod["metadata"]["ownerReferences"] = json!([]);
        });
        assert_eq!(held_by_itself(&pod), expected, "{name}");
        let is_left = own.is_none() && expected != held_by(&[]);
        assert_eq!(left_gated(&pod).is_some(), is_left, "{name}");
    }
}

#[test]
fn as_many_pods_are_ungated_as_were_admitted_the_oldest_first() {
    let admission: Admission = serde_json::from_value(json!({
        "clusterQueue": "cq",
        "podSetAssignments": [{"name": "main", "count": 3}],
    }))
    .unwrap();
    let waits = |name, minute| mk_pod(name, minute, &[], |_| ());
    let runs = |name| mk_pod(name, 0, &[], release);
    let gated = |name| mk_pod(name, 0, &["a.io/x"], |_| ());
    let ended = |name| {
        mk_pod(name, 0, &[], |pod| {
            release(pod);
            pod["status"]["phase"] = json!("Succeeded");
        })
    };
    let terminating = |name| {
        mk_pod(name, 0, &[], |pod| {
            release(pod);
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
        })
    };
    let cases = [
        (
            "all wait",
            vec![waits("d", 4), waits("b", 2), waits("a", 1), waits("c", 3)],
            "",
            "",
            "a b c",
        ),
        (
            "two run",
            vec![runs("x"), runs("y"), waits("b", 2), waits("a", 1)],
            "",
            "",
            "a",
        ),
        (
            "a terminating pod counts until it is gone",
            vec![terminating("x"), runs("y"), runs("z"), waits("a", 1)],
            "",
            "",
            "",
        ),
        (
            "an ended pod is replaced",
            vec![ended("x"), runs("y"), runs("z"), waits("a", 1)],
            "",
            "",
            "a",
        ),
        (
            "a pod with another gate is passed",
            vec![gated("x"), waits("a", 1)],
            "",
            "",
            "a",
        ),
        (
            "an in-flight release counts",
            vec![waits("a", 1), waits("b", 2), runs("x"), runs("y")],
            "a",
            "",
            "",
        ),
        (
            "one that rests keeps its place",
            vec![waits("a", 1), waits("b", 2), runs("x"), runs("y")],
            "",
            "a",
            "",
        ),
    ];
    for (name, pods, leaving, busy, expected) in cases {
        let members: Vec<Member<'_>> = pods
            .iter()
            .map(|(key, pod)| Member {
                key,
                pod,
                pod_set: "main",
                is_busy: *key.name == *busy || *key.name == *leaving,
                is_leaving: *key.name == *leaving,
            })
            .collect();
        let chosen = releases(&members, &admission, |_| 0);
        let names: Vec<&str> = chosen.iter().map(|(member, _)| &*member.key.name).collect();
        assert_eq!(names.join(" "), expected, "{name}");
    }
}

#[test]
fn a_pod_is_admitted_by_one_patch_with_its_record() {
    let (key, pod) = mk_pod("p", 0, &[], |_| ());
    let admission = PodAdmission {
        term: None,
        cluster_queue: "cq".to_owned(),
        cohort: None,
        flavors: [("cpu".to_owned(), "spot".to_owned())].into(),
        at: serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap(),
        priority: None,
        job: None,
        group: None,
    };
    let placement = Placement {
        node_selector: [("spot".to_owned(), "true".to_owned())].into(),
        tolerations: Vec::new(),
    };
    let Some(Write::PatchPod { patch, .. }) = admit(&key, &pod, &admission, &placement) else {
        panic!("no patch");
    };
    assert_eq!(
        patch,
        json!({
            "metadata": {"uid": "uid-p", "resourceVersion": "7", "annotations": {"sluice.dev/admitted":
                r#"{"at":"2026-01-01T00:00:00Z","clusterQueue":"cq","flavors":{"cpu":"spot"}}"#}},
            "spec": {
                "schedulingGates": [{"$patch": "delete", "name": QUEUE_GATE}],
                "nodeSelector": {"spot": "true"},
            },
        })
    );
}
