//! Where a job stands that will do with fewer pods than it has.

use super::*;

const MIN: &str = "sluice.dev/min-parallelism";

/// A job of so many pods that says so of how many will do, in a queue.
fn partial(suspended: bool, parallelism: u32, min: &str) -> Value {
    let job = mk_job(json!({QUEUED: "main"}), json!({MIN: min}), suspended);
    with(job, "/spec/parallelism", json!(parallelism))
}

/// The Workload of such a job of 4 pods of which 2 will do, as it is with `status`.
fn of_four(status: Value) -> Value {
    let workload = mk_workload(status);
    let workload = with(workload, "/spec/podSets/0/count", json!(4));
    with(workload, "/spec/podSets/0/minCount", json!(2))
}

/// With so many of the 4 pods admitted, and no flavor that puts anything into templates.
fn given(count: u32, is: &str) -> Value {
    let admission = with(
        admission(),
        "/podSetAssignments",
        json!([{"name": "main", "count": count, "resourceUsage": {"cpu": count.to_string()}}]),
    );
    of_four(json!({"admission": admission, "conditions": [condition(is)]}))
}

/// The plan in words, and how many pods the job has if it patches that.
fn told(job: Value, workload: Option<Value>) -> String {
    let plan = planned(&Case {
        job: job.clone(),
        workload,
    });
    let Some(Write::PatchJob {
        patch: JobPatch::Json(patch),
        ..
    }) = &plan.write
    else {
        return in_words(&plan);
    };
    let mut patched = job;
    json_patch::patch(&mut patched, patch).unwrap();
    let spec = &patched["spec"];
    let state = if spec["suspend"] == true {
        "suspended"
    } else {
        "running"
    };
    format!("{}: {state} with {}", in_words(&plan), spec["parallelism"])
}

#[test]
fn each_turn_of_the_life_of_a_job_that_will_do_with_fewer_pods() {
    let waiting = Some(of_four(json!({})));
    let bad = "nothing [\"InvalidPodSets\"]";
    let cases = [
        ("new", partial(true, 4, "2"), None, "create workload []"),
        ("new, and says nonsense", partial(true, 4, "x"), None, bad),
        ("new, and says too much", partial(true, 4, "5"), None, bad),
        (
            "waiting",
            partial(true, 4, "2"),
            waiting.clone(),
            "nothing []",
        ),
        (
            "it wants more now",
            partial(true, 5, "2"),
            waiting.clone(),
            "update workload []",
        ),
        (
            "it will do with fewer now",
            partial(true, 4, "1"),
            waiting.clone(),
            "update workload []",
        ),
        (
            "it needs all now",
            partial(true, 4, "4"),
            waiting.clone(),
            "update workload []",
        ),
        ("it says nonsense now", partial(true, 4, "x"), waiting, bad),
        (
            "admitted with 3",
            partial(true, 4, "2"),
            Some(given(3, "Admitted")),
            "release []: running with 3",
        ),
        (
            "admitted with all",
            partial(true, 4, "2"),
            Some(given(4, "Admitted")),
            "release []: running with 4",
        ),
        (
            "admitted, and says nonsense",
            partial(true, 4, "x"),
            Some(given(3, "Admitted")),
            "evict [\"Evicted\"]",
        ),
        (
            "admitted, and wants more",
            partial(true, 5, "2"),
            Some(given(3, "Admitted")),
            "evict [\"Evicted\"]",
        ),
        (
            "running with 3",
            partial(false, 3, "2"),
            Some(given(3, "Admitted")),
            "nothing []",
        ),
        (
            "running with 3, and says nonsense",
            partial(false, 3, "x"),
            Some(given(3, "Admitted")),
            "nothing []",
        ),
        (
            "running with 3, of which its user left 1",
            partial(false, 1, "2"),
            Some(given(3, "Admitted")),
            "nothing []",
        ),
        (
            "somebody gave it all 4",
            partial(false, 4, "2"),
            Some(given(3, "Admitted")),
            "evict [\"Evicted\"]",
        ),
        (
            "suspended by hand",
            partial(true, 3, "2"),
            Some(given(3, "Admitted")),
            "release []: running with 3",
        ),
        (
            "suspended by hand with all 4",
            partial(true, 4, "2"),
            Some(given(3, "Admitted")),
            "release []: running with 3",
        ),
        (
            "suspended by hand with 2",
            partial(true, 2, "2"),
            Some(given(3, "Admitted")),
            "evict [\"Evicted\"]",
        ),
        (
            "evicted and running",
            partial(false, 3, "2"),
            Some(given(3, "Evicted")),
            "suspend []",
        ),
        (
            "evicted, its pods are gone",
            partial(true, 3, "2"),
            Some(given(3, "Evicted")),
            "restore []: suspended with 4",
        ),
        (
            "evicted, and says nonsense",
            partial(true, 3, "x"),
            Some(given(3, "Evicted")),
            "restore []: suspended with 4",
        ),
        (
            "evicted and restored",
            partial(true, 4, "2"),
            Some(given(3, "Evicted")),
            "requeue [\"Requeued\"]",
        ),
        (
            "evicted with what its user left",
            partial(true, 2, "2"),
            Some(given(3, "Evicted")),
            "requeue [\"Requeued\"]",
        ),
        (
            "evicted with all",
            partial(true, 4, "2"),
            Some(given(4, "Evicted")),
            "requeue [\"Requeued\"]",
        ),
    ];
    for (name, job, workload, expected) in cases {
        assert_eq!(told(job, workload), expected, "{name}");
    }
}

#[test]
fn what_was_put_in_is_taken_out_in_the_same_patch() {
    let placed = |job| {
        let both = json!({"disk": "ssd", "spot": "true"});
        with(job, "/spec/template/spec/nodeSelector", both)
    };
    let evicting = with(
        given(3, "Evicted"),
        "/status/admission/podSetAssignments/0/nodeSelector",
        json!({"spot": "true"}),
    );
    let job = placed(partial(true, 3, "2"));
    let case = Case {
        job: job.clone(),
        workload: Some(evicting),
    };
    let Some(Write::PatchJob {
        patch: JobPatch::Json(patch),
        ..
    }) = planned(&case).write
    else {
        panic!("no patch");
    };
    let mut patched = job;
    json_patch::patch(&mut patched, &patch).unwrap();
    assert_eq!(patched["spec"], partial(true, 4, "2")["spec"]);
}

#[test]
fn the_workload_says_how_many_will_do() {
    let cases = [
        ("asked for", partial(true, 4, "2"), json!(2)),
        ("all are needed", partial(true, 4, "4"), Value::Null),
        ("none are there", partial(true, 0, "4"), Value::Null),
        (
            "not asked for",
            with(queued(true), "/spec/parallelism", json!(4)),
            Value::Null,
        ),
        (
            "its pods wait behind gates",
            with(
                with(
                    behind_gates(false, &[], json!({MIN: "2"})),
                    "/spec/parallelism",
                    json!(4),
                ),
                "/metadata/annotations",
                json!({MIN: "2"}),
            ),
            Value::Null,
        ),
    ];
    for (name, job, expected) in cases {
        let plan = planned(&Case {
            job,
            workload: None,
        });
        let Some(Write::CreateWorkload(workload)) = plan.write else {
            panic!("{name}: {plan:?}");
        };
        let set = serde_json::to_value(&workload.spec.pod_sets[0]).unwrap();
        assert_eq!(set["minCount"], expected, "{name}");
    }
}
