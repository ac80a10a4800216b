//! How long jobs run that have finished, and what follows for jobs like them: those of the same LocalQueue, kind and
//! requests, or else of ever less in common. Jobs that still run may count, too, as far as they have run: of jobs that began
//! at one time, the shortest finish first, and by themselves they say too little. Pure: chance is handed in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_engine::{LocalQueueKey, PodSet};

/// So many that have finished are needed to go by what they have in common. If all together are fewer, all count.
const SEEN_MIN: usize = 5;
/// Thousandths of the cases in which an overdue job runs for longer than can be told: ten times as long as it has.
const OVERDUE_REST_MIN: u32 = 100;
/// Durations that are kept of each group, those seen first.
const KEPT_MAX: usize = 10_000;
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
    /// What it says.
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
        for job in jobs.filter(|job| !job.runs_for.is_zero()) {
            // Of a kind of which nothing has finished may be services, as the pods of a Deployment, which never do.
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
        let known = given(job.said, Source::Said)
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Jobs of a queue and a kind with so many pods that ran for so many seconds each.
    type Ran<'a> = (&'a str, &'a str, u32, &'a [u64]);
    /// What is seen, for how long the job has run, and what follows.
    type Case<'a> = (&'a str, &'a [Ran<'a>], u64, Option<(Source, u64)>);

    fn noted(all: &[Ran<'_>]) -> Durations {
        let mut durations = Durations::default();
        for (queue, kind, pods, ran) in all {
            for seconds in *ran {
                durations.note(Seen {
                    queue: LocalQueueKey::new("ns", *queue),
                    kind: (*kind).into(),
                    pod_sets: Arc::new([PodSet::new("main".into(), *pods)]),
                    ran: Duration::from_secs(*seconds),
                });
            }
        }
        durations
    }

    #[test]
    fn a_job_is_likely_to_run_as_those_like_it_did() {
        let many: &[u64] = &[10, 20, 30, 40, 50];
        let cases: [Case<'_>; 7] = [
            (
                "of the same requests",
                &[("q", "Job", 2, many), ("q", "Job", 1, &[99; 9])],
                0,
                Some((Source::SameRequests, 30)),
            ),
            (
                "too few of those",
                &[("q", "Job", 2, &[1]), ("q", "Job", 1, many)],
                0,
                Some((Source::SameQueue, 30)),
            ),
            (
                "of the same kind",
                &[("p", "Job", 1, many), ("q", "RayJob", 2, &[99; 9])],
                0,
                Some((Source::SameKind, 30)),
            ),
            (
                "few in all",
                &[("p", "RayJob", 1, &[7])],
                0,
                Some((Source::Any, 7)),
            ),
            (
                "one that runs is one of those that ran for longer",
                &[("q", "Job", 2, &[1, 2, 60, 70, 80, 90, 95])],
                50,
                Some((Source::SameRequests, 80)),
            ),
            (
                "one that runs for longer than all runs for as long again",
                &[("q", "Job", 2, many)],
                60,
                Some((Source::Any, 120)),
            ),
            ("none at all", &[], 0, None),
        ];
        let (queue, kind) = (LocalQueueKey::new("ns", "q"), "Job".into());
        let pod_sets = Arc::new([PodSet::new("main".into(), 2)]) as Arc<[PodSet]>;
        for (name, all, runs_for, expected) in cases {
            let durations = noted(all);
            let asked = Asked {
                queue: &queue,
                kind: &kind,
                pod_sets: &pod_sets,
                said: None,
                runs_for: seconds(runs_for),
            };
            let found = durations.likely(asked, None);
            let found = found.map(|(source, likely)| (source, likely.within(500).as_secs()));
            assert_eq!(found, expected, "{name}");
            let said = Asked {
                said: Some(seconds(500)),
                ..asked
            };
            let own = Some((Source::Said, Likely::Known(seconds(500))));
            assert_eq!(durations.likely(said, None), own, "{name}");
        }
        let asked = Asked {
            queue: &queue,
            kind: &kind,
            pod_sets: &pod_sets,
            said: None,
            runs_for: seconds(0),
        };
        // Of five that began, one has finished after 10 s and one after 40 s; three still run, for 5 s, 20 s and 50 s.
        let mut durations = noted(&[("q", "Job", 2, &[10, 40])]);
        let running = [5, 20, 50].map(|runs_for| Asked {
            runs_for: seconds(runs_for),
            ..asked
        });
        durations.note_running(running.into_iter());
        let (_, likely) = durations.likely(asked, None).unwrap();
        let found = [0, 240, 260, 610, 630, 999].map(|part| likely.within(part).as_secs());
        assert_eq!(found, [10, 10, 40, 40, 50, 500]);
        // One that has run for 10 s is one of the rest: half of them take no longer than 40 s.
        let (_, likely) = durations.likely(running[0], None).unwrap();
        assert_eq!(likely.within(0), seconds(10));
        let later = Asked {
            runs_for: seconds(15),
            ..asked
        };
        let (_, likely) = durations.likely(later, None).unwrap();
        let found = [0, 490, 510].map(|part| likely.within(part).as_secs());
        assert_eq!(found, [40, 40, 51]);
        let default = Some((Source::Default, Likely::Known(seconds(3))));
        assert_eq!(noted(&[]).likely(asked, Some(seconds(3))), default);
        let rest: Vec<u64> = [0, 500, 900, 999]
            .map(|part| Likely::Overdue(seconds(10)).within(part).as_secs())
            .to_vec();
        assert_eq!(rest, [10, 20, 100, 100]);
    }

    #[test]
    fn services_that_run_for_months_say_nothing_of_jobs() {
        let mut durations = noted(&[("q", "Job", 2, &[600; 4])]);
        let queue = LocalQueueKey::new("ns", "q");
        let pod_sets = Arc::new([PodSet::new("main".into(), 1)]) as Arc<[PodSet]>;
        let (job, pod): (Arc<str>, Arc<str>) = ("Job".into(), "Pod".into());
        let asked = |kind, runs_for| Asked {
            queue: &queue,
            kind,
            pod_sets: &pod_sets,
            said: None,
            runs_for: seconds(runs_for),
        };
        let month = 30 * 24 * 3600;
        durations.note_running((0..500).map(|_| asked(&pod, month)));
        let (source, likely) = durations.likely(asked(&job, 0), None).unwrap();
        assert_eq!(source, Source::Any);
        let found = [0, 500, 999].map(|part| likely.within(part).as_secs());
        assert_eq!(found, [600, 600, 600]);
        let (_, service) = durations.likely(asked(&pod, month), None).unwrap();
        assert_eq!(service, Likely::Overdue(seconds(month)));
        // Jobs that still run count all the same.
        durations.note_running((0..12).map(|_| asked(&job, month)));
        let (_, likely) = durations.likely(asked(&job, 0), None).unwrap();
        assert!(seconds(month) <= likely.within(500), "{likely:?}");
    }
}
