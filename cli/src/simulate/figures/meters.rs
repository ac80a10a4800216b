//! Follows usage and waiting jobs through a play: what was used on average, at most, above the nominal
//! quota, and in each step of time.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_engine::Time;

use crate::simulate::basis::{Basis, Owner};
use crate::simulate::quotas::{Quotas, nominal};
use crate::simulate::units::{Seconds, rounded, to_digits, units};
use sluice_estimates::play::{Cell, Fate, Play, RunUsage};

/// Steps of time in a series.
pub const STEPS: usize = 240;

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

/// The time of a play, in [`STEPS`] steps.
#[derive(Debug, Clone, Copy)]
struct Clock {
    begin: i64,
    length: i64,
}

impl Clock {
    /// When step `index` begins.
    fn edge(self, index: usize) -> i64 {
        let (index, steps) = (index as i128, STEPS as i128);
        let after = i128::from(self.length) * index / steps;
        self.begin
            .saturating_add(i64::try_from(after).unwrap_or(i64::MAX))
    }

    /// A step that begins no later than `at`, and no step after it does.
    fn step_of(self, at: i64) -> usize {
        let after = i128::from(at.saturating_sub(self.begin));
        let index = after * STEPS as i128 / i128::from(self.length.max(1));
        let index = usize::try_from(index).unwrap_or_default().min(STEPS - 1);
        // Edges are rounded down: the next one may be reached already.
        if index + 1 < STEPS && self.edge(index + 1) <= at {
            index + 1
        } else {
            index
        }
    }
}

/// A number that changes over time. Sums are of that number times milliseconds.
#[derive(Debug, Clone)]
struct Meter {
    level: i128,
    since: i64,
    nominal: i128,
    sum: i128,
    peak: i128,
    above: i128,
    above_millis: i64,
    steps: Vec<i128>,
}

impl Meter {
    fn new(nominal: i128, clock: Clock) -> Self {
        Self {
            level: 0,
            since: clock.begin,
            nominal,
            sum: 0,
            peak: 0,
            above: 0,
            above_millis: 0,
            steps: Vec::new(),
        }
    }

    /// The number changes at `at`, which comes after all that it was told before.
    fn change(&mut self, at: i64, by: i128, clock: Clock) {
        self.advance_to(at, clock);
        self.level = self.level.saturating_add(by);
    }

    /// Takes in what passed until `at`.
    fn advance_to(&mut self, at: i64, clock: Clock) {
        let millis = at.saturating_sub(self.since);
        if millis <= 0 {
            return;
        }
        if self.level != 0 {
            let times = |level: i128, millis: i64| level.saturating_mul(i128::from(millis));
            self.sum = self.sum.saturating_add(times(self.level, millis));
            self.peak = self.peak.max(self.level);
            let above = self.level.saturating_sub(self.nominal);
            if 0 < above {
                self.above = self.above.saturating_add(times(above, millis));
                self.above_millis += millis;
            }
            self.steps.resize(STEPS, 0);
            let mut from = self.since;
            for index in clock.step_of(from)..STEPS {
                let until = clock.edge(index + 1).min(at);
                if let Some(step) = self.steps.get_mut(index) {
                    *step = step.saturating_add(times(self.level, until.saturating_sub(from)));
                }
                from = until;
                if at <= from {
                    break;
                }
            }
        }
        self.since = at;
    }

    /// The average of each step, in units of 10⁻⁹ if `is_nanos`.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn averages(&self, clock: Clock, is_nanos: bool) -> Vec<f64> {
        let average = |index: usize| {
            let millis = clock.edge(index + 1) - clock.edge(index);
            let sum = self.steps.get(index).copied().unwrap_or_default();
            let level = sum / i128::from(millis.max(1));
            let number = if is_nanos {
                units(level)
            } else {
                (sum as f64) / (millis.max(1) as f64)
            };
            to_digits(number, 3)
        };
        (0..STEPS).map(average).collect()
    }
}

