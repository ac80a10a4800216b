//! Who waits in one ClusterQueue, in order, at one time. It is never changed: a younger one takes its place.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use sluice_engine::{ClusterQueueName, LocalQueueKey, WorkloadId};

use super::page::Page;
use super::queue_ref::{QueueRef, Taken, WAITING_MAX};
use super::waiting::Waiting;

/// How many of those ahead are named.
pub const AHEAD_MAX: usize = 20;

/// Who waits in a ClusterQueue.
#[derive(Debug)]
pub struct View {
    /// The ClusterQueue.
    pub cluster_queue: ClusterQueueName,
    /// When it was taken, by the wall clock.
    pub taken: Timestamp,
    exists: bool,
    /// Whether more wait than are listed: then none are.
    has_too_many: bool,
    /// In order, each with how many of its LocalQueue are before it.
    waiting: Vec<(Waiting, usize)>,
    /// The places of those who wait in each LocalQueue, in order.
    local_queues: BTreeMap<LocalQueueKey, Vec<usize>>,
}

/// One of a page.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// Who waits.
    pub waiting: &'a Waiting,
    /// How many of the ClusterQueue are before it.
    pub in_cluster_queue: usize,
    /// How many of the LocalQueue are before it.
    pub in_local_queue: usize,
}

/// Who is ahead of one who waits.
#[derive(Debug, Default)]
pub struct Ahead<'a> {
    /// The first of its namespace.
    pub first: Vec<&'a Waiting>,
    /// How many are of its namespace.
    pub of_namespace: usize,
    /// How many are of others.
    pub of_other_namespaces: usize,
}

impl View {
    /// Sorts what was taken at that time.
    pub fn new(taken: Taken, at: Timestamp) -> Self {
        let Taken {
            cluster_queue,
            exists,
            local_queues,
            mut waiting,
        } = taken;
        let has_too_many = WAITING_MAX < waiting.len();
        if has_too_many {
            waiting = Vec::new();
        }
        let order = |one: &Waiting, other: &Waiting| {
            let by_priority = other.priority.cmp(&one.priority);
            by_priority
                .then(one.created.cmp(&other.created))
                .then_with(|| one.id.cmp(&other.id))
        };
        waiting.sort_unstable_by(order);
        let keys = local_queues.into_iter();
        let mut local_queues: BTreeMap<_, Vec<usize>> = keys.map(|key| (key, Vec::new())).collect();
        let place = |(place, waiting): (usize, Waiting)| {
            let of_queue = local_queues.entry(waiting.local_queue.clone()).or_default();
            of_queue.push(place);
            (waiting, of_queue.len().saturating_sub(1))
        };
        let waiting = waiting.into_iter().enumerate().map(place).collect();
        Self {
            cluster_queue,
            taken: at,
            exists,
            has_too_many,
            waiting,
            local_queues,
        }
    }

    /// Whether more wait than are listed.
    pub fn has_too_many(&self) -> bool {
        self.has_too_many
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether it is about this queue.
    pub fn is_about(&self, place: &QueueRef) -> bool {
        match place {
            QueueRef::ClusterQueue(name) => self.exists && *name == self.cluster_queue,
            QueueRef::LocalQueue(key) => self.local_queues.contains_key(key),
        }
    }

    /// How many wait in a queue, and those on one page of it.
    pub fn page(&self, place: &QueueRef, page: Page) -> (usize, Vec<Placed<'_>>) {
        let Page { offset, limit } = page;
        match place {
            QueueRef::ClusterQueue(_) => {
                let places = (offset..self.len()).take(limit);
                (self.len(), places.filter_map(|at| self.at(at)).collect())
            }
            QueueRef::LocalQueue(key) => {
                let places = self.local_queues.get(key).map_or(&[][..], Vec::as_slice);
                let on_page = places.iter().skip(offset).take(limit);
                let placed = on_page.filter_map(|at| self.at(*at)).collect();
                (places.len(), placed)
            }
        }
    }

    /// The place of one who waits, and who is ahead of it.
    pub fn placed(&self, id: &WorkloadId, key: &LocalQueueKey) -> Option<(Placed<'_>, Ahead<'_>)> {
        let places = self.local_queues.get(key)?;
        let mut placed = places.iter().filter_map(|place| self.at(*place));
        let placed = placed.find(|placed| placed.waiting.id == *id)?;
        let mut ahead = Ahead::default();
        for (other, _) in self.waiting.iter().take(placed.in_cluster_queue) {
            if other.local_queue.namespace != key.namespace {
                ahead.of_other_namespaces += 1;
                continue;
            }
            ahead.of_namespace += 1;
            if ahead.first.len() < AHEAD_MAX {
                ahead.first.push(other);
            }
        }
        Some((placed, ahead))
    }

    fn at(&self, place: usize) -> Option<Placed<'_>> {
        let (waiting, in_local_queue) = self.waiting.get(place)?;
        Some(Placed {
            waiting,
            in_cluster_queue: place,
            in_local_queue: *in_local_queue,
        })
    }
}

#[cfg(test)]
pub mod tests;
