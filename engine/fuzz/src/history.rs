//! A history of the engine, and what must hold in each: nothing panics, nothing overflows, nobody is
//! admitted above a quota, and a second decision has nothing left to do.

use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{Decision, Engine, Event, Time, Workload, WorkloadId, WorkloadState};

use crate::bytes::Bytes;
use crate::events::{self, COHORTS, LOCALS, QUEUES, WORKLOADS};
use crate::quota::{Charges, Quotas};

/// More steps than this find nothing that fewer wouldn't.
const STEPS_MAX: usize = 96;

/// What the engine was told.
struct History {
    engine: Engine,
    now: Time,
    quotas: Quotas,
    workloads: BTreeMap<WorkloadId, Workload>,
}

/// Plays what these bytes stand for.
pub fn check(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut history = History {
        engine: Engine::new(events::settings(&mut bytes)),
        now: Time::from_millis(1_000_000),
        quotas: Quotas::default(),
        workloads: BTreeMap::new(),
    };
    history.usual(&mut bytes);
    for _ in 0..STEPS_MAX {
        if bytes.is_empty() {
            break;
        }
        history.step(&mut bytes);
    }
    history.decide();
    history.ask();
}

impl History {
    /// What nearly every history needs: flavors, and a way into each queue.
    fn usual(&mut self, bytes: &mut Bytes<'_>) {
        if bytes.rarely() {
            return;
        }
        for name in events::FLAVORS {
            self.tell(Event::UpsertFlavor(sluice_engine::Flavor {
                name: name.into(),
                node_labels: BTreeMap::new(),
                node_taints: Vec::new(),
                tolerations: Vec::new(),
            }));
        }
        for (local, queue) in LOCALS.iter().zip(QUEUES.iter().cycle()) {
            let key = sluice_engine::LocalQueueKey::new("ns", *local);
            let local = sluice_engine::LocalQueue::new(key, (*queue).into());
            self.tell(Event::UpsertLocalQueue(local));
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(16) {
            kind @ 0..8 => {
                let event = events::change(bytes, kind, self.now);
                self.tell(event);
            }
            8..11 => {
                let mut workload = events::workload(bytes, self.now);
                if bytes.rarely() {
                    let admission = events::stored_admission(bytes, self.now);
                    workload.state = WorkloadState::Admitted(admission);
                }
                self.tell(Event::UpsertWorkload(workload));
            }
            11 => self.move_one(bytes),
            12 => self.follow(bytes),
            13 => self.ask(),
            14 => {
                self.now = events::time(bytes, self.now);
                self.decide();
            }
            _ => self.decide(),
        }
    }

    fn tell(&mut self, event: Event) {
        self.quotas.note(&event);
        match &event {
            Event::UpsertWorkload(workload) => {
                self.workloads.insert(workload.id.clone(), workload.clone());
            }
            Event::RemoveWorkload(id) => {
                self.workloads.remove(id);
            }
            _ => {}
        }
        self.engine.apply(event);
    }

    /// Something becomes of a workload.
    fn move_one(&mut self, bytes: &mut Bytes<'_>) {
        let id = bytes.pick(&WORKLOADS).into();
        if let Some(workload) = self.workloads.get(&id).cloned() {
            let held = self.engine.admission(&id).cloned();
            let state = events::next_state(bytes, held, self.now);
            self.tell(Event::UpsertWorkload(Workload { state, ..workload }));
        }
    }

    /// What a controller does with all that was decided: what is admitted is confirmed, or what is
    /// on its way out has gone.
    fn follow(&mut self, bytes: &mut Bytes<'_>) {
        let gone = bytes.flag();
        for workload in self.workloads.clone().into_values() {
            let Some(admission) = self.engine.admission(&workload.id).cloned() else {
                continue;
            };
            let state = match (&workload.state, gone) {
                (WorkloadState::Evicting(..), true) => WorkloadState::Pending,
                (WorkloadState::Pending, false) => WorkloadState::Admitted(admission),
                _ => continue,
            };
            self.tell(Event::UpsertWorkload(Workload { state, ..workload }));
        }
    }

    fn charges(&self) -> Charges {
        let held = (self.workloads.keys()).filter_map(|id| self.engine.admission(id));
        Charges::of(held)
    }

    fn decide(&mut self) {
        let before = self.charges();
        let mut admitted = BTreeSet::new();
        for decision in self.engine.decide(self.now) {
            match decision {
                Decision::Admit { id, admission } => {
                    assert_eq!(self.engine.admission(&id), Some(&admission), "{id}");
                    assert!(admitted.insert(id.clone()), "{id} is admitted twice");
                }
                Decision::Evict { id, .. } => self.evict(&id),
            }
        }
        self.quotas.check(&before, &self.charges());
        let again = self.engine.decide(self.now);
        assert_eq!(again, [], "a second decision has nothing left to do");
        let wake = self.engine.next_wake();
        assert!(
            wake.is_none_or(|wake| self.now < wake),
            "due at {wake:?} already"
        );
    }

    /// Only what the durable record calls admitted is evicted, and it stays charged.
    fn evict(&self, id: &WorkloadId) {
        let state = &self.workloads[id].state;
        assert!(
            matches!(state, WorkloadState::Admitted(_)),
            "{id}: {state:?}"
        );
        assert!(self.engine.admission(id).is_some(), "{id}");
    }

    /// Every question has an answer, at any time.
    fn ask(&self) {
        let engine = &self.engine;
        for id in WORKLOADS.map(WorkloadId::from) {
            let known = self.workloads.contains_key(&id);
            let explanation = engine.explain(&id);
            assert_eq!(explanation.is_some(), known, "{id}");
            if let Some(explanation) = explanation {
                let format = |_: &_, amount: sluice_engine::Amount| amount.to_string();
                assert!(!explanation.display(&format).to_string().is_empty(), "{id}");
                let is_pending = matches!(self.workloads[&id].state, WorkloadState::Pending);
                assert!(is_pending || explanation.pending_reason().is_none(), "{id}");
            }
            let _ = engine.outlook(&id);
        }
        for queue in QUEUES {
            let _ = engine.queue_status(&queue.into());
        }
        for cohort in COHORTS {
            let _ = engine.cohort_status(&cohort.into());
        }
        for local in LOCALS {
            let _ = engine.local_queue_status(&sluice_engine::LocalQueueKey::new("ns", local));
        }
        let _ = engine.snapshot();
    }
}
