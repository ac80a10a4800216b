//! Groups whose pods a controller makes again.

use k8s_openapi::jiff::SignedDuration;

use super::*;
use crate::plan::evictions::cause::Cause;

/// The Workload of a group whose pods a controller makes again.
fn made_again(status: &Value) -> (WorkloadKey, WorkloadRecord) {
    let (key, mut record) = mk_group_workload(&pod_sets(2), status);
    record.is_made_again = true;
    (key, record)
}

fn requeued_at(second: u32) -> Value {
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "X", "message": "",
            "lastTransitionTime": format!("1970-01-01T00:00:{second:02}Z")})
    };
    json!({"conditions": [condition("Evicted", "True"), condition("QuotaReserved", "False")]})
}

#[test]
fn the_workload_of_pods_that_are_made_again_stays_for_a_minute() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let (_, record) = made_again(&requeued_at(10));
    assert_eq!(kept_for(&record, at(10)), Some(REPLACED_WITHIN));
    assert_eq!(kept_for(&record, at(69)), Some(Duration::from_secs(1)));
    assert_eq!(kept_for(&record, at(70)), None);
    let (_, never_evicted) = made_again(&json!({}));
    assert_eq!(kept_for(&never_evicted, at(10)), None);
    let (_, bare) = mk_group_workload(&pod_sets(2), &requeued_at(10));
    assert_eq!(kept_for(&bare, at(10)), None, "nobody makes them again");
    assert_eq!(planned(&[], Some(requeued_at(0))), "delete workload []");
    let (_, mut deactivated) = made_again(&requeued_at(10));
    deactivated.spec.active = false;
    assert_eq!(
        kept_for(&deactivated, at(600)),
        Some(Duration::from_secs(10))
    );
}

/// Whatever it was evicted for, and however often: the minute begins when it gives its quota back.
#[test]
fn the_workload_of_pods_that_are_made_again_stays_after_each_eviction() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let (_, mut record) = made_again(&admitted());
    for (backs_off, hour) in [false, true, true, false, true].into_iter().zip(1..) {
        let next = if backs_off {
            workload::Next::QueueAfter(SignedDuration::from_secs(60))
        } else {
            workload::Next::Queue
        };
        let now = at(3600 * hour);
        record.status = workload::evicted(&record, &Cause::timed_out(), now);
        record.status = workload::requeued(&record, next, now);
        assert_eq!(kept_for(&record, now), Some(REPLACED_WITHIN), "{hour}");
        let admission = made_again(&admitted()).1.status.admission.unwrap();
        record.status = workload::admitted(&record, admission, false, now);
        let requeued =
            conditions::find(&record.status.conditions, ConditionType::Requeued).unwrap();
        assert_eq!(
            (&*requeued.status, &*requeued.reason),
            ("False", "Admitted")
        );
    }
}

/// A pod of a controller, in a group of so many, which asks for so many cpus.
fn remade(name: &str, total: u32, cpu: &str, change: impl FnOnce(&mut Value)) -> Pod {
    member(name, 0, |pod| {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "uid-s", "controller": true,
        }]);
        let annotations = &mut pod["metadata"]["annotations"];
        annotations[sluice_crds::QUEUE_GATE] = json!("true");
        annotations["sluice.dev/pod-group-labels"] = json!("sluice.dev/pod-group-name");
        annotations["sluice.dev/pod-group-total-from"] = json!("sluice.dev/pod-group-total-count");
        annotations["sluice.dev/pod-group-total-count"] = json!(total.to_string());
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
        change(pod);
    })
}

/// The same, which runs.
fn runs_of(name: &str, total: u32, cpu: &str) -> Pod {
    remade(name, total, cpu, release)
}

fn waits_of(name: &str, total: u32, cpu: &str) -> Pod {
    remade(name, total, cpu, |_| ())
}

fn delete(pod: &mut Value) {
    release(pod);
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
}

