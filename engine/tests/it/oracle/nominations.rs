//! Nominated workloads, by definition. Which targets are evicted for them is `targets.rs`.

use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{
    AdmissionScope, ClusterQueue, Decision, Event, EvictReason, Time, Workload, WorkloadId,
    WorkloadState,
};

use super::{Oracle, Reservation, Reservations, order};
use crate::oracle::choice::{Assignment, AssignmentResult, Scene};
use crate::oracle::quota::{Charge, Tree};
use crate::oracle::tally::Tally;

impl Oracle {
    /// Keeps the room for those for whom others leave, or have just left; then each of them has its turn
    /// before all others. Of equal ones the first has it.
    pub(super) fn keep_promises(
        &mut self,
        tree: &Tree,
        now: Time,
        decisions: &mut Vec<Decision>,
    ) -> Reservations {
        let promised = self.promised(tree, now);
        let mut kept: Vec<(WorkloadId, Workload, Reservation)> = Vec::new();
        for id in &promised {
            let before: Vec<&WorkloadId> = kept.iter().map(|(_, first, _)| &first.id).collect();
            let claims = kept.iter().map(|(_, _, claim)| claim);
            let turn = self.turn_of(tree, now, id, &before, claims);
            if let Some((queue, first, verdict)) = turn {
                let (AssignmentResult::Now(assignment) | AssignmentResult::Later(assignment, _)) =
                    verdict
                else {
                    unreachable!("it has a turn")
                };
                let claim = self.claim(tree, &queue.name, &first.id, assignment.charge);
                kept.push((id.clone(), first.clone(), claim));
            }
        }
        // Those for whose least others left have as much as is theirs, and was left for no other.
        for number in 0..kept.len() {
            let others = kept.iter().filter(|(other, ..)| *other != kept[number].0);
            let others = others.map(|(_, _, claim)| claim);
            let (id, first, _) = &kept[number];
            if let Some(more) = self.more_than_least(tree, id, first, others) {
                kept[number].2.charge = more.charge;
                self.tally.least_grows += 1;
            }
        }
        // One that stands before it in its queue, and would get something of the same flavor and resource, has it instead.
        let all: Vec<WorkloadId> = kept.iter().map(|(_, first, _)| first.id.clone()).collect();
        let mut still = kept.clone();
        for (id, first, claim) in &kept {
            let others = kept.iter().filter(|(_, other, _)| other.id != first.id);
            let without = self.views(tree, others.map(|(_, _, claim)| claim));
            let scene = self.scene(tree, &without);
            let queue = &self.queues[&self.locals[&first.queue].cluster_queue];
            let mut ignored = Tally::default();
            let lined_up = self.lined_up(queue, now, &mut ignored);
            let before = lined_up.into_iter().take_while(|w| w.id != first.id);
            let before: Vec<_> = before.filter(|w| !all.contains(&w.id)).collect();
            let got: Vec<_> = before
                .iter()
                .filter_map(|w| scene.would_get(queue, w))
                .collect();
            let could_be_served = !got.is_empty();
            let taken = |charge: &Charge, cell| charge.get(cell).is_some_and(|amount| 0 < *amount);
            let is_needed = (claim.charge.keys()).any(|cell| {
                taken(&claim.charge, cell) && got.iter().any(|charge| taken(charge, cell))
            });
            self.tally.promise_kept_before_others += u64::from(could_be_served && !is_needed);
            if is_needed {
                self.tally.promise_broken += 1;
                still.retain(|(other, ..)| other != id);
            }
        }
        let mut claims = Reservations::new();
        let mut waiting = kept.clone();
        for (id, ..) in still {
            let before: Vec<&WorkloadId> = claims.keys().collect();
            waiting.retain(|(other, ..)| *other != id);
            let turn = self.turn_of(tree, now, &id, &before, claims.values());
            let first = self.first_like(now, &id, &before);
            let others = waiting.iter().map(|(_, _, claim)| claim);
            let more = first.and_then(|(queue, first)| {
                let more = self.more_than_least(tree, &id, first, claims.values().chain(others))?;
                Some((queue, first, more.at_its_time()))
            });
            let Some((queue, first, verdict)) = more.or(turn) else {
                continue;
            };
            let (queue, first) = (queue.name.clone(), first.id.clone());
            self.tally.promise_kept += 1;
            let for_least = self.goes_for_least_of.contains(&id);
            match verdict {
                AssignmentResult::Now(assignment) => {
                    self.taken_as_promised.insert(first.clone(), for_least);
                    decisions.push(self.admit(first, queue, assignment, now));
                }
                AssignmentResult::Later(assignment, _) => {
                    let claim = self.claim(tree, &queue, &first, assignment.charge);
                    claims.insert(first, claim);
                }
                AssignmentResult::No | AssignmentResult::Keep(..) => {
                    unreachable!("it has a turn")
                }
            }
        }
        claims
    }

