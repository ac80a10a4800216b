//! What events about workloads change: which workloads are queued, and what is used.

use crate::api::names::{LocalQueueKey, WorkloadId};
use crate::api::workload::Workload;
use crate::queue::cluster_queue::ClusterQueueStates;
use crate::queue::demand::Demand;
use crate::queue::local_queue::LocalQueueState;
use crate::quota::view::View;
use crate::state::engine::Engine;
use crate::workload::info::{AdmissionUsage, WorkloadInfo, WorkloadPhase};
use crate::workload::transition::{carries_out_decision, keeps_usage, next_state, requests_anew};

const SHAPE_IS_USED: &str = "the shape of a workload is in use";

impl Engine {
    pub(crate) fn upsert_workload(&mut self, workload: Workload) {
        let Workload {
            id,
            queue,
            priority,
            created,
            pod_sets,
            not_before,
            evictable,
            state,
        } = workload;
        let before = self.workloads.get(&id);
        let known =
            before.filter(|before| before.evictable == evictable || !before.state.is_admitted());
        let cells = &mut self.config.flavor_resources;
        let state = next_state(known.map(|info| &info.state), state, cells);
        let shape = self.shapes.acquire(pod_sets);
        // Many workloads share one copy of this name.
        let local_queue = self.local_queues.key(&queue).cloned().unwrap_or(queue);
        let info = WorkloadInfo {
            local_queue,
            priority,
            created,
            shape,
            not_before,
            evictable,
            state,
        };
        if before.is_some_and(|before| before.is_same_as(&info)) {
            let was_used = self.shapes.release(&info.shape);
            self.check(was_used, SHAPE_IS_USED);
            return;
        }
        let ends_round = !before.is_some_and(|before| carries_out_decision(before, &info));
        let keeps_usage = before.is_some_and(|before| keeps_usage(before, &info));
        if before.is_some_and(|before| requests_anew(before, &info)) {
            self.nominations.withdraw(&id);
        }
        if !matches!(info.state, WorkloadPhase::Assumed(_)) {
            self.nominations.admission_ended(&id);
        }
        let id = self.workloads.key(&id).cloned().unwrap_or(id);
        // Once in the tree that it leaves, and once in the one that it comes to: they may differ.
        if ends_round {
            self.end_preemption_round_of(&id);
        }
        if keeps_usage {
            self.replace_admitted(&id, info);
        } else {
            let left = self.take_workload(&id);
            self.insert_workload(id.clone(), info);
            if let Some(left) = left {
                self.drop_empty_local_queue(&left);
            }
        }
        if ends_round {
            self.end_preemption_round_of(&id);
        }
    }

    pub(crate) fn remove_workload(&mut self, id: &WorkloadId) {
        // Another one may come under this id.
        self.nominations.withdraw(id);
        self.end_preemption_round_of(id);
        if let Some(key) = self.take_workload(id) {
            self.drop_empty_local_queue(&key);
        }
    }

    pub(crate) fn admission_failed(&mut self, id: &WorkloadId) {
        if let Some(info) = self.workloads.get(id)
            && matches!(info.state, WorkloadPhase::Assumed(_))
        {
            let info = WorkloadInfo {
                state: WorkloadPhase::Pending,
                ..info.clone()
            };
            // `take_workload` releases the shape, but it is still in use here.
            let shape = self.shapes.acquire(info.shape.pod_sets.to_vec());
            // In both trees, as above.
            self.end_preemption_round_of(id);
            self.take_workload(id);
            self.insert_workload(id.clone(), WorkloadInfo { shape, ..info });
            self.nominations.admission_failed(id);
            self.end_preemption_round_of(id);
        }
    }

    /// Replaces a workload by one with the same usage: counters and lists may change, but no tree does.
    fn replace_admitted(&mut self, id: &WorkloadId, info: WorkloadInfo) {
        let before = self.workloads.get(id);
        let old = before.and_then(|before| before.state.admission_usage());
        let (Some(before), Some(old), Some(new)) = (before, old, info.state.admission_usage())
        else {
            self.check(false, "what is replaced has usage");
            return;
        };
        let (Some(cluster_queue), Some(local_queue)) = (
            self.cluster_queues.get_mut(&new.admission.queue),
            self.local_queues.get_mut(&info.local_queue),
        ) else {
            self.check(false, "the queues of a workload have a state");
            return;
        };
        let mut was_there = true;
        for usage in [&mut cluster_queue.usage, &mut local_queue.usage] {
            was_there &= usage.remove(&old.usage, before.state.counted_as());
            usage.add(&new.usage, info.state.counted_as());
        }
        let was_used = self.shapes.release(&before.shape);
        self.violations.check(was_used, SHAPE_IS_USED);
        let role = |info| {
            (
                WorkloadInfo::preemption_order(info, id),
                info.is_evicting(),
                info.evicted_for().cloned(),
                self.deadline(info),
            )
        };
        let is_listed_anew = role(before) != role(&info);
        if is_listed_anew {
            self.remove_from_lists(id);
        }
        self.workloads.insert(id.clone(), info);
        if is_listed_anew {
            self.add_to_lists(id);
        }
        self.check(was_there, "a queue has the usage of its workloads");
        self.review([id.clone()]);
    }

