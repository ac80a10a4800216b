//! Telling who waits what for: a bounded number of jobs and pods in a second, and only what is news.

use std::collections::VecDeque;
use std::time::Duration;

use kube::api::ApiResource;
use sluice_crds::{ConditionType, Workload};
use sluice_engine::Explanation;
use sluice_gates::GroupKind;
use sluice_kinds::hold::Hold;

use crate::cache::conditions;
use crate::cache::{PodKey, PodRecord, Subject, Uid, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::plan::job::uncountable;
use crate::plan::workload::pending_reason::{self, NotReserved};
use crate::plan::{StatusPurpose, Write, group, workload};
use crate::process::clock::{Moment, Now};
use crate::process::hashing::{HashMap, HashSet};

/// A job that is admitted within this time is never told what it waits for.
const EXPLAIN_AFTER: Duration = Duration::from_secs(2);
/// Waiting jobs whose explanation is looked at again in a second: bounds the work, so that 10,000
/// waiting jobs are gone through in 20 seconds.
const EXPLAINED_PER_SECOND: usize = 500;
/// Of these, those that are told anything while other writes are sent, unless their user has to act: each costs the API
/// server as much as an admission, and who is admitted soon needs no reason.
const TOLD_PER_SECOND_WHILE_BUSY: usize = 5;
/// Waiting pods that are told what they wait for in a second, by an event, and what is told again why it has no
/// Workload: a bound on the events that thousands of them make.
const EVENTS_PER_SECOND: usize = 20;

/// The subjects that wait, each of which is looked at in its turn.
#[derive(Default)]
pub struct PendingReasons {
    /// With the time since when each waits, or was last looked at.
    turns: VecDeque<(Moment, Subject)>,
    /// The same subjects, to find them by.
    members: HashSet<Subject>,
    /// What those wait for that are admitted by themselves, as was found in their last turn: no Workload has it. Empty
    /// before the first one.
    of_pods: HashMap<Uid, &'static str>,
    /// How many may still be told something in this second by an event alone.
    events_left: usize,
    /// How many jobs and groups may still be told in this second what they wait for.
    jobs_left: usize,
}

impl PendingReasons {
    /// A subject waits.
    pub fn insert(&mut self, subject: &Subject, now: Now) {
        if let Subject::Pod(uid) = subject {
            self.of_pods.entry(uid.clone()).or_default();
        }
        if self.members.insert(subject.clone()) {
            self.turns.push_back((now.moment, subject.clone()));
        }
    }

    /// Why a pod waits that is admitted by itself, as was found last.
    pub(super) fn of_pod(&self, uid: &Uid) -> Option<&'static str> {
        let reason = self.of_pods.get(uid).copied();
        reason.filter(|reason| !reason.is_empty())
    }

    /// All such pods, each with why it waits; some of them may wait no more.
    pub(super) fn of_pods(&self) -> impl Iterator<Item = (&Uid, &'static str)> {
        self.of_pods.iter().map(|(uid, reason)| (uid, *reason))
    }

    /// Whether one more job may be told in this second.
    fn take_job(&mut self) -> bool {
        let left = self.jobs_left.checked_sub(1);
        self.jobs_left = left.unwrap_or_default();
        left.is_some()
    }

    /// Whether one more event may be sent in this second that tells alone what something waits for.
    pub(super) fn take_event(&mut self) -> bool {
        let left = self.events_left.checked_sub(1);
        self.events_left = left.unwrap_or_default();
        left.is_some()
    }

    /// Takes out the one that waits for the longest, if that is long enough.
    fn take_due(&mut self, now: Now) -> Option<Subject> {
        let (since, _) = self.turns.front()?;
        if now.since(*since) < EXPLAIN_AFTER {
            return None;
        }
        let (_, subject) = self.turns.pop_front()?;
        self.members.remove(&subject);
        Some(subject)
    }
}

impl Controller {
    pub(in crate::controller) fn explain_waiting(&mut self) {
        self.pending_reasons.events_left = EVENTS_PER_SECOND;
        // Before the first decision there is no reason to tell.
        if !self.phase.has_decided() {
            return;
        }
        self.pending_reasons.jobs_left = if self.writes.take_moved() {
            TOLD_PER_SECOND_WHILE_BUSY
        } else {
            EXPLAINED_PER_SECOND
        };
        for _ in 0..self.pending_reasons.turns.len().min(EXPLAINED_PER_SECOND) {
            // None has waited for long enough.
            let Some(subject) = self.pending_reasons.take_due(self.now) else {
                return;
            };
            if self.explain(&subject) {
                self.pending_reasons.insert(&subject, self.now);
            }
        }
    }

