//! Explained jobs, as text.

use std::fmt::Write as _;

use crate::simulate::basis::Owner;
use crate::simulate::explained_job::{ExplainedJob, Names, Outlook, QueueOfWaiting, State};
use crate::simulate::figures::Figures;
use crate::simulate::units::time;
use crate::table::{NONE, columns, fields, printable};

/// Jobs that are named in a list; the others are counted.
const NAMES_MAX: usize = 5;

/// The first pending jobs at the end.
pub fn waiting(figures: &Figures) -> Option<String> {
    if figures.first_waiting.is_empty() {
        return None;
    }
    let mut text = "First pending jobs, by ClusterQueue:\n".to_owned();
    for queue in &figures.first_waiting {
        let QueueOfWaiting {
            cluster_queue,
            jobs,
            first,
        } = queue;
        let name = if cluster_queue.is_empty() {
            NONE
        } else {
            cluster_queue
        };
        let _ = writeln!(text, "  {}:", printable(name));
        for job in first {
            let message = job.message.as_deref().unwrap_or(NONE);
            let line = format!("{}: {message}", job.job);
            let _ = writeln!(text, "    {}", printable(&line));
            if let Some(outlook) = &job.outlook {
                let _ = writeln!(text, "      It {}", printable(&outlook.message));
            }
        }
        if first.len() < *jobs {
            let _ = writeln!(text, "    and {} more", jobs - first.len());
        }
    }
    if 0 < figures.waiting_elsewhere {
        let more = figures.waiting_elsewhere;
        let _ = writeln!(text, "  and {more} more jobs of other ClusterQueues");
    }
    Some(text)
}

/// All that is known of a job.
pub fn one(job: &ExplainedJob) -> String {
    let queue = job.cluster_queue.as_deref().unwrap_or(NONE);
    let mut lines = vec![
        ("Job", job.job.clone()),
        ("LocalQueue", job.local_queue.clone()),
        ("ClusterQueue", queue.to_owned()),
        ("Priority", job.priority.to_string()),
        ("At", time(job.at_seconds)),
        ("State", state(job)),
    ];
    lines.extend(job.message.clone().map(|message| ("Why", message)));
    let Some(outlook) = &job.outlook else {
        return fields(&lines, 0);
    };
    lines.push(("Ahead", ahead(outlook)));
    lines.push(("Stopping", names(&outlook.evicting)));
    lines.push(("Fits After", names(&outlook.fits_after)));
    let mut parts = vec![fields(&lines, 0)];
    parts.extend(tables(outlook));
    parts.join("\n")
}

fn state(job: &ExplainedJob) -> String {
    let word = match job.state {
        State::NotArrived => "arrives at",
        State::Waiting => "pending since",
        State::WaitingAgain => "evicted, pending again since",
        State::Running => "running since",
        State::Stopping => "stopping, evicted at",
        State::Finished => "finished at",
    };
    format!("{word} {}", time(job.since_seconds))
}

pub(super) fn ahead(outlook: &Outlook) -> String {
    match &outlook.first_ahead {
        Some(first) => format!("{}, first {first}", outlook.ahead),
        None => outlook.ahead.to_string(),
    }
}

pub(super) fn names(all: &Names) -> String {
    let shown = all.names.get(..NAMES_MAX).unwrap_or(&all.names);
    match all.jobs.saturating_sub(shown.len()) {
        0 if shown.is_empty() => NONE.to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(super) fn tables(outlook: &Outlook) -> Vec<String> {
    let short = outlook.short.iter().map(|short| {
        let limit = match &short.limit {
            Owner::All => NONE.to_owned(),
            Owner::Cohort(name) => format!("cohort {name}"),
            Owner::ClusterQueue(name) => format!("ClusterQueue {name}"),
        };
        let cells = [&short.pod_set, &short.flavor, &short.resource];
        let amounts = [&short.request, &short.free, &limit];
        cells.into_iter().chain(amounts).cloned().collect()
    });
    let not_preempted = outlook.not_preempted.iter().map(|not_preempted| {
        vec![
            not_preempted.jobs.to_string(),
            not_preempted.message.to_owned(),
        ]
    });
    let free = outlook.free.iter().map(|free| {
        let cells = [&free.flavor, &free.resource, &free.amount];
        cells.into_iter().cloned().collect()
    });
    let short_of = [
        "POD SET",
        "FLAVOR",
        "RESOURCE",
        "NEEDED",
        "FREE",
        "LIMITED BY",
    ];
    let free_to = ["FLAVOR", "RESOURCE", "FREE"];
    let parts = [
        part("Missing quota", &short_of, short),
        part("Not preempted", &["JOBS", "WHY"], not_preempted),
        part(
            "Unused quota of its ClusterQueue, borrowing included",
            &free_to,
            free,
        ),
    ];
    parts.into_iter().flatten().collect()
}

/// A table with a title, unless it is empty.
fn part(title: &str, headers: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Option<String> {
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| format!("{title}:\n{}", columns(headers, &rows, 2)))
}