/// The plan for such a group that was admitted with two pods of a cpu each: why it is evicted, if it is.
fn evicted_for(pods: &[Pod]) -> Option<String> {
    let plan = plan_for(pods, Some(&made_again(&admitted())), |_| ());
    let Some(Write::SetWorkloadStatus {
        status, purpose, ..
    }) = plan.write
    else {
        return None;
    };
    assert_eq!(purpose, StatusPurpose::Evict);
    let evicted = conditions::find(&status.conditions, ConditionType::Evicted)?;
    Some(evicted.reason.clone())
}

/// Somebody creates a bare pod by the name of a group before its controller makes the first.
#[test]
fn a_group_is_made_again_also_behind_an_older_bare_pod() {
    let made_by = |pods: &[Pod]| {
        let Some(Write::CreateWorkload(workload)) = plan_for(pods, None, |_| ()).write else {
            panic!("it is complete");
        };
        let annotations = workload.metadata.annotations.unwrap_or_default();
        annotations.get(PODS_MADE_BY_ANNOTATION).cloned()
    };
    let by_controller = Some("StatefulSet s".to_owned());
    let made = |name: &str| waits_of(name, 2, "1");
    assert_eq!(made_by(&[made("b"), made("c")]), by_controller);
    assert_eq!(made_by(&[waits("a", 0), made("b")]), by_controller);
    assert_eq!(made_by(&[waits("a", 0), waits("b", 1)]), None);
    // One too many is not of the group.
    assert_eq!(made_by(&[waits("a", 0), waits("b", 1), made("c")]), None);
}

/// A leader that asks for the same as before runs at once; the workers would wait for ever.
#[test]
fn a_group_of_which_some_pods_ask_otherwise_is_evicted_when_all_are_there() {
    let changed = Some("PodsChanged".to_owned());
    for (name, pods, expected) in [
        ("not all are there", vec![runs_of("a", 2, "1")], None),
        (
            "all are as before",
            vec![runs_of("a", 2, "1"), waits_of("b", 2, "1")],
            None,
        ),
        (
            "one asks otherwise",
            vec![runs_of("a", 2, "1"), waits_of("b", 2, "2")],
            changed.clone(),
        ),
        (
            "the one before it is being deleted",
            vec![remade("a", 2, "1", delete), waits_of("b", 2, "2")],
            None,
        ),
        (
            "all ask otherwise, and one of before is being deleted",
            vec![
                remade("a", 2, "1", delete),
                waits_of("b", 2, "2"),
                waits_of("c", 2, "2"),
            ],
            changed,
        ),
        (
            "one too many asks otherwise",
            vec![
                runs_of("a", 2, "1"),
                runs_of("b", 2, "1"),
                waits_of("c", 2, "2"),
            ],
            None,
        ),
        (
            "somebody's own pod asks otherwise, and one is missing",
            vec![
                runs_of("a", 2, "1"),
                member("b", 0, |pod| {
                    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
                }),
            ],
            None,
        ),
        (
            "one that asks otherwise runs, and was never held",
            vec![runs_of("a", 2, "1"), runs_of("b", 2, "2")],
            None,
        ),
    ] {
        assert_eq!(evicted_for(&pods), expected, "{name}");
    }
}

/// It would have too few places, or keep quota for pods that do not come.
#[test]
fn a_group_that_is_made_again_in_another_size_is_evicted_when_all_are_there() {
    let changed = Some("PodsChanged".to_owned());
    let more = ["a", "b", "c"].map(|name| runs_of(name, 3, "1"));
    assert_eq!(evicted_for(more.get(..2).unwrap()), None);
    assert_eq!(evicted_for(&more), changed);
    assert_eq!(evicted_for(&[runs_of("a", 1, "1")]), changed);
    let old = remade("a", 2, "1", delete);
    assert_eq!(evicted_for(&[old, runs_of("b", 1, "1")]), changed);
}

