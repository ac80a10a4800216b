//! Pods that are made again after their job has finished.

use super::pod_usage::{found, of_job, owned_by, running};
use super::*;
use crate::api::lookup::Found;

/// Its controller keeps them for a while, as that of a RayJob does, and they keep its quota until they are gone.
#[tokio::test]
async fn pods_made_again_after_the_end_of_their_job_count_by_themselves() {
    let mut play = Play::new();
    let mut workload = play.admit("a");
    play.see_pod(of_job("p", None));
    let mut ended = job("a");
    ended["metadata"]["resourceVersion"] = json!("30");
    ended["spec"]["suspend"] = json!(false);
    ended["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(ended)));
    assert_eq!(play.cycle().len(), 0, "its pod runs");
    assert_eq!(play.usage("p", "a"), [false, true]);

    play.see_pod(of_job("p", Some(30)));
    let finish = play.cycle().remove(0);
    let Write::SetWorkloadStatus {
        status, purpose, ..
    } = &finish.write
    else {
        panic!("not finished: {finish:?}");
    };
    assert_eq!(*purpose, StatusPurpose::Finish);
    workload.data["status"] = serde_json::to_value(status).unwrap();
    workload.metadata.resource_version = Some("31".to_owned());
    // One that is made while that is written.
    play.see_pod(of_job("early", None));
    assert_eq!(play.usage("early", "a"), [false, true]);
    play.end(finish, Reply::Done(Some(Box::new(workload))));
    play.see_pod(of_job("late", None));
    for (pod, has_usage) in [("p", false), ("early", true), ("late", true)] {
        assert_eq!(play.usage(pod, "a"), [has_usage, false], "{pod}");
    }

    let mut told = Vec::new();
    for _ in 0..10 {
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
        let notes = play.cycle().into_iter().flat_map(|write| write.notes);
        told.extend(notes.map(|note| note.message));
    }
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        told[0],
        "Runs though its job has finished and its quota was freed: it counts by itself in ClusterQueue \"q\", and is deleted when its quota is reclaimed"
    );
}

/// The only pod of a group, made by a StatefulSet.
fn member(revision: u64, is_gated: bool) -> Value {
    let mut pod = running(
        "m",
        &json!({"sluice.dev/queue-name": "main", "sluice.dev/pod-group-name": "g"}),
        Some(owned_by("apps/v1", "StatefulSet", "s")),
    );
    pod["metadata"]["resourceVersion"] = json!(revision.to_string());
    pod["metadata"]["annotations"] = json!({"sluice.dev/pod-group-total-count": "1"});
    if is_gated {
        pod["spec"]["nodeName"] = Value::Null;
        pod["spec"]["schedulingGates"] = json!([{"name": sluice_crds::QUEUE_GATE}]);
    }
    pod
}

/// The purpose of the next write for the Workload of the group, if there is one.
fn next_of_group(play: &mut Play) -> Option<&'static str> {
    let mut writes = play.cycle().into_iter();
    let write = writes.find(|write| matches!(write.subject, Subject::Group(_)))?;
    Some(match write.write {
        Write::DeleteWorkload { .. } => "delete",
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::Evict,
            ..
        } => "evict",
        other => panic!("{other:?}"),
    })
}

/// The Job to which the StatefulSet belongs.
fn maker() -> Value {
    let mut maker = job("a");
    maker["metadata"]["annotations"] = json!({"sluice.dev/admission": "PerPod"});
    maker
}

/// The group is admitted, its pod runs, and its maker is known. Returns its Workload.
fn with_group() -> (Play, DynamicObject) {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([maker()]);
    play.see_pod(member(20, true));
    let created = play.cycle().remove(0);
    let workload = stored(&created, 21);
    play.end(created, Reply::Done(Some(Box::new(workload.clone()))));
    let admitted = play.cycle().remove(0);
    let Reply::Done(Some(shown)) = with_status(&workload, &admitted, 22) else {
        panic!("it is done");
    };
    play.end(admitted, Reply::Done(Some(shown.clone())));
    play.answer(|owner| match owner.kind.as_str() {
        "StatefulSet" => found(Some(owned_by("batch/v1", "Job", "a"))),
        _ => Found::Gone,
    });
    play.see_pod(member(23, false));
    assert_eq!(next_of_group(&mut play), None);
    (play, *shown)
}

#[tokio::test]
async fn a_running_group_that_is_deactivated_is_evicted() {
    let (mut play, mut workload) = with_group();
    workload.data["spec"]["active"] = json!(false);
    workload.metadata.resource_version = Some("24".to_owned());
    let deactivated = Seen::Object(Box::new(workload));
    play.observe(&Source::Workload, Change::Applied(deactivated));
    assert_eq!(next_of_group(&mut play), Some("evict"));
}

/// Whether pods come again is known by their maker, which is looked up while they are there: a StatefulSet of a Job.
#[tokio::test]
async fn a_group_without_pods_keeps_its_quota_for_a_moment_unless_its_maker_is_gone() {
    for maker_goes in [false, true] {
        let (mut play, _) = with_group();
        if maker_goes {
            let jobs = play.jobs.clone().unwrap();
            let gone = serde_json::from_value(maker()).unwrap();
            play.observe(&jobs, Change::Deleted(Box::new(gone)));
        }
        let gone = serde_json::from_value(member(24, false)).unwrap();
        play.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
        if maker_goes {
            assert_eq!(next_of_group(&mut play), Some("delete"));
            continue;
        }
        assert_eq!(next_of_group(&mut play), None);
        play.pass(Duration::from_secs(9));
        assert_eq!(next_of_group(&mut play), None);
        play.pass(Duration::from_secs(1));
        assert_eq!(next_of_group(&mut play), Some("evict"));
    }
}
