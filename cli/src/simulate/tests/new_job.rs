//! A what-if for a new job says what its admission later is, if nothing else changes: over many random states.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{arrived, at, seen};
use crate::simulate::jobs::InputJob;
use crate::simulate::tests::plays::any::{any_job, any_jobs, any_setup, config};
use crate::simulate::tests::plays::rules;
use crate::simulate::what_if::{Looked, Outcome, Terms, assigned, outcome};
use sluice_estimates::play::{Job, Play, Rules, Start, play};

fn rules_of(base: &Rules, until: sluice_engine::Time) -> Rules {
    Rules {
        until: Some(until),
        ..base.clone()
    }
}

/// The jobs that are preempted for a job.
fn preempted(play: &Play, job: usize) -> BTreeSet<usize> {
    let runs = play.runs.iter().filter(|run| run.preemptor == Some(job));
    runs.map(|run| run.job).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: config().cases.max(1000), ..config() })]

    #[test]
    fn a_what_if_is_what_the_admission_later_is(
        jobs in any_jobs(),
        setup in any_setup(),
        new in any_job(1),
        then in 0..100_i64,
    ) {
        let quotas = setup.quotas();
        let mut base = rules();
        base.settings = crate::simulate::quotas::settings(false);
        base.settings.fair_sharing = setup.fair_sharing.clone();
        let (before, now) = (at(then * 1000), at(then * 1000 + 1));
        let jobs = arrived(&jobs, before);
        // The cluster, with the new job and without it.
        let new = Job { arrival: now, created: now.as_millis(), duration: std::time::Duration::from_hours(1), ..new };
        let with_new: Vec<Job> = jobs.iter().cloned().chain([new.clone()]).collect();
        let number = jobs.len();
        let real = play(quotas.events(), &with_new, &rules_of(&base, now));
        let state = play(quotas.events(), &jobs, &rules_of(&base, before));
        // No object says for how many of its pods a job preempted: what-if can't know either.
        let has_fewest = |job: usize| jobs.get(job).is_some_and(|job| job.pod_sets.iter().any(|set| set.min_count.is_some()));
        if state.runs.iter().any(|run| run.preemptor.is_some_and(has_fewest)) {
            return Ok(());
        }
        let (mut input, numbers) = seen(&quotas, &jobs, &state, now);
        input.has_fair_sharing = setup.fair_sharing.is_some();
        input.jobs.push(InputJob {
            seen: None,
            arrival: None,
            ..super::input_job(&new, sluice_engine::WorkloadId::from("new"), Start::Pending, &"Job".into())
        });
        let terms = Terms { options: crate::simulate::Options::default(), settings: Some(base.settings.clone()) };
        let looked = Looked::at(&input, &terms, input.seen..input.seen + 1);
        let (said, explained) = (looked.outcome, looked.explained.as_ref());
        let expected = outcome(&real, number);
        let context = format!("{jobs:?}\n{new:?}");
        prop_assert_eq!(said, expected, "{}", context);
        if said == Outcome::AdmittedNow {
            prop_assert_eq!(&looked.flavors, &assigned(&real, number));
        } else {
            let reason = real.explain(number).and_then(|why| why.pending_reason());
            let reason = reason.map(sluice_engine::PendingReason::as_str);
            prop_assert_eq!(explained.and_then(|job| job.reason), reason, "{}", context);
        }
        let targets: BTreeSet<usize> = looked.preempted.iter().map(|(job, _)| numbers[*job]).collect();
        prop_assert_eq!(targets, preempted(&real, number), "{}", context);
    }
}
