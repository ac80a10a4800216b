//! What is said of a cluster at a moment, held against what then comes of it. The cluster is a play.

use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{Time, WorkloadId};

use super::jobs::{InputJob, Jobs, Priority, SeenJob};
use super::quotas::Quotas;
use super::reading::Input;
use super::span::Moment;
use sluice_estimates::durations::{Durations, Seen};
use sluice_estimates::play::{Fate, Job, Play, Start, id_of};

mod calibration;
mod durations;
mod new_job;
mod plays;
mod priority_classes;

/// What a caller sees of a cluster in which `jobs` have been played until `now`: the jobs that wait or hold quota, and
/// how long those ran that have finished. Returns the numbers of the jobs, too.
fn seen(quotas: &Quotas, jobs: &[Job], play: &Play, now: Time) -> (Input, Vec<usize>) {
    let mut input = Input {
        quotas: quotas.clone(),
        jobs: Jobs::default(),
        durations: Durations::default(),
        now: Some(now),
        ..Input::default()
    };
    let kind: Arc<str> = "Job".into();
    let mut numbers = Vec::new();
    let mut last = vec![None; jobs.len()];
    for run in &play.runs {
        last[run.job] = Some(run);
    }
    for (index, job) in jobs.iter().enumerate() {
        let run = last[index];
        let admission = || play.admission(index).cloned().unwrap();
        let start = match play.fates[index] {
            Fate::NotArrived => continue,
            Fate::Finished(at) => {
                let run = run.unwrap();
                input.durations.note(Seen {
                    queue: job.queue.clone(),
                    kind: kind.clone(),
                    pod_sets: job.pod_sets.clone(),
                    ran: at.since(run.from),
                });
                let ended = input_job(job, id_of(index), Start::Pending, &kind);
                input.finished.push(InputJob {
                    seen: None,
                    ..ended
                });
                continue;
            }
            Fate::Waiting => Start::Pending,
            Fate::Running => Start::Admitted {
                admission: admission(),
                pods: run.unwrap().pods,
                evictable: true,
            },
            Fate::Stopping => Start::Evicting {
                admission: admission(),
                preemptor: run.unwrap().preemptor.map(id_of),
            },
        };
        numbers.push(index);
        input.jobs.push(input_job(job, id_of(index), start, &kind));
    }
    input.seen = numbers.len();
    input.note_running();
    (input, numbers)
}

fn input_job(job: &Job, id: WorkloadId, start: Start, kind: &Arc<str>) -> InputJob {
    InputJob {
        name: id.as_str().into(),
        queue: job.queue.clone(),
        priority: Priority {
            class: None,
            value: job.priority,
        },
        arrival: Some(Moment::At(job.created)),
        duration: None,
        pod_sets: job.pod_sets.clone(),
        kind: kind.clone(),
        seen: Some(SeenJob { id, start }),
    }
}

/// The jobs that had arrived by then.
fn arrived(jobs: &[Job], now: Time) -> Vec<Job> {
    let by_then = jobs.iter().filter(|job| job.arrival <= now);
    by_then.cloned().collect()
}

/// So long after zero.
fn at(millis: i64) -> Time {
    Time::default().after(Duration::from_millis(u64::try_from(millis).unwrap()))
}
