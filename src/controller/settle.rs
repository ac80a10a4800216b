//! After each batch of observations: plan the jobs that were touched, let the engine decide, send
//! the writes. And once a second: tell waiting jobs what they wait for.

use sluice_engine::Decision;
use tracing::error;

use super::Controller;
use crate::cache::Subject;
use crate::controller::decisions::evictions::Preempting;
use crate::plan::workload_state::time;
use crate::process::invariants;

/// Every so many seconds owners without an owner are looked up again.
const OWNERS_ASKED_EVERY: u64 = 60;

impl Controller {
    pub(super) fn settle(&mut self) {
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
        if !self.may_decide() {
            return;
        }
        let now = time(self.now.wall);
        let decisions = self
            .metrics
            .process
            .time_decision(|| self.engine.decide(now));
        let violations = self.engine.invariant_violations();
        let violations = violations.saturating_add(invariants::found());
        if self.metrics.process.violations(violations) {
            error!(
                violations,
                "states were found that must not occur, and quota may be given twice: restart Sluice, and report this"
            );
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
        self.take_back_late();
    }

    pub(super) fn housekeep(&mut self) {
        if !self.phase.has_listed() {
            return;
        }
        self.explain_waiting();
        self.look_after_reports();
        self.look_after_deadlines();
        self.look_after_schedules();
        self.look_after_queues();
        self.look_after_dependencies();
        self.count_places();
        self.end_retired();
        self.forget_unserved();
        self.look_after_orphans();
        self.look_after_own_usage();
        self.check_blocked();
        self.look_after_stalls();
        self.suspend_excess_children();
        self.forget_backoffs();
        self.seconds = self.seconds.wrapping_add(1);
        if self.seconds.is_multiple_of(OWNERS_ASKED_EVERY) {
            self.ask_again();
        }
        let gated: u32 = self
            .objects
            .gated()
            .values()
            .chain(self.objects.pods.gated().values())
            .map(|count| u32::try_from(*count).unwrap_or_default())
            .sum();
        self.metrics.gates.gated(gated);
        self.publish_levels();
        self.statuses.refresh(
            &self.engine,
            &self.cluster,
            &self.objects,
            &self.kinds,
            &self.metrics,
            self.now,
        );
    }
}
