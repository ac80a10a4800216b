//! Counts jobs, and how long they waited: all, by ClusterQueue, LocalQueue, priority and size.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sizes::Sizes;
use crate::simulate::basis::Basis;
use crate::simulate::units::{Seconds, to_digits, units};
use sluice_estimates::play::{Fate, Restart, Run, RunUsage};

/// What stands for the ClusterQueue of a LocalQueue that doesn't exist.
const NOWHERE: &str = "<none>";
/// Milliseconds in an hour.
const HOUR: i128 = 3_600_000;

/// Some of the jobs. Each of them is counted in exactly one of `finished`, `running`, `waiting`,
/// `neverAdmitted` and `notArrived`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// How many there are.
    pub jobs: usize,
    /// How many did what they were for.
    pub finished: usize,
    /// How many held quota at the end.
    pub running: usize,
    /// How many waited again at the end.
    pub waiting: usize,
    /// How many arrived, and held no quota until the end.
    pub never_admitted: usize,
    /// How many had not arrived at the end.
    pub not_arrived: usize,
    /// From arrival to the first admission, of those that waited and were admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Spread>,
    /// From arrival to the end of the work, of those that waited and finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnaround: Option<Spread>,
    /// How often they were evicted, by the reason.
    pub evictions: BTreeMap<&'static str, usize>,
    /// The time for which they held quota and that came to nothing by evictions.
    pub wasted_seconds: Seconds,
    /// What they held in that time, in hours of one of each resource.
    pub wasted_resource_hours: BTreeMap<String, f64>,
    /// How often one was admitted with fewer pods than it asked for.
    pub partial_admissions: usize,
    /// How many pods they did without then.
    pub pods_left_out: u64,
}

/// How a span of time is spread over jobs: the shortest within which so many of a hundred are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_field_names,
    reason = "the unit is part of a name in JSON"
)]
pub struct Spread {
    /// The mean.
    pub average_seconds: Seconds,
    /// Half of them.
    pub p50_seconds: Seconds,
    /// 90 of 100.
    pub p90_seconds: Seconds,
    /// 99 of 100.
    pub p99_seconds: Seconds,
    /// All.
    pub max_seconds: Seconds,
}

/// The jobs in groups.
#[derive(Debug)]
pub struct Grouped {
    /// All jobs.
    pub all: Group,
    /// By ClusterQueue.
    pub cluster_queues: Vec<Group>,
    /// By LocalQueue.
    pub local_queues: Vec<Group>,
    /// By priority, the highest first.
    pub priorities: Vec<Group>,
    /// By size, the smallest first.
    pub sizes: Vec<Group>,
}

/// What happened to one job.
#[derive(Debug, Default)]
struct Story<'a> {
    runs: Vec<&'a Run>,
}

/// What is known of a group while jobs are added.
#[derive(Debug, Default)]
struct Tally {
    group: Group,
    waits: Vec<i64>,
    turnarounds: Vec<i64>,
    wasted: BTreeMap<String, i128>,
}

/// Puts the jobs of a play in groups.
pub fn group(basis: Basis<'_>) -> Grouped {
    let Basis {
        input,
        jobs,
        quotas,
        play,
        ..
    } = basis;
    let mut stories: Vec<Story<'_>> = Vec::new();
    stories.resize_with(jobs.len(), Story::default);
    for run in &play.runs {
        if let Some(story) = stories.get_mut(run.job) {
            story.runs.push(run);
        }
    }
    let sizes = Sizes::of(jobs);
    let mut all = Tally::default();
    let mut by_queue: BTreeMap<String, Tally> = BTreeMap::new();
    let mut by_local: BTreeMap<String, Tally> = BTreeMap::new();
    let mut by_priority: BTreeMap<(i64, String), Tally> = BTreeMap::new();
    let mut by_size: BTreeMap<(usize, String), Tally> = BTreeMap::new();
    for (index, story) in stories.iter().enumerate() {
        let (Some(job), Some(input)) = (jobs.get(index), input.get(index)) else {
            continue;
        };
        let Some(fate) = play.fates.get(index) else {
            continue;
        };
        let queue = quotas.queue_of(&job.queue);
        let queue = queue.map_or_else(|| NOWHERE.to_owned(), ToString::to_string);
        let priority = match input.priority.class() {
            Some(class) => format!("{class} ({})", job.priority),
            None => job.priority.to_string(),
        };
        let (rank, size) = sizes.get(job);
        let tallies = [
            &mut all,
            by_queue.entry(queue).or_default(),
            by_local.entry(job.queue.to_string()).or_default(),
            by_priority
                .entry((-i64::from(job.priority), priority))
                .or_default(),
            by_size.entry((rank, size.to_owned())).or_default(),
        ];
        let facts = Facts::of(basis, index, *fate, story);
        for tally in tallies {
            tally.add(&facts);
        }
    }
    Grouped {
        all: all.group("all".to_owned()),
        cluster_queues: by_queue
            .into_iter()
            .map(|(name, tally)| tally.group(name))
            .collect(),
        local_queues: by_local
            .into_iter()
            .map(|(name, tally)| tally.group(name))
            .collect(),
        priorities: by_priority
            .into_iter()
            .map(|((_, name), tally)| tally.group(name))
            .collect(),
        sizes: by_size
            .into_iter()
            .map(|((_, name), tally)| tally.group(name))
            .collect(),
    }
}

