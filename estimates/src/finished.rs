//! Jobs that have finished, as far as they are kept for estimates: how long the last of each sort ran, and which jobs came
//! lately. Bounded: the oldest are forgotten first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{LocalQueueKey, PodSet, Time};

use crate::durations::{Durations, Seen};
use crate::play::Start;
use crate::standing::StandingJob;

/// Sorts of jobs of which durations are kept, and how many of each.
const SORTS_MAX: usize = 1000;
const DURATIONS_MAX: usize = 64;
/// Jobs of which it is kept when they came.
const ARRIVALS_MAX: usize = 10_000;

/// A job that has finished.
#[derive(Debug, Clone)]
pub struct FinishedJob {
    /// Its LocalQueue.
    pub queue: LocalQueueKey,
    /// Its kind.
    pub kind: Arc<str>,
    /// What it asked for.
    pub pod_sets: Arc<[PodSet]>,
    /// Higher goes first.
    pub priority: i32,
    /// When it was created.
    pub created: Time,
    /// When it had finished.
    pub finished: Time,
    /// How long it ran, if that is known.
    pub ran: Option<Duration>,
}

/// Those of them that are kept.
#[derive(Debug, Clone, Default)]
pub struct FinishedJobs {
    sorts: BTreeMap<Arc<Sort>, Kept>,
    /// By when they had finished.
    arrivals: VecDeque<Arrival>,
    /// When the last of those had finished that are forgotten. Whatever came since then is kept.
    known_since: Option<Time>,
}

/// What jobs have in common of which durations are kept together.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sort {
    queue: LocalQueueKey,
    kind: Arc<str>,
    pod_sets: Arc<[PodSet]>,
}

/// How long jobs of a sort ran, by when they had finished.
#[derive(Debug, Clone, Default)]
struct Kept(VecDeque<(Time, Duration)>);

#[derive(Debug, Clone)]
struct Arrival {
    sort: Arc<Sort>,
    priority: i32,
    created: Time,
    finished: Time,
}

impl FinishedJobs {
    /// One more. They may be told in any order.
    pub fn note(&mut self, job: FinishedJob) {
        let FinishedJob {
            queue,
            kind,
            pod_sets,
            priority,
            created,
            finished,
            ran,
        } = job;
        let sort = Arc::new(Sort {
            queue,
            kind,
            pod_sets,
        });
        let known = self.sorts.get_key_value(&sort);
        let sort = known.map_or(sort, |(known, _)| known.clone());
        if let Some(ran) = ran {
            self.sorts
                .entry(sort.clone())
                .or_default()
                .note(finished, ran);
            self.forget_a_sort();
        }
        let place = (self.arrivals).partition_point(|other| other.finished <= finished);
        let arrival = Arrival {
            sort,
            priority,
            created,
            finished,
        };
        self.arrivals.insert(place, arrival);
        if ARRIVALS_MAX < self.arrivals.len()
            && let Some(oldest) = self.arrivals.pop_front()
        {
            self.known_since = self.known_since.max(Some(oldest.finished));
        }
    }

