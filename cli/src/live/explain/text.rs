//! The explanation of a job for people. What is known of the job is in `explained.rs`.

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize as _;

use super::super::jobs::State;
use super::super::status;
use super::answer::Answer;
use super::explained::Explained;
use crate::cluster::age::age;
use crate::simulate::{range_of, reason_of};
use crate::table::{NONE, columns, fields, or_none, printable};

/// How many of those ahead are named.
const NAMED_MAX: usize = 5;

/// The explanation for people.
pub(super) fn text(explained: &Explained, now: Timestamp) -> String {
    let Explained { job, ahead, .. } = explained;
    let since = job.since.map(|since| format!(" for {}", age(since, now)));
    let place = match (job.place, job.pending) {
        (Some(place), Some(pending)) => format!("{place} of {pending}"),
        (Some(place), None) => place.to_string(),
        (None, _) => NONE.to_owned(),
    };
    let queue = match &explained.cluster_queue {
        Some(cluster_queue) => format!("{} (ClusterQueue {cluster_queue})", job.queue),
        None => job.queue.clone(),
    };
    let requests = requests(explained);
    let mut named: Vec<String> = ahead.iter().take(NAMED_MAX).cloned().collect();
    let more = ahead.len().saturating_sub(NAMED_MAX);
    if 0 < more {
        named.push(format!("and {more} more"));
    }
    let answer = explained.explanation.as_ref();
    let answer = answer.and_then(|answer| Answer::deserialize(answer).ok());
    let mut known = vec![
        ("Job", format!("{}/{}", job.kind, job.name)),
        ("Queue", queue),
        (
            "State",
            format!("{:?}{}", job.state, since.unwrap_or_default()),
        ),
        ("Priority", job.priority.to_string()),
        ("Place", place),
    ];
    if answer.is_none() {
        known.push(("Ahead", or_none(named.join(", "))));
    }
    known.push(("Requests", or_none(requests)));
    let has_conditions = !explained.told.is_empty();
    let mut is_said = false;
    if let Some(answer) = &answer {
        known.extend(answer.fields(has_conditions));
        is_said = !has_conditions && answer.says(&job.message);
    }
    if let Some(start) = &explained.start {
        known.push(("Start", range_of(start)));
        known.push(("Estimated", reason_of(start)));
    }
    if let Some(why) = &explained.no_estimate {
        known.push(("Start", format!("can't be estimated: {why}")));
    }
    let mut text = fields(&known, 0);
    if let Some(table) = answer.and_then(|answer| answer.table()) {
        text.extend(["\n", &table]);
    }
    if job.state == State::Gated && !job.message.is_empty() && !is_said {
        text.extend(["\n", &printable(&job.message), "\n"]);
    }
    if !explained.told.is_empty() {
        let rows: Vec<Vec<String>> = explained
            .told
            .iter()
            .map(|(kind, message)| vec![kind.clone(), message.clone()])
            .collect();
        text.push('\n');
        text.push_str(&columns(&["CONDITION", "MESSAGE"], &rows, 0));
    }
    if let Some(node) = &explained.queue {
        text.push('\n');
        text.push_str(&status::tree(std::slice::from_ref(node), true));
    }
    text
}

/// What is told of a job that gates hold before its queue.
pub(super) fn gated_text(gated: &Explained, held: &[String]) -> String {
    let Explained { job, .. } = gated;
    let held = held.join(", ");
    let mut text = format!(
        "{} {:?} is held by gates, and not queued: {held}\n",
        job.kind, job.name
    );
    let requests = requests(gated);
    if !requests.is_empty() {
        text.push_str(&fields(&[("Requests", requests)], 0));
    }
    if gated.explanation.is_some() {
        text.extend(["\n", &printable(&job.message), "\n"]);
    }
    text
}

