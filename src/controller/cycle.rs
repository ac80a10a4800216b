//! A cycle, after each batch of observations: plan the jobs that were touched, let the engine decide, send the writes.
//! What is done once a second is in `housekeeping.rs`.

use sluice_engine::Decision;
use tracing::error;

use super::{Controller, Output};
use crate::cache::Subject;
use crate::controller::decisions::evictions::Preempting;
use crate::plan::engine_state::time;
use crate::process::clock::Now;
use crate::process::invariants::{self, Remedy};

impl Controller {
    /// Plans what has changed or is due, lets the engine decide, and returns what is to be done.
    pub(super) fn cycle(&mut self, now: Now) -> Vec<Output> {
        self.now = now;
        self.follow_gates();
        while let Some(wake) = self.agenda.take_due(now.moment) {
            self.awake(wake);
        }
        self.begin_once_listed();
        if self.phase.has_listed() {
            self.plan_and_decide();
        }
        self.take_outputs()
    }

    /// Plans what was touched, lets the engine decide, and sends what follows.
    pub(super) fn plan_and_decide(&mut self) {
        self.recount_devices();
        for subject in self.agenda.take_to_sync() {
            self.sync_workload(&subject);
            self.prune(&subject);
        }
        for subject in self.agenda.take_to_plan() {
            match &subject {
                Subject::Pod(uid) => {
                    self.plan_pod(uid);
                    continue;
                }
                Subject::Group(group) => self.plan_group(group),
                Subject::Job(uid) => self.plan_job(uid),
            }
            self.ungate_pods(&subject);
        }
        if !self.advance_to_deciding() {
            return;
        }
        let now = time(self.now.wall);
        let decisions = self
            .metrics
            .process
            .time_decision(|| self.engine.decide(now));
        self.judge_violations();
        if self.must_end_term() {
            // They may give quota twice.
            return;
        }
        let mut preempting = Preempting::new();
        for decision in decisions {
            match decision {
                Decision::Admit { id, admission } => self.admit(Subject::from(&id), &admission),
                Decision::Evict { id, reason } => {
                    self.evict(&Subject::from(&id), reason, &mut preempting);
                }
            }
        }
        self.tell_preempting(preempting);
        self.take_back_ended_terms();
    }

    /// Counts states that must not occur, and tells of them.
    fn judge_violations(&mut self) {
        let (found, by_engine) = (invariants::found(), self.engine.invariant_violations());
        let all = invariants::found_with_webhooks().saturating_add(by_engine);
        let is_new = (self.metrics.process).violations(all);
        match self.violations.judge(found, by_engine, self.now) {
            Remedy::Wait(left) if is_new => error!(
                "an invariant was violated, and quota may be given twice: the term ends in {} s, so that the next leader builds its state anew; report this with the log",
                left.as_secs()
            ),
            Remedy::EndTerm => error!(
                "an invariant was violated, and quota may be given twice: the term ends, so that the next leader builds its state anew; report this with the log"
            ),
            Remedy::None | Remedy::Wait(_) => {}
        }
    }

    /// Whether the process is to lead no longer.
    pub(super) fn must_end_term(&self) -> bool {
        self.violations.end_term()
    }
}
