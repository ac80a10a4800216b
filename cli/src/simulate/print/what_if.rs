//! What would become of a new job, as text.

use crate::simulate::estimate::{range, reason};
use crate::simulate::explained_job::Outlook;
use crate::simulate::what_if::{Assigned, Outcome, Preempted, WhatIf};
use crate::table::{fields, or_none};

use super::explained_job::{ahead, names, tables};

/// Jobs that are named in a list; the others are counted.
const NAMES_MAX: usize = 5;

/// All that is known of it.
pub fn text(what_if: &WhatIf) -> String {
    let queue = match &what_if.cluster_queue {
        Some(queue) => format!("{} (ClusterQueue {queue})", what_if.local_queue),
        None => what_if.local_queue.clone(),
    };
    let priority = match &what_if.priority_class {
        Some(class) => format!("{} ({class})", what_if.priority),
        None => what_if.priority.to_string(),
    };
    let requests = what_if.requests.iter();
    let requests: Vec<String> = requests
        .map(|(resource, amount)| format!("{resource} {amount}"))
        .collect();
    let mut lines = vec![
        ("Job", format!("{} ({})", what_if.job, what_if.kind)),
        ("Queue", queue),
        ("Priority", priority),
        ("Requests", or_none(requests.join(", "))),
    ];
    if !what_if.gates.is_empty() {
        let gates = what_if.gates.join(", ");
        lines.push((
            "Gates",
            format!("{gates}: they hold it first; once lifted:"),
        ));
    }
    if what_if.on_hold {
        let held = "by its suspend field, until its user clears that; then:";
        lines.push(("On Hold", held.to_owned()));
    }
    lines.push(("Outcome", outcome(what_if)));
    if !what_if.flavors.is_empty() {
        let flavors: Vec<String> = what_if.flavors.iter().map(assigned).collect();
        lines.push(("Flavors", flavors.join("; ")));
    }
    if !what_if.preempts.is_empty() {
        lines.push(("Preempts", preempts(what_if)));
    }
    lines.extend(what_if.message.clone().map(|why| ("Why", why)));
    if let Some(outlook) = &what_if.outlook {
        lines.extend(waits_for(outlook));
    }
    match (&what_if.start, &what_if.no_estimate) {
        (Some(start), _) => {
            lines.push(("Start", range(start)));
            lines.push(("Estimated", reason(start)));
        }
        (None, Some(why)) => lines.push(("Start", format!("can't be estimated: {why}"))),
        (None, None) => {}
    }
    let mut parts = vec![fields(&lines, 0)];
    parts.extend(what_if.outlook.iter().flat_map(tables));
    parts.join("\n")
}

fn outcome(what_if: &WhatIf) -> String {
    let text = match what_if.outcome {
        Outcome::AdmittedNow => "would be admitted now",
        Outcome::AdmittedAfterPreemption => {
            "would be admitted once the jobs preempted for it have stopped"
        }
        Outcome::Waits => "would wait",
        Outcome::Inadmissible => "would not be admitted until the job or its queue is changed",
    };
    match what_if.pods {
        Some(pods) if pods.admitted < pods.of => format!(
            "{} of {} pods would be admitted now; the next {text}",
            pods.admitted, pods.of
        ),
        Some(pods) => format!("all {} pods {text}", pods.of),
        None => text.to_owned(),
    }
}

fn assigned(set: &Assigned) -> String {
    let flavors = set.flavors.iter();
    let flavors: Vec<String> = flavors
        .map(|(resource, flavor)| format!("{resource} from {flavor}"))
        .collect();
    let (pod_set, count) = (&set.pod_set, set.count);
    let pods = if count == 1 { "pod" } else { "pods" };
    format!(
        "{pod_set} ({count} {pods}): {}",
        or_none(flavors.join(", "))
    )
}