fn requests(explained: &Explained) -> String {
    let requests = explained.requests.iter();
    let requests = requests.map(|(name, amount)| format!("{name} {amount}"));
    requests.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use sluice_crds::Quantity;

    use super::super::super::jobs::Job;
    use super::super::explained::ahead;
    use super::*;

    fn job(name: &str, place: usize) -> Job {
        Job {
            namespace: "blue".to_owned(),
            group: "batch".to_owned(),
            kind: "Job".to_owned(),
            name: name.to_owned(),
            workload: Some(format!("{name}-1")),
            queue: "main".to_owned(),
            state: State::Pending,
            priority: 10,
            place: Some(place),
            pending: Some(8),
            ahead: None,
            since: "2026-03-01T11:00:00Z".parse().ok(),
            reason: "WaitingForQuota".to_owned(),
            message: String::new(),
            start: None,
            no_estimate: None,
            order: (0, String::new()),
        }
    }

    /// One that its LocalQueue names: it has no conditions.
    #[test]
    fn what_the_gates_of_a_job_wait_for_is_said_once() {
        let mut explained = Explained {
            job: Job {
                state: State::Gated,
                workload: None,
                ..job("held", 1)
            },
            cluster_queue: None,
            requests: [].into(),
            ahead: Vec::new(),
            told: Vec::new(),
            queue: None,
            explanation: None,
            start: None,
            no_estimate: None,
        };
        let message = "Held until these gates are removed: acme.io/a (ask #finops)";
        explained.hear(serde_json::json!({"reason": "Gated", "message": message}));
        let text = text(&explained, "2026-03-01T12:00:00Z".parse().unwrap());
        assert_eq!(text.matches(message).count(), 1, "{text}");
        assert!(text.contains(&format!("Gated: {message}")), "{text}");
    }

    /// Whoever may write an object, or an event, chooses what it says.
    #[test]
    fn nothing_that_objects_and_events_say_moves_the_cursor() {
        let evil = |what: &str| format!("{what}\u{1b}[2J\r\u{9b}1A\u{7f}");
        let mut explained = Explained {
            job: Job {
                state: State::Gated,
                queue: evil("main"),
                message: evil("held"),
                ..job(&evil("train"), 1)
            },
            cluster_queue: Some(evil("team-a")),
            requests: [(evil("acme.io/gpu"), Quantity(evil("1")))].into(),
            ahead: vec![evil("Job/first")],
            told: vec![(evil("PodsReady=False (Waits)"), evil("waits"))],
            queue: None,
            explanation: None,
            start: None,
            no_estimate: Some(evil("no cluster")),
        };
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let check = |text: &str| {
            let is_bad = |c: char| c.is_control() && c != '\n';
            assert!(text.contains("[2J") && !text.contains(is_bad), "{text:?}");
        };
        check(&text(&explained, now));
        check(&gated_text(&explained, &["acme.io/budget".to_owned()]));
        let other = serde_json::json!({"name": evil("w"), "job": {"apiGroup": "", "kind": evil("Job"), "name": evil("j")}});
        explained.hear(serde_json::json!({
            "reason": evil("NoMatchingFlavor"), "message": evil("taint"), "lacking": [],
            "flavors": [{"podSet": evil("main"), "name": evil("spot"), "reason": evil("NoMatchingNodes"), "message": evil("taint")}],
            "ahead": {"items": [other], "inNamespace": 1, "inOtherNamespaces": 0},
        }));
        check(&text(&explained, now));
        check(&gated_text(&explained, &["acme.io/budget".to_owned()]));
    }

    /// Volcano has a Job, too.
    #[test]
    fn those_ahead_are_told_apart() {
        let mut first = job("first", 1);
        first.group = "batch.volcano.sh".to_owned();
        let all = [first, job("last", 2)];
        assert_eq!(ahead(&all, &all[1]), ["Job.batch.volcano.sh/first"]);
    }

    #[test]
    fn a_pending_job_is_explained() {
        let all: Vec<Job> = (1..=8)
            .map(|place| job(&format!("job-{place}"), place))
            .collect();
        let last = all.last().unwrap();
        let amount = |amount: &str| Quantity(amount.to_owned());
        let explained = Explained {
            job: last.clone(),
            cluster_queue: Some("team-a".to_owned()),
            requests: [
                ("cpu".to_owned(), amount("2")),
                ("memory".to_owned(), amount("4Gi")),
            ]
            .into(),
            ahead: ahead(&all, last),
            told: vec![(
                "QuotaReserved=False (WaitingForQuota)".to_owned(),
                "2 more cpu is needed".to_owned(),
            )],
            queue: None,
            explanation: None,
            start: None,
            no_estimate: Some("there is no cluster".to_owned()),
        };
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_snapshot!(text(&explained, now), @r"
    Job:       Job/job-8
    Queue:     main (ClusterQueue team-a)
    State:     Pending for 60m
    Priority:  10
    Place:     8 of 8
    Ahead:     Job/job-1, Job/job-2, Job/job-3, Job/job-4, Job/job-5, and 2 more
    Requests:  cpu 2, memory 4Gi
    Start:     can't be estimated: there is no cluster

    CONDITION                               MESSAGE
    QuotaReserved=False (WaitingForQuota)   2 more cpu is needed
    ");
    }
}