/// Works out how much was used of what, and when.
pub fn measure(basis: Basis<'_>) -> (Vec<QuotaUse>, Series) {
    let Basis { quotas, play, .. } = basis;
    let (begin, end) = (play.begin.as_millis(), play.end.as_millis());
    let clock = Clock {
        begin,
        length: end.saturating_sub(begin),
    };
    let usage = usage(quotas, play, clock);
    let mut waiting = waiting(basis, clock);
    for meter in waiting.values_mut() {
        meter.advance_to(end, clock);
    }
    let rows = usage
        .iter()
        .map(|((owner, cell), meter)| row(owner, cell, meter, clock.length));
    let of_queue = usage
        .iter()
        .filter_map(|((owner, cell), meter)| match owner {
            Owner::ClusterQueue(name) => Some((name, cell, meter)),
            Owner::All | Owner::Cohort(_) => None,
        });
    let of_queue = of_queue.map(|(name, (flavor, resource), meter)| UsageSeries {
        cluster_queue: name.clone(),
        flavor: flavor.to_string(),
        resource: resource.to_string(),
        values: meter.averages(clock, true),
    });
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let step_seconds = to_digits(clock.length as f64 / 1000.0 / STEPS as f64, 3);
    let series = Series {
        step_seconds,
        usage: of_queue.collect(),
        waiting: waiting
            .into_iter()
            .map(|(queue, meter)| (queue, meter.averages(clock, false)))
            .collect(),
    };
    (rows.collect(), series)
}

fn row(owner: &Owner, (flavor, resource): &Cell, meter: &Meter, length: i64) -> QuotaUse {
    let length = i128::from(length.max(1));
    let text = |nanos: i128| rounded(resource.as_str(), nanos);
    let whole = meter.nominal.saturating_mul(length);
    QuotaUse {
        owner: owner.clone(),
        flavor: flavor.to_string(),
        resource: resource.to_string(),
        nominal: text(meter.nominal),
        nominal_units: units(meter.nominal),
        average: text(meter.sum / length),
        utilisation: (whole != 0).then(|| to_digits(units(meter.sum) / units(whole), 4)),
        peak: text(meter.peak),
        average_borrowed: text(meter.above / length),
        borrowing_seconds: Seconds(meter.above_millis),
    }
}

type Meters = BTreeMap<(Owner, Cell), Meter>;

/// What was used, by whose quota it is and by cell.
fn usage(quotas: &Quotas, play: &Play, clock: Clock) -> Meters {
    let mut meters = with_nominal(quotas, clock);
    for usage in &play.usages {
        for key in touched(quotas, usage) {
            meters.entry(key).or_insert_with(|| Meter::new(0, clock));
        }
    }
    let mut flat: Vec<Meter> = meters.values().cloned().collect();
    let index: BTreeMap<(Owner, Cell), usize> = meters
        .into_keys()
        .enumerate()
        .map(|(i, key)| (key, i))
        .collect();
    let by_usage: Vec<Vec<(usize, i128)>> = play
        .usages
        .iter()
        .map(|usage| {
            let keys = touched(quotas, usage).into_iter();
            keys.filter_map(|key| {
                let amount = usage.cells.get(&key.1)?.get();
                Some((*index.get(&key)?, amount))
            })
            .collect()
        })
        .collect();
    for (at, run, sign) in changes(play) {
        let usage = play.runs.get(run).and_then(|run| by_usage.get(run.usage));
        for (meter, amount) in usage.into_iter().flatten() {
            if let Some(meter) = flat.get_mut(*meter) {
                meter.change(at, sign * amount, clock);
            }
        }
    }
    for meter in &mut flat {
        meter.advance_to(clock.begin.saturating_add(clock.length), clock);
    }
    index.into_keys().zip(flat).collect()
}

