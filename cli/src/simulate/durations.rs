//! How long jobs run that have finished, and what follows for jobs like them: those of the same LocalQueue, kind and
//! requests, or else of ever less in common. Pure: chance is handed in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sluice_engine::{LocalQueueKey, PodSet};

/// So many that have finished are needed to go by what they have in common. If all together are fewer, all count.
const SEEN_MIN: usize = 5;
/// Thousandths of the cases in which an overdue job runs for longer than can be told: ten times as long as it has.
const OVERDUE_REST_MIN: u32 = 100;
/// Durations that are kept of each group, those seen first.
const KEPT_MAX: usize = 10_000;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// As long as one of these, which are in order.
    AsSeen(&'a [Duration]),
    /// It has run for so long, which is longer than it was to.
    Overdue(Duration),
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

/// The durations that were seen, the shortest first.
#[derive(Debug, Clone, Default)]
pub struct Durations(BTreeMap<Alike, Vec<Duration>>);

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
            let kept = self.0.entry(alike).or_default();
            if kept.len() < KEPT_MAX {
                let place = kept.partition_point(|other| *other <= ran);
                kept.insert(place, ran);
            }
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
            let known = self.0.get(&alike).map_or(&[][..], Vec::as_slice);
            let first = known.partition_point(|ran| *ran <= job.runs_for);
            let first = if job.runs_for.is_zero() { 0 } else { first };
            (source, known.get(first..).unwrap_or_default())
        });
        let is_enough = |(_, ran): &&(Source, &[Duration])| SEEN_MIN <= ran.len();
        let (source, ran) = groups.iter().find(is_enough).or(groups.last())?;
        if !ran.is_empty() {
            return Some((*source, Likely::AsSeen(ran)));
        }
        (!self.0.is_empty()).then_some((Source::Any, Likely::Overdue(job.runs_for)))
    }
}

impl Likely<'_> {
    /// A duration that it does not exceed in so many thousandths of all cases.
    pub fn within(self, thousandths: u16) -> Duration {
        let part = usize::from(thousandths.min(999));
        match self {
            Self::Known(takes) => takes,
            Self::AsSeen(ran) => {
                let place = ran.len().saturating_mul(part) / 1000;
                ran.get(place).copied().unwrap_or_default()
            }
            // Whatever has run for so long runs for as long again in half of the cases.
            Self::Overdue(runs_for) => {
                let rest = u32::try_from(1000 - part)
                    .unwrap_or(1)
                    .max(OVERDUE_REST_MIN);
                runs_for.saturating_mul(1000) / rest
            }
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
        let default = Some((Source::Default, Likely::Known(seconds(3))));
        assert_eq!(noted(&[]).likely(asked, Some(seconds(3))), default);
        let rest: Vec<u64> = [0, 500, 900, 999]
            .map(|part| Likely::Overdue(seconds(10)).within(part).as_secs())
            .to_vec();
        assert_eq!(rest, [10, 20, 100, 100]);
    }
}
