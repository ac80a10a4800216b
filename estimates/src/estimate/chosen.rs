//! The jobs that are played to estimate when some of them start: those of a cohort tree, and what may come.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::{Estimate, JOBS_MAX, Known, NoEstimate};
use super::arrivals::Arrivals;
use super::chance::Chance;
use crate::durations::{Likely, Source};
use crate::play::{Job, Start};
use crate::seconds::Seconds;
use crate::standing::{StandingJob, Tree, to_play};

/// The parts of all plays, in hundredths, before and after which 1 of 10 jobs starts each: what happens differs more than
/// plays do, as nobody knows what is not seen.
const EARLIEST: usize = 5;
const LATEST: usize = 95;
/// Thousandths of the jobs that run as long as others of their sort do: users start many jobs that are alike, and these end
/// early or late together.
const TOGETHER: u16 = 600;

/// The jobs that are played.
#[derive(Debug, Default)]
pub(super) struct Chosen<'a> {
    pub(super) jobs: Vec<Job>,
    likely: Vec<(Source, Likely<'a>)>,
    /// When jobs came that were seen.
    arrivals: Option<Arrivals>,
    /// These jobs as they would come anew, and how long they would run.
    alike: Vec<(Job, Option<Likely<'a>>)>,
    /// The sort of each of those: the first of them are the jobs that are played.
    sorts: Vec<usize>,
    sorts_len: usize,
}

impl<'a> Chosen<'a> {
    /// The jobs of a tree. Some of them are in question.
    ///
    /// # Errors
    /// There are too many, or it is not known how long some of them run.
    pub(super) fn of(tree: &'a Tree<'a>, asked: &[usize]) -> Result<Self, NoEstimate> {
        let Tree {
            now,
            durations,
            default,
            ..
        } = *tree;
        let mut likely = Vec::new();
        let mut unknown = Vec::new();
        for (number, job) in tree.jobs.iter().enumerate() {
            match durations.likely(job.asked(now), default) {
                Some(known) => likely.push(known),
                // How long one job runs has no bearing on when itself starts.
                None if *asked == [number] => {
                    likely.push((Source::Any, Likely::Known(Duration::ZERO)));
                }
                None => unknown.push(number),
            }
        }
        if !unknown.is_empty() {
            return Err(NoEstimate::NoDurations(unknown));
        }
        if JOBS_MAX < tree.jobs.len() {
            return Err(NoEstimate::TooManyJobs(tree.jobs.len()));
        }
        if asked.iter().any(|number| tree.jobs.len() <= *number) {
            return Err(NoEstimate::NotQueued);
        }
        let known: Vec<&StandingJob> = tree.jobs.iter().chain(tree.finished).collect();
        let arrivals = Arrivals::of(&known, now, tree.known_since);
        let mut numbers = BTreeMap::new();
        let mut sorts = Vec::with_capacity(known.len());
        for job in &known {
            let next = numbers.len();
            let sort = numbers.entry((&job.queue, &job.kind, &job.pod_sets));
            sorts.push(*sort.or_insert(next));
        }
        // Whatever comes is like one of these, but new.
        let anew = known.iter().map(|job| StandingJob {
            id: None,
            start: Start::Pending,
            ..(*job).clone()
        });
        let anew: Vec<StandingJob> = anew.collect();
        let likely_of = |job: &StandingJob| {
            let likely = durations.likely(job.asked(now), default);
            likely.map(|(_, likely)| likely)
        };
        let alike = to_play(anew.iter(), now);
        let alike = anew.iter().zip(alike);
        let alike = alike.map(|(job, played)| (played, likely_of(job)));
        Ok(Self {
            jobs: to_play(tree.jobs.iter(), now),
            likely,
            arrivals,
            alike: alike.collect(),
            sorts_len: numbers.len(),
            sorts,
        })
    }

    /// The estimate of a job that started so many milliseconds from now in each of the plays.
    pub(super) fn estimate(&self, plays: u32, mut starts: Vec<Option<i64>>) -> Estimate {
        // What never starts comes last.
        starts.sort_by_key(|start| (start.is_none(), *start));
        let within = |percent: usize| {
            let rank = (starts.len() * percent).div_ceil(100).max(1);
            starts.get(rank - 1).copied().flatten().map(Seconds)
        };
        let mut durations: BTreeMap<Source, usize> = BTreeMap::new();
        for (source, _) in &self.likely {
            *durations.entry(*source).or_default() += 1;
        }
        Estimate {
            earliest_seconds: within(EARLIEST),
            median_seconds: within(50),
            latest_seconds: within(LATEST),
            plays,
            jobs: self.jobs.len(),
            more_come: self.arrivals.is_some(),
            durations: durations
                .into_iter()
                .map(|(source, jobs)| Known { source, jobs })
                .collect(),
        }
    }

    /// The jobs, each with a duration that is as likely as any other, and jobs that may come.
    pub(super) fn drawn(&self, chance: &mut Chance) -> Vec<Job> {
        let mut drawn = Vec::with_capacity(self.jobs.len());
        let together: Vec<u16> = (0..self.sorts_len).map(|_| chance.thousandths()).collect();
        let lasts = |index: usize, likely: Likely<'_>, chance: &mut Chance| {
            let own = chance.thousandths();
            let sort = self.sorts.get(index).and_then(|sort| together.get(*sort));
            let sort = sort.filter(|_| chance.thousandths() < TOGETHER);
            likely.within(sort.copied().unwrap_or(own))
        };
        for (index, (job, (_, likely))) in self.jobs.iter().zip(&self.likely).enumerate() {
            drawn.push(Job {
                duration: lasts(index, *likely, chance),
                ..job.clone()
            });
        }
        let coming = self.arrivals.as_ref().map(|seen| seen.coming(chance));
        for (index, at) in coming.into_iter().flatten() {
            if let Some((job, Some(likely))) = self.alike.get(index) {
                drawn.push(Job {
                    arrival: at,
                    created: at.as_millis(),
                    duration: lasts(index, *likely, chance),
                    ..job.clone()
                });
            }
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_called_by_its_ends() {
        let ends = |starts: Vec<Option<i64>>| {
            let estimate = Chosen::default().estimate(100, starts);
            let Estimate {
                earliest_seconds,
                median_seconds,
                latest_seconds,
                ..
            } = estimate;
            [earliest_seconds, median_seconds, latest_seconds]
        };
        let after = |seconds: i64| Some(Seconds(seconds * 1000));
        let all = (1..=100).map(|second| Some(second * 1000)).collect();
        assert_eq!(ends(all), [after(5), after(50), after(95)]);
        let some = (1..=100).map(|second| (second <= 60).then_some(second * 1000));
        assert_eq!(ends(some.collect()), [after(5), after(50), None]);
    }
}
