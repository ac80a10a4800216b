//! Where a job stands whose pods claim devices.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_kinds::devices::DeviceClasses;

use super::*;
use crate::cache::devices::Devices;
use crate::plan::children::excess::{RunningChild, excess};
use crate::plan::fixtures::mk_pod;
use crate::plan::workload::covers_pod;

fn claims(templates: &[&str]) -> Value {
    let claims = templates.iter().enumerate();
    let claims = claims.map(
        |(index, name)| json!({"name": format!("c{index}"), "resourceClaimTemplateName": name}),
    );
    claims.collect()
}

/// A queued job whose pods claim by these templates.
fn claiming(suspended: bool, templates: &[&str]) -> Value {
    let at = "/spec/template/spec/resourceClaims";
    with(queued(suspended), at, claims(templates))
}

/// Where one claim of the template `two` stands for so many devices; none: there is no such template.
fn known(count: Option<u32>) -> Devices {
    let classes = [("gpu".to_owned(), "example.com/gpu".to_owned())];
    let mut devices = Devices::new(DeviceClasses::new(classes));
    let template = count.map(|count| {
        let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}});
        json!({"spec": {"spec": {"devices": {"requests": [request]}}}})
    });
    devices.put("blue", "two", template.as_ref());
    devices
}

/// A Workload with a usage of 2 devices for each pod.
fn admitted(status: Value) -> Value {
    let set = json!([{"name": "main", "count": 2, "nodeSelector": {"disk": "ssd"},
        "requests": {"cpu": "1", "example.com/gpu": "2"}, "resourceClaimTemplates": ["two"],
        "claimedDevices": {"example.com/gpu": "2"}}]);
    with(mk_workload(status), "/spec/podSets", set)
}

fn told(job: Value, devices: &Devices, workload: Option<Value>) -> String {
    let mut job = read(&kind(), &job);
    if let Ok(reading) = &mut job.reading
        && let Ok(sets) = &reading.pod_sets
        && let Some(counted) = devices.count("blue", sets)
    {
        reading.pod_sets = Ok(counted);
    }
    in_words(&planned_record(&kind(), &job, workload, 0))
}

#[test]
fn each_turn_of_the_life_of_a_job_that_claims_devices() {
    let (two, three, none) = (known(Some(2)), known(Some(3)), known(None));
    let waiting = || Some(admitted(json!({})));
    let admitted = || {
        let status = json!({"admission": admission(), "conditions": [condition("Admitted")]});
        Some(admitted(status))
    };
    let (waits, runs) = (claiming(true, &["two"]), claiming(false, &["two"]));
    let placed = json!({"disk": "ssd", "spot": "true"});
    let runs = with(runs, "/spec/template/spec/nodeSelector", placed);
    let bad = "nothing [\"InvalidPodSets\"]";
    let cases = [
        ("new", waits.clone(), &two, None, "create workload []"),
        ("no template yet", waits.clone(), &none, None, bad),
        (
            "nothing is counted",
            waits.clone(),
            &Devices::default(),
            None,
            bad,
        ),
        ("waits", waits.clone(), &two, waiting(), "nothing []"),
        (
            "its template is another one",
            waits.clone(),
            &three,
            waiting(),
            "update workload []",
        ),
        ("its template is gone", waits.clone(), &none, waiting(), bad),
        (
            "it claims more",
            claiming(true, &["two", "two"]),
            &two,
            waiting(),
            "update workload []",
        ),
        ("admitted", waits.clone(), &two, admitted(), "release []"),
        (
            "admitted, and its template is another one",
            waits.clone(),
            &three,
            admitted(),
            "release []",
        ),
        (
            "admitted, and its template is gone",
            waits,
            &none,
            admitted(),
            "release []",
        ),
        ("runs", runs.clone(), &two, admitted(), "nothing []"),
        (
            "runs, and its template is another one",
            runs.clone(),
            &three,
            admitted(),
            "nothing []",
        ),
        (
            "runs, and its template is gone",
            runs.clone(),
            &none,
            admitted(),
            "nothing []",
        ),
        (
            "runs, and nothing is counted any more",
            runs.clone(),
            &Devices::default(),
            admitted(),
            "nothing []",
        ),
        (
            "runs, and claims by another template",
            with(
                runs,
                "/spec/template/spec/resourceClaims",
                claims(&["other"]),
            ),
            &two,
            admitted(),
            "evict [\"Evicted\"]",
        ),
    ];
    let more =
        json!([{"name": "c", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}]);
    let asks_besides = with(
        claiming(false, &["two"]),
        "/spec/template/spec/containers",
        more,
    );
    let told_besides = told(asks_besides, &two, admitted());
    assert_eq!(
        told_besides, "evict [\"Evicted\"]",
        "unused devices don't allow larger requests"
    );
    for (what, job, devices, workload, expected) in cases {
        assert_eq!(told(job, devices, workload), expected, "{what}");
    }
}

