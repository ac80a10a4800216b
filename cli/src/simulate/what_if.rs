//! What would become of a new job in a cluster as it stands: whether it would be admitted at once, from which flavors,
//! whom it would preempt or wait for, and when it would start. Nothing is played beyond the first decision but for that.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;
use sluice_engine::{Amount, Explanation, PendingReason, ResourceName, Settings, Time};
use sluice_kinds::Suspension;

use super::basis::Basis;
use super::estimate::{Estimate, Question};
use super::explained_job::{ExplainedJob, Outlook, format};
use super::jobs::{InputJob, to_play};
use super::problem::{Failure, Problems};
use super::quotas::settings;
use super::reading::{self, Given, Input, Options};
use crate::report::{GatesState, HoldReport, ObjectReport};
use sluice_estimates::play::{self, Cause, Play, Restart, Rules, play};

/// Jobs that are named as preempted; the others are counted.
const NAMES_MAX: usize = 100;
/// How long before now the jobs of the cluster are told, so that the new job comes last.
const BEFORE: Duration = Duration::from_millis(1);

/// How it is asked.
#[derive(Debug)]
pub struct Terms {
    /// How files are read, and the run time to assume for a job if no similar job has finished.
    pub options: Options,
    /// What the engine is told once; none if that is seen in the cluster.
    pub settings: Option<Settings>,
}

impl Terms {
    fn settings(&self, input: &Input) -> Settings {
        let said = self.settings.clone();
        said.unwrap_or_else(|| settings(input.has_fair_sharing))
    }
}

/// What would become of a new job.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    /// Its name, with its namespace.
    pub job: String,
    /// Its kind.
    pub kind: String,
    /// The LocalQueue that it names.
    pub local_queue: String,
    /// The ClusterQueue that this one points to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// The class that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// What it asks for in all.
    pub requests: BTreeMap<String, String>,
    /// The gates that would hold it first. The rest is said as if they were lifted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
    /// Whether its user holds it by its suspend field. The rest is said as if he did not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_hold: bool,
    /// What would become of it; of pods that are admitted one by one, of the first that is not admitted.
    pub outcome: Outcome,
    /// How many would be admitted now, of a job whose pods are admitted one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsAdmitted>,
    /// What it would be admitted with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flavors: Vec<Assigned>,
    /// The jobs that would be preempted for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<Preempted>,
    /// How many are preempted beyond those.
    #[serde(skip_serializing_if = "is_zero")]
    pub preempts_more: usize,
    /// A word for why it would wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What its condition would say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whom and what it would wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Outlook>,
    /// When it would start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Estimate>,
    /// Why that can't be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_estimate: Option<String>,
}

/// What would become of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    /// It would be admitted at once.
    AdmittedNow,
    /// It would be admitted when jobs have stopped that are preempted for it.
    AdmittedAfterPreemption,
    /// It would wait.
    Waits,
    /// It would wait until the job, its queue or the quota is changed.
    Inadmissible,
}

/// How many pods of a job would be admitted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PodsAdmitted {
    /// So many.
    pub admitted: usize,
    /// Of so many.
    pub of: usize,
}

/// A pod set, and what it would be admitted with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assigned {
    /// Its name.
    pub pod_set: String,
    /// How many pods.
    pub count: u32,
    /// The flavor of each resource.
    pub flavors: BTreeMap<String, String>,
}

