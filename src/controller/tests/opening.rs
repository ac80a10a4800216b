//! What the first decision of a leader waits for.

use super::*;

impl Play {
    /// Job `b` waits, and job `a` runs, whose Workload somebody deleted while nobody led. Returns `a`.
    fn list_one_that_runs(&mut self) -> Value {
        self.list_settings();
        let mut running = job("a");
        running["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
        running["spec"]["suspend"] = json!(false);
        running["status"] = json!({"active": 1});
        self.list_jobs([running.clone(), job("b")]);
        running
    }

    /// Ends the writes of this cycle: Workloads are created, all else gets no answer. Tells how many admissions were
    /// among them.
    fn settle(&mut self, revision: u64) -> usize {
        let mut admissions = 0;
        for (write, revision) in self.cycle().into_iter().zip(revision..) {
            if is_created(&write) {
                let stored = stored(&write, revision);
                self.end(write, Reply::Done(Some(Box::new(stored))));
            } else {
                admissions += usize::from(is_admitted(&write));
                self.end(write, Reply::Unknown("no answer in time".to_owned()));
            }
        }
        admissions
    }
}

#[tokio::test]
async fn a_job_that_runs_without_a_workload_stops_before_its_quota_is_given_to_others() {
    let mut play = Play::new();
    let mut running = play.list_one_that_runs();
    assert_eq!(play.settle(20), 0);
    running["metadata"]["resourceVersion"] = json!("30");
    running["metadata"]["annotations"]["sluice.dev/held"] = json!("true");
    running["spec"]["suspend"] = json!(true);
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(running.clone())));
    for revision in [40, 50, 60] {
        play.pass(Duration::from_secs(1));
        assert_eq!(play.settle(revision), 0, "its pod runs");
    }
    running["metadata"]["resourceVersion"] = json!("70");
    running["status"] = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
    play.observe(&jobs, Change::Applied(seen(running)));
    let admissions: usize = [80, 90].map(|revision| play.settle(revision)).iter().sum();
    assert_eq!(admissions, 1, "it has stopped");
}

#[tokio::test]
async fn a_job_that_does_not_stop_keeps_nobody_waiting_for_long() {
    let mut play = Play::new();
    play.list_one_that_runs();
    assert_eq!(play.settle(20), 0);
    play.pass(Duration::from_secs(29));
    assert_eq!(play.settle(40), 0);
    play.pass(Duration::from_secs(1));
    assert_eq!(play.settle(60), 1);
}