fn preempts(what_if: &WhatIf) -> String {
    let all = what_if.preempts.len().saturating_add(what_if.preempts_more);
    let named = what_if.preempts.iter().take(NAMES_MAX);
    let named: Vec<String> = named
        .map(|Preempted { job, reason }| format!("{job} ({reason})"))
        .collect();
    match all.saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Whom it would wait for.
fn waits_for(outlook: &Outlook) -> [(&'static str, String); 3] {
    [
        ("Ahead", ahead(outlook)),
        ("Stopping", names(&outlook.evicting)),
        ("Fits After", names(&outlook.fits_after)),
    ]
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::simulate::explained_job::Names;
    use crate::simulate::units::Seconds;
    use crate::simulate::what_if::PodsAdmitted;
    use sluice_estimates::durations::Source;
    use sluice_estimates::estimate::{Estimate, Known};

    fn base(outcome: Outcome) -> WhatIf {
        WhatIf {
            job: "team-a/train".to_owned(),
            kind: "Job".to_owned(),
            local_queue: "team-a/main".to_owned(),
            cluster_queue: Some("research".to_owned()),
            priority: 100,
            priority_class: Some("high".to_owned()),
            requests: [("cpu".to_owned(), "2".to_owned())].into(),
            gates: Vec::new(),
            on_hold: false,
            outcome,
            pods: None,
            flavors: Vec::new(),
            preempts: Vec::new(),
            preempts_more: 0,
            reason: None,
            message: None,
            outlook: None,
            start: None,
            no_estimate: None,
        }
    }

    #[test]
    fn what_is_admitted_says_from_which_flavors() {
        let flavors = [("cpu".to_owned(), "spot".to_owned())].into();
        let now = WhatIf {
            flavors: vec![Assigned {
                pod_set: "main".to_owned(),
                count: 2,
                flavors,
            }],
            gates: vec!["acme.io/budget".to_owned()],
            on_hold: true,
            ..base(Outcome::AdmittedNow)
        };
        assert_snapshot!(text(&now), @r"
        Job:       team-a/train (Job)
        Queue:     team-a/main (ClusterQueue research)
        Priority:  100 (high)
        Requests:  cpu 2
        Gates:     acme.io/budget: they hold it first; once lifted:
        On Hold:   by its suspend field, until its user clears that; then:
        Outcome:   would be admitted now
        Flavors:   main (2 pods): cpu from spot
        ");
    }

    #[test]
    fn what_waits_says_for_whom_and_how_long() {
        let names = |names: &[&str]| Names {
            jobs: names.len(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let waits = WhatIf {
            message: Some("couldn't be admitted".to_owned()),
            outlook: Some(Outlook {
                message: String::new(),
                ahead: 1,
                first_ahead: Some("team-b/first".to_owned()),
                free: Vec::new(),
                short: Vec::new(),
                not_preempted: Vec::new(),
                evicting: names(&[]),
                fits_after: names(&["team-b/second"]),
            }),
            start: Some(Estimate {
                earliest_seconds: Some(Seconds(600_000)),
                median_seconds: Some(Seconds(900_000)),
                latest_seconds: Some(Seconds(1_500_000)),
                plays: 100,
                jobs: 4,
                more_come: true,
                durations: vec![
                    Known {
                        source: Source::SameRequests,
                        jobs: 3,
                    },
                    Known {
                        source: Source::Default,
                        jobs: 1,
                    },
                ],
            }),
            ..base(Outcome::Waits)
        };
        assert_snapshot!(text(&waits), @r"
        Job:         team-a/train (Job)
        Queue:       team-a/main (ClusterQueue research)
        Priority:    100 (high)
        Requests:    cpu 2
        Outcome:     would wait
        Why:         couldn't be admitted
        Ahead:       1, first team-b/first
        Stopping:    <none>
        Fits After:  team-b/second
        Start:       in 10m to 25m
        Estimated:   8 of 10 jobs start within such a range (100 simulations of the 4 jobs in its cohort and of new jobs arriving as before; durations: 3 from finished jobs of the same LocalQueue, kind and requests, 1 from --duration)
        ");
    }

    #[test]
    fn who_is_preempted_and_what_never_fits_is_told() {
        let preempts = WhatIf {
            preempts: vec![Preempted {
                job: "team-b/low".to_owned(),
                reason: "InClusterQueue",
            }],
            preempts_more: 7,
            no_estimate: Some("only 3 simulations were done in time, and 20 are needed".to_owned()),
            ..base(Outcome::AdmittedAfterPreemption)
        };
        let never = WhatIf {
            pods: Some(PodsAdmitted { admitted: 1, of: 3 }),
            message: Some("can never be admitted".to_owned()),
            ..base(Outcome::Inadmissible)
        };
        assert_snapshot!(text(&preempts) + "\n" + &text(&never), @r"
        Job:       team-a/train (Job)
        Queue:     team-a/main (ClusterQueue research)
        Priority:  100 (high)
        Requests:  cpu 2
        Outcome:   would be admitted once the jobs preempted for it have stopped
        Preempts:  team-b/low (InClusterQueue) and 7 more
        Start:     can't be estimated: only 3 simulations were done in time, and 20 are needed

        Job:       team-a/train (Job)
        Queue:     team-a/main (ClusterQueue research)
        Priority:  100 (high)
        Requests:  cpu 2
        Outcome:   1 of 3 pods would be admitted now; the next would not be admitted until the job or its queue is changed
        Why:       can never be admitted
        ");
    }
}
