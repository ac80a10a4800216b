//! What must always hold, checked at every revision of the history: history in, violations out. No I/O,
//! and nothing of the code under test but the parser of quantities: each rule is a slow, obvious reading
//! of the documents, so that a bug of the controller can't hide in both.

mod cluster;
mod quota;
mod rules;
mod terms;
mod touched;

use std::fmt;

use serde_json::Value;

use self::cluster::{Cluster, has_ended, holds_quota, name_of, owner_of, queue_of, uid_of};
use crate::history::{Kind, Revision};

/// What was to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// What is admitted is within quota whenever something is admitted.
    WithinQuota,
    /// The amounts of a Workload are what its job asks for.
    RightAmounts,
    /// Nothing is released without an admission.
    AdmittedFirst,
    /// While a gate is left nothing goes on.
    GatesHold,
    /// No more pods run than were admitted.
    NoMorePods,
    /// Quota is freed when the work has ended.
    FreedAtTheEnd,
    /// Quota of a job that was deleted is freed when its pods are gone.
    FreedAfterDeletion,
    /// One job has one Workload, and a Workload one admission at a time.
    Once,
    /// Sluice writes only what is its own.
    OwnFields,
    /// No finalizer of Sluice on a tenant's object.
    NoFinalizer,
    /// When all is quiet, everything is as it should be.
    Converged,
}

/// Something that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// From this revision on.
    pub revision: u64,
    /// What was to hold.
    pub invariant: Invariant,
    /// Of which object.
    pub object: String,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            revision,
            invariant,
            object,
            found,
        } = self;
        write!(f, "revision {revision}: {invariant:?}: {object}: {found}")
    }
}

/// Follows a history and collects what did not hold.
#[derive(Debug, Default)]
pub struct Checker {
    cluster: Cluster,
    last: u64,
    violations: Vec<Violation>,
}

/// All that did not hold in a history.
pub fn check(history: &[Revision]) -> Vec<Violation> {
    let mut checker = Checker::default();
    for revision in history {
        checker.apply(revision);
    }
    checker.take()
}

impl Checker {
    /// Goes one revision on.
    pub fn apply(&mut self, revision: &Revision) {
        let before = self.cluster.apply(revision);
        self.last = revision.number;
        let found = match &revision.object {
            Some(object) => self.changed(revision, before.as_ref(), object),
            None => self.deleted(revision, before.as_ref()),
        };
        for (invariant, found) in found {
            self.violations.push(Violation {
                revision: revision.number,
                invariant,
                object: revision.key.to_string(),
                found,
            });
        }
    }

    /// What has been found so far, and not been taken yet.
    pub fn take(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// What is wrong with the cluster as it is now in a namespace, where nothing happens any more: each
    /// job has ended or waits, and none that has ended has usage.
    pub fn unfinished(&self, namespace: &str) -> Vec<Violation> {
        let mut found = Vec::new();
        let is_here = |object: &&Value| cluster::text(object, "/metadata/namespace") == namespace;
        for job in self.cluster.of(Kind::Job).filter(is_here) {
            let holds = self.cluster.holds_quota(uid_of(job));
            let is_whole = queue_of(job).is_some() && !cluster::is_per_pod(job);
            if has_ended(job) && holds {
                found.push((job, "it has ended, and its Workload holds quota"));
            }
            if is_whole && cluster::is_released(job) && !holds {
                found.push((job, "it goes on, and holds no quota"));
            }
            if is_whole && holds && job.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
                found.push((job, "it holds quota, and is suspended"));
            }
            let has_workload = self.cluster.workloads_of(uid_of(job)).next().is_some();
            let waits = !has_ended(job) && cluster::gates_of(job).is_empty();
            if is_whole && waits && !has_workload {
                found.push((job, "nothing holds it, and it has no Workload"));
            }
        }
        for workload in self.cluster.of(Kind::Workload).filter(is_here) {
            let owner = owner_of(workload);
            let has_job = self.cluster.by_uid(Kind::Job, owner).is_some();
            let has_pod = self.cluster.by_uid(Kind::Pod, owner).is_some();
            if holds_quota(workload) && !has_job && !has_pod {
                found.push((workload, "it holds quota, and its owner is gone"));
            }
        }
        let violation = |(object, found): (&Value, &str)| Violation {
            revision: self.last,
            invariant: Invariant::Converged,
            object: format!(
                "{} {namespace}/{}",
                cluster::text(object, "/kind"),
                name_of(object)
            ),
            found: found.to_owned(),
        };
        found.into_iter().map(violation).collect()
    }

