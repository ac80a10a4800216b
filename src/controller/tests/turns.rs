//! What is counted and logged of the turns of a job's life: what is seen, whether or not the write that did it was
//! answered.

use std::sync::Mutex;

use super::pod_usage::{owned_by, running};
use super::requeued::released;
use super::*;
use crate::cache::PodRecord;
use crate::controller::reports::turns::has_finished;
use crate::process::metrics::Exposition;

const ADMITTED: &str = "sluice_admitted_workloads_total{cluster_queue=\"q\",priority_class=\"\"}";
const RELEASED: &str = "sluice_released_jobs_total{cluster_queue=\"q\"}";

impl Play {
    /// The value of this series.
    fn counted(&self, series: &str) -> Option<String> {
        let told = self.controller.metrics.text(Exposition::Text);
        let mut lines = told.lines();
        let value = lines.find_map(|line| line.strip_prefix(series));
        value.map(|value| value.trim().to_owned())
    }

    pub(super) fn see_counted(&self, series: &str, value: u32, when: &str) {
        assert_eq!(self.counted(series), Some(value.to_string()), "{when}");
    }
}

/// The watch shows it suspended again, as another client wrote that, and released once more.
#[tokio::test]
async fn a_release_that_nobody_answers_is_counted_once_it_is_seen() {
    let mut play = Play::new();
    let (_, release) = play.release_first();
    let jobs = play.jobs.clone().unwrap();
    play.end(release, Reply::Unknown("no answer in time".to_owned()));
    play.handle(Input::Tick);
    play.see_counted(RELEASED, 0, "before it is seen");
    for (revision, is_suspended) in [(31, false), (32, false), (33, true), (34, false)] {
        let mut seen_as = released("a");
        seen_as.metadata.resource_version = Some(revision.to_string());
        seen_as.data["spec"]["suspend"] = json!(is_suspended);
        let seen_as = Seen::Object(Box::new(seen_as));
        play.observe(&jobs, Change::Applied(seen_as));
        play.see_counted(RELEASED, 1, "once it is seen");
    }
    let seconds = "sluice_release_seconds_count{cluster_queue=\"q\"}";
    play.see_counted(seconds, 1, "since the decision");
}

/// A pod that waits to be admitted by itself.
pub(super) fn waiting() -> Value {
    let mut pod = running("p", &json!({"sluice.dev/queue-name": "main"}), None);
    pod["metadata"]["annotations"] = json!({"sluice.dev/queue-allocation-gate": "true"});
    pod["spec"]["schedulingGates"] = json!([{"name": "sluice.dev/queue-allocation-gate"}]);
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod["status"] = json!({"phase": "Pending"});
    pod
}

/// The pod as the API server stores it after this write.
fn written(mut pod: Value, write: &InFlightWrite, revision: u32) -> Value {
    let Write::PatchPod { patch, .. } = &write.write else {
        panic!("no pod is written by {write:?}");
    };
    let admitted = &patch["metadata"]["annotations"]["sluice.dev/admitted"];
    assert!(admitted.is_string(), "{patch}");
    pod["metadata"]["annotations"]["sluice.dev/admitted"] = admitted.clone();
    pod["metadata"]["resourceVersion"] = json!(revision.to_string());
    pod["spec"]["schedulingGates"] = json!([]);
    pod
}

/// Its admission is sent again as it was, and conflicts with itself.
#[tokio::test]
async fn an_admission_of_a_pod_that_nobody_answers_is_counted_once_it_is_seen() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    play.see_pod(waiting());
    let admission = play.cycle().remove(0);
    let stored = written(waiting(), &admission, 21);
    play.end(admission, Reply::Unknown("no answer in time".to_owned()));
    play.handle(Input::Tick);
    play.see_counted(ADMITTED, 0, "before it is seen");
    play.see_pod(stored.clone());
    play.see_counted(ADMITTED, 1, "once it is seen");
    for _ in 0..60 {
        play.pass(Duration::from_secs(1));
        for again in play.cycle() {
            let stored = serde_json::from_value(stored.clone()).unwrap();
            play.end(again, Reply::Conflict(Some(Box::new(stored))));
        }
    }
    let mut later = stored;
    later["metadata"]["resourceVersion"] = json!("22");
    play.see_pod(later);
    play.see_counted(ADMITTED, 1, "when it is seen again");
}

