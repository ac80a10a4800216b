//! What the API server's audit log says of one pass: when each Job was created, admitted, released,
//! completed and recorded as finished, and who wrote what. One clock, and nobody's own word.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

use crate::load::{Size, quota_cpus};
use crate::shared::{SLUICE, percentile, ratio};

/// The audit log of a pass.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Each Job, by its name.
    jobs: BTreeMap<String, Life>,
    /// The controller's writes, by verb and resource; those that did not succeed are told apart.
    pub(crate) writes: BTreeMap<String, usize>,
    /// When the first Job was sent.
    begun: Option<Timestamp>,
    /// When the last event was answered.
    last_event: Option<Timestamp>,
}

/// When each write of a Job was answered.
#[derive(Debug, Default)]
struct Life {
    created: Option<Timestamp>,
    released: Option<Timestamp>,
    completed: Option<Timestamp>,
    /// Writes to the status of its Workload: what it waits for, its admission, its end.
    statuses: Vec<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    verb: Cow<'a, str>,
    #[serde(borrow)]
    stage: Cow<'a, str>,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// Seconds from the answered creation of a Job to the answered write that releases it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) average: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Audit {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let mut audit = Self::default();
        let log = File::open(path).context("open the audit log")?;
        for line in BufReader::new(log).lines() {
            // The log may be in the middle of a line that is of no interest any more.
            if let Ok(line) = serde_json::from_str(&line?) {
                audit.take_in(line);
            }
        }
        Ok(audit)
    }

    fn take_in(&mut self, line: Line<'_>) {
        let is_write = matches!(&*line.verb, "create" | "patch" | "update" | "delete");
        let Some(object) = line.object_ref.filter(|_| is_write) else {
            return;
        };
        if line.stage != "ResponseComplete" {
            return;
        }
        let code = line.response_status.map_or(0, |status| status.code);
        let is_done = (200..300).contains(&code);
        let resource = match object.subresource.as_str() {
            "" => object.resource,
            subresource => format!("{}/{subresource}", object.resource),
        };
        if line.user.username == SLUICE {
            let failed = if is_done {
                String::new()
            } else {
                format!(" ({code})")
            };
            let what = format!("{} {resource}{failed}", line.verb);
            *self.writes.entry(what).or_default() += 1;
        }
        if !is_done {
            return;
        }
        let answered = Some(line.stage_timestamp);
        match (&*line.verb, resource.as_str()) {
            ("create", "events") => self.last_event = self.last_event.max(answered),
            // The name of what is created is the answer's. There are others than those of the load:
            // before it begins, one is created on trial to see that the webhooks are asked.
            ("create", "jobs") if Size::of_job(&object.name).is_some() => {
                let sent = line.request_received_timestamp;
                self.begun = Some(self.begun.map_or(sent, |begun| begun.min(sent)));
                self.life(&object.name).created = answered;
            }
            ("patch", "jobs") => self.life(&object.name).released = answered,
            ("patch", "jobs/status") => self.life(&object.name).completed = answered,
            ("patch", "workloads/status") => {
                // `<job>-<digits of its UID>`
                if let Some((job, _)) = object.name.rsplit_once('-') {
                    self.life(job).statuses.push(line.stage_timestamp);
                }
            }
            _ => {}
        }
    }

    fn life(&mut self, job: &str) -> &mut Life {
        self.jobs.entry(job.to_owned()).or_default()
    }

    fn lives(&self) -> impl Iterator<Item = (Size, &Life)> {
        self.jobs
            .iter()
            .filter_map(|(name, life)| Some((Size::of_job(name)?, life)))
    }

    /// Jobs that were seen to their end.
    pub(crate) fn finished(&self) -> usize {
        let finished = self.lives().filter(|(_, life)| life.finished().is_some());
        finished.count()
    }

    /// Seconds from the first Job to the last that is recorded as finished, and the last event sent.
    pub(crate) fn seconds(&self) -> Result<f64> {
        let last = self.lives().filter_map(|(_, life)| life.finished()).max();
        let last = last.max(self.last_event);
        let (begun, last) = self.begun.zip(last).context("no Job has finished")?;
        Ok(seconds(begun, last))
    }

    pub(crate) fn waits(&self, size: Size) -> Waits {
        let of_size = self.lives().filter(|(of, _)| *of == size);
        let waits = of_size.filter_map(|(_, life)| Some(seconds(life.created?, life.released?)));
        let mut waits: Vec<f64> = waits.collect();
        waits.sort_by(f64::total_cmp);
        Waits {
            average: waits.iter().sum::<f64>() / ratio(waits.len(), 1).max(1.0),
            p50: percentile(&waits, 50),
            p99: percentile(&waits, 99),
        }
    }

    /// The share of the scarce quota that Jobs held, and the share in which they ran, over the time
    /// from the first admission to the last: after that nobody is there who could use it.
    pub(crate) fn utilisation(&self) -> Option<(f64, f64)> {
        let admissions = || self.lives().filter_map(|(_, life)| life.admitted());
        let window = (admissions().min()?, admissions().max()?);
        let all = quota_cpus() * seconds(window.0, window.1);
        let mut used = (0.0, 0.0);
        for (size, life) in self.lives() {
            let cpus = f64::from(size.cpus());
            used.0 += cpus * within(window, life.admitted(), life.finished());
            used.1 += cpus * within(window, life.released, life.completed);
        }
        Some((used.0 / all, used.1 / all))
    }
}

impl Life {
    /// The last write to the Workload before the Job was released.
    fn admitted(&self) -> Option<Timestamp> {
        let before = self
            .statuses
            .iter()
            .filter(|at| Some(**at) <= self.released);
        before.max().copied()
    }

    /// The last write to the Workload, if that was after the Job was released. What answers a write may be
    /// recorded before it, so it is no matter when the Job was recorded as complete.
    fn finished(&self) -> Option<Timestamp> {
        let last = self.statuses.iter().max().copied();
        let last = last.filter(|at| self.released.is_some_and(|released| released < *at));
        self.completed.and(last)
    }
}

fn within(window: (Timestamp, Timestamp), from: Option<Timestamp>, to: Option<Timestamp>) -> f64 {
    from.zip(to).map_or(0.0, |(from, to)| {
        seconds(from.clamp(window.0, window.1), to.clamp(window.0, window.1))
    })
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