    fn changed(
        &self,
        revision: &Revision,
        before: Option<&Value>,
        object: &Value,
    ) -> Vec<(Invariant, String)> {
        let cluster = &self.cluster;
        let mut found = Vec::new();
        let mut add = |invariant, problems: Vec<String>| {
            found.extend(problems.into_iter().map(|problem| (invariant, problem)));
        };
        let one = |problem: Option<String>| Vec::from_iter(problem);
        match revision.key.kind {
            Kind::Job => {
                let released = rules::released_without_admission(before, object, cluster);
                add(Invariant::AdmittedFirst, one(released));
                if revision.is_by_sluice() {
                    let more = rules::released_with_more_pods(before, object, cluster);
                    add(Invariant::NoMorePods, one(more));
                }
                add(
                    Invariant::GatesHold,
                    one(rules::passed_a_gate(object, cluster)),
                );
                if let Some(workload) = cluster.taken_over() {
                    add(Invariant::WithinQuota, self.over_quota(None, workload));
                }
            }
            Kind::Pod => {
                let ungated = rules::ungated_without_admission(before, object, cluster);
                add(Invariant::AdmittedFirst, one(ungated));
                add(Invariant::WithinQuota, self.over_quota(before, object));
                if let Some(job) = rules::job_uid(object) {
                    add(
                        Invariant::NoMorePods,
                        one(rules::too_many_pods(job, cluster)),
                    );
                    let job = cluster.by_uid(Kind::Job, job);
                    let passed = job.and_then(|job| rules::passed_a_gate(job, cluster));
                    add(Invariant::GatesHold, one(passed));
                }
                if let Some(before) = before.filter(|_| revision.is_by_sluice()) {
                    let lifted = touched::foreign_gates_lifted(before, object, cluster);
                    add(Invariant::GatesHold, lifted);
                }
            }
            Kind::Workload => {
                found_freed(before, Some(object), cluster, &mut add);
                add(
                    Invariant::Once,
                    one(rules::second_workload(object, cluster)),
                );
                // What came in late counts for nothing: the present leader may exchange it.
                let counted = before.filter(|_| !cluster.was_late());
                add(Invariant::Once, one(rules::admitted_anew(counted, object)));
                add(Invariant::WithinQuota, self.over_quota(before, object));
                let job = cluster.by_uid(Kind::Job, owner_of(object));
                let passed = job.and_then(|job| rules::passed_a_gate(job, cluster));
                add(Invariant::GatesHold, one(passed));
                if holds_quota(object) && !before.is_some_and(holds_quota) {
                    add(Invariant::RightAmounts, quota::wrong_amounts(object, job));
                }
            }
            Kind::ClusterQueue | Kind::Cohort | Kind::Lease => {}
        }
        if matches!(revision.key.kind, Kind::Job | Kind::Pod) {
            add(Invariant::NoFinalizer, one(touched::finalizer(object)));
        }
        if let Some(before) = before.filter(|_| revision.is_by_sluice()) {
            let forbidden = touched::forbidden_fields(revision.key.kind, before, object);
            let told = forbidden
                .into_iter()
                .map(|path| format!("Sluice changed {path}"));
            add(Invariant::OwnFields, told.collect());
        }
        found
    }

    fn deleted(&self, revision: &Revision, before: Option<&Value>) -> Vec<(Invariant, String)> {
        let mut found = Vec::new();
        // What others delete stays in use: see `WithinQuota`.
        let is_by_others = revision.author.is_some() && !revision.is_by_sluice();
        if revision.key.kind == Kind::Workload && !is_by_others {
            found_freed(
                before,
                None,
                &self.cluster,
                &mut |invariant, problems: Vec<String>| {
                    found.extend(problems.into_iter().map(|problem| (invariant, problem)));
                },
            );
        }
        found
    }

    /// Where usage is above its limit, of what this change adds to.
    fn over_quota(&self, before: Option<&Value>, object: &Value) -> Vec<String> {
        let used = quota::usage_of(object).filter(|_| !self.cluster.is_late(object));
        let Some((queue, mut usage)) = used else {
            return Vec::new();
        };
        let before = before.filter(|_| !self.cluster.was_late());
        if let Some((same, was)) = before.and_then(quota::usage_of)
            && same == queue
        {
            usage.retain(|share, amount| was.get(share).is_none_or(|was| was < amount));
        }
        quota::exceeded(&self.cluster, &queue, &usage)
    }
}

/// Quota that a change of a Workload freed too early.
fn found_freed(
    before: Option<&Value>,
    workload: Option<&Value>,
    cluster: &Cluster,
    add: &mut impl FnMut(Invariant, Vec<String>),
) {
    for (invariant, is_deleted) in [
        (Invariant::FreedAtTheEnd, false),
        (Invariant::FreedAfterDeletion, true),
    ] {
        let freed = rules::freed_too_early(before, workload, cluster, is_deleted);
        add(invariant, Vec::from_iter(freed));
    }
}

#[cfg(test)]
mod tests;