/// As a job does.
#[tokio::test]
async fn a_pod_counts_under_the_class_that_its_priority_comes_from() {
    let mut of_pods = waiting();
    of_pods["spec"]["priorityClassName"] = json!("high");
    let mut by_label = waiting();
    by_label["metadata"]["labels"]["sluice.dev/priority-class"] = json!("batch");
    for (pod, class, is_recorded) in [
        (of_pods, "high", false),
        (by_label, "batch", true),
        (waiting(), "batch", true),
    ] {
        let mut play = Play::new();
        play.list_settings();
        play.list_jobs([]);
        let mut queue_class = own("WorkloadPriorityClass", "batch", &Value::Null);
        queue_class["value"] = json!(5);
        let source = Source::WorkloadPriorityClass;
        play.observe(&source, Change::Applied(seen(queue_class)));
        let mut spec = queue_spec();
        spec["priorityClasses"] = json!({"default": "batch"});
        let mut queue = own("ClusterQueue", "q", &spec);
        queue["metadata"]["resourceVersion"] = json!("6");
        play.observe(&Source::ClusterQueue, Change::Applied(seen(queue)));
        play.see_pod(pod.clone());
        let admission = play.cycle().remove(0);
        let stored = written(pod, &admission, 21);
        let recorded = &stored["metadata"]["annotations"]["sluice.dev/admitted"];
        let recorded: Value = serde_json::from_str(recorded.as_str().unwrap()).unwrap();
        let priority = is_recorded.then_some(json!(5));
        assert_eq!(recorded.get("priority"), priority.as_ref(), "{class}");
        play.see_pod(stored);
        let series = format!(
            "sluice_admitted_workloads_total{{cluster_queue=\"q\",priority_class=\"{class}\"}}"
        );
        play.see_counted(&series, 1, class);
    }
}

/// Its usage is recorded, and it was not admitted.
#[tokio::test]
async fn a_pod_that_runs_without_an_admission_is_not_counted_as_admitted() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    let pod = running("p", &json!({"sluice.dev/queue-name": "main"}), None);
    play.see_pod(pod.clone());
    let mut writes = Vec::new();
    for _ in 0..10 {
        writes.extend(play.cycle());
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
    }
    let record = writes.remove(0);
    assert_eq!(record.subject, Subject::Pod("uid-p".into()));
    let stored = serde_json::from_value(written(pod, &record, 21)).unwrap();
    play.end(record, Reply::Done(Some(Box::new(stored))));
    play.see_counted(ADMITTED, 0, "it runs");
}

/// Kubelet tells how a deleted pod has ended before it is gone.
#[test]
fn a_pod_that_is_evicted_has_not_finished() {
    let read = |phase: &str, is_deleted: bool| {
        let mut pod = waiting();
        pod["spec"]["schedulingGates"] = json!([]);
        pod["status"]["phase"] = json!(phase);
        if is_deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-23T12:00:00Z");
        }
        let pod = serde_json::from_value(pod).unwrap();
        PodRecord::read(pod, &QueueLabels::default(), &QueueGates::default())
    };
    let before = read("Running", false);
    for (phase, is_deleted, expected) in [
        ("Running", false, false),
        ("Succeeded", false, true),
        ("Failed", false, true),
        ("Failed", true, false),
        ("Succeeded", true, false),
    ] {
        let finished = has_finished(&before, &read(phase, is_deleted));
        assert_eq!(finished, expected, "{phase}, deleted: {is_deleted}");
    }
}

