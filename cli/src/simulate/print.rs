//! Figures as text, as kubectl writes it. It adds nothing to what was found out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::basis::Owner;
use super::compare::{Comparison, Difference, Unit};
use super::figures::{Figures, Group, QuotaUse, STEPS, Series, Spread};
use super::span;
use super::units::{Seconds, amount, time};
use crate::table::{NONE, columns, fields, or_none};

mod explained_job;
mod what_if;

pub use explained_job::one as explained;
pub use what_if::text as what_if;

/// Parts of the time for which shares are shown.
const PARTS: usize = 6;
/// Reasons that are printed; all are in the form for programs.
const REASONS_MAX: usize = 10;

/// What of a queue, priority or size is printed where two plays differ; all is in the form for programs.
const COMPARED: [&str; 6] = [
    "finished",
    "never admitted",
    "wait, average",
    "wait, p99",
    "evictions",
    "wasted",
];

const _: () = assert!(STEPS.is_multiple_of(PARTS));

/// One play.
pub fn one(figures: &Figures) -> String {
    let mut parts = vec![summary(figures)];
    let groups = [
        ("ClusterQueues", &figures.cluster_queues),
        ("LocalQueues", &figures.local_queues),
        ("Priorities", &figures.priorities),
        ("Sizes", &figures.sizes),
    ];
    for (title, groups) in groups {
        parts.push(format!("{title}:\n{}", group_table(groups, &figures.all)));
    }
    parts.push(format!("Quota:\n{}", quota_table(&figures.quotas)));
    parts.extend(shares(&figures.series, figures.makespan_seconds));
    parts.extend(reasons(figures));
    parts.extend(explained_job::waiting(figures));
    parts.join("\n")
}

/// Two plays beside each other: all figures of the whole, and of the parts those that differ.
pub fn two(both: &Comparison) -> String {
    let whole = difference_table(both.whole.iter().collect(), false);
    let parts: Vec<_> = (both.differences.iter())
        .filter(|row| both.whole.iter().all(|whole| whole.of != row.of))
        .filter(|row| row.unit == Unit::Ratio || COMPARED.contains(&row.figure.as_str()))
        .collect();
    let mut texts = vec![format!("All jobs:\n{whole}")];
    if parts.is_empty() {
        texts.push("No difference for any queue, priority or size.\n".to_owned());
    } else {
        texts.push(format!("Differences:\n{}", difference_table(parts, true)));
    }
    texts.extend(reasons(&both.before).map(|text| format!("Before: {text}")));
    texts.extend(reasons(&both.after).map(|text| format!("After: {text}")));
    texts.join("\n")
}

fn summary(figures: &Figures) -> String {
    let all = &figures.all;
    let end = match figures.cut {
        Some("until") => " (ended there by --until)",
        Some(_) => " (ended there: jobs are evicted again and again)",
        None => "",
    };
    let mut lines = vec![
        ("Jobs", all.jobs.to_string()),
        ("Finished", all.finished.to_string()),
    ];
    let rare = [
        ("Running", all.running),
        ("Pending Again", all.waiting),
        ("Not Arrived", all.not_arrived),
    ];
    lines.extend(
        rare.into_iter()
            .filter(|(_, number)| 0 < *number)
            .map(|(name, number)| (name, number.to_string())),
    );
    lines.push(("Never Admitted", all.never_admitted.to_string()));
    lines.push(("Makespan", time(figures.makespan_seconds) + end));
    lines.push(("Waiting", spread(all.wait)));
    lines.push(("Turnaround", spread(all.turnaround)));
    let evictions: Vec<_> = all
        .evictions
        .iter()
        .map(|(reason, number)| format!("{reason} {number}"))
        .collect();
    lines.push(("Evictions", or_none(evictions.join(", "))));
    if !all.evictions.is_empty() {
        lines.push(("Wasted", wasted(all)));
    }
    if 0 < all.partial_admissions {
        let (times, pods) = (all.partial_admissions, all.pods_left_out);
        lines.push((
            "Partial Admissions",
            format!("{times}, {pods} pods left out"),
        ));
    }
    fields(&lines, 0)
}

