//! Admitted jobs for which nobody makes pods.

use super::pod_usage::{owned_by, running};
use super::*;
use crate::process::metrics::Exposition;

/// The job as it is released. Its template gives its pods the label by which they are watched.
fn released_job() -> Value {
    let mut job = job("a");
    job["metadata"]["resourceVersion"] = json!("10");
    job["metadata"]["annotations"] = json!({"sluice.dev/held": "false"});
    job["spec"]["suspend"] = json!(false);
    job["spec"]["template"]["metadata"] = json!({
        "labels": {"sluice.dev/managed": "true"}, "annotations": {"sluice.dev/pod-set": "main"}});
    job["status"] = json!({"active": 0});
    job
}

impl Play {
    /// A job is admitted and released. Returns its Workload.
    fn release(&mut self, change: impl FnOnce(&mut Value)) -> DynamicObject {
        let workload = self.admit("a");
        let release = self.cycle().remove(0);
        let mut job = released_job();
        change(&mut job);
        let job = serde_json::from_value(job).unwrap();
        self.end(release, Reply::Done(Some(Box::new(job))));
        workload
    }

    /// How often it is told in so many seconds that there are no pods, and the reasons that the Workload gives for that
    /// they are not ready.
    fn told_in(&mut self, seconds: u32, workload: &mut DynamicObject) -> (usize, Vec<String>) {
        let (mut told, mut reasons) = (0, Vec::new());
        for _ in 0..seconds {
            self.pass(Duration::from_secs(1));
            self.handle(Input::Tick);
            for output in self.controller.cycle(self.now) {
                match output {
                    Output::Tell(_, note) if note.reason == "NoPods" => told += 1,
                    Output::Write(write) => {
                        let revision = 100 + self.controller.seconds;
                        let Reply::Done(Some(stored)) = with_status(workload, &write, revision)
                        else {
                            panic!("it is done");
                        };
                        *workload = *stored;
                        self.end(write, Reply::Done(Some(Box::new(workload.clone()))));
                        let conditions = workload.data["status"]["conditions"].as_array().unwrap();
                        let ready = conditions.iter().find(|known| known["type"] == "PodsReady");
                        reasons.push(ready.unwrap()["reason"].as_str().unwrap().to_owned());
                    }
                    _ => {}
                }
            }
        }
        (told, reasons)
    }

    fn are_without_pods(&self) -> bool {
        let text = self.controller.metrics.text(Exposition::Text);
        let line = "sluice_workloads_without_pods{cluster_queue=\"q\"} 1";
        text.lines().any(|told| told == line)
    }
}

#[tokio::test]
async fn an_admitted_job_without_pods_is_told_of() {
    let mut play = Play::new();
    let workload = &mut play.release(|_| ());
    assert_eq!(play.told_in(290, workload), (0, vec![]));
    assert!(!play.are_without_pods());
    assert_eq!(play.told_in(20, workload), (1, vec!["NoPods".to_owned()]));
    assert!(play.are_without_pods());
    assert_eq!(play.told_in(60, workload), (0, vec![]), "it is told once");

    play.see_pod(running(
        "a-0",
        &json!({}),
        Some(owned_by("batch/v1", "Job", "a")),
    ));
    assert_eq!(
        play.told_in(20, workload),
        (0, vec!["WaitForStart".to_owned()])
    );
    assert!(!play.are_without_pods());
    assert_eq!(play.told_in(600, workload), (0, vec![]));
}

/// Nothing shows whether its pods would be seen: they may run without the label.
#[tokio::test]
async fn a_job_whose_pods_may_not_be_seen_is_told_of_if_no_controller_says_anything() {
    for (status, expected) in [(json!({"active": 1}), 0), (json!({}), 1)] {
        let mut play = Play::new();
        let workload = &mut play.release(|job| {
            job["spec"]["template"]["metadata"] = json!({});
            job["status"] = status.clone();
        });
        let (told, _) = play.told_in(400, workload);
        assert_eq!(told, expected, "{status}");
    }
}

#[tokio::test]
async fn a_job_whose_pods_may_not_be_seen_is_not_said_to_have_none_once_its_controller_works_on_it()
{
    let mut play = Play::new();
    let hides_pods = |job: &mut Value| job["spec"]["template"]["metadata"] = json!({});
    let workload = &mut play.release(|job| {
        hides_pods(job);
        job["status"] = json!({});
    });
    assert_eq!(play.told_in(400, workload), (1, vec!["NoPods".to_owned()]));

    let mut job = released_job();
    hides_pods(&mut job);
    job["metadata"]["resourceVersion"] = json!("11");
    job["status"] = json!({"active": 1});
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(job)));
    assert_eq!(
        play.told_in(400, workload),
        (0, vec!["WaitForStart".to_owned()])
    );
}

#[tokio::test]
async fn a_job_that_wants_no_pods_is_not_told_of() {
    for change in [
        |job: &mut Value| job["spec"]["parallelism"] = json!(0),
        |job: &mut Value| {
            job["spec"]["completions"] = json!(1);
            job["status"] = json!({"succeeded": 1, "active": 0});
        },
    ] {
        let mut play = Play::new();
        let workload = &mut play.release(change);
        let (told, _) = play.told_in(400, workload);
        assert_eq!(told, 0);
    }
}