#[tokio::test]
async fn a_job_whose_pods_wait_behind_gates_is_released_with_the_first_of_them() {
    let mut play = Play::new();
    play.admit("a");
    play.handle(Input::Tick);
    play.see_counted(RELEASED, 0, "its pods wait");
    for name in ["p", "q"] {
        let owner = owned_by("batch/v1", "Job", "a");
        let mut pod = running(name, &json!({}), Some(owner));
        pod["spec"]["schedulingGates"] = json!([{"name": "sluice.dev/queue-allocation-gate"}]);
        play.see_pod(pod.clone());
        pod["spec"]["schedulingGates"] = json!([]);
        pod["metadata"]["resourceVersion"] = json!("21");
        play.see_pod(pod);
        play.see_counted(RELEASED, 1, name);
    }
}

/// What this logs of turns, each with its kind, its name and its flavor.
fn logged(act: impl FnOnce()) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Sink {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let sink = Sink::default();
    let of_writer = sink.clone();
    let log = tracing_subscriber::fmt()
        .json()
        .with_writer(move || of_writer.clone());
    tracing::subscriber::with_default(log.finish(), act);
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let turns = lines.filter(|line| line["target"] == "sluice::turns");
    let words = ["message", "kind", "name", "flavor", "reason"];
    let told =
        turns.map(|turn| words.map(|word| turn["fields"][word].as_str().unwrap().to_owned()));
    told.map(|words| words.join(" ").trim_end().to_owned())
        .collect()
}

#[tokio::test]
async fn a_life_ends_with_one_turn() {
    let mut play = Play::new();
    let workload = play.admit("a");
    let workload_gone = |play: &mut Play, workload: &DynamicObject| {
        for _ in 0..2 {
            let gone = Change::Deleted(Box::new(workload.clone()));
            play.observe(&Source::Workload, gone);
        }
    };
    let told = logged(|| workload_gone(&mut play, &workload));
    assert_eq!(told, ["deleted Job a any"]);

    let mut play = Play::new();
    let mut finished = play.admit("a");
    let told = logged(|| {
        finished.metadata.resource_version = Some("50".to_owned());
        finished.data["status"]["conditions"] = json!([{"type": "Finished", "status": "True",
            "reason": "Succeeded", "message": "", "lastTransitionTime": "2026-11-23T12:00:00Z"}]);
        let seen = Seen::Object(Box::new(finished.clone()));
        play.observe(&Source::Workload, Change::Applied(seen));
        workload_gone(&mut play, &finished);
    });
    assert_eq!(told, ["finished Job a any Succeeded"]);
}

/// Whether kubelet tells how it has ended, and whether it had before it was deleted.
#[tokio::test]
async fn the_life_of_a_pod_ends_with_one_turn() {
    let admitted = || {
        let mut pod = running("p", &json!({"sluice.dev/queue-name": "main"}), None);
        pod["metadata"]["annotations"] = json!({"sluice.dev/queue-allocation-gate": "true"});
        pod["metadata"]["annotations"]["sluice.dev/admitted"] = json!(
            r#"{"at": "2026-11-23T11:59:00Z", "clusterQueue": "q", "flavors": {"cpu": "any"}}"#
        );
        pod
    };
    let next = |revision: u32, phase: &str, is_deleted: bool| {
        let mut pod = admitted();
        pod["metadata"]["resourceVersion"] = json!(revision.to_string());
        pod["status"]["phase"] = json!(phase);
        if is_deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-23T12:00:00Z");
        }
        pod
    };
    let rows = [
        ("force", vec![], "deleted Pod p any"),
        (
            "stops",
            vec![next(30, "Running", true), next(31, "Failed", true)],
            "deleted Pod p any",
        ),
        (
            "has ended",
            vec![next(30, "Succeeded", false), next(31, "Succeeded", true)],
            "finished Pod p any Succeeded",
        ),
    ];
    for (name, states, expected) in rows {
        let mut play = Play::new();
        play.list_settings();
        play.list_jobs([]);
        play.see_pod(admitted());
        let told = logged(|| {
            for state in states {
                play.see_pod(state);
            }
            let gone = serde_json::from_value(next(40, "Failed", true)).unwrap();
            play.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
        });
        assert_eq!(told, [expected], "{name}");
    }
}
