//! How long jobs run that have finished, and what follows for jobs like them: those of the same LocalQueue, kind and
//! requests, or else of ever less in common. Jobs that still run may count, too, as far as they have run: of jobs that began
//! at one time, the shortest finish first, and by themselves they say too little. Pure: chance is handed in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_engine::{LocalQueueKey, PodSet};

#[cfg(test)]
mod tests;

/// So many that have finished are needed to go by what they have in common. If all together are fewer, all count.
const SEEN_MIN: usize = 5;
/// Thousandths of the cases in which an overdue job runs for longer than can be told: ten times as long as it has.
const OVERDUE_REST_MIN: u32 = 100;
/// Durations that are kept of each group, those seen first.
const KEPT_MAX: usize = 10_000;
/// What a job says that never ends by itself.
pub const FOREVER: Duration = Duration::MAX;
/// All jobs, as parts of them are counted, and by how much such a part may be rounded.
const ALL: u64 = 1_000_000_000_000;
const ROUNDED: u64 = ALL / 1_000_000;

/// A job that has finished.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its LocalQueue.
    pub queue: LocalQueueKey,
    /// Its kind.
    pub kind: Arc<str>,
    /// What it asked for.
    pub pod_sets: Arc<[PodSet]>,
    /// How long it ran.
    pub ran: Duration,
}

/// Where a duration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// The job says it.
    Said,
    /// It never ends by itself.
    NeverEnds,
    /// Finished jobs of the same LocalQueue, kind and requests.
    SameRequests,
    /// Finished jobs of the same LocalQueue and kind.
    SameQueue,
    /// Finished jobs of the same kind.
    SameKind,
    /// All finished jobs.
    Any,
    /// The caller's default.
    Default,
}

/// How long a job takes with all its pods, from its beginning, as far as can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likely<'a> {
    /// So long.
    Known(Duration),
    /// As long as one of these.
    AsSeen(Ran<'a>),
    /// It has run for so long, which is longer than it was to.
    Overdue(Duration),
}

/// How long jobs ran that have something in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ran<'a> {
    /// Those that have finished, the shortest first.
    finished: &'a [Duration],
    /// The part of all jobs that run for longer than each of those; empty if each counts as much as any other.
    longer: &'a [u64],
    /// The part of all jobs that one of these is of.
    of: u64,
    /// The longest that any has run, finished or not.
    longest: Duration,
}

/// A job whose duration is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Its LocalQueue.
    pub queue: &'a LocalQueueKey,
    /// Its kind.
    pub kind: &'a Arc<str>,
    /// What it asks for.
    pub pod_sets: &'a Arc<[PodSet]>,
    /// What it says; [`FOREVER`] if it never ends.
    pub said: Option<Duration>,
    /// How long it has run.
    pub runs_for: Duration,
}

/// The durations that were seen.
#[derive(Debug, Clone, Default)]
pub struct Durations(BTreeMap<Alike, Group>);

/// Those of jobs that have something in common, the shortest first.
#[derive(Debug, Clone, Default)]
struct Group {
    finished: Vec<Duration>,
    /// How long those have run that still do.
    running: Vec<Duration>,
    /// As in [`Ran`].
    longer: Vec<u64>,
}

/// What jobs have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    Requests(LocalQueueKey, Arc<str>, Arc<[PodSet]>),
    Queue(LocalQueueKey, Arc<str>),
    Kind(Arc<str>),
    Any,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Said => "given by the jobs themselves",
            Self::NeverEnds => "without an end, as services run",
            Self::SameRequests => "from finished jobs of the same LocalQueue, kind and requests",
            Self::SameQueue => "from finished jobs of the same LocalQueue and kind",
            Self::SameKind => "from finished jobs of the same kind",
            Self::Any => "from all finished jobs",
            Self::Default => "from --duration",
        })
    }
}

impl Durations {
    /// Takes note of a job that has finished.
    pub fn note(&mut self, seen: Seen) {
        let Seen {
            queue,
            kind,
            pod_sets,
            ran,
        } = seen;
        for (alike, _) in alike(&queue, &kind, &pod_sets) {
            let kept = &mut self.0.entry(alike).or_default().finished;
            if kept.len() < KEPT_MAX {
                let place = kept.partition_point(|other| *other <= ran);
                kept.insert(place, ran);
            }
        }
    }

