//! Two plays of the same jobs beside each other, and what differs. `print` shows them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::basis::Owner;
use super::figures::{Figures, Group, QuotaUse, Spread};
use super::units::Seconds;

/// Two plays of the same jobs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// With the queues as they are.
    pub before: Figures,
    /// With the others.
    pub after: Figures,
    /// Each figure that is not the same.
    pub differences: Vec<Difference>,
    /// The figures of all jobs, whether they differ or not.
    #[serde(skip)]
    pub whole: Vec<Difference>,
}

/// One figure of both plays.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// What it is about: all jobs, a ClusterQueue, a LocalQueue, a priority, a size.
    pub of: String,
    /// What it counts.
    pub figure: String,
    /// In which unit.
    pub unit: Unit,
    /// Its value before; none if there was none.
    pub before: Option<f64>,
    /// Its value after.
    pub after: Option<f64>,
    /// By how much it has become more.
    pub change: Option<f64>,
}

/// A unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Pieces.
    Count,
    /// Seconds.
    Seconds,
    /// A part of the whole.
    Ratio,
}

/// A figure, its unit, its value.
type Row = (String, Unit, Option<f64>);
/// Finds the groups of one sort.
type Groups = fn(&Figures) -> &[Group];

impl Comparison {
    /// What differs between two plays.
    pub fn of(before: Figures, after: Figures) -> Self {
        let whole = beside("all jobs", &whole(&before), &whole(&after));
        let mut all = whole.clone();
        let parts: [(&str, Groups); 4] = [
            ("ClusterQueue", |figures| &figures.cluster_queues),
            ("LocalQueue", |figures| &figures.local_queues),
            ("priority", |figures| &figures.priorities),
            ("size", |figures| &figures.sizes),
        ];
        for (what, groups) in parts {
            for (name, one, other) in pairs(groups(&before), groups(&after), |g| g.name.clone()) {
                let rows = |group: Option<&Group>| group.map(rows).unwrap_or_default();
                all.extend(beside(&format!("{what} {name}"), &rows(one), &rows(other)));
            }
        }
        let key = |row: &QuotaUse| (row.owner.clone(), row.flavor.clone(), row.resource.clone());
        for ((owner, ..), one, other) in pairs(&before.quotas, &after.quotas, key) {
            let rows =
                |row: Option<&QuotaUse>| row.map(utilisation).into_iter().collect::<Vec<_>>();
            let of = match owner {
                Owner::All => continue,
                Owner::Cohort(name) => format!("cohort {name}"),
                Owner::ClusterQueue(name) => format!("ClusterQueue {name}"),
            };
            all.extend(beside(&of, &rows(one), &rows(other)));
        }
        all.retain(|row| row.before != row.after);
        Self {
            before,
            after,
            differences: all,
            whole,
        }
    }
}

/// The figures of a play as a whole.
fn whole(figures: &Figures) -> Vec<Row> {
    let makespan = seconds("makespan", Some(figures.makespan_seconds));
    let quotas = figures.quotas.iter().filter(|row| row.owner == Owner::All);
    std::iter::once(makespan)
        .chain(rows(&figures.all))
        .chain(quotas.map(utilisation))
        .collect()
}

/// The figures of some jobs.
fn rows(group: &Group) -> Vec<Row> {
    let wait = |part: fn(&Spread) -> Seconds| group.wait.as_ref().map(part);
    let turnaround = group
        .turnaround
        .as_ref()
        .map(|spread| spread.average_seconds);
    vec![
        count("finished", group.finished),
        count("running", group.running),
        count("pending again", group.waiting),
        count("never admitted", group.never_admitted),
        seconds("wait, average", wait(|spread| spread.average_seconds)),
        seconds("wait, p50", wait(|spread| spread.p50_seconds)),
        seconds("wait, p90", wait(|spread| spread.p90_seconds)),
        seconds("wait, p99", wait(|spread| spread.p99_seconds)),
        seconds("wait, max", wait(|spread| spread.max_seconds)),
        seconds("turnaround, average", turnaround),
        count("evictions", group.evictions.values().sum()),
        seconds("wasted", Some(group.wasted_seconds)),
        count("partial admissions", group.partial_admissions),
    ]
}

fn utilisation(row: &QuotaUse) -> Row {
    let figure = format!("utilisation of {} {}", row.flavor, row.resource);
    (figure, Unit::Ratio, row.utilisation)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn count(figure: &str, number: usize) -> Row {
    (figure.to_owned(), Unit::Count, Some(number as f64))
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn seconds(figure: &str, seconds: Option<Seconds>) -> Row {
    let value = seconds.map(|Seconds(millis)| millis as f64 / 1000.0);
    (figure.to_owned(), Unit::Seconds, value)
}

/// The same rows of two plays.
fn beside(of: &str, before: &[Row], after: &[Row]) -> Vec<Difference> {
    let key = |(figure, unit, _): &Row| (figure.clone(), *unit as u8);
    let pairs = pairs(before, after, key).into_iter();
    let difference = |(_, one, other): (_, Option<&Row>, Option<&Row>)| {
        let (figure, unit, _) = one.or(other)?;
        let value = |row: Option<&Row>| row.and_then(|(_, _, value)| *value);
        let (before, after) = (value(one), value(other));
        // Written out, the difference of two short numbers is often a long one.
        let exact = before.zip(after).map(|(before, after)| after - before);
        Some(Difference {
            of: of.to_owned(),
            figure: figure.clone(),
            unit: *unit,
            before,
            after,
            change: exact.map(|exact| (exact * 10_000.0).round() / 10_000.0),
        })
    };
    pairs.filter_map(difference).collect()
}

/// What has the same key in both, in the order of the first; then what only the second has.
fn pairs<'a, T, K: Ord + Clone>(
    before: &'a [T],
    after: &'a [T],
    key: impl Fn(&T) -> K,
) -> Vec<(K, Option<&'a T>, Option<&'a T>)> {
    let mut pairs: Vec<_> = (before.iter())
        .map(|one| (key(one), Some(one), None))
        .collect();
    let places = pairs.iter().enumerate();
    let places: BTreeMap<K, usize> = places.map(|(at, (key, ..))| (key.clone(), at)).collect();
    for other in after {
        let key = key(other);
        match places.get(&key).and_then(|at| pairs.get_mut(*at)) {
            Some((.., beside)) => *beside = Some(other),
            None => pairs.push((key, None, Some(other))),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn rows_are_beside_those_of_the_same_key_in_the_order_of_the_first() {
        let asked = Cell::new(0);
        let key = |(name, _): &(&'static str, u8)| {
            asked.set(asked.get() + 1);
            *name
        };
        let (before, after) = (
            [("b", 1), ("a", 2), ("only", 3)],
            [("new", 4), ("a", 5), ("b", 6)],
        );
        let found = pairs(&before, &after, key);
        let value = |row: Option<&(&str, u8)>| row.map(|(_, value)| *value);
        let found: Vec<_> = (found.into_iter())
            .map(|(key, one, other)| (key, value(one), value(other)))
            .collect();
        let expected = [
            ("b", Some(1), Some(6)),
            ("a", Some(2), Some(5)),
            ("only", Some(3), None),
            ("new", None, Some(4)),
        ];
        assert_eq!(found, expected);
        // There may be thousands of LocalQueues.
        assert_eq!(asked.get(), before.len() + after.len());
    }
}
