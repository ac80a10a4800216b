//! How often a job starts within the range that was estimated for it: on a trace, at many moments, of jobs that waited.
//!
//! A generated trace is played by default. For a public one, set `SLUICE_CALIBRATE_QUEUES` and `SLUICE_CALIBRATE_TRACE` to
//! files as `simulate -f` and `--trace` take them, and run the ignored test.

use std::time::Duration;

use sluice_engine::Time;

use super::{arrived, seen};
use crate::simulate::estimate::Question;
use crate::simulate::jobs::{Jobs, to_play};
use crate::simulate::quotas::{Quotas, settings};
use crate::simulate::reading::{self, Given, Options};
use crate::simulate::tests::plays::{job, queues, rules};
use sluice_estimates::play::{Fate, Job, Rules, play};

/// Jobs that are asked about at each moment.
const ASKED: usize = 3;

/// What came of it.
#[derive(Debug, Default)]
struct Calibration {
    asked: usize,
    within: usize,
    below: usize,
    above: usize,
    unknown: usize,
}

impl Calibration {
    fn share(&self) -> usize {
        self.within * 100 / self.asked.max(1)
    }
}

/// Estimates the starts of jobs that wait at `moments` points of the trace, and looks when they did start.
fn calibrate(quotas: &Quotas, jobs: &[Job], moments: i64, plays: u32) -> Calibration {
    let base = Rules {
        settings: settings(false),
        ..rules()
    };
    let truth = play(quotas.events(), jobs, &base);
    let mut starts: Vec<Option<Time>> = vec![None; jobs.len()];
    for run in &truth.runs {
        starts[run.job].get_or_insert(run.from);
    }
    let arrivals = jobs.iter().map(|job| job.arrival.as_millis());
    let (first, last) = (arrivals.clone().min().unwrap(), arrivals.max().unwrap());
    let mut found = Calibration::default();
    for moment in 0..moments {
        // The first half is for jobs to be seen.
        let half = (last - first) / 2;
        let now = Time::from_millis(first + half + half * moment / moments);
        let known = arrived(jobs, now);
        let until = Rules {
            until: Some(now),
            ..base.clone()
        };
        let state = play(quotas.events(), &known, &until);
        let (input, numbers) = seen(quotas, &known, &state, now);
        let waiting: Vec<usize> = (0..numbers.len())
            .filter(|index| state.fates[numbers[*index]] == Fate::Waiting)
            .filter(|index| starts[numbers[*index]].is_some_and(|start| now < start))
            .collect();
        let step = (waiting.len() / ASKED).max(1);
        let picked: Vec<usize> = waiting.into_iter().step_by(step).take(ASKED).collect();
        let question = Question {
            input: &input,
            duration: None,
            settings: settings(false),
        };
        let answers = question.answers(&picked, |played| played < plays);
        // Who else is asked about makes no difference. It is looked at once: it takes as long as all answers.
        if let Some(index) = picked.last().filter(|_| found.asked == 0) {
            let alone = question.answer(*index, |played| played < plays);
            assert_eq!(answers[index], alone);
        }
        for (index, answer) in answers {
            let Ok(estimate) = answer else {
                found.unknown += 1;
                continue;
            };
            let start = starts[numbers[index]].unwrap();
            let waits = start.as_millis() - now.as_millis();
            found.asked += 1;
            let (from, until) = (estimate.earliest_seconds, estimate.latest_seconds);
            if from.is_none_or(|from| waits < from.0) {
                found.below += 1;
            } else if until.is_some_and(|until| until.0 < waits) {
                found.above += 1;
            } else {
                found.within += 1;
            }
        }
    }
    found
}

/// Numbers as if by chance.
struct Chance(u64);

impl Chance {
    fn unit(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 33).unwrap()) / f64::from(1_u32 << 31)
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// With this median, and so wide that two thirds are within a factor of e^width.
    fn log_normal(&mut self, median: f64, width: f64) -> f64 {
        let (a, b) = (1.0 - self.unit(), self.unit());
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        median * (width * normal).exp()
    }
}