    /// Of too many sorts one is forgotten of the namespace that has the most: the one of which none has finished for longest.
    fn forget_a_sort(&mut self) {
        if self.sorts.len() <= SORTS_MAX {
            return;
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for sort in self.sorts.keys() {
            *counts.entry(&sort.queue.namespace).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let is_of_most = |sort: &Sort| most.is_some_and(|(most, _)| &*sort.queue.namespace == most);
        let last = |(_, kept): &(&Arc<Sort>, &Kept)| kept.0.back().map(|(finished, _)| *finished);
        let of_most = self.sorts.iter().filter(|(sort, _)| is_of_most(sort));
        let oldest = of_most.min_by_key(last);
        if let Some(oldest) = oldest.map(|(sort, _)| sort.clone()) {
            self.sorts.remove(&oldest);
        }
    }

    /// How many durations are kept.
    pub fn durations_len(&self) -> usize {
        self.sorts.values().map(|kept| kept.0.len()).sum()
    }

    /// How long they ran. Not all may count, so the last of each sort come first, then those before them.
    pub fn durations(&self) -> Durations {
        let mut durations = Durations::default();
        for later in 0..DURATIONS_MAX {
            for (sort, kept) in &self.sorts {
                let Some((_, ran)) = kept.0.iter().nth_back(later) else {
                    continue;
                };
                durations.note(Seen {
                    queue: sort.queue.clone(),
                    kind: sort.kind.clone(),
                    pod_sets: sort.pod_sets.clone(),
                    ran: *ran,
                });
            }
        }
        durations
    }

    /// The jobs of some LocalQueues, as they came.
    pub fn came(&self, is_of_tree: impl Fn(&LocalQueueKey) -> bool) -> Vec<StandingJob> {
        let of_tree = self.arrivals.iter();
        let of_tree = of_tree.filter(|arrival| is_of_tree(&arrival.sort.queue));
        let came = of_tree.map(|arrival| StandingJob {
            id: None,
            queue: arrival.sort.queue.clone(),
            kind: arrival.sort.kind.clone(),
            pod_sets: arrival.sort.pod_sets.clone(),
            priority: arrival.priority,
            created: arrival.created,
            said: None,
            start: Start::Pending,
        });
        came.collect()
    }

    /// Since when all are kept that came and have finished; none if nothing is forgotten.
    pub fn known_since(&self) -> Option<Time> {
        self.known_since
    }
}

impl Kept {
    fn note(&mut self, finished: Time, ran: Duration) {
        let place = self.0.partition_point(|(other, _)| *other <= finished);
        self.0.insert(place, (finished, ran));
        if DURATIONS_MAX < self.0.len() {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durations::{Asked, Source};

    fn job(queue: &str, pods: u32, finished: i64, ran: u64) -> FinishedJob {
        let at = |second: i64| Time::from_millis(second * 1000);
        FinishedJob {
            queue: LocalQueueKey::new("ns", queue),
            kind: "Job".into(),
            pod_sets: Arc::new([PodSet::new("main".into(), pods)]),
            priority: 0,
            created: at(finished - 1000),
            finished: at(finished),
            ran: Some(Duration::from_secs(ran)),
        }
    }

    fn half(jobs: &FinishedJobs, pods: u32) -> Option<(Source, u64)> {
        let FinishedJob {
            queue,
            kind,
            pod_sets,
            ..
        } = job("q", pods, 0, 0);
        let durations = jobs.durations();
        let asked = Asked {
            queue: &queue,
            kind: &kind,
            pod_sets: &pod_sets,
            said: None,
            runs_for: Duration::ZERO,
        };
        let found = durations.likely(asked, None);
        found.map(|(source, likely)| (source, likely.within(500).as_secs()))
    }

    #[test]
    fn the_last_of_each_sort_count_in_whatever_order_they_are_told() {
        let mut jobs = FinishedJobs::default();
        assert_eq!(half(&jobs, 1), None);
        let later = (100..164).map(|at| job("q", 1, at, 30));
        let earlier = (0..100).map(|at| job("q", 1, at, 900));
        for finished in later.chain(earlier) {
            jobs.note(finished);
        }
        assert_eq!(jobs.durations_len(), 64);
        assert_eq!(half(&jobs, 1), Some((Source::SameRequests, 30)));
        assert_eq!(half(&jobs, 2), Some((Source::SameQueue, 30)));
        assert_eq!((jobs.came(|_| true).len(), jobs.known_since()), (164, None));
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_are_forgotten() {
        let mut jobs = FinishedJobs::default();
        for at in 0..12_000 {
            let pods = u32::try_from(at % 1200).unwrap();
            jobs.note(job("q", pods, at, 5));
        }
        assert_eq!(jobs.sorts.len(), SORTS_MAX);
        assert!(jobs.durations_len() <= SORTS_MAX * DURATIONS_MAX);
        assert_eq!(jobs.came(|_| true).len(), ARRIVALS_MAX);
        assert_eq!(jobs.known_since(), Some(Time::from_millis(1_999_000)));
        assert!(jobs.came(|queue| &*queue.name == "other").is_empty());
        let untold = FinishedJob {
            ran: None,
            ..job("other", 1, 99_999, 0)
        };
        jobs.note(untold);
        assert_eq!(jobs.came(|queue| &*queue.name == "other").len(), 1);
    }

    #[test]
    fn a_namespace_with_many_sorts_of_jobs_leaves_those_of_others() {
        let mut jobs = FinishedJobs::default();
        let own = || FinishedJob {
            queue: LocalQueueKey::new("own", "q"),
            ..job("q", 1, 0, 60)
        };
        jobs.note(own());
        for at in 1..1200 {
            for _ in 0..15 {
                jobs.note(job("a", u32::try_from(at).unwrap(), at, 5));
            }
        }
        assert!(jobs.sorts.keys().any(|sort| sort.queue == own().queue));
        // 15,000 are more than count, those of this queue among them though its name comes last.
        let durations = jobs.durations();
        let (own, kind) = (own(), "Other".into());
        let asked = Asked {
            queue: &own.queue,
            kind: &kind,
            pod_sets: &own.pod_sets,
            said: None,
            runs_for: Duration::ZERO,
        };
        let (source, likely) = durations.likely(asked, None).unwrap();
        assert_eq!((source, likely.within(999).as_secs()), (Source::Any, 5));
        let longest = Asked {
            runs_for: Duration::from_secs(5),
            ..asked
        };
        let (_, likely) = durations.likely(longest, None).unwrap();
        assert_eq!(likely.within(0).as_secs(), 60);
    }
}
