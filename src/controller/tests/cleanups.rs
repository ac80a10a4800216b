//! Children that clean up after an object that is not admitted: the object is not gone before they have ended.

use super::*;
use crate::cache::Uid;

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
        let mut is_stopped = false;
        for _ in 0..seconds {
            self.pass(Duration::from_secs(1));
            self.handle(Input::Tick);
            let outputs = self.controller.cycle(self.now);
            is_stopped |= outputs
                .into_iter()
                .any(|o| matches!(o, Output::SuspendChild(_)));
        }
        is_stopped
    }

    fn counts(&self, job: &str) -> bool {
        let id = Subject::Job(Uid::from(format!("uid-{job}"))).id();
        self.controller.engine.admission(&id).is_some()
    }
}

#[tokio::test]
async fn what_cleans_up_runs_on_and_is_counted() {
    let rows = [
        (
            "as much as is allowed",
            "main",
            "200m",
            json!({"cpu": "200m"}),
            true,
        ),
        (
            "more than that",
            "main",
            "201m",
            json!({"cpu": "200m"}),
            false,
        ),
        (
            "another resource is allowed",
            "main",
            "200m",
            json!({"memory": "1Gi"}),
            false,
        ),
        ("nothing is allowed", "main", "200m", json!({}), false),
        (
            "no queue counts it",
            "none",
            "200m",
            json!({"cpu": "200m"}),
            false,
        ),
    ];
    for (name, queue, cpu, limits, runs_on) in rows {
        let mut play = Play::new();
        play.list_settings_of(&kind_with_cleanup(&limits));
        play.list_jobs(jobs(queue, cpu));
        assert_eq!(play.stops_child(4), !runs_on, "{name}");
        assert_eq!(play.counts("cleanup"), runs_on, "{name}");
    }
}

#[tokio::test]
async fn it_is_counted_until_it_has_ended_and_runs_no_longer_than_ten_minutes() {
    for is_ended in [true, false] {
        let mut play = Play::new();
        play.list_settings_of(&kind_with_cleanup(&json!({"cpu": "1"})));
        let [root, mut cleanup] = jobs("main", "1");
        play.list_jobs([root, cleanup.clone()]);
        assert!(!play.stops_child(500));
        assert!(play.counts("cleanup"));
        if is_ended {
            let complete = json!({"type": "Complete", "status": "True"});
            cleanup["status"] = json!({"succeeded": 1, "conditions": [complete]});
            cleanup["metadata"]["resourceVersion"] = json!("30");
            let jobs = play.jobs.clone().unwrap();
            play.observe(&jobs, Change::Applied(seen(cleanup)));
        }
        assert_eq!(play.stops_child(120), !is_ended);
        assert_eq!(
            play.counts("cleanup"),
            !is_ended,
            "until it is seen to be suspended"
        );
    }
}
