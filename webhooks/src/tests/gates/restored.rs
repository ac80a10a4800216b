//! Objects that are created from what was stored of an earlier one: a backup, or the output of kubectl.

use rstest::rstest;
use serde_json::{Value, json};

use crate::rules::lifting::forget::RECORDS;
use crate::tests::*;

const ONE: &str = "acme.io/one";
const TWO: &str = "acme.io/two";
const LIFTED: &str = "sluice.dev/lifted-gates";
const BOTH: &[(&str, &str)] = &[(GATES, "acme.io/one,acme.io/two")];
const Q: &[(&str, &str)] = &[(QUEUE, "q")];

/// What is stored of an object with both gates after one of them, or both, were lifted.
fn stored(object: &Value, left: Option<&str>) -> Value {
    let (mut object, _) = created_by(USER, object, &mk_policy());
    let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
    match left {
        Some(left) => annotations.insert(GATES.to_owned(), json!(left)),
        None => annotations.remove(GATES),
    };
    let lifted = [ONE, TWO].into_iter().filter(|gate| left != Some(gate));
    let lifted: Value = lifted
        .map(|gate| json!({"gate": gate, "by": "ann", "uid": "u0"}))
        .collect();
    annotations.insert(LIFTED.to_owned(), json!(lifted.to_string()));
    for key in RECORDS {
        annotations.entry(key).or_insert_with(|| json!("u0"));
    }
    object
}

fn gates_of(object: &Value) -> Vec<&str> {
    let gates = object["spec"]["template"]["spec"]["schedulingGates"].as_array();
    let gates = gates.into_iter().flatten();
    gates.map(|gate| gate["name"].as_str().unwrap()).collect()
}

#[rstest]
#[case::job(mk_job(Q, BOTH, true))]
#[case::job_by_the_pod(mk_job(Q, &[BOTH[0], ("sluice.dev/admission", "PerPod")], true))]
#[case::deployment(mk_deployment(Q, BOTH))]
#[case::deployment_without_a_queue(mk_deployment(&[], BOTH))]
#[case::pod(mk_pod(Q, BOTH, &[]))]
fn what_was_stored_can_be_created_again(#[case] object: Value) {
    for left in [Some(TWO), None] {
        let stored = stored(&object, left);
        let (again, verdict) = created_by(USER, &stored, &mk_policy());
        assert_eq!(verdict.message(), "");
        let annotations = again["metadata"]["annotations"].as_object().unwrap();
        assert!(
            !RECORDS.iter().any(|key| annotations.contains_key(*key)),
            "{again}"
        );
        if object["kind"] == "Pod" {
            continue;
        }
        // Nobody would lift it: it is in no annotation any more.
        assert!(!gates_of(&again).contains(&ONE), "{again}");
        let is_held = object["kind"] != "Job"
            || again["metadata"]["annotations"]
                .get("sluice.dev/admission")
                .is_some();
        assert_eq!(
            gates_of(&again).contains(&TWO),
            is_held && left.is_some(),
            "{again}"
        );
    }
}

#[test]
fn a_child_keeps_what_came_from_its_owner() {
    let child = owned(
        mk_job(&[], &[], false),
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
    );
    let child = with(child, "/metadata/annotations", json!({LIFTED: "[]"}));
    let request = mk_request(JOBSET_CONTROLLER, None, &child);
    assert_eq!(crate::review::mutate(&request, &mk_policy()).patch, []);
}
