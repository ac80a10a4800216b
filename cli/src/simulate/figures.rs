//! What follows from a play, as plain data: the form that `-o json` and `-o yaml` show. How it is worked
//! out of runs and fates is said in the modules below; `print` and `chart` show them to people.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_crds::Quantity;

use super::explained_job::{self, QueueOfWaiting};
use super::jobs::InputJob;
use super::play::{Cut, Fate, Job, Play, Restart};
use super::quotas::Quotas;

mod groups;
mod meters;
mod sizes;

pub use meters::STEPS;

/// Reasons that are listed; the jobs of the others are counted.
const REASONS_MAX: usize = 50;

/// All that was found out by one play.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// From the arrival of the first job to the last that happened.
    pub makespan_seconds: Seconds,
    /// Why the play ended before all was over: `until`, or `evictions` that came to no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<&'static str>,
    /// All jobs.
    pub all: Group,
    /// Jobs by ClusterQueue; those of LocalQueues that don't exist by nothing.
    pub cluster_queues: Vec<Group>,
    /// Jobs by LocalQueue.
    pub local_queues: Vec<Group>,
    /// Jobs by priority, the highest first.
    pub priorities: Vec<Group>,
    /// Jobs by what they ask for, the smallest first.
    pub sizes: Vec<Group>,
    /// Why jobs that wait at the end do, those of the most jobs first.
    pub waiting: Vec<Reason>,
    /// How the first of them stand, for the ClusterQueues where the most wait.
    pub first_waiting: Vec<QueueOfWaiting>,
    /// How many wait for other ClusterQueues.
    pub waiting_elsewhere: usize,
    /// How much of the quota was used: of everything, of each tree of cohorts, of each ClusterQueue.
    pub quotas: Vec<QuotaUse>,
    /// What was used and who waited, over time.
    pub series: Series,
}

/// Milliseconds, written as seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub i64);

impl Serialize for Seconds {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1000 == 0 {
            serializer.serialize_i64(self.0 / 1000)
        } else {
            serializer.serialize_f64(self.0 as f64 / 1000.0)
        }
    }
}

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
    /// From arrival to the first admission, of those that were admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Spread>,
    /// From arrival to the end of the work, of those that finished.
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

/// Why jobs wait at the end.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// A word for it.
    #[serde(rename = "reason")]
    pub word: String,
    /// What the engine says.
    pub message: String,
    /// How many jobs.
    pub jobs: usize,
    /// How many of them held no quota at any time.
    pub never_admitted: usize,
    /// The first of them.
    pub example: String,
}

/// Whose quota.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "of", content = "name")]
pub enum Owner {
    /// Everyone's.
    All,
    /// That of a cohort and all below it.
    Cohort(String),
    /// That of a ClusterQueue.
    ClusterQueue(String),
}

/// How much of a quota was used.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// Whose it is.
    #[serde(flatten)]
    pub owner: Owner,
    /// The flavor.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// The nominal quota.
    pub nominal: String,
    /// The nominal quota in units of the resource.
    #[serde(skip)]
    pub nominal_units: f64,
    /// What was used on average.
    pub average: String,
    /// The average, of the nominal quota; none if that is zero. A ClusterQueue that borrows may be
    /// above 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// The most that was used.
    pub peak: String,
    /// What was used above the nominal quota on average.
    pub average_borrowed: String,
    /// For how long anything was.
    pub borrowing_seconds: Seconds,
}

/// What happened over time: averages of steps of equal length.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// The length of a step.
    pub step_seconds: f64,
    /// Usage by ClusterQueue, flavor and resource.
    pub usage: Vec<UsageSeries>,
    /// How many jobs waited, by ClusterQueue.
    pub waiting: BTreeMap<String, Vec<f64>>,
}

/// What a ClusterQueue used.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSeries {
    /// The ClusterQueue.
    pub cluster_queue: String,
    /// The flavor.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// In units of the resource.
    pub values: Vec<f64>,
}

/// What was played, and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Basis<'a> {
    /// The jobs as the input has them.
    pub input: &'a [InputJob],
    /// The jobs as they were played.
    pub jobs: &'a [Job],
    /// The queues.
    pub quotas: &'a Quotas,
    /// What evicted jobs had done counted, or not.
    pub restart: Restart,
    /// What happened.
    pub play: &'a Play,
}

impl Figures {
    /// What follows from a play.
    pub fn of(basis: Basis<'_>) -> Self {
        let Play {
            begin, end, cut, ..
        } = basis.play;
        let (quotas, series) = meters::measure(basis);
        let grouped = groups::group(basis);
        let (first_waiting, waiting_elsewhere) = explained_job::first_waiting(basis);
        Self {
            makespan_seconds: Seconds(end.as_millis().saturating_sub(begin.as_millis())),
            cut: cut.map(|cut| match cut {
                Cut::Until => "until",
                Cut::TooManyRuns => "evictions",
            }),
            all: grouped.all,
            cluster_queues: grouped.cluster_queues,
            local_queues: grouped.local_queues,
            priorities: grouped.priorities,
            sizes: grouped.sizes,
            waiting: reasons(basis),
            first_waiting,
            waiting_elsewhere,
            quotas,
            series,
        }
    }
}

