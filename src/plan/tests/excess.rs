//! What children of an admitted object may run on.

use std::collections::{BTreeMap, BTreeSet};

use sluice_crds::Quantity;

use super::*;
use crate::plan::children::excess::{RunningChild, excess, note};

/// A child that runs: its name, its owner, the second in which it was made, and how many cpus it asks for, first and
/// now.
type Row<'a> = (&'a str, &'a str, u32, [u32; 2]);

const ROOT: &str = "11111111-2222-3333";

fn child((name, owner, second, _): &Row<'_>, cpus: u32) -> JobRecord {
    let mut job = mk_job(json!({}), json!({}), false);
    job["metadata"]["name"] = json!(name);
    job["metadata"]["uid"] = json!(name);
    job["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
    job["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job",
        "name": owner, "uid": owner, "controller": true}]);
    job["spec"]["parallelism"] = json!(cpus);
    read(&kind(), &job)
}

fn key(name: &str) -> JobKey {
    JobKey {
        kind: "job".into(),
        namespace: "blue".into(),
        name: name.into(),
    }
}

fn running(rows: &[Row<'_>]) -> BTreeMap<JobKey, RunningChild> {
    let children = rows.iter().map(|row| {
        let [first, now] = row.3;
        let known = RunningChild::read(&child(row, first), None, false);
        let child = RunningChild::read(&child(row, now), known.as_ref(), false).unwrap();
        (key(row.0), child)
    });
    children.collect()
}

/// The names of the children that may not run, beside an object that was admitted with two cpus.
fn found(workload: Option<Value>, children: &BTreeMap<JobKey, RunningChild>) -> String {
    let workload =
        workload.map(|value| WorkloadRecord::read(serde_json::from_value(value).unwrap()).unwrap());
    let record = workload.as_ref().map(|(_, record)| record);
    let root = read(&kind(), &queued(false));
    let mut names: Vec<_> = excess(&root, record, children, &BTreeSet::new())
        .into_iter()
        .map(|(key, _)| key.name.to_string())
        .collect();
    names.sort_unstable();
    names.join(" ")
}

#[test]
fn children_run_together_on_what_their_owner_was_admitted_with() {
    let rows: [(&str, &[Row<'_>], &str); 10] = [
        ("one that fits", &[("a", ROOT, 1, [2, 2])], ""),
        ("one that does not", &[("a", ROOT, 1, [3, 3])], "a"),
        (
            "two that fit",
            &[("a", ROOT, 1, [1, 1]), ("b", ROOT, 2, [1, 1])],
            "",
        ),
        (
            "the youngest goes",
            &[
                ("a", ROOT, 2, [1, 1]),
                ("b", ROOT, 1, [1, 1]),
                ("c", ROOT, 3, [1, 1]),
            ],
            "c",
        ),
        (
            "who has grown goes, though older",
            &[("a", ROOT, 1, [1, 2]), ("b", ROOT, 2, [1, 1])],
            "a",
        ),
        (
            "who has grown within what is left stays",
            &[("a", ROOT, 1, [1, 2])],
            "",
        ),
        (
            "who is back stays",
            &[("a", ROOT, 1, [2, 1]), ("b", ROOT, 2, [1, 1])],
            "",
        ),
        (
            "one that does not fit takes nothing from the next",
            &[("a", ROOT, 1, [3, 3]), ("b", ROOT, 2, [2, 2])],
            "a",
        ),
        (
            "what belongs to a child is a part of it",
            &[
                ("a", ROOT, 1, [2, 2]),
                ("b", "a", 2, [1, 1]),
                ("c", "a", 3, [1, 1]),
            ],
            "",
        ),
        (
            "a child of a child that asks for more than that",
            &[
                ("a", ROOT, 1, [1, 1]),
                ("b", "a", 2, [2, 2]),
                ("c", ROOT, 3, [1, 1]),
            ],
            // The other one was no part of the first.
            "b",
        ),
    ];
    for (name, children, expected) in rows {
        assert_eq!(
            found(Some(admitted()), &running(children)),
            expected,
            "{name}"
        );
    }
    let all = running(&[("a", ROOT, 1, [1, 1]), ("b", ROOT, 2, [1, 1])]);
    assert_eq!(found(None, &all), "a b", "not admitted");
    let none = running(&[("a", ROOT, 1, [0, 0]), ("b", ROOT, 2, [1, 1])]);
    assert_eq!(found(None, &none), "b", "without pods it uses nothing");
}

/// Nobody is asked about the labels of what is being deleted.
#[test]
fn children_of_what_was_queued_when_it_was_deleted_do_not_run() {
    let children = running(&[("a", ROOT, 1, [1, 1])]);
    let workload = serde_json::from_value(mk_workload(json!({}))).unwrap();
    let (_, waits) = WorkloadRecord::read(workload).unwrap();
    let held = json!({"sluice.dev/held": "true"});
    for (annotations, record, expected) in [
        (held, None, 1),
        (json!({}), Some(&waits), 1),
        (json!({}), None, 0),
    ] {
        let root = mk_job(json!({}), annotations, true);
        let at = json!("2026-01-01T00:00:00Z");
        let root = read(&kind(), &with(root, "/metadata/deletionTimestamp", at));
        let found = excess(&root, record, &children, &BTreeSet::new());
        assert_eq!(found.len(), expected, "{record:?}");
    }
}

/// As of a JobSet one of whose Jobs has succeeded. What is released of two pods has no more than that.
#[test]
fn children_run_on_what_is_left_of_what_their_owner_was_admitted_with() {
    let with_count = |count| {
        let set = "/status/admission/podSetAssignments/0/count";
        with(admitted(), set, json!(count))
    };
    let gave_back = |workload, count: u32| {
        let reclaimable = json!([{"name": "main", "count": count}]);
        with(workload, "/status/reclaimablePods", reclaimable)
    };
    let unreadable = |workload| with(workload, "/spec/podSets", json!("none"));
    let of_pods = |workload| {
        let flavors = "/status/admission/podSetAssignments/0/flavors";
        let workload = with(workload, flavors, json!({"pods": "f"}));
        with(workload, "/spec/podSets/0/requests", json!({"cpu": "4"}))
    };
    let rows = [
        ("nothing was given back", admitted(), 2),
        ("one pod was", gave_back(admitted(), 1), 1),
        ("all were", gave_back(admitted(), 2), 0),
        ("one pod was admitted", with_count(1), 1),
        ("and was given back", gave_back(with_count(1), 1), 0),
        ("the spec can't be read", unreadable(admitted()), 2),
        ("and one pod was", unreadable(gave_back(admitted(), 1)), 1),
        (
            "there is quota of pods",
            of_pods(gave_back(admitted(), 1)),
            1,
        ),
    ];
    for (name, workload, left) in rows {
        let fits = running(&[("a", ROOT, 1, [left, left])]);
        assert_eq!(found(Some(workload.clone()), &fits), "", "{name}");
        let exceeds = running(&[("a", ROOT, 1, [left + 1, left + 1])]);
        assert_eq!(found(Some(workload), &exceeds), "a", "{name}");
    }
    // Of two pods one has ended for good, as its owner says too.
    let job = with(
        mk_job(json!({}), json!({}), false),
        "/spec/completions",
        json!(2),
    );
    let job = with(job, "/status/succeeded", json!(1));
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": ROOT, "uid": ROOT, "controller": true}]);
    let job = read(&kind(), &with(job, "/metadata/ownerReferences", owner));
    let job = RunningChild::read(&job, None, false).unwrap();
    let children = BTreeMap::from([(key("a"), job)]);
    assert_eq!(found(Some(gave_back(admitted(), 1)), &children), "");
    assert_eq!(found(Some(gave_back(admitted(), 2)), &children), "a");
}

/// KubeRay keeps the cluster of a RayJob that has ended: while its pods run it has its quota.
#[test]
fn children_run_after_the_end_as_long_as_the_quota_is_not_free() {
    let mut ended = queued(false);
    ended["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    let children = running(&[("a", ROOT, 1, [1, 1]), ("b", ROOT, 2, [0, 0])]);
    let found = |root: &Value, workload: Value| {
        let (_, record) = WorkloadRecord::read(serde_json::from_value(workload).unwrap()).unwrap();
        let root = read(&kind(), root);
        let found = excess(&root, Some(&record), &children, &BTreeSet::new()).into_iter();
        let told = found.map(|(key, excess)| {
            let note = note(&excess, "Job \"train\"");
            (key.name.to_string(), note.reason)
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(found(&ended, admitted()), [], "its pods run");
    let expected = [("a".to_owned(), "OwnerFinished")];
    assert_eq!(found(&ended, finished()), expected, "they were made again");
    let expected = [("a".to_owned(), "OwnerNotAdmitted")];
    assert_eq!(found(&queued(false), finished()), expected, "it goes on");
}

/// Nobody would see its pods. Of other children their controllers make the templates without it.
#[test]
fn a_child_that_has_lost_the_label_of_its_pods_is_found() {
    let row = ("a", ROOT, 1, [1, 1]);
    let (_, record) = WorkloadRecord::read(serde_json::from_value(admitted()).unwrap()).unwrap();
    let root = read(&kind(), &queued(false));
    for (was_labelled, expected) in [(true, 1), (false, 0)] {
        let running = RunningChild::read(&child(&row, 1), None, was_labelled).unwrap();
        let children = BTreeMap::from([(key("a"), running)]);
        let found = excess(&root, Some(&record), &children, &BTreeSet::new());
        assert_eq!(found.len(), expected, "{was_labelled}");
        for (_, excess) in found {
            assert_eq!(
                note(&excess, "Job \"train\"").message,
                "Suspended: the label sluice.dev/managed was removed from the pod template of its pod set \"main\", and pods without it can't be counted in what Job \"train\", to which this object belongs, was admitted with; put the label back, and resume this object"
            );
        }
    }
}

#[test]
fn who_goes_is_told_what_the_others_use() {
    let children = running(&[("a", ROOT, 1, [1, 1]), ("b", ROOT, 2, [2, 2])]);
    let (_, record) = WorkloadRecord::read(serde_json::from_value(admitted()).unwrap()).unwrap();
    let root = read(&kind(), &queued(false));
    let found = excess(&root, Some(&record), &children, &BTreeSet::new());
    assert_eq!(
        note(&found[0].1, "Job \"train\"").message,
        "Suspended: it requests cpu 2, other objects that belong to Job \"train\" use 1, and Job \"train\" holds quota for 2; increase the requests of that object, or create this object without the owner reference, so that it is queued by itself"
    );
}

/// Pods that request nothing use quota where pods have some.
#[test]
fn pods_without_requests_count_where_there_is_quota_of_pods() {
    let bare = |pods: u32| {
        let mut record = child(&("a", ROOT, 1, [pods, pods]), pods);
        let sets = record.reading.as_mut().unwrap().pod_sets.as_mut().unwrap();
        *sets = (sets.iter().cloned())
            .map(|mut set| {
                set.declared.clear();
                set
            })
            .collect();
        let child = RunningChild::read(&record, None, false).unwrap();
        BTreeMap::from([(key("a"), child)])
    };
    let mut of_pods = admitted();
    of_pods["status"]["admission"]["podSetAssignments"][0]["flavors"]["pods"] = json!("f");
    assert_eq!(found(Some(of_pods.clone()), &bare(2)), "");
    assert_eq!(found(Some(of_pods), &bare(3)), "a");
    assert_eq!(found(Some(admitted()), &bare(3)), "", "no quota of pods");
}

#[test]
fn what_cleans_up_is_one_pod_that_asks_for_little() {
    let limits = |cpu: &str| [("cpu".to_owned(), Quantity(cpu.to_owned()))].into();
    let is_within = |pods: u32, cpu: &str| {
        let record = child(&("a", ROOT, 1, [pods, pods]), pods);
        let child = RunningChild::read(&record, None, false).unwrap();
        child.is_within(&limits(cpu))
    };
    assert!(is_within(1, "1"));
    assert!(!is_within(1, "999m"));
    assert!(!is_within(2, "2"), "two pods");
    assert!(!is_within(0, "1"), "no pod");
    assert!(!is_within(1, "much"), "no amount");
}

#[test]
fn what_does_not_run_counts_nothing() {
    let row = ("a", ROOT, 1, [1, 1]);
    let runs = |change: fn(&mut JobRecord)| {
        let mut record = child(&row, 1);
        change(&mut record);
        RunningChild::read(&record, None, false).is_some()
    };
    assert!(runs(|_| ()));
    assert!(!runs(|record| record.suspended = Some(true)));
    assert!(!runs(|record| record.deleting = true));
    assert!(!runs(|record| record.owner = None));
}
