//! Admissions of ended leaders that come in after this leader's first decision. They are decided about like
//! everything that waits: what is admitted again is taken over, what is not is taken back at once.

use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodMode;
use tracing::info;

use crate::cache::workload::group_key;
use crate::cache::{PodRecord, Uid, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::writes::flights::{Flight, Kind};
use crate::plan::late::{self, Sight};
use crate::plan::{StatusPurpose, Write};
use crate::process::clock;

impl Controller {
    /// Whether anything has been decided by this leader.
    pub(in crate::controller) fn has_decided(&self) -> bool {
        self.started && self.opening.is_none()
    }

    /// Sets the admission of a Workload aside that does not count.
    pub(in crate::controller) fn set_late_aside(
        &mut self,
        key: &WorkloadKey,
        record: &mut WorkloadRecord,
    ) {
        let Some(term) = record.admitted_in() else {
            return;
        };
        let known = self.objects.workload(key);
        let known = known.filter(|known| known.uid == record.uid);
        let sight = Sight {
            own: &self.term,
            has_decided: self.has_decided(),
            before: known.and_then(WorkloadRecord::admitted_in),
        };
        // What was set aside stays so until it is written again.
        let is_aside = known
            .is_some_and(|known| known.late.is_some() && known.late == record.status.admission);
        if record.is_finished() || (!is_aside && sight.counts(term)) {
            return;
        }
        if known.is_none_or(|known| known.late.is_none()) {
            info!(workload = %key.name, namespace = %key.namespace, term, "a late admission arrived: its leader's term has ended");
        }
        record.late = record.status.admission.take();
        if let Some(job) = &record.job {
            self.late.insert(job.uid.clone());
        }
    }

    /// Sets admissions aside, at the start, that may have come in late to the leader before this one.
    pub(in crate::controller) fn set_doubtful_aside(&mut self) {
        let listed = self.objects.workloads();
        let admitted = listed.filter(|(_, record)| !record.is_finished());
        let terms = admitted.filter_map(|(_, record)| record.admitted_in());
        let latest = late::latest(&self.term, terms);
        let is_doubtful = |record: &WorkloadRecord| {
            let uid = record.job.as_ref().map(|job| &job.uid);
            let is_released = uid.is_none_or(|uid| self.is_released(uid));
            let is_kept = record.is_finished() || record.is_evicting();
            let mut term = record.admitted_in().into_iter();
            !is_kept && term.any(|term| late::is_doubtful(&self.term, term, latest, is_released))
        };
        let doubtful: Vec<(WorkloadKey, WorkloadRecord)> = self
            .objects
            .workloads()
            .filter(|(_, record)| is_doubtful(record))
            .map(|(key, record)| (key.clone(), record.clone()))
            .collect();
        for (key, mut record) in doubtful {
            info!(workload = %key.name, namespace = %key.namespace, "an admission of an earlier term was not released, and is decided again");
            record.late = record.status.admission.take();
            let job = record.job.clone();
            self.objects.put_workload(key, record);
            if let Some(job) = job {
                self.sync_engine(&job.uid);
                self.late.insert(job.uid);
            }
        }
    }

    /// Whether a job or group was released, or may have been.
    fn is_released(&self, uid: &Uid) -> bool {
        let job = self
            .objects
            .job_key(uid)
            .and_then(|key| self.objects.job(key));
        let runs = match job {
            Some(job) => {
                let reading = job.reading.as_ref();
                let may_run = reading.map_or(true, |r| !r.suspended || r.active);
                job.hold == Hold::Suspend && may_run
            }
            // Of a job that can't be seen nobody knows.
            None => group_key(uid).is_none(),
        };
        runs || 0 < self.live_pods(uid)
    }

    /// Notes a pod that an ended leader has admitted by itself. It may run already.
    pub(in crate::controller) fn note_late_pod(
        &mut self,
        before: Option<&PodRecord>,
        pod: &PodRecord,
    ) {
        if self.is_of_this_term(pod) {
            self.late_pods.remove(&pod.uid);
            return;
        }
        let was_gated = before.is_some_and(|b| b.uid == pod.uid && b.queue_gate.is_some());
        let (Some(Ok(admitted)), None, true) = (&pod.admitted, &pod.queue_gate, was_gated) else {
            return;
        };
        let term = admitted.term.as_deref().unwrap_or_default();
        let sight = Sight {
            own: &self.term,
            has_decided: self.has_decided(),
            before: None,
        };
        // A pod of an admitted job or group names none: its Workload does.
        let is_own_record = pod.mode == PodMode::Single;
        if is_own_record && !sight.counts(term) {
            info!(pod = %pod.uid, term, "a late admission arrived: its leader's term has ended");
            self.late_pods.insert(pod.uid.clone());
        }
    }

    /// After a decision: takes back what came in late and was not admitted again.
    pub(in crate::controller) fn take_back_late(&mut self) {
        for uid in self.late.iter().cloned().collect::<Vec<_>>() {
            self.take_back_admission(&uid);
        }
        for uid in self.late_pods.iter().cloned().collect::<Vec<_>>() {
            self.take_back_pod(&uid);
        }
    }

    fn take_back_admission(&mut self, uid: &Uid) {
        let found = self.objects.workload_of(uid);
        let Some((key, record)) = found.filter(|(_, record)| record.late.is_some()) else {
            self.late.remove(uid);
            return;
        };
        let is_busy = self.flights.of(uid).is_some() || self.resting.contains(uid);
        if is_busy || self.unanswered.contains_key(uid) || record.deleting {
            return;
        }
        let write = Write::SetWorkloadStatus {
            key: key.clone(),
            revision: record.revision,
            status: Box::new(late::taken_back(record, clock::now())),
            purpose: StatusPurpose::TakeBack,
        };
        let resource = self.resource_of(uid);
        self.send(Flight {
            subject: uid.clone(),
            write,
            resource: resource.unwrap_or_else(crate::controller::intake::pods::pods_resource),
            notes: vec![late::taken_back_note()],
        });
    }

    /// A pod that runs has usage all the same, and is deleted if its controller makes another one.
    fn take_back_pod(&mut self, uid: &Uid) {
        if self.flights.of(uid) == Some(Kind::Admission) || self.unanswered.contains_key(uid) {
            return;
        }
        if self.flights.of(uid).is_some() || self.resting.contains(uid) {
            return;
        }
        self.late_pods.remove(uid);
        let pod = self.objects.pods.of(uid).map(|(_, pod)| pod);
        let runs = pod.is_some_and(|pod| pod.is_live() && !pod.deleting);
        let is_taken_over = pod.is_some_and(|pod| self.is_of_this_term(pod));
        self.sync_pod(uid);
        if runs && !is_taken_over {
            self.evict_pod(uid, &late::pod_cause());
        }
    }

    fn is_of_this_term(&self, pod: &PodRecord) -> bool {
        let admitted = pod.admitted.as_ref().and_then(|found| found.as_ref().ok());
        admitted.is_some_and(|admitted| admitted.term.as_deref() == Some(&*self.term))
    }
}
