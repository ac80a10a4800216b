//! Children that clean up after an object that is not admitted: the object is not gone before they have ended.

use std::collections::BTreeSet;

use super::*;

/// Jobs, whose controller makes a Job that cleans up and asks for so much at most.
fn kind_with_cleanup(limits: &Value) -> Value {
    let mut kind = job_kind();
    let child = json!({"group": "batch", "kind": "Job", "cleanupRequests": limits});
    kind["spec"]["children"].as_array_mut().unwrap().push(child);
    kind
}

/// A job that is deleted before there was quota for it, and the Job that cleans up after it.
fn jobs(queue: &str, cpu: &str) -> [Value; 2] {
    let mut root = job("big");
    root["metadata"]["labels"]["sluice.dev/queue-name"] = json!(queue);
    root["metadata"]["deletionTimestamp"] = json!("2026-11-23T11:59:58Z");
    root["metadata"]["finalizers"] = json!(["acme.io/cleanup"]);
    root["spec"]["parallelism"] = json!(9);
    let mut cleanup = job("cleanup");
    cleanup["metadata"] = json!({
        "name": "cleanup", "namespace": "blue", "uid": "uid-cleanup", "resourceVersion": "9",
        "creationTimestamp": "2026-11-23T11:59:59Z", "generation": 1,
        "ownerReferences": [pod_usage::owned_by("batch/v1", "Job", "big")],
    });
    cleanup["spec"]["suspend"] = json!(false);
    let requests = json!({"requests": {"cpu": cpu}});
    cleanup["spec"]["template"]["spec"]["containers"][0]["resources"] = requests;
    cleanup["status"] = json!({"active": 1});
    [root, cleanup]
}

impl Play {
    /// So many seconds pass. Returns whether the child is suspended.
    fn stops_child(&mut self, seconds: u64) -> bool {
        self.stops_edited_child(seconds, None)
    }

    /// The same, while somebody suspends and resumes this child every second.
    fn stops_edited_child(&mut self, seconds: u64, edited: Option<&Value>) -> bool {
        let mut is_stopped = false;
        for second in 0..seconds {
            self.pass(Duration::from_secs(1));
            if let Some(edited) = edited {
                let jobs = self.jobs.clone().unwrap();
                for (edit, suspend) in [(0, json!(true)), (1, edited["spec"]["suspend"].clone())] {
                    let mut child = edited.clone();
                    let version = 100 + 2 * second + edit;
                    child["metadata"]["resourceVersion"] = json!(version.to_string());
                    child["spec"]["suspend"] = suspend;
                    self.observe(&jobs, Change::Applied(seen(child)));
                }
            }
            self.handle(Input::Tick);
            let outputs = self.controller.cycle(self.now);
            is_stopped |= outputs
                .into_iter()
                .any(|o| matches!(o, Output::SuspendChild(_)));
        }
        is_stopped
    }
}

/// What is done to the Job that cleans up, and to its owner.
type Edit = fn(&mut Value, &mut Value);

#[tokio::test]
async fn what_cleans_up_runs_on() {
    let little = json!({"cpu": "200m"});
    let as_it_is: Edit = |_, _| {};
    let rows: [(&str, &str, Value, Edit, bool); 6] = [
        (
            "as much as is allowed",
            "200m",
            little.clone(),
            as_it_is,
            true,
        ),
        ("more than that", "201m", little.clone(), as_it_is, false),
        (
            "another resource is allowed",
            "200m",
            json!({"memory": "1Gi"}),
            as_it_is,
            false,
        ),
        ("nothing is allowed", "200m", json!({}), as_it_is, false),
        (
            "two pods",
            "100m",
            little.clone(),
            |_, cleanup| cleanup["spec"]["parallelism"] = json!(2),
            false,
        ),
        (
            "its owner stays",
            "200m",
            little,
            |root, _| root["metadata"]["deletionTimestamp"] = Value::Null,
            false,
        ),
    ];
    for (name, cpu, limits, edit, runs_on) in rows {
        let mut play = Play::new();
        play.list_settings_of(&kind_with_cleanup(&limits));
        let [mut root, mut cleanup] = jobs("main", cpu);
        edit(&mut root, &mut cleanup);
        play.list_jobs([root, cleanup]);
        assert_eq!(play.stops_child(4), !runs_on, "{name}");
    }
}

#[tokio::test]
async fn who_changes_a_child_each_second_does_not_keep_it_running() {
    for (limits, is_stopped) in [(json!({}), true), (json!({"cpu": "200m"}), false)] {
        let mut play = Play::new();
        play.list_settings_of(&kind_with_cleanup(&limits));
        let [root, cleanup] = jobs("main", "200m");
        play.list_jobs([root, cleanup.clone()]);
        assert_eq!(play.stops_edited_child(4, Some(&cleanup)), is_stopped);
    }
}

/// Each is found twice, however often it is seen.
#[tokio::test]
async fn a_child_by_the_name_of_a_suspect_is_another_one() {
    let mut play = Play::new();
    play.list_settings_of(&kind_with_cleanup(&json!({})));
    let [root, mut cleanup] = jobs("main", "200m");
    play.list_jobs([root, cleanup.clone()]);
    assert!(!play.stops_child(1), "it is found once");
    cleanup["metadata"]["uid"] = json!("uid-another");
    assert!(!play.stops_edited_child(1, Some(&cleanup)));
    assert!(play.stops_edited_child(1, Some(&cleanup)));
}

/// The controller makes no more, and whoever may create Jobs could.
#[tokio::test]
async fn one_cleans_up_after_each_owner() {
    let mut play = Play::new();
    play.list_settings_of(&kind_with_cleanup(&json!({"cpu": "1"})));
    let [root, first] = jobs("main", "1");
    let mut second = first.clone();
    second["metadata"]["name"] = json!("second");
    second["metadata"]["uid"] = json!("uid-second");
    second["metadata"]["creationTimestamp"] = json!("2026-11-23T12:00:00Z");
    play.list_jobs([second, root, first]);
    let mut stopped = BTreeSet::new();
    for _ in 0..4 {
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
        for output in play.controller.cycle(play.now) {
            if let Output::SuspendChild(suspension) = output {
                stopped.insert(suspension.key.name.to_string());
            }
        }
    }
    assert_eq!(stopped, BTreeSet::from(["second".to_owned()]));
}

/// By the clock of the leader, which may be an hour slow, and whoever changes it.
#[tokio::test]
async fn it_runs_no_longer_than_ten_minutes() {
    for created in ["2026-11-23T11:59:59Z", "2026-11-23T13:00:00Z"] {
        let mut play = Play::new();
        play.list_settings_of(&kind_with_cleanup(&json!({"cpu": "1"})));
        let [root, mut cleanup] = jobs("main", "1");
        cleanup["metadata"]["creationTimestamp"] = json!(created);
        play.list_jobs([root, cleanup.clone()]);
        assert!(!play.stops_child(500), "{created}");
        let is_stopped = play.stops_edited_child(120, Some(&cleanup));
        assert!(is_stopped, "{created}");
    }
}
