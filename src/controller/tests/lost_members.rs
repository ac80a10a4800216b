//! Pods that were admitted by a Workload which somebody has deleted, where nothing but their deletion stops them.

use super::evictions::member;
use super::pod_usage::{owned_by, running};
use super::*;
use crate::cache::GroupKey;
use crate::plan::JobPurpose;

/// A pod that runs, of this pod set. Its record says `with` what it was released.
fn released(mut pod: Value, set: &str, with: &Value) -> Value {
    let mut record =
        json!({"clusterQueue": "q", "flavors": {"cpu": "any"}, "at": "2026-11-23T12:00:00Z"});
    json_patch::merge(&mut record, with);
    pod["metadata"]["resourceVersion"] = json!("42");
    pod["metadata"]["annotations"]["sluice.dev/pod-set"] = json!(set);
    pod["metadata"]["annotations"]["sluice.dev/admitted"] = json!(record.to_string());
    pod["spec"]["schedulingGates"] = json!([]);
    pod["spec"]["nodeName"] = json!("n");
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn deleted(mut pod: Value) -> Value {
    pod["metadata"]["resourceVersion"] = json!("43");
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-23T12:00:30Z");
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    pod
}

fn group() -> Subject {
    Subject::Group(GroupKey {
        namespace: "blue".into(),
        name: "g".into(),
    })
}

/// What is done, in words.
fn done(writes: &[InFlightWrite]) -> Vec<String> {
    let words = writes.iter().filter_map(|sent| match &sent.write {
        Write::DeletePod { key, .. } => Some(format!("delete {}", key.name)),
        Write::CreateWorkload(_) => Some("create".to_owned()),
        Write::PatchJob { purpose, .. } => Some(format!("{purpose:?}")),
        _ => None,
    });
    words.collect()
}

impl Play {
    /// Settings as they are, with this in the ClusterQueue.
    fn list_queue(&mut self, when_not_restartable: &str) {
        self.list_settings();
        self.edit_queue(30, |spec| {
            spec["whenNotRestartable"] = json!(when_not_restartable);
        });
        self.list_jobs([]);
    }

    /// All that is admitted as a whole of this kind.
    fn list_whole(&mut self, job_kind: &Value, object: Value) {
        self.list_settings_of(job_kind);
        let source = self.find_jobs_by(job_kind["metadata"]["name"].as_str().unwrap());
        self.list(&source, [object]);
    }

    fn see_gone(&mut self, pod: Value) {
        let gone = serde_json::from_value(deleted(pod)).unwrap();
        self.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
    }
}

/// The group is admitted, and its two pods run. Returns them and its Workload.
fn admitted_group(play: &mut Play, owner: Option<&Value>) -> ([Value; 2], DynamicObject) {
    let members = ["g-0", "g-1"].map(|name| member(name, owner.cloned()));
    for pod in members.clone() {
        play.see_pod(pod);
    }
    let workload = play.admit_group();
    let releases = play.cycle();
    let set = workload.data["spec"]["podSets"][0]["name"]
        .as_str()
        .unwrap();
    let running = members.map(|pod| released(pod, set, &json!({"group": "g"})));
    for (write, pod) in releases.into_iter().zip(running.clone()) {
        let pod = serde_json::from_value(pod).unwrap();
        play.end(write, Reply::Done(Some(Box::new(pod))));
    }
    play.cycle();
    (running, workload)
}

/// Else each pod that is made in place of one of them would wait for ever: for the others, and, after a restart, for the
/// quota that they use.
#[tokio::test]
async fn the_pods_of_a_group_that_has_lost_its_workload_are_deleted_and_it_is_queued_again() {
    let maker = owned_by("apps/v1", "StatefulSet", "set");
    for is_restarted in [false, true] {
        let mut play = Play::new();
        play.list_queue("Keep");
        let (pods, workload) = admitted_group(&mut play, Some(&maker));
        if is_restarted {
            play = Play::new();
            play.list_queue("Keep");
            play.list(&Source::Pod, pods.clone());
        } else {
            play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
        }
        let writes = play.cycle();
        assert_eq!(
            done(&writes),
            ["delete g-0", "delete g-1"],
            "{is_restarted}"
        );
        for (write, pod) in writes.into_iter().zip(pods.clone()) {
            play.end(write, Reply::Done(None));
            play.see_pod(deleted(pod));
        }
        let [first, second] = pods;
        play.see_gone(first);
        play.see_pod(member("g-2", Some(maker.clone())));
        assert_eq!(done(&play.cycle()), Vec::<String>::new(), "one is ending");
        play.see_gone(second);
        play.see_pod(member("g-3", Some(maker.clone())));
        assert_eq!(done(&play.cycle()), ["create"], "{is_restarted}");
    }
}

/// Pods of a Job whose template names a group, orphaned: they run on, and were never admitted with the group.
#[tokio::test]
async fn pods_that_count_by_themselves_in_a_group_without_a_workload_are_not_deleted() {
    let mut play = Play::new();
    play.list_queue("Delete");
    play.see_pod(released(member("g-0", None), "main", &json!({})));
    let writes: Vec<_> = (0..10).flat_map(|_| play.second()).collect();
    assert_eq!(done(&writes), Vec::<String>::new());
    // The group is lost that they come to.
    let mut play = Play::new();
    play.list_queue("Delete");
    let (_, workload) = admitted_group(&mut play, None);
    play.see_pod(released(member("guest", None), "main", &json!({})));
    play.cycle();
    play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
    assert_eq!(done(&play.cycle()), ["delete g-0", "delete g-1"]);
}

#[tokio::test]
async fn bare_pods_of_a_group_that_has_lost_its_workload_are_kept_where_their_queue_keeps_such() {
    for (policy, deleted, reason) in [
        ("Keep", &[][..], "NotEvicted"),
        ("Delete", &["delete g-0", "delete g-1"], "Stopped"),
    ] {
        let mut play = Play::new();
        play.list_queue(policy);
        let (_, workload) = admitted_group(&mut play, None);
        play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
        let (mut writes, mut told) = (Vec::new(), Vec::new());
        for output in play.controller.cycle(play.now) {
            match output {
                Output::Write(write) => writes.push(write),
                Output::Tell(_, note) => told.push(note.reason),
                _ => {}
            }
        }
        assert_eq!(done(&writes), deleted, "{policy}");
        assert_eq!(told, [reason], "{policy}");
        let holds = play.controller.engine.admission(&group().id()).is_some();
        assert!(holds, "{policy}: they run");
    }
}

/// An object that is admitted as a whole and waits by its pods, and the pod that it was released with.
fn whole(kind: &str) -> (Value, Value) {
    let template = json!({
        "metadata": {
            "labels": {"sluice.dev/managed": "true"}, "annotations": {"sluice.dev/pod-set": "main"},
        },
        "spec": {
            "schedulingGates": [{"name": "sluice.dev/queue-allocation-gate"}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    });
    let mut object = job("a");
    object["kind"] = json!(kind);
    object["metadata"]["annotations"] = json!({"sluice.dev/admission": "Whole"});
    object["spec"] = json!({"replicas": 1, "template": template});
    object["status"] = json!({"active": 1});
    if kind == "Job" {
        object["spec"]["suspend"] = json!(false);
    } else {
        object["apiVersion"] = json!("apps/v1");
    }
    let api_version = object["apiVersion"].as_str().unwrap();
    let pod = running("a-0", &json!({}), Some(owned_by(api_version, kind, "a")));
    (object, released(pod, "main", &json!({"job": "uid-a"})))
}

/// Nothing else stops a Deployment; a Job is suspended, as its controller takes a deleted pod for a failed one.
#[tokio::test]
async fn the_pods_of_an_object_behind_gates_that_has_lost_its_workload_are_stopped() {
    let deployment: Value =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/deployment.yaml")).unwrap();
    let suspends = format!("{:?}", JobPurpose::Suspend);
    for (kind, job_kind, expected) in [
        ("Deployment", deployment, "delete a-0"),
        ("Job", job_kind(), suspends.as_str()),
    ] {
        for is_restarted in [false, true] {
            let (object, pod) = whole(kind);
            let mut play = Play::new();
            if is_restarted {
                play.list_whole(&job_kind, object);
                play.see_pod(pod.clone());
            } else {
                play.list_whole(&job_kind, object);
                let workload = play.admit_listed();
                play.see_pod(pod.clone());
                play.cycle();
                play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
            }
            let writes = play.cycle();
            assert_eq!(done(&writes), [expected], "{kind} {is_restarted}");
            for write in writes {
                play.end(write, Reply::Unknown("no reply within 5 s".to_owned()));
            }
            play.see_gone(pod);
            let writes: Vec<_> = (0..5).flat_map(|_| play.second()).collect();
            let is_created = done(&writes).iter().any(|done| done == "create");
            // The Job is still to be suspended, as nobody has answered.
            assert!(is_created, "{kind} {is_restarted}: {writes:?}");
        }
    }
}
