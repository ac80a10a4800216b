//! A leader takes over what a leader with another clock has recorded.

use k8s_openapi::jiff::ToSpan;

use super::*;

/// By how much the clock of the former leader is fast, by how much the present one is known to be ahead of it, and
/// what is measured.
type Row = (&'static str, i64, i64, u64);

const HOUR: i64 = 3600;

impl Play {
    /// Takes over from a leader whose clock is fast by so much, with the `status` of a Workload that it has recorded,
    /// and the job as it is now. Returns the Workload.
    fn take_over(
        &mut self,
        ahead: i64,
        status: &Value,
        change: impl FnOnce(&mut Value),
    ) -> DynamicObject {
        self.controller.clock_ahead = SignedDuration::from_secs(ahead);
        self.list_settings();
        let mut spec = queue_spec();
        spec["reservation"] = json!({"timeoutSeconds": 60,
            "backoff": {"baseSeconds": 5, "maxSeconds": 60}});
        self.list(&Source::ClusterQueue, [own("ClusterQueue", "q", &spec)]);
        let mut workload = own(
            "Workload",
            &sluice_crds::workload_name("a", "uid-a"),
            &json!({"queueName": "main", "priority": 0,
                "jobCreationTimestamp": "2026-11-23T11:00:00Z",
                "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1"}}]}),
        );
        workload["metadata"]["namespace"] = json!("blue");
        workload["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job",
            "name": "a", "uid": "uid-a", "controller": true}]);
        workload["status"] = status.clone();
        self.list(&Source::Workload, [workload.clone()]);
        let mut job = job("a");
        change(&mut job);
        self.list_jobs([job]);
        serde_json::from_value(workload).unwrap()
    }

    /// After how many seconds the status of the `workload` is written for this purpose. What is written before that is
    /// done.
    fn seconds_until(&mut self, workload: &DynamicObject, wanted: StatusPurpose) -> u64 {
        let mut revision = 20;
        for second in 0..2 * 3600 {
            self.handle(Input::Tick);
            for sent in self.cycle() {
                match &sent.write {
                    Write::SetWorkloadStatus { purpose, .. } if *purpose == wanted => {
                        return second;
                    }
                    Write::SetWorkloadStatus { .. } => {
                        revision += 1;
                        let reply = with_status(workload, &sent, revision);
                        self.end(sent, reply);
                    }
                    _ => self.end(sent, Reply::Refused("no".to_owned())),
                }
            }
            self.pass(Duration::from_secs(1));
        }
        u64::MAX
    }

    /// The time that a clock shows that is fast by so much, so many seconds from now.
    fn recorded(&self, fast: i64, seconds: i64) -> String {
        (self.now.wall + (fast + seconds).seconds()).to_string()
    }
}

fn condition(kind: &str, at: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at})
}

fn admission() -> Value {
    json!({"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 1,
        "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "1"}}]})
}

fn run(job: &mut Value) {
    job["spec"]["suspend"] = json!(false);
    job["status"] = json!({"active": 1});
}

fn check(rows: &[Row], measure: impl Fn(&mut Play, i64, i64) -> u64) {
    for &(name, fast, ahead, expected) in rows {
        let mut play = Play::new();
        assert_eq!(measure(&mut play, fast, ahead), expected, "{name}");
    }
}

/// Admitted ten seconds ago, and may hold its quota unused for a minute.
#[tokio::test]
async fn the_reservation_times_out_once_and_in_time() {
    let rows = [
        ("the clocks agree", 0, 0, 50),
        ("the former is an hour fast", HOUR, -HOUR, 50),
        ("the former is an hour fast, and who knows", HOUR, 0, 60),
        ("the former is an hour slow", -HOUR, HOUR, 50),
        ("nobody led for an hour", 0, HOUR, 60),
    ];
    check(&rows, |play, fast, ahead| {
        let at = play.recorded(fast, -10);
        let status = json!({"admission": admission(),
            "conditions": [condition("QuotaReserved", &at), condition("Admitted", &at)]});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a-1", "namespace": "blue", "uid": "uid-a-1", "resourceVersion": "20",
                "creationTimestamp": play.recorded(0, -10), "labels": {"sluice.dev/managed": "true"},
                "annotations": {"sluice.dev/pod-set": "main"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a",
                    "uid": "uid-a", "controller": true}],
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending"},
        });
        play.list(&Source::Pod, []);
        let workload = play.take_over(ahead, &status, run);
        play.observe(&Source::Pod, Change::Applied(seen(pod)));
        play.seconds_until(&workload, StatusPurpose::Evict)
    });
}

