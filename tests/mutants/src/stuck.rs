//! What keeps its quota or its place for ever, and what makes others wait for it.

use crate::FoundBy::{Cluster, Engine, Shipped, Unit};
use crate::{Mutant, mutant};

pub(crate) static MUTANTS: &[Mutant] = &[
    mutant(
        "a Job whose end can't be written is active for ever",
        "config/jobkinds/job.yaml",
        (
            "c.type in ['Suspended', 'SuccessCriteriaMet', 'FailureTarget'] && c.status == 'True'))) ||",
            "c.type in ['Suspended'] && c.status == 'True'))) ||",
        ),
        Cluster("a_job_whose_end_can_not_be_written_gives_its_quota_back_and_ends"),
    ),
    mutant(
        "an eviction that does not end is never told",
        "src/plan/evictions/stall.rs",
        (
            "if now < in_time_until(since, remains.terminate_until) {",
            "if now.as_second() / 1000 < in_time_until(since, remains.terminate_until).as_second() {",
        ),
        Unit(
            "src",
            "an_eviction_is_overdue_after_a_minute_and_after_the_grace_of_its_pods",
        ),
    ),
    mutant(
        "everybody waits for an eviction that does not end",
        "src/plan/engine_state.rs",
        (
            "\n                        && !workload.is_stalled() =>",
            " =>",
        ),
        Cluster("nobody_waits_for_ever_for_a_job_that_does_not_stop"),
    ),
    mutant(
        "who waits for a pod waits for as long as that says itself",
        "src/plan/evictions/stall.rs",
        (
            "after(until.min(after(since, GRACE_MAX)), IN_TIME)",
            "after(until, IN_TIME)",
        ),
        Unit("src", "nobody_waits_for_years"),
    ),
    mutant(
        "everybody waits for a pod that does not go",
        "src/plan/engine_state.rs",
        ("if is_waited_for {", "if is_waited_for || pod.deleting {"),
        Cluster("nobody_waits_for_ever_for_a_pod_that_does_not_go"),
    ),
    mutant(
        "what is deleted with its pods is waited for for ever",
        "src/controller/engine_sync.rs",
        (
            "if let Some(until) = self.deleted_in_time_until(subject)",
            "if let Some(until) = self.deleted_in_time_until(subject).filter(|_| false)",
        ),
        Unit(
            "src",
            "a_job_that_is_deleted_after_its_pods_is_waited_for_no_longer",
        ),
    ),
    mutant(
        "a head with too many combinations of flavors blocks its queue",
        "engine/src/flavor/feasibility.rs",
        (
            "matches!(self.way_ever(tree, node, shape), WaySearch::Found(..))",
            "!matches!(self.way_ever(tree, node, shape), WaySearch::NotFound)",
        ),
        Engine("what_has_too_many_combinations_to_try_is_passed"),
    ),
    mutant(
        "a deleted job whose pods run is never preempted",
        "src/plan/engine_state.rs",
        (
            "(workload.is_evicting() || job.is_some_and(|job| job.deletes_pods))",
            "(workload.is_evicting() || job.is_some_and(|job| job.deleting))",
        ),
        Cluster("a_job_that_stays_after_its_deletion_is_preempted"),
    ),
    mutant(
        "a paused job is admitted",
        "src/plan/engine_state.rs",
        (
            "let is_held = job.is_held() || job.is_paused();",
            "let is_held = job.is_held();",
        ),
        Unit("src", "a_paused_job_does_not_wait_for_quota"),
    ),
    mutant(
        "a job that loses its queue and its last gate stays suspended",
        "src/plan/job/gated.rs",
        (
            "if job.is_marked_held() {\n        return start(situation);\n    }\n    // It is looked after",
            "// It is looked after",
        ),
        Unit("src", "each_turn_of_a_jobs_life"),
    ),
    mutant(
        "what its user created suspended is started when its gate is lifted",
        "kinds/src/read/suspension.rs",
        (
            "(true, None) => Self::AtCreation,",
            "(true, None) => Self::BySluice,",
        ),
        Unit("kinds", "the_mark_says_whose_a_suspension_is"),
    ),
    mutant(
        "what its controller would never run holds quota for ever",
        "src/plan/job/admitted.rs",
        (
            "if !reading.refusals.is_empty() && situation.live_pods == 0 {",
            "if reading.refusals.len() > 1 && situation.live_pods == 0 {",
        ),
        Unit(
            "src",
            "a_job_that_its_controller_would_never_run_holds_no_quota",
        ),
    ),
    mutant(
        "a RayJob that KubeRay finds invalid has not ended",
        "config/jobkinds/rayjob.yaml",
        (
            "object.status.jobDeploymentStatus in ['Complete', 'Failed', 'ValidationFailed']",
            "object.status.jobDeploymentStatus in ['Complete', 'Failed']",
        ),
        Shipped("life::rayjob"),
    ),
    mutant(
        "a RayJob that KubeRay never runs once it is suspended is queued",
        "config/jobkinds/rayjob.yaml",
        (
            "- when: \"!has(object.spec.shutdownAfterJobFinishes) || !object.spec.shutdownAfterJobFinishes\"",
            "- when: \"has(object.spec.shutdownAfterJobFinishes) && !object.spec.shutdownAfterJobFinishes\"",
        ),
        Shipped("refusals::rayjob"),
    ),
    mutant(
        "a tenant with thousands of orphans delays those of the others",
        "src/api/fair_queue.rs",
        (
            "self.turns.push_back(namespace);\n        }\n        item",
            "self.turns.push_front(namespace);\n        }\n        item",
        ),
        Unit("src", "a_namespace_with_many_delays_no_other"),
    ),
    mutant(
        "an object that was looked at may be looked at again at once, before the others",
        "src/api/fair_queue.rs",
        ("items.push_back(item)", "items.push_front(item)"),
        Unit("src", "each_has_its_turn"),
    ),
    mutant(
        "writes for a tenant with thousands of jobs delay those for the others",
        "src/controller/writes/in_flight.rs",
        (
            "queue.push(write.write.namespace(), write);",
            "queue.push(\"\".into(), write);",
        ),
        Unit("src", "the_writes_of_one_namespace_delay_no_other"),
    ),
    mutant(
        "a group ends while a member runs",
        "src/plan/group.rs",
        (
            "if total <= succeeded && !runs {",
            "if total <= succeeded {",
        ),
        Unit("src", "a_group_has_not_finished_while_a_member_runs"),
    ),
    mutant(
        "a client that reverts each write is fought as fast again after ten seconds",
        "src/controller/writes/attempts.rs",
        (
            "now.since(known.last) <= known.waited + LASTING",
            "now.since(known.last) <= LASTING",
        ),
        Unit(
            "src",
            "writes_that_are_undone_at_once_become_rare_for_as_long_as_they_are",
        ),
    ),
    mutant(
        "two writes that undo each other are no struggle",
        "src/controller/writes/attempts.rs",
        ("const CYCLE_MAX: usize = 3;", "const CYCLE_MAX: usize = 1;"),
        Unit(
            "src",
            "writes_that_are_undone_at_once_become_rare_for_as_long_as_they_are",
        ),
    ),
    mutant(
        "a pod that can't be released takes those along that run",
        "src/controller/decisions/unreleased.rs",
        (
            "if self.unused.has_had_nodes(subject) && 0 < self.live_pods(subject) {",
            "if false {",
        ),
        Unit(
            "src",
            "a_pod_that_cant_be_released_takes_no_running_pod_along",
        ),
    ),
    mutant(
        "a pod whose deletion is refused is chosen again and again",
        "src/controller/engine_sync.rs",
        (
            "evictable: !is_kept && !pod.deleting && !resists,",
            "evictable: !is_kept && !pod.deleting,",
        ),
        Unit(
            "src",
            "another_pod_is_evicted_in_place_of_one_whose_deletion_is_refused",
        ),
    ),
    mutant(
        "a gate that can't be lifted keeps its place",
        "src/controller/writes/reply.rs",
        (
            "self.counters.give_back(&sent.subject);",
            "self.counters.give_back(&Subject::Job(\"\".into()));",
        ),
        Unit(
            "src",
            "an_object_from_which_a_gate_cant_be_lifted_keeps_no_place",
        ),
    ),
    mutant(
        "the Workload of a group is kept after its first eviction alone",
        "src/plan/group.rs",
        (
            "record.since(ConditionType::QuotaReserved)?",
            "record.since(ConditionType::Requeued)?",
        ),
        Unit(
            "src",
            "the_workload_of_pods_that_are_made_again_stays_after_each_eviction",
        ),
    ),
    mutant(
        "one object makes a whole list unreadable",
        "kinds/src/read/stored.rs",
        (
            "metadata.remove(\"managedFields\");",
            "metadata.remove(\"labels\");",
        ),
        Unit("kinds", "what_is_hostile_is_read_for_the_rest_of_it"),
    ),
    mutant(
        "pods that have succeeded are waited for",
        "src/controller/decisions/pods_to_come.rs",
        (
            "let to_come = set.count.saturating_sub(set.reclaimable);",
            "let to_come = set.count;",
        ),
        Unit("src", "pods_that_have_succeeded_are_not_waited_for"),
    ),
    mutant(
        "a pod is waited for that is made only when others run",
        "src/controller/decisions/pods_to_come.rs",
        (
            "Some(_) | None => ToCome::None,",
            "Some(_) | None => ToCome::First,",
        ),
        Unit("src", "a_pod_that_does_not_come_is_waited_for_a_minute"),
    ),
    mutant(
        "the pods that an overdue eviction has left run on",
        "src/controller/decisions/evictions.rs",
        (
            "if !is_taken_by_deletion && !is_overdue {",
            "if !is_taken_by_deletion {",
        ),
        Unit("src", "pods_that_an_overdue_eviction_has_left_are_deleted"),
    ),
    mutant(
        "a job that its controller ignores keeps its quota for ever",
        "src/plan/eviction_steps.rs",
        (
            "record.is_stalled() && reading.suspended && !reading.has_status && situation.shows_pods;",
            "false;",
        ),
        Unit(
            "src",
            "a_job_without_a_status_gives_its_quota_back_once_its_eviction_is_overdue",
        ),
    ),
    mutant(
        "what a release wrote stays in the templates of a job that loses its Workload",
        "src/plan/job.rs",
        (
            "if let (Some(record), None) = (situation.placed_by, admitted)\n        && let Some(plan) = give_back(situation, reading, record)",
            "if let (Some(record), None) = (situation.placed_by, admitted)\n        && let Some(plan) = give_back(situation, reading, record).filter(|_| false)",
        ),
        Unit(
            "src",
            "a_job_that_loses_its_workload_is_queued_as_its_user_wrote_it",
        ),
    ),
    mutant(
        "a group that loses its Workload waits for its own pods",
        "src/controller/decisions/evictions.rs",
        (
            "pod.is_released() && was_admitted(pod)",
            "pod.is_released() && is_in_use && was_admitted(pod)",
        ),
        Unit(
            "src",
            "the_pods_of_a_group_that_has_lost_its_workload_are_deleted_and_it_is_queued_again",
        ),
    ),
    mutant(
        "one pod that runs on keeps the quota of all pods of a job that has finished",
        "src/plan/progress.rs",
        (
            "if is_seen { set.count } else { 0 }",
            "if is_seen { set.count.min(0) } else { 0 }",
        ),
        Unit(
            "src",
            "of_a_job_that_has_finished_only_those_pods_use_quota_that_run_on",
        ),
    ),
];
