//! The engine in random histories, against the oracle, and against an engine that was told the
//! same state from scratch, in another order.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sluice_engine::{
    Admission, Amount, Decision, Engine, Event, Explanation, Settings, Time, Workload, WorkloadId,
    WorkloadState,
};

use crate::histories::{Move, Step, histories, tight_histories};
use crate::oracle::Oracle;
use crate::recount::check_account;

/// The event that a step stands for, as things are.
fn event(step: Step, oracle: &Oracle, engine: &Engine) -> Option<Event> {
    match step {
        Step::Tell(event) => Some(event),
        Step::Arrive(workload) => Some(Event::UpsertWorkload(workload)),
        Step::Move(id, to) => {
            let workload = oracle.workloads.get(&id)?.clone();
            let admission = engine.admission(&id).cloned();
            let state = match to {
                Move::Pend => WorkloadState::Pending,
                Move::Confirm => WorkloadState::Admitted(admission?),
                Move::Bind(bound) => still(&workload.state, bind(admission?, bound)),
                Move::End(ended) => still(&workload.state, end(admission?, ended)),
                Move::Evict => WorkloadState::Evicting(admission?),
                Move::Finish => WorkloadState::Finished,
                Move::Deactivate => WorkloadState::Inactive,
            };
            Some(Event::UpsertWorkload(Workload { state, ..workload }))
        }
        Step::Decide => None,
    }
}

/// On its way out or not, as before.
fn still(state: &WorkloadState, admission: Admission) -> WorkloadState {
    match state {
        WorkloadState::Evicting(_) => WorkloadState::Evicting(admission),
        _ => WorkloadState::Admitted(admission),
    }
}

/// A pod that has ended gives back what one pod was charged. Worked out pod by pod; what is absurd or
/// doesn't divide is left as it is.
fn end(mut admission: Admission, ended: u32) -> Admission {
    for pod_set in &mut admission.pod_sets {
        for _ in 0..ended.min(pod_set.count) {
            let before = pod_set.count;
            let divides = |amount: &Amount| amount.get() % i128::from(before) == 0;
            if !pod_set.usage.values().all(divides) {
                break;
            }
            let expected = pod_set.usage.clone().into_iter().map(|(resource, amount)| {
                let one = amount.get() / i128::from(before);
                (resource, Amount::new(amount.get() - one))
            });
            let expected = expected.collect();
            *pod_set = pod_set.clone().without(1);
            assert_eq!((pod_set.count, &pod_set.usage), (before - 1, &expected));
        }
    }
    admission
}

fn bind(mut admission: Admission, bound: u32) -> Admission {
    for (pod_set, more) in admission.pod_sets.iter_mut().zip(0..) {
        pod_set.bound = bound.saturating_add(more);
    }
    admission
}

/// Trees don't influence each other, so their order among each other is no matter.
fn sorted(mut decisions: Vec<Decision>) -> Vec<Decision> {
    decisions.sort_by_key(|decision| match decision {
        Decision::Evict { id, .. } | Decision::Admit { id, .. } => id.clone(),
    });
    decisions
}

/// An engine that is told what the oracle knows, in an order that depends on `salt`.
fn rebuilt(oracle: &Oracle, salt: u64) -> Engine {
    let mut events: Vec<Event> = Vec::new();
    events.extend(oracle.flavors.values().cloned().map(Event::UpsertFlavor));
    events.extend(oracle.cohorts.values().cloned().map(Event::UpsertCohort));
    events.extend(
        oracle
            .queues
            .values()
            .cloned()
            .map(Event::UpsertClusterQueue),
    );
    events.extend(oracle.locals.values().cloned().map(Event::UpsertLocalQueue));
    for (id, workload) in &oracle.workloads {
        let assumed = oracle.assumed.get(id).cloned();
        let state = assumed.map_or(workload.state.clone(), WorkloadState::Admitted);
        events.push(Event::UpsertWorkload(Workload {
            state,
            ..workload.clone()
        }));
    }
    let mut order: Vec<(u64, Event)> = (0u64..)
        .map(|n| {
            (n ^ salt)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
        .zip(events)
        .collect();
    order.sort_by_key(|(key, _)| *key);
    let mut engine = Engine::new(Settings::new(Amount::new(1)));
    for (_, event) in order {
        engine.apply(event);
    }
    engine
}

fn admits(decisions: &[Decision]) -> Vec<&WorkloadId> {
    let admits = decisions.iter().filter_map(|decision| match decision {
        Decision::Admit { id, .. } => Some(id),
        Decision::Evict { .. } => None,
    });
    admits.collect()
}

/// Every workload that waits is told why, and what "can never fit" doesn't even fit alone.
fn check_explanations(engine: &Engine, oracle: &Oracle) {
    for (id, workload) in &oracle.workloads {
        let explanation = engine.explain(id).unwrap();
        let text = explanation
            .display(&|_, amount| amount.to_string())
            .to_string();
        assert!(!text.is_empty());
        assert!(
            !matches!(explanation, Explanation::Queued { .. }),
            "{id}: {text}"
        );
        if explanation.never_fits() {
            let mut alone = oracle.clone();
            alone.assumed.clear();
            alone.workloads.clear();
            alone.workloads.insert(id.clone(), workload.clone());
            assert_eq!(
                admits(&rebuilt(&alone, 0).decide(Time::default())),
                Vec::<&WorkloadId>::new(),
                "{text}"
            );
        }
    }
}

fn check_history(history: Vec<Step>, salt: u64) {
    let mut engine = Engine::new(Settings::new(Amount::new(1)));
    let mut oracle = Oracle::default();
    for step in history {
        if let Step::Decide = step {
            let decided = engine.decide(Time::default());
            let admitted: BTreeSet<_> = admits(&decided).into_iter().collect();
            assert_eq!(admitted.len(), admits(&decided).len(), "admitted twice");
            assert_eq!(sorted(decided), sorted(oracle.decide()));
            assert_eq!(engine.snapshot(), oracle.snapshot());
            assert_eq!(
                engine.decide(Time::default()),
                [],
                "a second decision has nothing left to do"
            );
            let mut anew = rebuilt(&oracle, salt);
            assert_eq!(
                admits(&anew.decide(Time::default())),
                Vec::<&WorkloadId>::new()
            );
            assert_eq!(anew.snapshot(), engine.snapshot());
            check_explanations(&engine, &oracle);
        } else if let Some(event) = event(step, &oracle, &engine) {
            engine.apply(event.clone());
            oracle.apply(event);
        }
        // Questions may be asked at any time, also between a change and the next decision.
        check_account(&engine, &oracle);
    }
    let mut fresh = rebuilt(&oracle, salt);
    let mut other = rebuilt(&oracle, salt.wrapping_add(1));
    assert_eq!(
        fresh.decide(Time::default()),
        other.decide(Time::default()),
        "the order of events doesn't show"
    );
    assert_eq!(fresh.snapshot(), other.snapshot());
}

/// As many as take ten seconds in a debug build and on two cores, or `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        config.cases
    } else {
        400
    };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_engine_decides_as_the_oracle_does(history in histories(), salt: u64) {
        check_history(history, salt);
    }

    #[test]
    fn and_so_it_does_where_room_is_scarce(history in tight_histories(), salt: u64) {
        check_history(history, salt);
    }
}