fn wasted(group: &Group) -> String {
    let hours: Vec<_> = group
        .wasted_resource_hours
        .iter()
        .map(|(resource, hours)| format!("{resource} {} hours", amount(resource, *hours)))
        .collect();
    let time = time(group.wasted_seconds);
    format!("{time} of holding quota: {}", hours.join(", "))
}

fn spread(spread: Option<Spread>) -> String {
    let Some(spread) = spread else {
        return NONE.to_owned();
    };
    let parts = [
        ("average", spread.average_seconds),
        ("p50", spread.p50_seconds),
        ("p90", spread.p90_seconds),
        ("p99", spread.p99_seconds),
        ("max", spread.max_seconds),
    ];
    let texts = parts.map(|(name, value)| format!("{name} {}", time(value)));
    texts.join(", ")
}

/// Groups, with columns for what there is in `all` of them.
fn group_table(groups: &[Group], all: &Group) -> String {
    type Cell = fn(&Group) -> String;
    let wait: [(&str, Cell); 5] = [
        ("WAIT", |g| part(g.wait, |spread| spread.average_seconds)),
        ("P50", |g| part(g.wait, |spread| spread.p50_seconds)),
        ("P90", |g| part(g.wait, |spread| spread.p90_seconds)),
        ("P99", |g| part(g.wait, |spread| spread.p99_seconds)),
        ("MAX", |g| part(g.wait, |spread| spread.max_seconds)),
    ];
    let evictions = |group: &Group| group.evictions.values().sum::<usize>();
    let mut table: Vec<(&str, Cell)> = vec![
        ("NAME", |g| g.name.clone()),
        ("JOBS", |g| g.jobs.to_string()),
        ("FINISHED", |g| g.finished.to_string()),
    ];
    let rare: [(bool, &str, Cell); 4] = [
        (0 < all.running, "RUNNING", |g| g.running.to_string()),
        (0 < all.waiting, "PENDING AGAIN", |g| g.waiting.to_string()),
        (0 < all.not_arrived, "NOT ARRIVED", |g| {
            g.not_arrived.to_string()
        }),
        (0 < all.never_admitted, "NEVER ADMITTED", |g| {
            g.never_admitted.to_string()
        }),
    ];
    let shown = rare.into_iter().filter(|(is_shown, ..)| *is_shown);
    table.extend(shown.map(|(_, header, cell)| (header, cell)));
    table.extend(wait);
    table.push(("TURNAROUND", |g| {
        part(g.turnaround, |spread| spread.average_seconds)
    }));
    if 0 < evictions(all) {
        table.push(("EVICTIONS", |g| {
            g.evictions.values().sum::<usize>().to_string()
        }));
        table.push(("WASTED", |g| time(g.wasted_seconds)));
    }
    if 0 < all.partial_admissions {
        table.push(("PARTIAL", |g| g.partial_admissions.to_string()));
    }
    let headers: Vec<_> = table.iter().map(|(header, _)| *header).collect();
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|group| table.iter().map(|(_, cell)| cell(group)).collect())
        .collect();
    columns(&headers, &rows, 2)
}

fn part(spread: Option<Spread>, part: fn(&Spread) -> Seconds) -> String {
    spread
        .as_ref()
        .map_or_else(|| "-".to_owned(), |spread| time(part(spread)))
}

fn quota_table(quotas: &[QuotaUse]) -> String {
    let headers = [
        "OF",
        "FLAVOR",
        "RESOURCE",
        "NOMINAL",
        "USED",
        "UTILISATION",
        "PEAK",
        "BORROWED",
        "BORROWING FOR",
    ];
    let row = |quota: &QuotaUse| {
        let owner = match &quota.owner {
            Owner::All => "all".to_owned(),
            Owner::Cohort(name) => format!("cohort {name}"),
            Owner::ClusterQueue(name) => name.clone(),
        };
        vec![
            owner,
            quota.flavor.clone(),
            quota.resource.clone(),
            quota.nominal.clone(),
            quota.average.clone(),
            quota.utilisation.map_or_else(|| "-".to_owned(), percent),
            quota.peak.clone(),
            quota.average_borrowed.clone(),
            time(quota.borrowing_seconds),
        ]
    };
    let rows: Vec<_> = quotas.iter().map(row).collect();
    columns(&headers, &rows, 2)
}

