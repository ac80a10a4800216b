//! How long jobs are likely to run.

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
    // Those that say so end never, and say nothing of others even if one of their kind has finished.
    let service = Asked {
        said: Some(FOREVER),
        ..asked(&job, month)
    };
    durations.note_running((0..500).map(|_| service));
    let never = (Source::NeverEnds, Likely::Known(FOREVER));
    assert_eq!(durations.likely(service, None), Some(never));
    let (_, likely) = durations.likely(asked(&job, 0), None).unwrap();
    assert_eq!(likely.within(999).as_secs(), 600);
    // Jobs that still run count all the same.
    durations.note_running((0..12).map(|_| asked(&job, month)));
    let (_, likely) = durations.likely(asked(&job, 0), None).unwrap();
    assert!(seconds(month) <= likely.within(500), "{likely:?}");
}
