//! Who comes first, who is preempted, and who is passed: what the engine decides.

use crate::FoundBy::{Engine, Unit};
use crate::{Mutant, mutant};

pub(crate) static MUTANTS: &[Mutant] = &[
    mutant(
        "nominal quota is reclaimed from nobody above the first cohort that would borrow",
        "engine/src/preemption/candidates.rs",
        (
            "is_within |= Some(node) == at",
            "is_within = Some(node) == at",
        ),
        Engine("a_queue_takes_back_its_quota_from_a_sibling_and_an_outsider_together"),
    ),
    mutant(
        "candidates of one queue are all taken before those of the next",
        "engine/src/preemption/candidate_ordering.rs",
        (
            "if let Some(following) = queues.get_mut(index).and_then(Iterator::next) {\n            next.push(Reverse((following, index)));\n        }",
            "if next.is_empty() && let Some(following) = queues.get_mut(index).and_then(Iterator::next) {\n            next.push(Reverse((following, index)));\n        }",
        ),
        Engine("to_borrow_nobody_is_preempted_who_would_return_first"),
    ),
    mutant(
        "by shares, own jobs and borrowers are never preempted together",
        "engine/src/preemption/fair_sharing.rs",
        ("if !own.is_empty() {", "if own.len() > usize::MAX - 1 {"),
        Engine("by_shares_too_own_jobs_and_borrowers_are_preempted_together"),
    ),
    mutant(
        "the first targets that are found are taken, though others cost the own queue less",
        "engine/src/preemption/target_search.rs",
        (
            "known.is_none_or(|known| own_targets(&found) < known)",
            "known.is_none()",
        ),
        Engine("and_so_it_does_among_rivals"),
    ),
    mutant(
        "targets that are not required are evicted all the same",
        "engine/src/preemption/fill_back.rs",
        (
            "let mut is_least = false;",
            "let mut is_least = taken.len() < usize::MAX;",
        ),
        Engine("nobody_is_evicted_if_the_workload_fits_without"),
    ),
    mutant(
        "whoever fits its nominal quota may not reclaim where its own jobs keep it from that",
        "engine/src/preemption/target_search.rs",
        (
            "strategies.push(SearchStrategy::ByPriority(Some(at)));",
            "let _ = SearchStrategy::ByPriority(Some(at));",
        ),
        Engine("a_lower_own_workload_is_preempted_rather_than_a_higher_one_beside_a_borrower"),
    ),
    mutant(
        "of its own queue the highest priority is preempted first",
        "engine/src/workload/preemption_order.rs",
        (
            "Self {\n            priority,\n            since: Reverse(since),",
            "Self {\n            priority: priority.saturating_neg(),\n            since: Reverse(since),",
        ),
        Engine("of_a_queues_own_no_higher_one_is_preempted_where_lower_ones_would_do"),
    ),
    mutant(
        "queues of a cohort are compared by the share of their branch alone",
        "engine/src/cycle/fair_ordering.rs",
        (
            "let (above_quota, share) = path.last().copied().unwrap_or_default();",
            "let (above_quota, share) = path.first().copied().unwrap_or_default();",
        ),
        Engine("queues_of_a_branch_are_compared_with_each_other_first"),
    ),
    mutant(
        "of equal shares the higher priority gives first",
        "engine/src/preemption/fair_sharing.rs",
        (
            "(share, Reverse(*first), *child)",
            "(share, *first, *child)",
        ),
        Engine("of_equal_shares_the_lowest_priority_gives_first"),
    ),
    mutant(
        "a label that only another flavor declares makes a job wait for ever",
        "engine/src/flavor/node_affinity.rs",
        (
            "if flavors.any(|flavor| check_labels(pod_set, flavor, &keys).is_ok()) {",
            "if flavors.next().is_some() {",
        ),
        Engine("a_label_that_only_another_flavor_declares_makes_nobody_wait_for_ever"),
    ),
    mutant(
        "the first flavor with anybody to evict is preferred to one where others only return what they borrow",
        "engine/src/flavor/flavor_assigner.rs",
        (
            "let mode = if simulate_preemption.costs_own {",
            "let mode = if simulate_preemption.costs_own || simulate_preemption.distance < usize::MAX {",
        ),
        Engine(
            "a_flavor_with_reclaimable_quota_comes_before_one_that_needs_preemption_in_the_own_queue",
        ),
    ),
    mutant(
        "a job that can never be admitted blocks a strict queue",
        "engine/src/flavor/feasibility.rs",
        (
            "Self::Slots(slots) => slots.ever_fits(quota, node, shape),",
            "Self::Slots(slots) => slots.ever_fits(quota, node, shape) || !shape.pod_sets.is_empty(),",
        ),
        Engine("a_strict_head_that_can_never_be_admitted_is_passed"),
    ),
    mutant(
        "a job that asks for a resource without quota blocks a strict queue",
        "engine/src/flavor/feasibility.rs",
        ("Self::None(_) => false,", "Self::None(_) => true,"),
        Engine("one_without_a_flavor_is_passed_too"),
    ),
    mutant(
        "a resource that no queue covers blocks whatever the queue says",
        "engine/src/flavor/undeclared_resources.rs",
        (
            ".is_some_and(|u| u.ignores(&resource))",
            ".is_some_and(|u| u.ignores(&resource) && amount == Amount::ZERO)",
        ),
        Engine("what_a_queue_does_not_cover_blocks_or_is_not_counted_as_it_says"),
    ),
    mutant(
        "two workloads preempt each other for ever",
        "engine/src/preemption/snapshot.rs",
        (
            "keys.filter(move |key| !self.round.protects(key.id()));",
            "keys.filter(move |key| !self.round.protects(key.id()) || !key.id().as_str().is_empty());",
        ),
        Engine("a_circle_of_preemptions_ends_and_goes_round_once_for_each_change"),
    ),
    mutant(
        "borrowed quota that is taken back is only sought in the own queue",
        "engine/src/queue/preemption_policy.rs",
        (
            "ReclaimWithinCohort::Any => true,",
            "ReclaimWithinCohort::Any => candidate < preemptor,",
        ),
        Engine("a_queue_takes_back_what_is_its_own"),
    ),
    mutant(
        "a job keeps the place of its Workload instead of its own",
        "src/plan/job/pending.rs",
        (
            "place_in_queue::kept(recorded.map(|at| at.0), situation.job.created)",
            "place_in_queue::kept(recorded.map(|at| at.0), None)",
        ),
        Unit("src", "a_job_takes_the_place_of_its_own_creation"),
    ),
    mutant(
        "a running job that is made smaller keeps its quota",
        "src/plan/progress.rs",
        (
            "set.count.saturating_sub(wanted).max(0)",
            "set.count.saturating_sub(wanted).min(0)",
        ),
        Unit("src", "a_running_job_that_is_made_smaller_gives_quota_back"),
    ),
    mutant(
        "an edit of a nominated workload keeps its turn",
        "engine/src/state/workloads.rs",
        ("self.nominations.withdraw(&id);", ""),
        Engine("whoever_asks_for_something_else_meanwhile_comes_first_no_longer"),
    ),
    mutant(
        "the head of a strict queue reserves nothing",
        "engine/src/cycle/strict_head_reservation.rs",
        (
            "if !is_strict(&node.config) {",
            "if is_strict(&node.config) || !is_strict(&node.config) {",
        ),
        Engine("borrowers_take_nothing_that_the_head_of_a_strict_queue_waits_for"),
    ),
    mutant(
        "the head of a strict queue reserves nothing that it would borrow",
        "engine/src/cycle/strict_head_reservation.rs",
        (
            "if !policy.may_preempt_others_while_borrowing(by_shares) {",
            "if !policy.may_preempt_others_while_borrowing(by_shares) || node.id == class.node {",
        ),
        Engine("a_head_that_may_preempt_while_it_borrows_reserves_what_it_would_borrow"),
    ),
    mutant(
        "a job is preempted for a borrower before nominal quota is reclaimed",
        "engine/src/preemption/candidate_ordering.rs",
        (
            "InCohortReclaimWhileBorrowing => 1,",
            "InCohortReclaimWhileBorrowing => 0,",
        ),
        Engine(
            "what_an_outsider_borrows_of_the_branch_is_reclaimed_before_a_sibling_is_preempted_to_borrow",
        ),
    ),
    mutant(
        "a head that borrows from the nearest cohort counts as within the nominal quota",
        "engine/src/quota/above_quota.rs",
        (
            "lender.map_or(0, |lender| lender.height)",
            "lender.map_or(0, |lender| if above_quota.0 > 1 { lender.height } else { 0 })",
        ),
        Engine("whoever_keeps_to_the_quota_of_its_queue_comes_before_a_borrower_of_another_branch"),
    ),
];