/// Evicted ten seconds ago, and does not stop.
#[tokio::test]
async fn an_eviction_stalls_in_time() {
    let rows = [
        ("the clocks agree", 0, 0, 50),
        ("the former is an hour fast", HOUR, -HOUR, 50),
        ("the former is an hour fast, and who knows", HOUR, 0, 60),
        ("the former is an hour slow", -HOUR, HOUR, 50),
        ("nobody led for an hour", 0, HOUR, 60),
    ];
    check(&rows, |play, fast, ahead| {
        let at = play.recorded(fast, -10);
        let status = json!({"admission": admission(),
            "conditions": [condition("QuotaReserved", &at), condition("Evicted", &at)]});
        let workload = play.take_over(ahead, &status, run);
        // Its suspension is refused.
        play.seconds_until(&workload, StatusPurpose::Stall)
    });
}

/// Backs off for twenty seconds more, of a minute at most.
#[tokio::test]
async fn a_backoff_ends_and_lasts_no_longer_than_it_may() {
    let rows = [
        ("the clocks agree", 0, 0, 20),
        ("the former is an hour fast", HOUR, -HOUR, 20),
        ("the former is an hour fast, and who knows", HOUR, 0, 60),
        ("the former is an hour slow", -HOUR, HOUR, 0),
        ("nobody led for an hour", 0, HOUR, 20),
    ];
    check(&rows, |play, fast, ahead| {
        let until = play.recorded(fast, 20);
        let status = json!({"requeueState": {"count": 1, "requeueAt": until}});
        let workload = play.take_over(ahead, &status, |_| ());
        play.seconds_until(&workload, StatusPurpose::Admit)
    });
}

/// Admitted a second ago: for five seconds pods may run that no watch has shown.
#[tokio::test]
async fn quota_is_kept_for_unseen_pods_for_seconds() {
    let rows = [
        ("the clocks agree", 0, 0, 4),
        ("the former is an hour fast", HOUR, -HOUR, 4),
        ("the former is an hour fast, and who knows", HOUR, 0, 5),
        ("the former is an hour slow", -HOUR, HOUR, 4),
        ("nobody led for an hour", 0, HOUR, 5),
    ];
    check(&rows, |play, fast, ahead| {
        let at = play.recorded(fast, -1);
        let status = json!({"admission": admission(),
            "conditions": [condition("QuotaReserved", &at), condition("Admitted", &at)]});
        // What the former leader has sent may have released it.
        play.take_over(ahead, &status, |_| {});
        for release in play.cycle() {
            play.end(release, Reply::Refused("no".to_owned()));
        }
        let workload = play.controller.objects.workloads().next().unwrap();
        let gone = seen(
            json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
            "metadata": {"namespace": "blue", "name": *workload.0.name, "uid": *workload.1.uid}}),
        );
        let Seen::Object(gone) = gone else {
            return u64::MAX;
        };
        let jobs = play.jobs.clone().unwrap();
        let Seen::Object(job) = seen(job("a")) else {
            return u64::MAX;
        };
        play.observe(&jobs, Change::Deleted(job));
        play.observe(&Source::Workload, Change::Deleted(gone));
        for second in 0..2 * 3600 {
            play.handle(Input::Tick);
            play.cycle();
            let subject = Subject::Job("uid-a".into());
            if play.controller.engine.admission(&subject.id()).is_none() {
                return second;
            }
            play.pass(Duration::from_secs(1));
        }
        u64::MAX
    });
}