/// What part of all that was used each ClusterQueue did, over time.
fn shares(series: &Series, makespan: Seconds) -> Option<String> {
    let mut totals: BTreeMap<(&str, &str), [f64; PARTS]> = BTreeMap::new();
    let parts = |values: &[f64]| -> [f64; PARTS] {
        let mut sums = values.chunks(STEPS / PARTS).map(|part| part.iter().sum());
        std::array::from_fn(|_| sums.next().unwrap_or_default())
    };
    for usage in &series.usage {
        let total = totals.entry((&usage.flavor, &usage.resource)).or_default();
        for (total, part) in total.iter_mut().zip(parts(&usage.values)) {
            *total += part;
        }
    }
    let mut rows = Vec::new();
    for ((flavor, resource), total) in &totals {
        let of_cell = series
            .usage
            .iter()
            .filter(|usage| usage.flavor == *flavor && usage.resource == *resource);
        for usage in of_cell.filter(|usage| usage.values.iter().any(|value| *value != 0.0)) {
            let mut row = vec![
                (*flavor).to_owned(),
                (*resource).to_owned(),
                usage.cluster_queue.clone(),
            ];
            let shares = parts(&usage.values).into_iter().zip(total);
            row.extend(shares.map(|(part, total)| {
                if *total == 0.0 {
                    "-".to_owned()
                } else {
                    percent(part / total)
                }
            }));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut headers = vec!["FLAVOR", "RESOURCE", "CLUSTERQUEUE"]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let Seconds(millis) = makespan;
    let parts = i64::try_from(PARTS).unwrap_or(1);
    headers.extend((1..=parts).map(|part| format!("TO {}", span::shown(millis / parts * part))));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    Some(format!(
        "Shares of usage, over time:\n{}",
        columns(&headers, &rows, 2)
    ))
}

/// Why jobs wait at the end.
fn reasons(figures: &Figures) -> Option<String> {
    if figures.waiting.is_empty() {
        return None;
    }
    let rows: Vec<_> = figures
        .waiting
        .iter()
        .take(REASONS_MAX)
        .map(|reason| {
            vec![
                reason.jobs.to_string(),
                reason.never_admitted.to_string(),
                reason.example.clone(),
                reason.message.clone(),
            ]
        })
        .collect();
    let headers = ["JOBS", "NEVER ADMITTED", "FIRST", "WHY"];
    let mut text = format!("Pending at the end:\n{}", columns(&headers, &rows, 2));
    let rest: usize = figures
        .waiting
        .iter()
        .skip(REASONS_MAX)
        .map(|r| r.jobs)
        .sum();
    if 0 < rest {
        let _ = writeln!(text, "  and {rest} more jobs, for other reasons");
    }
    Some(text)
}

fn difference_table(rows: Vec<&Difference>, names_of: bool) -> String {
    let headers = ["OF", "FIGURE", "BEFORE", "AFTER", "DIFFERENCE"];
    let skipped = usize::from(!names_of);
    let headers: Vec<_> = headers.into_iter().skip(skipped).collect();
    let mut last = "";
    let mut table: Vec<Vec<String>> = Vec::new();
    for row in rows {
        // What many lines are about is said once.
        let of = if row.of == last { "" } else { &row.of };
        last = &row.of;
        let difference = row.change.map(|difference| {
            let sign = if difference < 0.0 { "-" } else { "+" };
            match row.unit {
                _ if difference == 0.0 => "-".to_owned(),
                Unit::Ratio => format!("{sign}{:.1} points", difference.abs() * 100.0),
                unit => format!("{sign}{}", in_unit(unit, difference.abs())),
            }
        });
        let value =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| in_unit(row.unit, v));
        let cells = vec![
            of.to_owned(),
            row.figure.clone(),
            value(row.before),
            value(row.after),
            difference.unwrap_or_default(),
        ];
        table.push(cells.into_iter().skip(skipped).collect());
    }
    columns(&headers, &table, 2)
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of a simulation")]
fn in_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Count => format!("{value:.0}"),
        Unit::Seconds => span::shown((value * 1000.0).round() as i64),
        Unit::Ratio => percent(value),
    }
}

fn percent(ratio: f64) -> String {
    format!("{:.1}%", ratio * 100.0)
}