/// What a job adds to a group.
#[derive(Debug)]
struct Facts<'a> {
    fate: Fate,
    was_admitted: bool,
    wait: Option<i64>,
    turnaround: Option<i64>,
    evictions: Vec<&'static str>,
    wasted: Vec<(i64, &'a RunUsage)>,
    left_out: Vec<u32>,
}

impl<'a> Facts<'a> {
    fn of(basis: Basis<'a>, index: usize, fate: Fate, story: &Story<'_>) -> Self {
        let Basis {
            jobs,
            restart,
            play,
            ..
        } = basis;
        let job = jobs.get(index);
        let arrival = job.map_or(0, |job| job.arrival.as_millis());
        let pods = job.map_or(0, sluice_estimates::play::Job::pods);
        let waited = job.is_some_and(|job| job.start.is_pending());
        let evicted = || {
            story
                .runs
                .iter()
                .filter_map(|run| Some((run, run.evicted?)))
        };
        let wasted = evicted().filter_map(|(run, (at, _))| {
            let from = match restart {
                Restart::FromStart => run.from,
                Restart::WhereItWas => at,
            };
            let millis = run.until.as_millis().saturating_sub(from.as_millis());
            Some((millis, play.usages.get(run.usage)?))
        });
        let left_out = story.runs.iter().map(|run| pods.saturating_sub(run.pods));
        Self {
            fate,
            was_admitted: !story.runs.is_empty(),
            wait: story
                .runs
                .first()
                .filter(|_| waited)
                .map(|run| run.from.as_millis().saturating_sub(arrival)),
            turnaround: match fate {
                Fate::Finished(at) if waited => Some(at.as_millis().saturating_sub(arrival)),
                _ => None,
            },
            evictions: evicted().map(|(_, (_, cause))| cause.reason()).collect(),
            wasted: wasted.collect(),
            left_out: left_out.filter(|pods| 0 < *pods).collect(),
        }
    }
}

impl Tally {
    fn add(&mut self, facts: &Facts<'_>) {
        let group = &mut self.group;
        group.jobs += 1;
        match (facts.fate, facts.was_admitted) {
            (Fate::NotArrived, _) => group.not_arrived += 1,
            (Fate::Finished(_), _) => group.finished += 1,
            (Fate::Running | Fate::Stopping, _) => group.running += 1,
            (Fate::Waiting, true) => group.waiting += 1,
            (Fate::Waiting, false) => group.never_admitted += 1,
        }
        self.waits.extend(facts.wait);
        self.turnarounds.extend(facts.turnaround);
        for reason in &facts.evictions {
            *group.evictions.entry(reason).or_default() += 1;
        }
        for (millis, usage) in &facts.wasted {
            group.wasted_seconds.0 += millis;
            for ((_, resource), amount) in &usage.cells {
                let product = amount.get().saturating_mul(i128::from(*millis));
                let sum = self.wasted.entry(resource.to_string()).or_default();
                *sum = sum.saturating_add(product);
            }
        }
        group.partial_admissions += facts.left_out.len();
        group.pods_left_out += facts
            .left_out
            .iter()
            .map(|pods| u64::from(*pods))
            .sum::<u64>();
    }

    fn group(mut self, name: String) -> Group {
        let hours = |(resource, sum): (String, i128)| (resource, to_digits(units(sum / HOUR), 3));
        Group {
            name,
            wait: spread(&mut self.waits),
            turnaround: spread(&mut self.turnarounds),
            wasted_resource_hours: self.wasted.into_iter().map(hours).collect(),
            ..self.group
        }
    }
}

/// How `millis` are spread; none if there are none.
fn spread(millis: &mut [i64]) -> Option<Spread> {
    millis.sort_unstable();
    let count = i128::try_from(millis.len()).unwrap_or(i128::MAX);
    let max = *millis.last()?;
    let sum: i128 = millis.iter().map(|millis| i128::from(*millis)).sum();
    // The nearest rank: the first that so many of a hundred are no longer than.
    let within = |percent: usize| {
        let rank = (millis.len() * percent).div_ceil(100).max(1);
        Seconds(millis.get(rank - 1).copied().unwrap_or(max))
    };
    Some(Spread {
        average_seconds: Seconds(i64::try_from(sum / count).unwrap_or(i64::MAX)),
        p50_seconds: within(50),
        p90_seconds: within(90),
        p99_seconds: within(99),
        max_seconds: Seconds(max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_a_hundred() {
        let mut millis: Vec<i64> = (1..=200).rev().collect();
        let all = spread(&mut millis).unwrap();
        let shown = [
            all.average_seconds,
            all.p50_seconds,
            all.p90_seconds,
            all.p99_seconds,
            all.max_seconds,
        ];
        assert_eq!(shown.map(|seconds| seconds.0), [100, 100, 180, 198, 200]);
        assert_eq!(spread(&mut [7]).unwrap().p99_seconds, Seconds(7));
        assert_eq!(spread(&mut []), None);
    }
}