/// When runs begin and end: the moment, the number of the run, plus or minus one. At one moment quota is
/// given back before it is given.
fn changes(play: &Play) -> Vec<(i64, usize, i128)> {
    let mut all = Vec::with_capacity(play.runs.len() * 2);
    for (number, run) in play.runs.iter().enumerate() {
        all.push((run.from.as_millis(), number, 1));
        all.push((run.until.as_millis(), number, -1));
    }
    all.sort_by_key(|(at, number, sign)| (*at, *sign, *number));
    all
}

/// The meters that a usage moves.
fn touched(quotas: &Quotas, usage: &RunUsage) -> Vec<(Owner, Cell)> {
    let root = quotas.root_of(&usage.queue);
    let owners = [
        Some(Owner::All),
        root.map(|root| Owner::Cohort(root.to_string())),
        Some(Owner::ClusterQueue(usage.queue.to_string())),
    ];
    let owners = owners.into_iter().flatten();
    owners
        .flat_map(|owner| {
            usage
                .cells
                .keys()
                .map(move |cell| (owner.clone(), cell.clone()))
        })
        .collect()
}

/// A meter for all that somebody has quota of.
fn with_nominal(quotas: &Quotas, clock: Clock) -> Meters {
    let mut meters = Meters::new();
    let mut add = |owner: Owner, cell: &Cell, amount: i128| {
        let key = (owner, cell.clone());
        let meter = meters.entry(key).or_insert_with(|| Meter::new(0, clock));
        meter.nominal = meter.nominal.saturating_add(amount);
    };
    for (name, queue) in &quotas.queues {
        for (cell, amount) in nominal(&queue.resource_groups) {
            add(Owner::All, &cell, amount);
            if let Some(root) = quotas.root_of(name) {
                add(Owner::Cohort(root.to_string()), &cell, amount);
            }
            add(Owner::ClusterQueue(name.to_string()), &cell, amount);
        }
    }
    for (name, cohort) in &quotas.cohorts {
        for (cell, amount) in nominal(&cohort.resource_groups) {
            let root = quotas.root_of_cohort(name);
            add(Owner::All, &cell, amount);
            add(Owner::Cohort(root.to_string()), &cell, amount);
        }
    }
    meters
}

/// How many jobs wait, by ClusterQueue.
fn waiting(basis: Basis<'_>, clock: Clock) -> BTreeMap<String, Meter> {
    let Basis {
        jobs, quotas, play, ..
    } = basis;
    let mut meters: BTreeMap<String, Meter> = BTreeMap::new();
    let mut since: Vec<Option<Time>> = jobs
        .iter()
        .zip(&play.fates)
        .map(|(job, fate)| (*fate != Fate::NotArrived).then_some(job.arrival))
        .collect();
    let mut changes: Vec<(i64, i128, usize)> = Vec::with_capacity(jobs.len() * 2);
    let mut add = |job: usize, from: Time, until: Time| {
        changes.push((from.as_millis(), 1, job));
        changes.push((until.as_millis(), -1, job));
    };
    for run in &play.runs {
        if let Some(since) = since.get_mut(run.job) {
            if let Some(from) = *since {
                add(run.job, from, run.from);
            }
            *since = run.evicted.map(|_| run.until);
        }
    }
    for (job, (from, fate)) in since.iter().zip(&play.fates).enumerate() {
        if let (Some(from), Fate::Waiting) = (from, fate) {
            add(job, *from, play.end);
        }
    }
    changes.sort_unstable();
    for (at, sign, job) in changes {
        let local = jobs.get(job).map(|job| &job.queue);
        if let Some(queue) = local.and_then(|local| quotas.queue_of(local)) {
            let meter = match meters.get_mut(queue.as_str()) {
                Some(meter) => meter,
                None => meters
                    .entry(queue.to_string())
                    .or_insert_with(|| Meter::new(0, clock)),
            };
            meter.change(at, sign, clock);
        }
    }
    meters
}
