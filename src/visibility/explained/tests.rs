use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use sluice_engine::{
    Admission, Amount, ClusterQueue, Engine, Event, Flavor, FlavorQuotas, LocalQueue,
    LocalQueueKey, PodSet, PodSetAssignment, Quota, ResourceGroup, Settings, Time, Workload,
    WorkloadId, WorkloadState,
};

use super::explanation::WorkloadExplanation;
use super::findings::{Findings, Found, State, Stated};
use crate::process::hashing::HashMap;
use crate::visibility::pending::positions::View;
use crate::visibility::pending::positions::tests::{mk_taken, mk_waiting};
use crate::visibility::pending::waiting::{JobRef, Why};

const CORE: i128 = 1_000_000_000;

fn own() -> LocalQueueKey {
    LocalQueueKey::new("team-a", "main")
}

fn other() -> LocalQueueKey {
    LocalQueueKey::new("team-b", "other")
}

/// A ClusterQueue with these flavors, in which these workloads run, and `train` waits.
fn mk_engine(flavors: &[(&str, i128)], running: &[(&str, &LocalQueueKey, i128)]) -> Engine {
    let mut engine = Engine::new(Settings::new(Amount::new(CORE)));
    for (name, _) in flavors {
        engine.apply(Event::UpsertFlavor(Flavor {
            name: (*name).into(),
            node_labels: BTreeMap::new(),
            node_taints: Vec::new(),
            tolerations: Vec::new(),
        }));
    }
    let quotas = flavors.iter().map(|(name, cores)| FlavorQuotas {
        name: (*name).into(),
        resources: BTreeMap::from([(
            "cpu".into(),
            Quota {
                nominal: Amount::new(cores * CORE),
                ..Quota::default()
            },
        )]),
    });
    engine.apply(Event::UpsertClusterQueue(ClusterQueue {
        resource_groups: vec![ResourceGroup {
            covered_resources: BTreeSet::from(["cpu".into()]),
            flavors: quotas.collect(),
        }],
        ..ClusterQueue::new("research".into())
    }));
    for key in [own(), other()] {
        engine.apply(Event::UpsertLocalQueue(LocalQueue::new(
            key,
            "research".into(),
        )));
    }
    let flavor = flavors[0].0;
    for (name, key, cores) in running {
        let pod_set = PodSetAssignment {
            name: "main".into(),
            count: 1,
            flavors: BTreeMap::from([("cpu".into(), flavor.into())]),
            usage: BTreeMap::from([("cpu".into(), Amount::new(cores * CORE))]),
            bound: 1,
        };
        let admission = Admission {
            queue: "research".into(),
            cohort: None,
            since: Time::default(),
            unused_since: None,
            had_nodes: false,
            pod_sets: vec![pod_set].into(),
        };
        let state = WorkloadState::Admitted(admission);
        engine.apply(mk_workload(name, key, *cores, state));
    }
    engine.apply(mk_workload("train", &own(), 2, WorkloadState::Pending));
    engine.decide(Time::from_millis(1));
    engine
}

fn mk_workload(name: &str, key: &LocalQueueKey, cores: i128, state: WorkloadState) -> Event {
    Event::UpsertWorkload(Workload {
        pod_sets: vec![PodSet {
            requests: BTreeMap::from([("cpu".into(), Amount::new(cores * CORE))]),
            ..PodSet::new("main".into(), 1)
        }],
        state,
        ..Workload::new(WorkloadId::from(name), key.clone())
    })
}

fn found(name: &str) -> Found {
    Found {
        name: format!("{name}-0f8fad5bd9cb469f").into(),
        job: Some(JobRef {
            group: "batch".into(),
            kind: "Job".into(),
            name: name.into(),
        }),
    }
}

