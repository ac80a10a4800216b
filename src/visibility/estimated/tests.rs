//! When jobs start that wait behind others, as a reader is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sluice_engine::{
    Admission, Amount, ClusterQueue, Event, Flavor, FlavorQuotas, LocalQueue, LocalQueueKey,
    PodSet, PodSetAssignment, Quota, ResourceGroup, Settings, Time, WorkloadId,
};
use sluice_estimates::durations::{FOREVER, Source};
use sluice_estimates::estimate::{Estimate, Known};
use sluice_estimates::finished::{FinishedJob, FinishedJobs};
use sluice_estimates::play::Start;
use sluice_estimates::seconds::Seconds;
use sluice_estimates::standing::StandingJob;

use super::estimates::Estimates;
use super::start_estimate::StartEstimate;
use super::taken::TakenJobs;
use crate::visibility::explained::findings::{Found, State, Stated};
use crate::visibility::pending::waiting::JobRef;

const NOW: &str = "2026-03-01T09:30:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn before(seconds: i64) -> Time {
    Time::from_millis(now().as_millisecond() - seconds * 1000)
}

fn key(namespace: &str) -> LocalQueueKey {
    LocalQueueKey::new(namespace, "main")
}

fn pod_sets(cpu: i128) -> Arc<[PodSet]> {
    Arc::new([PodSet {
        requests: BTreeMap::from([("cpu".into(), Amount::new(cpu))]),
        ..PodSet::new("main".into(), 1)
    }])
}

/// One ClusterQueue of one cpu, which two namespaces use.
fn setup() -> Vec<Event> {
    let quota = Quota {
        nominal: Amount::new(1),
        ..Quota::default()
    };
    let queue = ClusterQueue {
        resource_groups: vec![ResourceGroup {
            covered_resources: BTreeSet::from(["cpu".into()]),
            flavors: vec![FlavorQuotas {
                name: "any".into(),
                resources: BTreeMap::from([("cpu".into(), quota)]),
            }],
        }],
        ..ClusterQueue::new("q".into())
    };
    let flavor = Flavor {
        name: "any".into(),
        node_labels: BTreeMap::new(),
        node_taints: Vec::new(),
        tolerations: Vec::new(),
    };
    let local = |namespace| LocalQueue::new(key(namespace), "q".into());
    vec![
        Event::UpsertFlavor(flavor),
        Event::UpsertClusterQueue(queue),
        Event::UpsertLocalQueue(local("blue")),
        Event::UpsertLocalQueue(local("red")),
    ]
}

fn job(id: &str, namespace: &str, cpu: i128, start: Start) -> (WorkloadId, StandingJob) {
    let job = StandingJob {
        id: Some(id.into()),
        queue: key(namespace),
        kind: "Job".into(),
        pod_sets: pod_sets(cpu),
        priority: 0,
        created: before(300),
        said: None,
        start,
    };
    (id.into(), job)
}

/// It has run for a minute.
fn runs() -> Start {
    let assignment = PodSetAssignment {
        name: "main".into(),
        count: 1,
        flavors: BTreeMap::from([("cpu".into(), "any".into())]),
        usage: BTreeMap::from([("cpu".into(), Amount::new(1))]),
        bound: 1,
    };
    Start::Admitted {
        admission: Admission {
            queue: "q".into(),
            cohort: None,
            since: before(60),
            unused_since: None,
            had_nodes: true,
            pod_sets: Arc::new([assignment]),
        },
        pods: 1,
        evictable: true,
    }
}

/// A job of another namespace runs, and two wait for its quota, of which one can never have enough. Jobs like it ran for so
/// many seconds.
fn taken(ran: &[u64]) -> TakenJobs {
    let mut finished = FinishedJobs::default();
    for seconds in ran {
        finished.note(FinishedJob {
            queue: key("red"),
            kind: "Job".into(),
            pod_sets: pod_sets(1),
            priority: 0,
            created: before(5000),
            finished: before(1000),
            ran: Some(Duration::from_secs(*seconds)),
        });
    }
    TakenJobs {
        settings: Settings::new(Amount::new(1)),
        setup: setup(),
        jobs: BTreeMap::from([
            job("hidden", "red", 1, runs()),
            job("huge", "blue", 2, Start::Pending),
            job("waits", "blue", 1, Start::Pending),
        ]),
        too_many: None,
        finished: Arc::new(finished),
    }
}

fn stated(id: &str, state: State) -> Stated {
    Stated {
        found: Found {
            name: id.into(),
            job: None,
        },
        id: id.into(),
        namespace: "blue".into(),
        made: None,
        state,
        why: None,
        gates: Vec::new(),
        local_queue: Some(key("blue")),
        cluster_queue: Some("q".into()),
        priority: None,
        since: None,
        requests: Vec::new(),
        admission: None,
    }
}