    /// Who waits in a tree and is promised room, in order.
    fn promised(&self, tree: &Tree, now: Time) -> Vec<WorkloadId> {
        let mut ids: BTreeSet<WorkloadId> = self.leaving_for().into_values().collect();
        ids.retain(|id| !self.changed_its_mind.contains(id));
        ids.extend(self.left_for.iter().cloned());
        let queues = self.queues.values();
        let queues = queues.filter(|q| self.active(q) && tree.queue(&q.name).is_some());
        let mut ignored = Tally::default();
        let waiting = queues.flat_map(|queue| self.lined_up(queue, now, &mut ignored));
        let mut promised: Vec<&Workload> = waiting.filter(|w| ids.contains(&w.id)).collect();
        promised.sort_by_cached_key(|workload| order(workload));
        promised.into_iter().map(|w| w.id.clone()).collect()
    }

    /// The first of those that are like this one and have not had their turn, and what can be done for it
    /// without others going.
    fn turn_of<'a>(
        &'a self,
        tree: &Tree,
        now: Time,
        id: &WorkloadId,
        before: &[&WorkloadId],
        claims: impl Iterator<Item = &'a Reservation>,
    ) -> Option<(&'a ClusterQueue, &'a Workload, AssignmentResult)> {
        let (queue, first) = self.first_like(now, id, before)?;
        let mut ignored = Tally::default();
        let views = self.views(tree, claims);
        let scene = Scene {
            is_promised: true,
            ..self.scene(tree, &views)
        };
        let verdict = if self.goes_for_least_of.contains(id) {
            scene.verdict_for_least(queue, first, &mut ignored)
        } else {
            scene.verdict(queue, first, &mut ignored)
        };
        match &verdict {
            AssignmentResult::No | AssignmentResult::Keep(..) => None,
            AssignmentResult::Later(_, victims) if !victims.is_empty() => None,
            _ => Some((queue, first, verdict)),
        }
    }

    fn first_like<'a>(
        &'a self,
        now: Time,
        id: &WorkloadId,
        before: &[&WorkloadId],
    ) -> Option<(&'a ClusterQueue, &'a Workload)> {
        let promised = &self.workloads[id];
        let queue = &self.queues[&self.locals[&promised.queue].cluster_queue];
        let by_usage = queue.admission_scope == AdmissionScope::ByUsage;
        let is_like = |w: &&Workload| {
            w.pod_sets == promised.pod_sets && (!by_usage || w.queue == promised.queue)
        };
        let mut ignored = Tally::default();
        let mut like = self.lined_up(queue, now, &mut ignored);
        like.retain(|w| is_like(w) && !before.contains(&&w.id));
        let first = like.into_iter().next()?;
        Some((queue, first))
    }

    /// What one for whose least others left could have of its queue's own, beside these claims.
    fn more_than_least<'a>(
        &'a self,
        tree: &Tree,
        id: &WorkloadId,
        first: &Workload,
        claims: impl Iterator<Item = &'a Reservation>,
    ) -> Option<Assignment> {
        if !self.goes_for_least_of.contains(id) {
            return None;
        }
        let views = self.views(tree, claims);
        let queue = &self.queues[&self.locals[&first.queue].cluster_queue];
        let scene = self.scene(tree, &views);
        match scene.verdict_within_own(queue, first, &mut Tally::default()) {
            AssignmentResult::Now(more) | AssignmentResult::Later(more, _) => Some(more),
            AssignmentResult::No | AssignmentResult::Keep(..) => None,
        }
    }

    /// Whoever wants other pods, waits elsewhere, or counts for less is promised nothing that was to be left for
    /// it before.
    pub(super) fn may_change_its_mind(&mut self, workload: &Workload) {
        let Some(known) = self.workloads.get(&workload.id) else {
            return;
        };
        let is_still = (&known.queue, &known.pod_sets) == (&workload.queue, &workload.pod_sets);
        if is_still && known.priority <= workload.priority {
            return;
        }
        self.promise_no_longer(&workload.id.clone());
    }

    /// Whose place could not be recorded has its turn again.
    pub(super) fn may_be_promised_again(&mut self, event: &Event) {
        match event {
            Event::AdmissionFailed(id) => {
                let was_for_least = self.taken_as_promised.remove(id);
                if was_for_least == Some(true) {
                    self.goes_for_least_of.insert(id.clone());
                }
                if was_for_least.is_some() {
                    self.left_for.insert(id.clone());
                    self.tally.promised_again += 1;
                }
            }
            Event::UpsertWorkload(workload) if workload.state != WorkloadState::Pending => {
                self.taken_as_promised.remove(&workload.id);
            }
            _ => {}
        }
    }

    /// Nor is one that is gone, or whose LocalQueue leads elsewhere or nowhere.
    pub(super) fn may_lose_its_place(&mut self, event: &Event) {
        let (key, leads_to) = match event {
            Event::RemoveWorkload(id) => return self.promise_no_longer(id),
            Event::RemoveLocalQueue(key) => (key, None),
            Event::UpsertLocalQueue(local) => (&local.key, Some(&local.cluster_queue)),
            _ => return,
        };
        let known = self.locals.get(key);
        if known.is_none_or(|known| Some(&known.cluster_queue) == leads_to) {
            return;
        }
        let of_it = self.workloads.values().filter(|w| w.queue == *key);
        for id in of_it.map(|w| w.id.clone()).collect::<Vec<_>>() {
            self.promise_no_longer(&id);
        }
    }

    fn promise_no_longer(&mut self, id: &WorkloadId) {
        self.left_for.remove(id);
        self.taken_as_promised.remove(id);
        let mut waited_for = self.leaving_for().into_values();
        if waited_for.any(|by| by == *id) {
            self.changed_its_mind.insert(id.clone());
        }
    }

    /// For whom somebody is to make room, whether that is under way or only decided.
    pub(crate) fn made_to_go_by(&self, id: &WorkloadId) -> Option<&WorkloadId> {
        match (&self.workloads.get(id)?.state, self.asked.get(id)) {
            (WorkloadState::Evicting(_, by), _) => by.as_ref(),
            (WorkloadState::Admitted(_), Some(EvictReason::Preempted { by, .. })) => Some(by),
            _ => None,
        }
    }

    /// Those who leave for others, with whom they leave for.
    pub(super) fn leaving_for(&self) -> BTreeMap<WorkloadId, WorkloadId> {
        let leaving = self.workloads.values().filter(|w| self.leaves(w));
        let leaving = leaving.filter_map(|w| Some((&w.id, self.made_to_go_by(&w.id)?)));
        leaving.map(|(id, by)| (id.clone(), by.clone())).collect()
    }
}