    /// Writes what a job waits for, if that is news. Returns whether it waits.
    fn explain(&mut self, subject: &Subject) -> bool {
        if let Subject::Pod(uid) = subject {
            let waits = self.explain_pod(uid);
            if !waits {
                self.pending_reasons.of_pods.remove(uid);
            }
            return waits;
        }
        let Some((key, record)) = self.objects.workload_of(subject) else {
            return self.tell_unqueued_again(subject);
        };
        if record.status.admission.is_some() || record.is_finished() || record.deleting {
            return false;
        }
        if self.writes.is_busy(subject) {
            return true;
        }
        let said = self.why_pending(subject, key, record);
        let Some((reason, message)) = said else {
            return true;
        };
        if let Some(status) = workload::waiting(record, reason, message.clone(), self.now.wall) {
            let note = reason.note(message);
            if !note.is_warning && !self.pending_reasons.take_job() {
                return true;
            }
            // That of a job that is not known does not matter: the Workload is written to.
            let resource = self.resource_of(subject);
            let resource = resource.unwrap_or_else(|| ApiResource::erase::<Workload>(&()));
            let write = Write::SetWorkloadStatus {
                key: key.clone(),
                revision: record.revision,
                status: Box::new(status),
                purpose: StatusPurpose::Explain,
            };
            self.send(InFlightWrite {
                subject: subject.clone(),
                write,
                resource,
                notes: vec![note],
            });
        }
        true
    }

    /// Why a Workload holds no quota. None if that is not known yet, or it does.
    pub(in crate::controller) fn why_pending(
        &self,
        subject: &Subject,
        key: &WorkloadKey,
        record: &WorkloadRecord,
    ) -> Option<(NotReserved, String)> {
        let said = self
            .undeclared(subject, record)
            .or_else(|| pending_reason::deactivated(record))
            .or_else(|| self.paused(subject))
            .or_else(|| self.uncountable(subject))
            .or_else(|| self.without_priority(subject, record))
            .or_else(|| self.behind_gates(subject))
            .or_else(|| self.kind_not_ready(subject))
            .or_else(|| self.incomplete(subject, key, record));
        said.or_else(|| {
            let explanation = self.engine.explain(&subject.id())?;
            let head = self.name_of_head(&explanation, Some(&*key.namespace));
            pending_reason::waiting_workload(
                &explanation,
                self.requeue_at(key, record),
                head.as_deref(),
            )
        })
    }

    /// That a job can't be read, or not counted. What has its pods in an object of its own is read from that.
    pub(super) fn uncountable(&self, subject: &Subject) -> Option<(NotReserved, String)> {
        let (key, job) = self.objects.job_of(subject)?;
        let kind = self.kinds.compiled(&key.kind)?;
        if kind.has_pods_of_children() {
            return None;
        }
        let (reason, message) = uncountable::job(job)?;
        Some((NotReserved::Uncountable(reason), message))
    }

