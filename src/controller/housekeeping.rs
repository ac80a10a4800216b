//! What is done once a second, whether or not anything has happened: tell waiting jobs what they wait for, write statuses,
//! and look after what is overdue. What follows from observations is in `cycle.rs`.

use super::Controller;

/// Every so many seconds owners without an owner are looked up again.
const OWNERS_ASKED_EVERY: u64 = 60;

impl Controller {
    /// Once a second.
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
        self.evict_unreleased();
        self.look_after_stalls();
        self.look_for_missing_pods();
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