fn told(taken: TakenJobs, whom: &str) -> Value {
    let id: WorkloadId = whom.into();
    let estimates = Estimates::new(taken, now(), &id);
    assert!(estimates.is_about(&id));
    let answer = estimates.answer(&id);
    let stated = stated(whom, State::Pending);
    let (taken, finished_jobs) = (estimates.taken, estimates.finished_jobs);
    let told = StartEstimate::new(&stated, taken, later(20), finished_jobs, answer);
    serde_json::to_value(told).unwrap()
}

#[test]
fn a_job_starts_when_the_one_before_it_has_run_for_as_long_as_others_did() {
    let told = told(taken(&[100, 110, 120, 130, 140]), "waits");
    let expected = json!({
        "kind": "StartEstimate", "apiVersion": "visibility.sluice.dev/v1alpha1",
        "metadata": {"name": "waits", "namespace": "blue"}, "taken": NOW, "answered": "2026-03-01T09:30:20Z",
        "state": "Pending",
        // It ends 100 s to 140 s after its beginning a minute ago.
        "earliest": "2026-03-01T09:30:40Z", "median": told["median"], "latest": "2026-03-01T09:31:20Z", "percent": 80,
        "simulations": 100, "jobs": 3, "moreJobsCome": false, "finishedJobs": 5,
        "durations": [{"source": "SameRequests", "jobs": 1}, {"source": "SameKind", "jobs": 2}],
    });
    assert_eq!(told, expected);
    assert!(!told.to_string().contains("hidden"));
}

/// Jobs finish meanwhile, but none of those that hold the quota.
#[test]
fn a_job_behind_a_service_has_no_latest_start() {
    let mut taken = taken(&[60; 5]);
    for (id, job) in &mut taken.jobs {
        if id.as_str() == "hidden" {
            (job.kind, job.said) = ("Pod".into(), Some(FOREVER));
        }
    }
    let told = told(taken, "waits");
    for time in ["earliest", "median", "latest"] {
        assert!(told.get(time).is_none(), "{told}");
    }
    let known = json!([{"source": "NeverEnds", "jobs": 1}, {"source": "SameKind", "jobs": 2}]);
    assert_eq!(
        (&told["durations"], &told["simulations"]),
        (&known, &json!(100))
    );
}

#[test]
fn why_there_is_no_estimate_is_a_reason() {
    let none = |taken, whom: &str| {
        let told = told(taken, whom);
        assert!(told.get("earliest").is_none(), "{told}");
        assert!(!told["message"].as_str().unwrap().is_empty());
        told["reason"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(none(taken(&[]), "waits"), "NoFinishedJobs");
    assert_eq!(none(taken(&[100]), "huge"), "Inadmissible");
    assert_eq!(none(taken(&[100]), "gone"), "NotQueued");
    let too_many = TakenJobs {
        too_many: Some(10_001),
        ..taken(&[100])
    };
    assert_eq!(none(too_many, "waits"), "TooManyJobs");
    let gated = StartEstimate::not_pending(&stated("waits", State::Gated), now());
    let gated = serde_json::to_value(gated).unwrap();
    assert_eq!(
        (&gated["reason"], &gated["state"]),
        (&json!("NotPending"), &json!("Gated"))
    );
}

#[test]
fn an_estimate_is_as_it_is_documented() {
    let page = include_str!("../../../docs/visibility.md");
    let mut examples = page.split("```json\n").skip(4);
    let example = examples.next().expect("a fourth example");
    let (example, _) = example.split_once("```").expect("its end");
    let documented: Value = serde_json::from_str(example).expect("JSON");
    let after = |minutes: i64, seconds: i64| Some(Seconds((minutes * 60 + seconds) * 1000));
    let known = |source, jobs| Known { source, jobs };
    let estimate = Estimate {
        earliest_seconds: after(12, 10),
        median_seconds: after(25, 0),
        latest_seconds: after(41, 40),
        plays: 100,
        jobs: 14,
        more_come: true,
        durations: vec![known(Source::SameRequests, 9), known(Source::Any, 5)],
    };
    let named = Stated {
        found: Found {
            name: "train-0f8fad5bd9cb469f".into(),
            job: Some(JobRef {
                group: "batch".into(),
                kind: "Job".into(),
                name: "train".into(),
            }),
        },
        namespace: "team-a".into(),
        made: "2026-03-01T09:00:00Z".parse().ok(),
        ..stated("", State::Pending)
    };
    let told = StartEstimate::new(&named, now(), later(10), 210, Ok(estimate));
    assert_eq!(serde_json::to_value(told).unwrap(), documented);
}