    /// Tells a pod what it waits for. Returns whether it waits.
    fn explain_pod(&mut self, uid: &Uid) -> bool {
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return false;
        };
        if !pod.waits_for_quota_alone() {
            return false;
        }
        let subject = Subject::Pod(uid.clone());
        let said = self.why_pod_pending(key, pod);
        let Some((reason, message)) = said else {
            // What has no priority is in no queue.
            self.pending_reasons.of_pods.remove(uid);
            return true;
        };
        let found = reason.as_str();
        self.pending_reasons.of_pods.insert(uid.clone(), found);
        if self.pending_reasons.events_left == 0 || self.writes.of(&subject).is_some() {
            return true;
        }
        let note = reason.note(message);
        self.recorder.expire(&subject, self.now);
        if self.recorder.is_news(&subject, &note) {
            self.pending_reasons.take_event();
            self.tell_about(&subject, note);
        }
        true
    }

    /// Why a pod that is admitted by itself waits in its queue, or backs off. None if it does neither.
    pub(super) fn why_pod_pending(
        &self,
        key: &PodKey,
        pod: &PodRecord,
    ) -> Option<(NotReserved, String)> {
        if pod.waits_for_quota_alone()
            && let Some(until) = self.unused.backs_off_until(pod, self.now)
        {
            return Some((NotReserved::BACKING_OFF, pending_reason::backs_off(until)));
        }
        let explanation = self.engine.explain(&Subject::Pod(pod.uid.clone()).id())?;
        let head = self.name_of_head(&explanation, Some(&*key.namespace));
        pending_reason::waiting(&explanation, head.as_deref())
    }

    /// How the workload is called that another one waits behind, as is told in a namespace. None before the
    /// head has been told itself that it doesn't fit: a queue whose head is admitted soon would have all
    /// that wait behind it told another name each time.
    pub(in crate::controller) fn name_of_head(
        &self,
        explanation: &Explanation,
        namespace: Option<&str>,
    ) -> Option<String> {
        let head = explanation.head()?;
        let subject = Subject::from(head);
        if let Some((_, record)) = self.objects.workload_of(&subject) {
            let told = conditions::find(&record.status.conditions, ConditionType::QuotaReserved)?;
            let (_, message) = pending_reason::waiting(&self.engine.explain(head)?, None)?;
            if told.message != message {
                return None;
            }
        }
        let name = self.name_in(&subject, namespace);
        Some(name.unwrap_or_else(|| "a workload of another namespace".to_owned()))
    }

    /// What a Workload waits for whose job or group names a priority class that is missing or not allowed.
    fn without_priority(
        &self,
        subject: &Subject,
        record: &WorkloadRecord,
    ) -> Option<(NotReserved, String)> {
        let (reason, message) = self.no_priority(subject, record)?.told();
        Some((NotReserved::NoPriority(reason), message))
    }

    /// What a Workload waits for whose pods are held by gates of others.
    fn behind_gates(&self, subject: &Subject) -> Option<(NotReserved, String)> {
        if let Subject::Group(_) = subject {
            return pending_reason::behind_gates(&group::gates_left(
                &self.objects.pods_by_age(subject),
            ));
        }
        // Others have no pods before they are admitted.
        let (_, job) = self.objects.job_of(subject)?;
        if job.hold != Hold::Pods {
            return None;
        }
        let pods = self.objects.pods_of(subject);
        let gated = pods.iter().filter(|(_, pod)| pod.is_gated_elsewhere());
        let gates = gated.flat_map(|(_, pod)| pod.other_gates.iter().map(|gate| &**gate));
        let said = pending_reason::behind_gates(&gates.collect());
        said.or_else(|| {
            let reading = job.reading.as_ref().ok()?;
            let is_missing = reading.pod_sets.is_ok() && !self.are_gated_pods_there(subject, job);
            is_missing.then(pending_reason::behind_gates_to_come)
        })
    }

    /// What a Workload waits for whose job is of a kind that can't be watched now.
    fn kind_not_ready(&self, subject: &Subject) -> Option<(NotReserved, String)> {
        let (key, _) = self.objects.job_of(subject)?;
        let is_lasting = self.kinds.is_unlisted_for_long(&key.kind, self.now.wall);
        is_lasting.then(|| pending_reason::kind_not_ready(&key.kind))
    }

    /// What the Workload of a group waits for some of whose pods are gone.
    fn incomplete(
        &self,
        subject: &Subject,
        key: &WorkloadKey,
        record: &WorkloadRecord,
    ) -> Option<(NotReserved, String)> {
        let is_group = matches!(subject, Subject::Group(_));
        if !is_group || self.requeue_at(key, record).is_some() {
            return None;
        }
        let (present, total) = group::present(&self.objects.pods_by_age(subject), record);
        (present < total).then(|| pending_reason::incomplete(present, total))
    }

    /// What a Workload waits for whose job its user has suspended.
    pub(super) fn paused(&self, subject: &Subject) -> Option<(NotReserved, String)> {
        let found = self.objects.job_of(subject);
        let (key, job) = found.filter(|(_, job)| job.is_paused())?;
        let is_held = job.is_held();
        let kind = self.kinds.compiled(&key.kind).filter(|_| !is_held)?;
        let waits = workload::waits_for_user(&kind.suspend_path()?.field());
        Some((NotReserved::OnHold, waits))
    }

    /// What a Workload waits for whose job is of a kind that no JobKind declares any more.
    fn undeclared(
        &self,
        subject: &Subject,
        record: &WorkloadRecord,
    ) -> Option<(NotReserved, String)> {
        let owner = record.owner.as_ref().filter(|owner| !owner.is_nameless())?;
        let GroupKind { group, kind } = &owner.group_kind;
        let is_known = match subject {
            Subject::Job(uid) => self.objects.job_key(uid).is_some(),
            Subject::Group(_) | Subject::Pod(_) => true,
        };
        (!is_known && !self.kinds.is_read(group, kind)).then(|| {
            let text = format!(
                "Not queued: no JobKind declares {kind} of API group {group:?}; create a JobKind to queue it again"
            );
            (NotReserved::KindNotDeclared, text)
        })
    }
}