/// A job that would be preempted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preempted {
    /// Its name.
    pub job: String,
    /// By which right.
    pub reason: &'static str,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands in a reference"
)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl WhatIf {
    /// What would become of the one job that is `given` in files. `goes_on` is asked before each play of the estimate.
    ///
    /// # Errors
    /// All that is wrong with the input.
    pub fn ask(
        given: &Given,
        terms: &Terms,
        goes_on: impl FnMut(u32) -> bool,
    ) -> Result<(Self, Vec<String>), Failure> {
        let mut input = reading::read(given, &terms.options)?;
        let report = one_job(&input).map_err(Failure::Problems)?;
        let new = input.seen..input.jobs.all().len();
        let looked = Looked::at(&input, terms, new.clone());
        let mut what_if = Self::of(&input, &looked, new, &report);
        if what_if.outcome != Outcome::Inadmissible {
            let question = Question {
                input: &input,
                duration: terms.options.duration,
                settings: terms.settings(&input),
            };
            match question.answer(looked.last, goes_on) {
                Ok(estimate) => what_if.start = Some(estimate),
                // It starts now.
                Err(_) if what_if.outcome == Outcome::AdmittedNow => {}
                Err(why) => what_if.no_estimate = Some(why.to_string()),
            }
        }
        let mut notes = std::mem::take(&mut input.notes);
        notes.extend(looked.note());
        Ok((what_if, notes))
    }

    fn of(input: &Input, looked: &Looked, new: Range<usize>, report: &ObjectReport) -> Self {
        let all = input.jobs.all();
        let (shown, last) = (all.get(looked.shown), new.end.saturating_sub(1));
        let seen = report.seen.as_ref();
        let gates = seen.map(|seen| &seen.gates);
        let gates = gates.filter(|gates| gates.state == GatesState::Held);
        let (outcome, explained) = (looked.outcome, looked.explained.as_ref());
        let one_by_one = 1 < new.len();
        let preempted: Vec<Preempted> = (looked.preempted.iter())
            .filter_map(|(job, cause)| {
                Some(Preempted {
                    job: all.get(*job)?.name.to_string(),
                    reason: cause.reason(),
                })
            })
            .collect();
        let is_pending = outcome != Outcome::AdmittedNow;
        let queue = shown.and_then(|job| input.quotas.queue_of(&job.queue));
        Self {
            job: name(report),
            kind: report.kind.clone(),
            local_queue: shown.map(|job| job.queue.to_string()).unwrap_or_default(),
            cluster_queue: queue.map(ToString::to_string),
            priority: shown.map_or(0, |job| job.priority.value(&input.quotas)),
            priority_class: shown.and_then(|job| job.priority.class().map(str::to_owned)),
            requests: requests(all.get(new.start..=last).unwrap_or_default()),
            gates: gates.map(|gates| gates.names.clone()).unwrap_or_default(),
            on_hold: is_on_hold(report),
            outcome,
            pods: one_by_one.then_some(PodsAdmitted {
                admitted: looked.admitted,
                of: new.len(),
            }),
            flavors: looked.flavors.clone(),
            preempts_more: preempted.len().saturating_sub(NAMES_MAX),
            preempts: preempted.into_iter().take(NAMES_MAX).collect(),
            reason: explained.and_then(|job| job.reason).filter(|_| is_pending),
            message: explained
                .and_then(|job| job.message.clone())
                .filter(|_| is_pending),
            outlook: explained
                .and_then(|job| job.outlook.clone())
                .filter(|_| is_pending),
            start: None,
            no_estimate: None,
        }
    }
}

/// The one job of the files.
fn one_job(input: &Input) -> Result<ObjectReport, Problems> {
    let mut problems = Problems::default();
    let jobs = input.reports.iter();
    let mut jobs = jobs.filter(|report| report.job_kind.is_some() || report.seen.is_some());
    match (jobs.next(), jobs.next()) {
        (Some(report), None) if !report.problems.is_empty() => {
            for problem in &report.problems {
                problems.add_text(&name(report), problem);
            }
            Err(problems)
        }
        (Some(report), None) if input.seen < input.jobs.all().len() => Ok(report.clone()),
        (Some(report), None) => {
            let rule = "names no queue (label sluice.dev/queue-name): it would not be queued";
            problems.add_text(&name(report), rule);
            Err(problems)
        }
        (None, _) => {
            problems.add_text(&"the files", "there is no job: one is required");
            for report in &input.reports {
                for problem in &report.problems {
                    problems.add_text(&name(report), problem);
                }
            }
            Err(problems)
        }
        (Some(one), Some(other)) => {
            let text = format!(
                "must have one job, and have {} and {}",
                name(one),
                name(other)
            );
            problems.add_text(&"the files", &text);
            Err(problems)
        }
    }
}

fn name(report: &ObjectReport) -> String {
    match &report.namespace {
        Some(namespace) => format!("{namespace}/{}", report.name),
        None => report.name.clone(),
    }
}

/// Whether an object that is created so stays suspended, whatever Sluice decides. In a queue the suspend field alone
/// asks to be queued; where pods wait behind gates, Sluice leaves it to the user.
fn is_on_hold(report: &ObjectReport) -> bool {
    report.seen.as_ref().is_some_and(|seen| {
        let suspension = Suspension::of(seen.suspended == Some(true), seen.held_mark);
        match seen.hold {
            HoldReport::Suspend => suspension == Suspension::ByUser,
            HoldReport::Pods | HoldReport::EachPod => suspension != Suspension::None,
        }
    })
}

/// What all of these jobs ask for.
fn requests(jobs: &[InputJob]) -> BTreeMap<String, String> {
    let mut sums: BTreeMap<&ResourceName, i128> = BTreeMap::new();
    for set in jobs.iter().flat_map(|job| job.pod_sets.iter()) {
        for (resource, amount) in &set.requests {
            let sum = sums.entry(resource).or_default();
            let more = amount.get().saturating_mul(i128::from(set.count));
            *sum = sum.saturating_add(more);
        }
    }
    let sums = sums.into_iter();
    sums.map(|(resource, sum)| (resource.to_string(), format(resource, Amount::new(sum))))
        .collect()
}

