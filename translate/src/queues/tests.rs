//! Queues and cohorts as users write them, and what the engine is told.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sluice_crds as crds;
use sluice_engine as engine;
use sluice_engine::{Amount, LocalQueueKey, Weight};

use super::*;

fn read<T: DeserializeOwned>(spec: Value) -> T {
    serde_json::from_value(spec).unwrap()
}

fn queue(spec: Value) -> engine::ClusterQueue {
    cluster_queue("queue", &read(spec)).unwrap()
}

/// What is wrong with it, as users are told.
fn refused<T: std::fmt::Debug>(translated: Result<T, Vec<Problem>>) -> Vec<String> {
    let problems = translated.unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_queue_of_which_nothing_is_said_is_as_the_engine_has_it() {
    let expected = engine::ClusterQueue::new("queue".into());
    assert_eq!(queue(json!({})), expected);
    let empty = json!({
        "cohortName": "", "preemption": {}, "flavorFungibility": {}, "fairSharing": {},
        "admissionScope": {"admissionMode": "NoAdmissionFairSharing"},
    });
    assert_eq!(queue(empty), expected);
}

#[test]
fn preemption_is_as_written() {
    use engine::{BorrowWithinCohort, ReclaimWithinCohort, WithinClusterQueue};
    let none = engine::Preemption::default();
    let cases = [
        (
            json!({"withinClusterQueue": "LowerPriority"}),
            engine::Preemption {
                within_cluster_queue: WithinClusterQueue::LowerPriority,
                ..none
            },
        ),
        (
            json!({"withinClusterQueue": "LowerOrNewerEqualPriority"}),
            engine::Preemption {
                within_cluster_queue: WithinClusterQueue::LowerOrNewerEqualPriority,
                ..none
            },
        ),
        (
            json!({"reclaimWithinCohort": "LowerPriority"}),
            engine::Preemption {
                reclaim_within_cohort: ReclaimWithinCohort::LowerPriority,
                ..none
            },
        ),
        (
            json!({
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority"},
            }),
            engine::Preemption {
                reclaim_within_cohort: ReclaimWithinCohort::Any,
                borrow_within_cohort: BorrowWithinCohort::LowerPriority {
                    max_priority_threshold: None,
                },
                ..none
            },
        ),
        (
            json!({
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -5},
            }),
            engine::Preemption {
                reclaim_within_cohort: ReclaimWithinCohort::Any,
                borrow_within_cohort: BorrowWithinCohort::LowerPriority {
                    max_priority_threshold: Some(-5),
                },
                ..none
            },
        ),
        (
            json!({"borrowWithinCohort": {"policy": "Never", "maxPriorityThreshold": 3}}),
            none,
        ),
    ];
    for (written, expected) in cases {
        let told = queue(json!({"preemption": written})).preemption;
        assert_eq!(told, expected, "{written}");
    }
}

#[test]
fn the_choice_of_flavors_is_as_written() {
    let told = queue(json!({"flavorFungibility": {
        "whenCanBorrow": "TryNextFlavor",
        "whenCanPreempt": "MayStopSearch",
        "preference": "PreemptionOverBorrowing",
    }}));
    let expected = engine::FlavorFungibility {
        when_can_borrow: engine::WhenCanBorrow::TryNextFlavor,
        when_can_preempt: engine::WhenCanPreempt::MayStopSearch,
        preference: engine::FlavorPreference::PreemptionOverBorrowing,
    };
    assert_eq!(told.fungibility, expected);
}

#[test]
fn what_a_queue_is_due_and_how_much_waits_in_it() {
    let told = queue(json!({
        "fairSharing": {"weight": "1500m"},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        "maxPending": 3,
        "reservation": {"timeoutSeconds": 90},
    }));
    assert_eq!(told.fair_weight, Weight::from_thousandths(1500));
    assert_eq!(told.admission_scope, engine::AdmissionScope::ByUsage);
    assert_eq!(told.max_pending, Some(3));
    assert_eq!(told.reservation_timeout, Some(Duration::from_secs(90)));
}

#[test]
fn weights_are_exact() {
    for (written, thousandths) in [
        (json!(0), 0),
        (json!("0.001"), 1),
        (json!(2), 2000),
        (json!("4M"), 4_000_000_000),
    ] {
        let spec = json!({"fairSharing": {"weight": written}});
        let expected = Weight::from_thousandths(thousandths);
        assert_eq!(queue(spec.clone()).fair_weight, expected, "{written}");
        let told = cohort("cohort", &read(spec)).unwrap();
        assert_eq!(told.fair_weight, expected, "{written}");
    }
}

