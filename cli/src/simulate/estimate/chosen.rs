//! The jobs that are played to estimate when some of them start: those of a cohort tree, and what may come.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_engine::Time;

use super::answer::{Estimate, JOBS_MAX, Known, NoEstimate};
use super::arrivals::Arrivals;
use super::chance::Chance;
use crate::simulate::durations::{Likely, Source};
use crate::simulate::jobs::{InputJob, to_play};
use crate::simulate::play::Job;
use crate::simulate::quotas::Quotas;
use crate::simulate::reading::Input;
use crate::simulate::units::Seconds;

/// The parts of all plays, in hundredths, before and after which 1 of 10 jobs starts each: what happens differs more than
/// plays do, as nobody knows what is not seen.
const EARLIEST: usize = 5;
const LATEST: usize = 95;
/// Thousandths of the jobs that run as long as others of their sort do: users start many jobs that are alike, and these end
/// early or late together.
const TOGETHER: u16 = 600;

/// What a job shares quota with, by name; none if it is in no ClusterQueue.
pub(super) fn tree_of(job: &InputJob, quotas: &Quotas) -> Option<String> {
    let queue = job.cluster_queue(quotas)?;
    Some(quotas.root_of(queue).map_or_else(
        || format!("ClusterQueue {queue}"),
        |root| format!("cohort {root}"),
    ))
}

/// The jobs that are played.
#[derive(Debug, Default)]
pub(super) struct Chosen<'a> {
    pub(super) input: Vec<InputJob>,
    pub(super) jobs: Vec<Job>,
    likely: Vec<(Source, Likely<'a>)>,
    /// Those in question, in their order.
    pub(super) targets: Vec<usize>,
    /// When jobs came that were seen.
    arrivals: Option<Arrivals>,
    /// These jobs as they would come anew, and how long they would run.
    alike: Vec<(Job, Option<Likely<'a>>)>,
    /// The sort of each of those: the first of them are the jobs that are played.
    sorts: Vec<usize>,
    sorts_len: usize,
}

impl<'a> Chosen<'a> {
    /// The jobs that the jobs in question share quota with: those of their tree.
    ///
    /// # Errors
    /// There are too many, or it is not known how long one of them runs.
    pub(super) fn of(
        input: &'a Input,
        tree: Option<&str>,
        asked: &[usize],
        (duration, now): (Option<Duration>, Time),
    ) -> Result<Self, NoEstimate> {
        let Input {
            jobs,
            finished,
            quotas,
            durations,
            ..
        } = input;
        let is_of_tree = |job: &InputJob| tree_of(job, quotas).as_deref() == tree;
        let mut numbers = BTreeMap::new();
        let mut chosen = Chosen::default();
        let mut unknown: Vec<&str> = Vec::new();
        for (number, job) in jobs.all().iter().enumerate() {
            if !is_of_tree(job) {
                continue;
            }
            numbers.insert(number, chosen.input.len());
            match durations.likely(job.asked(now), duration) {
                Some(likely) => chosen.likely.push(likely),
                // How long one job runs has no bearing on when itself starts.
                None if *asked == [number] => {
                    let at_once = Likely::Known(Duration::ZERO);
                    chosen.likely.push((Source::Any, at_once));
                }
                None => unknown.push(&job.name),
            }
            chosen.input.push(job.clone());
        }
        // By name: jobs of one moment come in no order that anybody would know again.
        if let Some(first) = unknown.iter().min() {
            return Err(NoEstimate::NoDurations {
                jobs: unknown.len(),
                first: (*first).to_owned(),
            });
        }
        if JOBS_MAX < chosen.input.len() {
            return Err(NoEstimate::TooManyJobs(chosen.input.len()));
        }
        let targets = asked.iter().map(|number| numbers.get(number).copied());
        chosen.targets = targets
            .collect::<Option<_>>()
            .ok_or(NoEstimate::NotQueued)?;
        chosen.jobs = to_play(&chosen.input, quotas, Duration::ZERO, Some(now));
        let ended = finished.iter().filter(|job| is_of_tree(job));
        let known: Vec<&InputJob> = chosen.input.iter().chain(ended).collect();
        chosen.arrivals = Arrivals::of(&known, now);
        let mut sorts = BTreeMap::new();
        for job in &known {
            let next = sorts.len();
            let sort = sorts.entry((&job.queue, &job.kind, &job.pod_sets));
            chosen.sorts.push(*sort.or_insert(next));
        }
        chosen.sorts_len = sorts.len();
        // Whatever comes is like one of these, but new.
        let known: Vec<InputJob> = known
            .into_iter()
            .map(|job| InputJob {
                seen: None,
                ..job.clone()
            })
            .collect();
        chosen.alike = known
            .iter()
            .zip(to_play(&known, quotas, Duration::ZERO, Some(now)))
            .map(|(job, played)| {
                let likely = durations.likely(job.asked(now), duration);
                (played, likely.map(|(_, likely)| likely))
            })
            .collect();
        Ok(chosen)
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_range_is_called_by_its_ends() {
        let fields = |starts: Vec<Option<i64>>| {
            let estimate = Chosen::default().estimate(100, starts);
            let mut fields = serde_json::to_value(estimate).unwrap();
            fields
                .as_object_mut()
                .unwrap()
                .retain(|name, _| name.ends_with("Seconds"));
            fields
        };
        let all = (1..=100).map(|second| Some(second * 1000)).collect();
        assert_eq!(
            fields(all),
            json!({"earliestSeconds": 5, "medianSeconds": 50, "latestSeconds": 95})
        );
        let some = (1..=100).map(|second| (second <= 60).then_some(second * 1000));
        assert_eq!(
            fields(some.collect()),
            json!({"earliestSeconds": 5, "medianSeconds": 50})
        );
    }
}