/// Why jobs wait at the end.
fn reasons(basis: Basis<'_>) -> Vec<Reason> {
    let Basis { input, play, .. } = basis;
    let mut was_admitted = vec![false; input.len()];
    for run in &play.runs {
        if let Some(was_admitted) = was_admitted.get_mut(run.job) {
            *was_admitted = true;
        }
    }
    let mut by_message: BTreeMap<String, Reason> = BTreeMap::new();
    let jobs = input.iter().zip(&play.fates).zip(was_admitted).enumerate();
    for (index, ((input, fate), was_admitted)) in jobs {
        if *fate != Fate::Waiting {
            continue;
        }
        let Some(explanation) = play.explain(index) else {
            continue;
        };
        let Some(pending) = explanation.pending_reason() else {
            continue;
        };
        let message = explained_job::message(&explanation, basis.input);
        let reason = by_message
            .entry(message)
            .or_insert_with_key(|message| Reason {
                word: pending.as_str().to_owned(),
                message: message.clone(),
                jobs: 0,
                never_admitted: 0,
                example: input.name.to_string(),
            });
        reason.jobs += 1;
        reason.never_admitted += usize::from(!was_admitted);
    }
    let mut all: Vec<_> = by_message.into_values().collect();
    all.sort_by(|a, b| (b.jobs, &a.message).cmp(&(a.jobs, &b.message)));
    if REASONS_MAX < all.len() {
        let rest = all.split_off(REASONS_MAX - 1);
        all.push(Reason {
            word: "Other".to_owned(),
            message: format!("{} other reasons", rest.len()),
            jobs: rest.iter().map(|reason| reason.jobs).sum(),
            never_admitted: rest.iter().map(|reason| reason.never_admitted).sum(),
            example: rest
                .into_iter()
                .next()
                .map_or_else(String::new, |r| r.example),
        });
    }
    all
}

/// An amount for people: to three or four digits where the rest would be an average's long tail.
fn rounded(resource: &str, nanos: i128) -> String {
    let steps: &[i128] = &[1 << 40, 1 << 30, 1 << 20, 1 << 10];
    let is_bytes = Quantity::of(resource, sluice_crds::quantity::NANOS << 10).0 == "1Ki";
    let unit = if is_bytes {
        let bytes = nanos / sluice_crds::quantity::NANOS;
        let step = steps.iter().find(|step| **step * 100 <= bytes);
        step.copied().unwrap_or(1) * sluice_crds::quantity::NANOS
    } else {
        match nanos / sluice_crds::quantity::NANOS {
            0..100 => sluice_crds::quantity::NANOS / 100,
            100..1000 => sluice_crds::quantity::NANOS / 10,
            _ => sluice_crds::quantity::NANOS,
        }
    };
    let nearest = (nanos + unit / 2) / unit * unit;
    if is_bytes {
        return Quantity::of(resource, nearest).to_string();
    }
    // 1.33 is read faster than 1330m.
    let hundredths = nearest / (sluice_crds::quantity::NANOS / 100);
    let (whole, part) = (hundredths / 100, hundredths % 100);
    match (part, part % 10) {
        (0, _) => whole.to_string(),
        (_, 0) => format!("{whole}.{}", part / 10),
        _ => format!("{whole}.{part:02}"),
    }
}

/// Units of a resource for people.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a figure for people"
)]
pub fn amount(resource: &str, units: f64) -> String {
    rounded(
        resource,
        (units * sluice_crds::quantity::NANOS as f64) as i128,
    )
}

/// Nano-units as units.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn units(nanos: i128) -> f64 {
    nanos as f64 / sluice_crds::quantity::NANOS as f64
}

/// To so many digits behind the point, so that figures are the same everywhere and short.
fn to_digits(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_for_people() {
        let nano = sluice_crds::quantity::NANOS;
        let cases = [
            ("cpu", 0, "0"),
            ("cpu", nano / 3, "0.33"),
            ("cpu", nano * 3 / 2, "1.5"),
            ("cpu", nano * 4, "4"),
            ("cpu", nano * 12_345 / 100, "123.5"),
            ("nvidia.com/gpu", nano * 12_345 / 10, "1235"),
            ("memory", nano * ((8 << 30) + 5), "8Gi"),
            ("memory", nano * 1000, "1000"),
        ];
        for (resource, nanos, expected) in cases {
            assert_eq!(rounded(resource, nanos), expected, "{resource} {nanos}");
        }
    }
}