/// What the controller would find of `train`.
fn findings(engine: &Engine) -> Findings {
    let id = WorkloadId::from("train");
    let (key, asked) = engine.asked_for(&id).unwrap();
    let mut holders = engine.begin_holders(&id);
    if let Some(holders) = &mut holders {
        while !engine.go_on_holders(holders, 1) {}
    }
    let at = |text: &str| text.parse::<Timestamp>().ok();
    Findings {
        trials: engine.trials(&id),
        holders,
        names: HashMap::from_iter([("one".into(), found("one"))]),
        stated: Stated {
            found: found("train"),
            namespace: "team-a".into(),
            made: at("2026-03-01T09:00:00Z"),
            state: State::Pending,
            why: Some(Why {
                reason: "WaitingForQuota".into(),
                message: Some("couldn't be admitted to ClusterQueue \"research\": insufficient unused quota for cpu in flavor \"spot\": requests 2 (nominal quota 3)".into()),
            }),
            gates: Vec::new(),
            local_queue: Some(key.clone()),
            cluster_queue: Some("research".into()),
            priority: Some(asked.priority),
            since: at("2026-03-01T09:01:00Z"),
            requests: asked.requests.to_vec(),
            admission: None,
            id,
        },
    }
}

fn explained(engine: &Engine) -> Value {
    let mut first = mk_waiting(&own(), "first-0f8fad5bd9cb469f", 10, 1);
    first.job = found("first").job;
    let waiting = vec![
        mk_waiting(&other(), "secret", 20, 1),
        first,
        mk_waiting(&own(), "train", 0, 0),
        mk_waiting(&own(), "later", -1, 0),
    ];
    let taken = mk_taken(vec![own(), other()], waiting);
    let at = "2026-03-01T09:30:00Z".parse().unwrap();
    let view = View::new(taken, at);
    let explanation = WorkloadExplanation::new(findings(engine), Some(&view), at);
    serde_json::to_value(explanation).unwrap()
}

/// The example in the page for users.
fn documented() -> Value {
    let page = include_str!("../../../docs/visibility.md");
    let mut examples = page.split("```json\n").skip(2);
    let example = examples.next().expect("a second example");
    let (example, _) = example.split_once("```").expect("its end");
    serde_json::from_str(example).expect("JSON")
}

#[test]
fn an_explanation_is_as_it_is_documented() {
    let flavors = [("spot", 3)];
    let running = [("one", &own(), 1), ("hidden", &other(), 2)];
    let explained = explained(&mk_engine(&flavors, &running));
    let text = serde_json::to_string_pretty(&explained).unwrap();
    assert_eq!(explained, documented(), "{text}");
}

#[test]
fn a_reader_learns_no_names_of_other_namespaces() {
    let flavors = [("spot", 3)];
    let running = [("one", &own(), 1), ("hidden", &other(), 2)];
    let text = explained(&mk_engine(&flavors, &running)).to_string();
    for name in ["hidden", "secret", "team-b", "other\""] {
        assert!(!text.contains(name), "{name}: {text}");
    }
}

#[test]
fn each_flavor_says_why_it_was_not_taken() {
    for (case, flavors, running, reasons, ever) in [
        (
            "in use",
            vec![("spot", 3)],
            2,
            vec!["WaitingForQuota"],
            true,
        ),
        (
            "too small",
            vec![("spot", 1)],
            0,
            vec!["ExceedsMaxQuota"],
            false,
        ),
        (
            "the second one is too small",
            vec![("spot", 3), ("fixed", 1)],
            2,
            vec!["WaitingForQuota", "ExceedsMaxQuota"],
            true,
        ),
    ] {
        let own = own();
        let running: Vec<_> = (0 < running)
            .then_some(("one", &own, running))
            .into_iter()
            .collect();
        let engine = mk_engine(&flavors, &running);
        let explained = explained(&engine);
        let tried = explained["flavors"].as_array().unwrap().iter();
        let tried: Vec<&str> = tried
            .map(|flavor| flavor["reason"].as_str().unwrap())
            .collect();
        assert_eq!(tried, reasons, "{case}");
        assert_eq!(explained["canEverBeAdmitted"], ever, "{case}");
    }
}