/// Devices that are requested by the name of their class, as they were recorded before their class was counted.
#[test]
fn what_was_recorded_by_the_name_of_a_class_is_what_a_job_asks_for() {
    let name = "deviceclass.resource.kubernetes.io/gpu";
    let classes = DeviceClasses::new([("gpu".to_owned(), "example.com/gpu".to_owned())]);
    let asking = |suspended: bool, amount: &str| {
        let requests = json!({"cpu": "1", name: amount, "example.com/gpu": "1"});
        let at = "/spec/template/spec/containers/0/resources/requests";
        let mut job = read(&kind(), &with(queued(suspended), at, requests));
        let reading = job.reading.as_mut().unwrap();
        for set in Arc::make_mut(reading.pod_sets.as_mut().unwrap()) {
            set.count_requested_devices(&classes);
        }
        job
    };
    let recorded = |requests: &Value, status: Value| {
        let set = json!([{"name": "main", "count": 2, "nodeSelector": {"disk": "ssd"}, "requests": requests}]);
        with(mk_workload(status), "/spec/podSets", set)
    };
    let by_name = json!({"cpu": "1", name: "2", "example.com/gpu": "1"});
    let by_class = json!({"cpu": "1", "example.com/gpu": "3"});
    let status = || json!({"admission": admission(), "conditions": [condition("Admitted")]});
    let told =
        |job: &JobRecord, workload| in_words(&planned_record(&kind(), job, Some(workload), 0));
    for requests in [&by_name, &by_class] {
        let admitted = || recorded(requests, status());
        assert_eq!(told(&asking(true, "2"), admitted()), "release []");
        assert_eq!(told(&asking(false, "2"), admitted()), "nothing []");
        let more = told(&asking(false, "3"), admitted());
        assert_eq!(more, "evict [\"Evicted\"]");
        let object = serde_json::from_value(admitted()).unwrap();
        let (_, record) = WorkloadRecord::read(object).unwrap();
        let of_pod = |amount: &str| {
            let (_, mut pod) = mk_pod("p", 0, &[], |pod| {
                pod["spec"]["containers"][0]["resources"]["requests"] =
                    json!({"cpu": "1", name: amount, "example.com/gpu": "1"});
            });
            pod.count_requested_devices(&classes);
            covers_pod(&record, "main", pod.asks.as_ref().as_ref().unwrap())
        };
        assert_eq!((of_pod("2"), of_pod("3")), (true, false));
    }
    let waits = told(&asking(true, "2"), recorded(&by_name, json!({})));
    assert_eq!(waits, "update workload []");
}

#[test]
fn a_child_may_run_on_what_was_recorded_by_the_name_of_a_class() {
    let name = "deviceclass.resource.kubernetes.io/gpu";
    let classes = DeviceClasses::new([("gpu".to_owned(), "example.com/gpu".to_owned())]);
    let status = json!({"admission": admission(), "conditions": [condition("Admitted")]});
    let set = json!([{"name": "main", "count": 2, "requests": {"cpu": "1", name: "2"}}]);
    let workload = with(mk_workload(status), "/spec/podSets", set);
    let (_, record) = WorkloadRecord::read(serde_json::from_value(workload).unwrap()).unwrap();
    for (amount, expected) in [("2", 0), ("3", 1)] {
        let requests = json!({"cpu": "1", name: amount});
        let at = "/spec/template/spec/containers/0/resources/requests";
        let child = with(queued(false), at, requests);
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "train",
            "uid": "11111111-2222-3333", "controller": true}]);
        let mut child = read(&kind(), &with(child, "/metadata/ownerReferences", owner));
        let reading = child.reading.as_mut().unwrap();
        for set in Arc::make_mut(reading.pod_sets.as_mut().unwrap()) {
            set.count_requested_devices(&classes);
        }
        let child = RunningChild::read(&child, None, false).unwrap();
        let key = JobKey {
            kind: "job".into(),
            namespace: "blue".into(),
            name: "a".into(),
        };
        let children = [(key, child)].into();
        let root = read(&kind(), &queued(false));
        let found = excess(&root, Some(&record), &children, &BTreeSet::new());
        assert_eq!(found.len(), expected, "{amount}");
    }
}

#[test]
fn a_pod_of_an_admitted_job_claims_what_was_counted() {
    let object = serde_json::from_value(admitted(json!({}))).unwrap();
    let (_, record) = WorkloadRecord::read(object).unwrap();
    let shared = json!([{"name": "gpu", "resourceClaimName": "mine"},
        {"name": "c0", "resourceClaimTemplateName": "two"}]);
    for (claims, expected) in [
        (claims(&["two"]), true),
        (claims(&["other"]), false),
        (claims(&["two", "two"]), false),
        (claims(&[]), false),
        (shared, false),
    ] {
        let (_, pod) = mk_pod("p", 0, &[], |pod| {
            pod["spec"]["resourceClaims"] = claims.clone();
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": true,
            }]);
        });
        let asks = pod.asks.as_ref().as_ref().unwrap();
        assert_eq!(covers_pod(&record, "main", asks), expected, "{claims}");
    }
}