/// Two teams that borrow from each other, with jobs of several sorts, busier by day than by night.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a trace by chance"
)]
fn generated(seed: u64, days: f64) -> (Quotas, Vec<Job>) {
    let quotas = queues(&[("a", 40), ("b", 24)], true, |_| {});
    // The queue, the priority, the pods, the median of the duration and its width, and how often in a day.
    let sorts = [
        ("a", 0, 4, 1200.0, 0.8, 140.0),
        ("a", 0, 16, 3600.0, 1.0, 12.0),
        ("a", 1, 2, 300.0, 0.5, 150.0),
        ("b", 0, 2, 1800.0, 1.2, 120.0),
        ("b", 0, 8, 5400.0, 0.7, 14.0),
        ("b", 1, 4, 600.0, 0.6, 50.0),
    ];
    let mut chance = Chance(seed);
    let mut jobs = Vec::new();
    for (queue, priority, pods, median, width, a_day) in sorts {
        let mut now = 0.0;
        while now < days * 86_400.0 {
            now += chance.exponential(86_400.0 / a_day / 2.0);
            let by_day = 0.5 - 0.4 * (std::f64::consts::TAU * now / 86_400.0).cos();
            if chance.unit() < by_day {
                let takes = chance.log_normal(median, width).clamp(10.0, 86_400.0);
                jobs.push(job(queue, now as i64, takes as u64, (pods, None), priority));
            }
        }
    }
    jobs.sort_by_key(|job| job.arrival);
    (quotas, jobs)
}

#[test]
fn most_jobs_start_within_the_estimated_range() {
    let (quotas, jobs) = generated(1, 4.0);
    let found = calibrate(&quotas, &jobs, 8, 20);
    assert!(8 <= found.asked, "{found:?}");
    assert!(75 <= found.share(), "{found:?}: {} %", found.share());
}

/// The figures of the documentation: `cargo test --release -p kubectl-sluice calibration_figures -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures, and takes minutes"]
#[expect(clippy::print_stdout, reason = "they are for the documentation")]
fn calibration_figures() {
    let named = |name| std::env::var(name).ok();
    let files = named("SLUICE_CALIBRATE_QUEUES").zip(named("SLUICE_CALIBRATE_TRACE"));
    let traces: Vec<(String, Quotas, Vec<Job>)> = match files {
        Some((queues, trace)) => {
            let (quotas, jobs) = from_files(&queues, &trace);
            vec![(trace, quotas, jobs)]
        }
        None => (1..=4)
            .map(|seed| {
                let (quotas, jobs) = generated(seed, 6.0);
                (format!("generated, seed {seed}"), quotas, jobs)
            })
            .collect(),
    };
    let moments = named("SLUICE_CALIBRATE_MOMENTS").and_then(|text| text.parse().ok());
    let moments = moments.unwrap_or(40);
    let mut all = Calibration::default();
    for (name, quotas, jobs) in traces {
        let found = calibrate(&quotas, &jobs, moments, 100);
        println!(
            "{name}: {} jobs; {found:?}: {} %",
            jobs.len(),
            found.share()
        );
        all.asked += found.asked;
        all.within += found.within;
    }
    println!(
        "all: {} of {} starts within the 80 % range: {} %",
        all.within,
        all.asked,
        all.share()
    );
    assert!(75 <= all.share());
}

fn from_files(queues: &str, trace: &str) -> (Quotas, Vec<Job>) {
    let text = std::fs::read_to_string(trace).unwrap();
    let given = Given {
        files: crate::input::objects(&[queues.into()], false).unwrap(),
        traces: vec![(trace.to_owned(), text)],
        ..Given::default()
    };
    let input = reading::read(&given, &Options::default()).unwrap();
    let all: &Jobs = &input.jobs;
    let jobs = to_play(all.all(), &input.quotas, Duration::ZERO, None);
    (input.quotas, jobs)
}