    /// Takes note of jobs that run, all at once, after those that have finished.
    pub fn note_running<'a>(&mut self, jobs: impl Iterator<Item = Asked<'a>>) {
        let jobs = jobs.filter(|job| !job.runs_for.is_zero() && job.said != Some(FOREVER));
        for job in jobs {
            // Of a kind of which nothing has finished may be services whose kind does not say so.
            if !self.0.contains_key(&Alike::Kind(job.kind.clone())) {
                continue;
            }
            for (alike, _) in alike(job.queue, job.kind, job.pod_sets) {
                // What still runs says nothing where nothing has finished.
                if let Some(group) = self.0.get_mut(&alike) {
                    group.running.push(job.runs_for);
                }
            }
        }
        for group in self.0.values_mut() {
            group.count_running();
        }
    }

    /// How long a job takes, and how that is known: from itself, from finished jobs like it, or from the caller, who
    /// may have a `default`. None if it is not.
    pub fn likely(
        &self,
        job: Asked<'_>,
        default: Option<Duration>,
    ) -> Option<(Source, Likely<'_>)> {
        let given = |given: Option<Duration>, source| Some((source, Likely::Known(given?)));
        let said = match job.said {
            Some(FOREVER) => Source::NeverEnds,
            _ => Source::Said,
        };
        let known = given(job.said, said)
            .or_else(|| self.seen(job))
            .or_else(|| given(default, Source::Default))?;
        Some(match known {
            (source, Likely::Known(takes)) if takes <= job.runs_for && !job.runs_for.is_zero() => {
                (source, Likely::Overdue(job.runs_for))
            }
            other => other,
        })
    }

    /// The same from finished jobs: of one that runs already, those count that ran for longer.
    fn seen(&self, job: Asked<'_>) -> Option<(Source, Likely<'_>)> {
        let groups = alike(job.queue, job.kind, job.pod_sets).map(|(alike, source)| {
            let group = self.0.get(&alike);
            let ran = group.map(|group| group.longer_than(job.runs_for));
            (source, ran.unwrap_or_default())
        });
        let is_enough = |(_, ran): &&(Source, Ran<'_>)| SEEN_MIN <= ran.finished.len();
        let (source, ran) = groups.iter().find(is_enough).or(groups.last())?;
        if !ran.finished.is_empty() {
            return Some((*source, Likely::AsSeen(*ran)));
        }
        (!self.0.is_empty()).then_some((Source::Any, Likely::Overdue(job.runs_for)))
    }
}

impl Group {
    /// Works out which part of all jobs runs for longer than each that has finished, if those count that run: the estimate
    /// of Kaplan and Meier.
    fn count_running(&mut self) {
        if self.running.is_empty() {
            return;
        }
        self.running.sort_unstable();
        let all = self.finished.len().saturating_add(self.running.len());
        let mut longer = ALL;
        let finished = self.finished.iter().enumerate();
        let parts = finished.map(|(before, ran)| {
            let running = self.running.partition_point(|so_far| so_far < ran);
            let left = all.saturating_sub(before).saturating_sub(running).max(1);
            let left = u64::try_from(left).unwrap_or(u64::MAX);
            longer = longer.saturating_mul(left - 1) / left;
            longer
        });
        self.longer = parts.collect();
    }

    /// Those that ran for longer than so; all if it is nothing.
    fn longer_than(&self, runs_for: Duration) -> Ran<'_> {
        let first = self.finished.partition_point(|ran| *ran <= runs_for);
        let first = if runs_for.is_zero() { 0 } else { first };
        let before = first.checked_sub(1).and_then(|last| self.longer.get(last));
        let ends = [self.finished.last(), self.running.last(), Some(&runs_for)];
        Ran {
            finished: self.finished.get(first..).unwrap_or_default(),
            longer: self.longer.get(first..).unwrap_or_default(),
            of: before.copied().unwrap_or(ALL),
            longest: ends
                .into_iter()
                .flatten()
                .max()
                .copied()
                .unwrap_or_default(),
        }
    }
}

impl Ran<'_> {
    /// A duration that so many thousandths do not exceed.
    fn within(self, thousandths: u16) -> Duration {
        let Some(last) = self.longer.last() else {
            let place = self.finished.len().saturating_mul(thousandths.into()) / 1000;
            return self.finished.get(place).copied().unwrap_or_default();
        };
        let longer = self.of * u64::from(1000 - thousandths) / 1000;
        let place = (self.longer).partition_point(|part| longer <= part.saturating_add(ROUNDED));
        match self.finished.get(place) {
            Some(ran) => *ran,
            // As long as one of those that run, and nobody knows how long that is.
            None => overdue(self.longest, longer.saturating_mul(1000) / (*last).max(1)),
        }
    }
}

/// Whatever has run for so long runs for as long again in half of the cases: how long in the case that so many thousandths
/// exceed.
fn overdue(runs_for: Duration, thousandths: u64) -> Duration {
    let rest = u32::try_from(thousandths).unwrap_or(1000);
    runs_for.saturating_mul(1000) / rest.clamp(OVERDUE_REST_MIN, 1000)
}

impl Likely<'_> {
    /// A duration that it does not exceed in so many thousandths of all cases.
    pub fn within(self, thousandths: u16) -> Duration {
        let thousandths = thousandths.min(999);
        match self {
            Self::Known(takes) => takes,
            Self::AsSeen(ran) => ran.within(thousandths),
            Self::Overdue(runs_for) => overdue(runs_for, u64::from(1000 - thousandths)),
        }
    }
}

/// What a job may have in common with others, the most first.
fn alike(queue: &LocalQueueKey, kind: &Arc<str>, pod_sets: &Arc<[PodSet]>) -> [(Alike, Source); 4] {
    [
        (
            Alike::Requests(queue.clone(), kind.clone(), pod_sets.clone()),
            Source::SameRequests,
        ),
        (Alike::Queue(queue.clone(), kind.clone()), Source::SameQueue),
        (Alike::Kind(kind.clone()), Source::SameKind),
        (Alike::Any, Source::Any),
    ]
}
