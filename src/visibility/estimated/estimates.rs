//! The estimates for the jobs of a tree of cohorts. To work them out takes some seconds at most.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use sluice_engine::{Event, LocalQueueKey, Time, WorkloadId};
use sluice_estimates::estimate::{Answer, NoEstimate};
use sluice_estimates::standing::{StandingJob, Tree};

use super::taken::TakenJobs;

/// How long the jobs of a tree may be played at a time. It may be twice: for all who wait, and for one of them.
const PLAY_TIME: Duration = Duration::from_secs(1);
/// If more wait, only the one in question is estimated: to play until all have started takes much longer.
const ALL_MAX: usize = 500;

/// The estimates for jobs of a tree, at one time. They are never changed: younger ones take their place.
#[derive(Debug)]
pub struct Estimates {
    /// When its jobs stood so, by the wall clock.
    pub taken: Timestamp,
    /// How many jobs that have finished they go by.
    pub finished_jobs: usize,
    all: BTreeMap<WorkloadId, Answer>,
    /// Why there is none for any job.
    none: Option<NoEstimate>,
}

impl Estimates {
    /// Estimates when this one of the jobs will start, and all others that wait, if they are few.
    pub fn new(taken: TakenJobs, at: Timestamp, whom: &WorkloadId) -> Self {
        let TakenJobs {
            settings,
            setup,
            jobs,
            too_many,
            finished,
        } = taken;
        let mut estimates = Self {
            taken: at,
            finished_jobs: finished.durations_len(),
            all: BTreeMap::new(),
            none: too_many.map(NoEstimate::TooManyJobs),
        };
        if estimates.none.is_some() {
            return estimates;
        }
        let now = Time::from_millis(at.as_millisecond());
        let (ids, jobs): (Vec<WorkloadId>, Vec<StandingJob>) = jobs.into_iter().unzip();
        let mut durations = finished.durations();
        durations.note_running(jobs.iter().map(|job| job.asked(now)));
        let local_queues: BTreeSet<&LocalQueueKey> = (setup.iter())
            .filter_map(|event| match event {
                Event::UpsertLocalQueue(local_queue) => Some(&local_queue.key),
                _ => None,
            })
            .collect();
        let came = finished.came(|queue| local_queues.contains(queue));
        let tree = Tree {
            now,
            settings: &settings,
            setup: &setup,
            jobs: &jobs,
            finished: &came,
            known_since: finished.known_since(),
            durations: &durations,
            default: None,
        };
        let numbered = jobs.iter().enumerate();
        let pending = numbered.filter(|(_, job)| job.start.is_pending());
        let pending: Vec<usize> = pending.map(|(number, _)| number).collect();
        if (1..=ALL_MAX).contains(&pending.len()) {
            estimates.play(&tree, &pending, &ids);
        }
        let is_known = !matches!(
            estimates.all.get(whom),
            None | Some(Err(NoEstimate::TooSlow(_)))
        );
        if !is_known && estimates.none.is_none() {
            if let Ok(own) = ids.binary_search(whom) {
                estimates.play(&tree, &[own], &ids);
                estimates.forget_slow_but(whom);
            } else {
                let none = Err(NoEstimate::NotQueued);
                estimates.all.insert(whom.clone(), none);
            }
        }
        estimates
    }

    /// There is none for any job.
    #[cfg(test)]
    pub fn none(why: NoEstimate) -> Self {
        Self {
            taken: Timestamp::UNIX_EPOCH,
            finished_jobs: 0,
            all: BTreeMap::new(),
            none: Some(why),
        }
    }

    fn play(&mut self, tree: &Tree<'_>, asked: &[usize], ids: &[WorkloadId]) {
        let begun = Instant::now();
        let goes_on = |_| begun.elapsed() < PLAY_TIME;
        match tree.estimates(asked, goes_on) {
            Ok(answers) => {
                let asked = asked.iter().filter_map(|number| ids.get(*number));
                self.all.extend(asked.cloned().zip(answers));
            }
            Err(why) => self.none = Some(why),
        }
    }

    /// Each of the others may take less time alone, as well.
    fn forget_slow_but(&mut self, whom: &WorkloadId) {
        let is_slow = |answer: &Answer| matches!(answer, Err(NoEstimate::TooSlow(_)));
        self.all.retain(|id, answer| id == whom || !is_slow(answer));
    }

    /// Whether it is known whether this job can be estimated.
    pub fn is_about(&self, whom: &WorkloadId) -> bool {
        self.none.is_some() || self.all.contains_key(whom)
    }

    /// The estimate for a job, or why there is none.
    pub fn answer(&self, whom: &WorkloadId) -> Answer {
        match (self.all.get(whom), &self.none) {
            (Some(answer), _) => answer.clone(),
            (None, Some(why)) => Err(why.clone()),
            (None, None) => Err(NoEstimate::NotQueued),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_all_take_too_long_is_no_answer_for_each() {
        let slow = || Err(NoEstimate::TooSlow(7));
        let all = [
            ("a", slow()),
            ("b", slow()),
            ("c", Err(NoEstimate::NotQueued)),
        ];
        let mut estimates = Estimates {
            all: BTreeMap::from(all.map(|(id, answer)| (WorkloadId::from(id), answer))),
            none: None,
            ..Estimates::none(NoEstimate::NotQueued)
        };
        estimates.forget_slow_but(&"a".into());
        let about = ["a", "b", "c"].map(|id| estimates.is_about(&id.into()));
        assert_eq!(about, [true, false, true]);
    }
}