    /// Adds a workload that is not known.
    fn insert_workload(&mut self, id: WorkloadId, info: WorkloadInfo) {
        if let Some(admission) = info.state.admission() {
            self.open_deleted_queue(admission);
        }
        let local_queue = self.local_queues.open(info.local_queue.clone());
        local_queue.workloads.insert(id.clone());
        let queue_name = local_queue.active_cluster_queue().cloned();
        if info.state == WorkloadPhase::Pending {
            for demand in demands(local_queue, &mut self.cluster_queues) {
                demand.add(&info.shape);
            }
        }
        if let Some(AdmissionUsage { admission, usage }) = info.state.admission_usage() {
            let counted_as = info.state.counted_as();
            local_queue.usage.add(usage, counted_as);
            let cluster_queue = self.cluster_queues.open(&admission.queue);
            cluster_queue.usage.add(usage, counted_as);
            cluster_queue.with_usage.insert(id.clone());
            let cells = &self.config.flavor_resources;
            if let Some(tree) = self.cohort_trees.tree_mut(&admission.queue)
                && let Some(node) = tree.queues.node(&admission.queue)
            {
                tree.add_usage(View::Now, node, usage, cells);
                tree.add_usage(View::Planned, node, usage, cells);
            }
            self.cohort_trees.reopen_by_usage(&admission.queue);
        }
        self.workloads.insert(id.clone(), info);
        self.add_to_lists(&id);
        self.enqueue(&id, queue_name.as_ref());
        self.review([id]);
    }

    /// Removes a workload with all its effects; returns its LocalQueue.
    fn take_workload(&mut self, id: &WorkloadId) -> Option<LocalQueueKey> {
        let local_queue = self.local_queues.get(&self.workloads.get(id)?.local_queue);
        let queue_name = local_queue.and_then(|queue| queue.active_cluster_queue().cloned());
        self.dequeue(id, queue_name.as_ref());
        self.remove_from_lists(id);
        let info = self.workloads.remove(id)?;
        let was_used = self.shapes.release(&info.shape);
        self.check(was_used, SHAPE_IS_USED);
        let Some(local_queue) = self.local_queues.get_mut(&info.local_queue) else {
            self.check(false, "the LocalQueue of a workload has a state");
            return None;
        };
        let mut was_there = local_queue.workloads.remove(id);
        if info.state == WorkloadPhase::Pending {
            for demand in demands(local_queue, &mut self.cluster_queues) {
                was_there &= demand.remove(&info.shape);
            }
        }
        if let Some(AdmissionUsage { admission, usage }) = info.state.admission_usage() {
            let counted_as = info.state.counted_as();
            was_there &= local_queue.usage.remove(usage, counted_as);
            if let Some(cluster_queue) = self.cluster_queues.get_mut(&admission.queue) {
                was_there &= cluster_queue.usage.remove(usage, counted_as);
                was_there &= cluster_queue.with_usage.remove(id);
            } else {
                was_there = false;
            }
            if let Some(tree) = self.cohort_trees.tree_mut(&admission.queue)
                && let Some(node) = tree.queues.node(&admission.queue)
            {
                tree.remove_usage(View::Now, node, usage);
                tree.remove_usage(View::Planned, node, usage);
                tree.reopened.reopen_all();
            }
            self.drop_empty_cluster_queue(&admission.queue);
        }
        self.check(
            was_there,
            "a queue has the demand and the usage of its workloads",
        );
        Some(info.local_queue)
    }
}

/// Where the pending workloads of a LocalQueue are counted: there, and at its ClusterQueue.
fn demands<'a>(
    local_queue: &'a mut LocalQueueState,
    cluster_queues: &'a mut ClusterQueueStates,
) -> impl Iterator<Item = &'a mut Demand> {
    let object = local_queue.object.as_ref();
    let pointed = object.and_then(|object| cluster_queues.get_mut(&object.cluster_queue));
    std::iter::once(&mut local_queue.demand)
        .chain(pointed.map(|cluster_queue| &mut cluster_queue.demand))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::amount::Amount;
    use crate::api::event::{Decision, Event};
    use crate::api::queues::{ClusterQueue, LocalQueue};
    use crate::api::settings::Settings;
    use crate::api::time::Time;
    use crate::api::workload::{PodSet, WorkloadState};
    use std::sync::Arc;

    fn mk_engine() -> Engine {
        let mut engine = Engine::new(Settings::new(Amount::new(1)));
        engine.apply(Event::UpsertClusterQueue(ClusterQueue {
            cohort: Some("c".into()),
            ..ClusterQueue::new("q".into())
        }));
        let key = LocalQueueKey::new("ns", "l");
        engine.apply(Event::UpsertLocalQueue(LocalQueue::new(key, "q".into())));
        engine
    }

    fn mk_workload(state: WorkloadState) -> Event {
        Event::UpsertWorkload(Workload {
            pod_sets: vec![PodSet::new("main".into(), 3)],
            state,
            ..Workload::new("w".into(), LocalQueueKey::new("ns", "l"))
        })
    }

    #[test]
    fn where_pods_are_wakes_no_tree() {
        let mut engine = mk_engine();
        engine.apply(mk_workload(WorkloadState::Pending));
        let decisions = engine.decide(Time::default());
        let [Decision::Admit { admission, .. }] = decisions.as_slice() else {
            unreachable!("one workload, one admission, not {decisions:?}");
        };
        for bound in [1, 3, 2, 0] {
            let mut admission = admission.clone();
            for pod_set in Arc::make_mut(&mut admission.pod_sets) {
                pod_set.bound = bound;
            }
            engine.apply(mk_workload(WorkloadState::Admitted(admission.clone())));
            assert_eq!(engine.admission(&"w".into()), Some(&admission));
            let changed = engine.clone().cohort_trees.take_changed();
            assert!(changed.is_empty(), "{bound} bound: {changed:?}");
        }
        engine.apply(mk_workload(WorkloadState::Finished));
        assert_eq!(engine.clone().cohort_trees.take_changed().len(), 1);
    }
}