#[test]
fn weights_that_can_not_be_used_are_told() {
    let key = LocalQueueKey::new("ns", "q");
    for (written, detail) in [
        ("-1", "must be greater than or equal to 0"),
        ("4000000.001", "must be less than or equal to 4000000"),
        ("0.0005", "must be a multiple of 0.001"),
        ("1e40", "is too large to be counted: must be below 1e29"),
        (
            "two",
            "must be a quantity: a number with an optional suffix (such as \"500m\", \"2\", \
             \"1.5Gi\" or \"1e3\")",
        ),
    ] {
        let expected = [format!(
            "spec.fairSharing.weight: Invalid value: {written:?}: {detail}"
        )];
        let sharing = json!({"weight": written});
        let spec = json!({"fairSharing": sharing});
        assert_eq!(
            refused(cluster_queue("queue", &read(spec.clone()))),
            expected
        );
        assert_eq!(refused(cohort("cohort", &read(spec))), expected);
        let spec = read(json!({"clusterQueue": "queue", "fairSharing": sharing}));
        let status = crds::LocalQueueStatus::default();
        assert_eq!(refused(local_queue(&key, &spec, &status)), expected);
    }
}

#[test]
fn all_that_can_not_be_used_is_told_at_once() {
    let quota = json!([{
        "coveredResources": ["cpu"],
        "flavors": [{"name": "default", "resources": [
            {"name": "cpu", "nominalQuota": "-1", "borrowingLimit": "1e40", "lendingLimit": "x"},
        ]}],
    }]);
    let spec = json!({
        "resourceGroups": quota,
        "fairSharing": {"weight": "-1"},
        "maxPending": 0,
        "reservation": {"timeoutSeconds": 0},
    });
    let cpu = "spec.resourceGroups[0].flavors[0].resources[0]";
    let expected = [
        format!("{cpu}.nominalQuota: Invalid value: \"-1\": must be greater than or equal to 0"),
        format!(
            "{cpu}.borrowingLimit: Invalid value: \"1e40\": is too large to be counted: must be \
             below 1e29"
        ),
        format!(
            "{cpu}.lendingLimit: Invalid value: \"x\": must be a quantity: a number with an \
             optional suffix (such as \"500m\", \"2\", \"1.5Gi\" or \"1e3\")"
        ),
        "spec.fairSharing.weight: Invalid value: \"-1\": must be greater than or equal to 0".into(),
        "spec.maxPending: Invalid value: \"0\": must be greater than or equal to 1".into(),
        "spec.reservation.timeoutSeconds: Invalid value: \"0\": must be greater than or equal to 1"
            .into(),
    ];
    assert_eq!(
        refused(cluster_queue("queue", &read(spec.clone()))),
        expected
    );
    let spec =
        json!({"resourceGroups": spec["resourceGroups"], "fairSharing": spec["fairSharing"]});
    assert_eq!(refused(cohort("cohort", &read(spec))), expected[..4]);
}

#[test]
fn a_queue_that_can_not_be_counted_keeps_its_place_and_admits_nothing() {
    use engine::StopPolicy::{Hold, HoldAndDrain};
    for (policy, expected) in [
        ("None", Hold),
        ("Hold", Hold),
        ("HoldAndDrain", HoldAndDrain),
    ] {
        let spec = read(json!({"cohortName": "c", "stopPolicy": policy, "maxPending": 0}));
        let queue = uncountable_cluster_queue("queue", &spec);
        let place = (queue.cohort, queue.stop, queue.resource_groups.len());
        assert_eq!(place, (Some("c".into()), expected, 0), "{policy}");
    }
}

#[test]
fn a_local_queue_brings_what_was_recorded_of_its_use() {
    let key = LocalQueueKey::new("ns", "q");
    let spec = json!({"clusterQueue": "queue", "stopPolicy": "Hold", "fairSharing": {"weight": 2}});
    let status = json!({"fairSharing": {"admissionFairSharingStatus": {
        "consumedResources": {"cpu": "1500m", "memory": "-1", "nvidia.com/gpu": "1e40"},
        "lastUpdate": "1970-01-01T00:01:00Z",
    }}});
    let told = local_queue(&key, &read(spec.clone()), &read(status)).unwrap();
    let expected = engine::LocalQueue {
        stop: engine::StopPolicy::Hold,
        namespace_selected: false,
        fair_weight: Weight::from_thousandths(2000),
        consumed: Some(engine::Consumed {
            at: engine::Time::from_millis(60_000),
            amounts: [("cpu".into(), Amount::new(1_500_000_000))].into(),
        }),
        ..engine::LocalQueue::new(key.clone(), "queue".into())
    };
    assert_eq!(told, expected);
    for nothing in [json!({}), json!({"fairSharing": {}})] {
        let told = local_queue(&key, &read(spec.clone()), &read(nothing)).unwrap();
        assert_eq!(told.consumed, None);
    }
}