/// The first decision about new jobs.
#[derive(Debug)]
pub(super) struct Looked {
    /// The one that is shown: the first that is not admitted. It alone is explained, as there may be a million.
    shown: usize,
    /// What becomes of it.
    pub(super) outcome: Outcome,
    /// Why.
    pub(super) explained: Option<ExplainedJob>,
    /// The last.
    last: usize,
    admitted: usize,
    /// What the one that is shown is admitted with.
    pub(super) flavors: Vec<Assigned>,
    /// Who is preempted for any of them.
    pub(super) preempted: Vec<(usize, Cause)>,
    /// How many decisions about others were due anyway.
    others: usize,
}

impl Looked {
    pub(super) fn at(input: &Input, terms: &Terms, new: Range<usize>) -> Self {
        let now = input.now.unwrap_or_default();
        let mut jobs = to_play(input.jobs.all(), &input.quotas, Duration::ZERO, Some(now));
        let before = before(now);
        for job in jobs.iter_mut().take(input.seen) {
            job.arrival = before;
            // None of them ends before it is asked.
            job.duration = Duration::MAX;
        }
        for job in jobs.iter_mut().skip(input.seen) {
            (job.arrival, job.created) = (now, now.as_millis());
            job.duration = Duration::MAX;
        }
        let rules = Rules {
            settings: terms.settings(input),
            eviction: Duration::MAX,
            restart: Restart::WhereItWas,
            until: Some(now),
            until_admitted: Vec::new(),
        };
        let play = play(input.quotas.events(), &jobs, &rules);
        let basis = Basis {
            input: input.jobs.all(),
            jobs: &jobs,
            quotas: &input.quotas,
            restart: rules.restart,
            play: &play,
        };
        let is_admitted = |job: &usize| is_admitted(&play, *job);
        let shown = new.clone().find(|job| !is_admitted(job));
        let shown = shown.unwrap_or(new.start);
        let evicted = play.runs.iter();
        let evicted = evicted.filter_map(|run| Some((run, run.evicted?.1)));
        let is_for_new = |preemptor: Option<usize>| preemptor.is_some_and(|job| new.contains(&job));
        let (own, others): (Vec<_>, Vec<_>) =
            evicted.partition(|(run, _)| is_for_new(run.preemptor));
        let started = play.runs.iter().filter(|run| {
            let job = jobs.get(run.job);
            let waited = job.is_some_and(|job| job.start.is_pending());
            waited && run.from == before
        });
        Self {
            admitted: new.clone().filter(is_admitted).count(),
            shown,
            outcome: outcome(&play, shown),
            explained: ExplainedJob::of(basis, shown),
            last: new.end.saturating_sub(1),
            flavors: assigned(&play, shown),
            preempted: own.iter().map(|(run, cause)| (run.job, *cause)).collect(),
            others: others.len() + started.count(),
        }
    }

    /// A cluster that is not at rest may change the answer.
    fn note(&self) -> Option<String> {
        (0 < self.others).then(|| {
            format!(
                "the cluster is not at rest: {} other jobs are about to be admitted or evicted",
                self.others
            )
        })
    }
}

fn before(now: Time) -> Time {
    let millis = i64::try_from(BEFORE.as_millis()).unwrap_or_default();
    Time::from_millis(now.as_millis().saturating_sub(millis))
}

fn is_admitted(play: &Play, job: usize) -> bool {
    play.fates.get(job) == Some(&play::Fate::Running)
}

/// What became of a job in the first decision. It looks at all runs.
pub(super) fn outcome(play: &Play, job: usize) -> Outcome {
    if is_admitted(play, job) {
        return Outcome::AdmittedNow;
    }
    if play.runs.iter().any(|run| run.preemptor == Some(job)) {
        return Outcome::AdmittedAfterPreemption;
    }
    let explanation = play.explain(job);
    let reason = explanation.as_ref().and_then(Explanation::pending_reason);
    match reason {
        // Somebody opens the queue again.
        Some(PendingReason::Suspended) | None => Outcome::Waits,
        Some(reason) if reason.is_inadmissible() => Outcome::Inadmissible,
        Some(_) => Outcome::Waits,
    }
}

/// What a job was admitted with.
pub(super) fn assigned(play: &Play, job: usize) -> Vec<Assigned> {
    let sets = play.admission(job).map(|admission| &*admission.pod_sets);
    let sets = sets.into_iter().flatten();
    sets.map(|set| Assigned {
        pod_set: set.name.to_string(),
        count: set.count,
        flavors: (set.flavors.iter())
            .map(|(resource, flavor)| (resource.to_string(), flavor.to_string()))
            .collect(),
    })
    .collect()
}
