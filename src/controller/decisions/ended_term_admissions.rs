//! Admissions of ended leaders that come in after this leader has listed everything. They are decided about like
//! everything that waits: what is admitted again is taken over, what is not is taken back at once.

use std::collections::BTreeSet;

use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodMode;
use tracing::info;

use crate::cache::{PodRecord, Subject, Uid, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::decisions::evictions::Eviction;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::plan::workload::ended_term_admissions::{self, AdmissionSight};
use crate::plan::{StatusPurpose, Write};
use crate::process::term::TermName;

/// Admissions of ended terms that have come in late, and the present term.
pub struct EndedTermAdmissions {
    term: TermName,
    /// Jobs and groups whose admission came in late and does not count.
    subjects: BTreeSet<Subject>,
    /// Pods that an ended leader has admitted by themselves, until that is decided about.
    pods: BTreeSet<Uid>,
}

impl EndedTermAdmissions {
    /// None, in this term.
    pub fn new(term: TermName) -> Self {
        Self {
            term,
            subjects: BTreeSet::new(),
            pods: BTreeSet::new(),
        }
    }

    /// The term of this leader.
    pub fn term(&self) -> &TermName {
        &self.term
    }

    /// Whether an ended leader has admitted a pod by itself, and that is not decided about yet.
    pub fn has_pod(&self, pod: &Uid) -> bool {
        self.pods.contains(pod)
    }

    /// Forgets a subject of which nothing is left, or a pod that is deleted.
    pub fn forget(&mut self, subject: &Subject) {
        self.subjects.remove(subject);
        if let Subject::Pod(uid) = subject {
            self.pods.remove(uid);
        }
    }
}

impl Controller {
    /// Sets the admission of a Workload aside that does not count.
    pub(in crate::controller) fn set_ended_term_aside(
        &mut self,
        key: &WorkloadKey,
        record: &mut WorkloadRecord,
    ) {
        let Some(term) = record.admitted_in() else {
            return;
        };
        let known = self.objects.workload(key);
        let known = known.filter(|known| known.uid == record.uid);
        let sight = AdmissionSight {
            own: self.ended_terms.term(),
            has_listed: self.phase.has_listed(),
            before: known.and_then(WorkloadRecord::admitted_in),
        };
        // What was set aside stays so until it is written again.
        let is_aside = known.is_some_and(|known| {
            known.of_ended_term.is_some() && known.of_ended_term == record.status.admission
        });
        if record.is_finished() || (!is_aside && sight.counts(term)) {
            return;
        }
        if known.is_none_or(|known| known.of_ended_term.is_none()) {
            info!(workload = %key.name, namespace = %key.namespace, term, "an admission of an ended term arrived");
        }
        record.of_ended_term = record.status.admission.take();
        if let Some(owner) = &record.owner {
            self.ended_terms.subjects.insert(owner.subject.clone());
        }
    }

    /// Sets admissions aside, at the start, that may have come in late to the leader before this one.
    pub(in crate::controller) fn set_doubtful_aside(&mut self) {
        let listed = self.objects.workloads();
        let admitted = listed.filter(|(_, record)| !record.is_finished());
        let of_workloads = admitted.filter_map(|(_, record)| record.admitted_in());
        let pods = self.objects.pods.all().map(|(_, pod)| pod);
        let by_themselves = pods.filter(|pod| pod.mode == PodMode::Single && pod.is_live());
        // What only records the usage of a pod names no term.
        let of_pods = by_themselves.filter_map(|pod| pod.recorded_admission()?.term.as_deref());
        let terms = of_workloads.chain(of_pods);
        let latest = ended_term_admissions::latest(self.ended_terms.term(), terms);
        let is_doubtful = |record: &WorkloadRecord| {
            let subject = record.owner.as_ref().map(|owner| &owner.subject);
            let is_released = subject.is_none_or(|subject| self.is_released(subject));
            let is_kept = record.is_finished() || record.is_evicting();
            let mut term = record.admitted_in().into_iter();
            !is_kept
                && term.any(|term| ended_term_admissions::is_doubtful(term, latest, is_released))
        };
        let doubtful: Vec<(WorkloadKey, WorkloadRecord)> = self
            .objects
            .workloads()
            .filter(|(_, record)| is_doubtful(record))
            .map(|(key, record)| (key.clone(), record.clone()))
            .collect();
        for (key, mut record) in doubtful {
            info!(workload = %key.name, namespace = %key.namespace, "an admission of an earlier term was not released, and is decided again");
            record.of_ended_term = record.status.admission.take();
            let owner = record.owner.clone();
            self.objects.put_workload(key, record);
            if let Some(owner) = owner {
                self.sync_workload(&owner.subject);
                self.ended_terms.subjects.insert(owner.subject);
            }
        }
    }

    /// Whether a job or group was released, or may have been.
    fn is_released(&self, subject: &Subject) -> bool {
        let job = self.objects.job_of(subject).map(|(_, job)| job);
        let runs = match job {
            Some(job) => {
                let reading = job.reading.as_ref();
                let may_run = reading.map_or(true, |r| !r.suspended || r.active);
                job.hold == Hold::Suspend && may_run
            }
            // Of a job that can't be seen nobody knows.
            None => subject.job().is_some(),
        };
        runs || 0 < self.live_pods(subject)
    }

    /// Notes a pod that an ended leader has admitted by itself. It may run already.
    pub(in crate::controller) fn note_ended_term_pod(
        &mut self,
        before: Option<&PodRecord>,
        pod: &PodRecord,
    ) {
        if self.is_of_this_term(pod) {
            self.ended_terms.pods.remove(&pod.uid);
            return;
        }
        let was_gated = before.is_some_and(|b| b.uid == pod.uid && b.queue_gate.is_some());
        let (Some(Ok(admitted)), None, true) = (&pod.admitted, &pod.queue_gate, was_gated) else {
            return;
        };
        let term = admitted.term.as_deref().unwrap_or_default();
        let sight = AdmissionSight {
            own: self.ended_terms.term(),
            has_listed: self.phase.has_listed(),
            before: None,
        };
        // A pod of an admitted job or group names none: its Workload does.
        let is_own_record = pod.mode == PodMode::Single;
        if is_own_record && !sight.counts(term) {
            info!(pod = %pod.uid, term, "an admission of an ended term arrived");
            self.ended_terms.pods.insert(pod.uid.clone());
        }
    }

    /// After a decision: takes back what came in late and was not admitted again.
    pub(in crate::controller) fn take_back_ended_terms(&mut self) {
        let subjects: Vec<Subject> = self.ended_terms.subjects.iter().cloned().collect();
        for subject in subjects {
            self.take_back_admission(&subject);
        }
        for uid in self.ended_terms.pods.iter().cloned().collect::<Vec<_>>() {
            self.take_back_pod(&uid);
        }
    }

    fn take_back_admission(&mut self, subject: &Subject) {
        let found = self.objects.workload_of(subject);
        let Some((key, record)) = found.filter(|(_, record)| record.of_ended_term.is_some()) else {
            self.ended_terms.subjects.remove(subject);
            return;
        };
        if self.writes.is_busy(subject) || record.deleting {
            return;
        }
        let write = Write::SetWorkloadStatus {
            key: key.clone(),
            revision: record.revision,
            status: Box::new(ended_term_admissions::taken_back(record, self.now.wall)),
            purpose: StatusPurpose::TakeBack,
        };
        self.send(InFlightWrite {
            subject: subject.clone(),
            write,
            resource: self.resource_for_status(subject),
            notes: vec![ended_term_admissions::taken_back_note()],
        });
    }

    /// A pod that runs has usage all the same, and is deleted if its controller makes another one. It is decided about
    /// again for as long as its deletion fails: the engine has not decided to evict it, and would not do so again.
    fn take_back_pod(&mut self, uid: &Uid) {
        let subject = Subject::Pod(uid.clone());
        if self.writes.is_busy(&subject) {
            return;
        }
        let pod = self.objects.pods.of(uid).map(|(_, pod)| pod);
        let runs = pod.is_some_and(|pod| pod.is_live() && !pod.deleting);
        let is_taken_over = pod.is_some_and(|pod| self.is_of_this_term(pod));
        if runs && !is_taken_over {
            let eviction = self.evict_pod(uid, &ended_term_admissions::pod_cause());
            if eviction == Eviction::Begun {
                return;
            }
        }
        self.ended_terms.pods.remove(uid);
        self.sync_pod(uid);
    }

    /// Whether a pod was admitted by itself in this term.
    pub(in crate::controller) fn is_of_this_term(&self, pod: &PodRecord) -> bool {
        let admitted = pod.recorded_admission();
        admitted
            .is_some_and(|admitted| admitted.term.as_deref() == Some(&**self.ended_terms.term()))
    }
}