#[test]
fn a_group_that_is_made_again_in_another_queue_is_evicted() {
    let other = |name: &str, queue: Option<&str>| {
        remade(name, 2, "1", |pod| {
            release(pod);
            pod["metadata"]["labels"]["sluice.dev/queue-name"] = json!(queue);
            if queue.is_none() {
                pod["metadata"]["labels"] = json!({
                    "sluice.dev/managed": "true", "sluice.dev/pod-group-name": "g",
                });
            }
        })
    };
    let of = |queues: [Option<&str>; 2]| {
        let [a, b] = queues;
        evicted_for(&[other("a", a), other("b", b)])
    };
    let changed = Some("QueueChanged".to_owned());
    assert_eq!(of([Some("b"), Some("b")]), changed);
    assert_eq!(of([Some("b"), Some("main")]), None, "they disagree");
    assert_eq!(of([None, None]), None, "it could not be queued again");
}

/// Also that of pods that nobody makes again, which may be relabelled.
#[test]
fn an_admitted_group_takes_the_class_that_its_oldest_pod_names() {
    let of_class = |name: &str, class: &str, change: fn(&mut Value)| {
        remade(name, 2, "1", |pod| {
            pod["metadata"]["labels"]["sluice.dev/priority-class"] = json!(class);
            change(pod);
        })
    };
    let old = remade("a", 2, "1", delete);
    let both = || {
        vec![
            of_class("b", "high", release),
            of_class("c", "high", release),
        ]
    };
    let taken = |pods: &[Pod], workload: &KnownWorkload| {
        let plan = plan_for(pods, Some(workload), |_| ());
        match plan.write {
            Some(Write::UpdateWorkloadSpec { spec, .. }) => {
                assert_eq!(spec.pod_sets, workload.1.spec.pod_sets);
                Some((spec.priority, spec.priority_class_ref?.name))
            }
            _ => None,
        }
    };
    let high = Some((10, "high".to_owned()));
    let mut known = made_again(&admitted());
    let mut replaced = vec![old];
    replaced.extend(both());
    assert_eq!(taken(&replaced, &known), high);
    assert_eq!(
        taken(replaced.get(..2).unwrap(), &known),
        None,
        "not all are there"
    );
    let bare = mk_group_workload(&pod_sets(2), &admitted());
    assert_eq!(taken(both().get(..1).unwrap(), &bare), high);

    known.1.spec.priority_class_ref = priority_of(&of_class("b", "high", |_| ()).1).class;
    assert_eq!(
        taken(&both(), &known),
        None,
        "its value counts from the next admission on"
    );
    let unlabelled = [runs_of("a", 2, "1"), runs_of("b", 2, "1")];
    assert_eq!(taken(&unlabelled, &known), None);
}

/// Its pods come back in a moment when their controller restarts the group, and find their quota and their place.
#[test]
fn a_group_without_pods_keeps_its_quota_for_a_moment_and_its_place_for_longer() {
    let known = made_again(&admitted());
    let after = |seconds: u64, know: fn(&mut Known)| {
        told(&plan_for(&[], Some(&known), |known| {
            known.absence.lasted = Duration::from_secs(seconds);
            know(known);
        }))
    };
    assert_eq!(after(0, |_| ()), "nothing []");
    assert_eq!(after(9, |_| ()), "nothing []");
    assert_eq!(after(10, |_| ()), r#"evict ["Evicted"]"#);
    let is_gone = |known: &mut Known| known.absence.maker_is_gone = true;
    assert_eq!(after(0, is_gone), "delete workload []");
    let is_terminating = |known: &mut Known| known.is_terminating = true;
    assert_eq!(after(0, is_terminating), "delete workload []");

    let left = |seconds| keeps_quota_for(&known.1, Duration::from_secs(seconds));
    assert_eq!(left(3), Some(Duration::from_secs(7)));
    assert_eq!(left(10), None);
    let mut evicted = known.clone();
    let now = Timestamp::UNIX_EPOCH;
    evicted.1.status = workload::evicted(&known.1, &Cause::pods_gone(), now);
    assert_eq!(keeps_quota_for(&evicted.1, Duration::ZERO), None);
    let plan = plan_for(&[], Some(&evicted), |_| ());
    assert_eq!(told(&plan), r#"requeue ["Requeued"]"#);
    evicted.1.status = workload::requeued(&evicted.1, workload::Next::Queue, now);
    assert_eq!(kept_for(&evicted.1, now), Some(REPLACED_WITHIN));
}
