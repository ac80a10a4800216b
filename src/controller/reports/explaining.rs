//! Telling who waits what for: a bounded number of jobs and pods in a second, and only what is news.

use std::time::Duration;

use kube::api::ApiResource;
use sluice_crds::Workload;
use sluice_engine::{Explanation, WorkloadId};
use tokio::time::Instant;

use crate::cache::conditions::{self, Type};
use crate::cache::workload::group_key;
use crate::cache::{Uid, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::writes::flights::Flight;
use crate::plan::explain::{self, NotReserved};
use crate::plan::{StatusPurpose, Write, workload};
use crate::process::clock;

/// A job that is admitted within this time is never told what it waits for.
const EXPLAIN_AFTER: Duration = Duration::from_secs(2);
/// Waiting jobs whose explanation is looked at again in a second: bounds the work, so that 10,000
/// waiting jobs are gone through in 20 seconds.
const EXPLAINED_PER_SECOND: usize = 500;
/// Waiting pods that are told what they wait for in a second, by an event: a bound on the events that
/// thousands of waiting pods make.
const POD_NOTES_PER_SECOND: usize = 20;

impl Controller {
    pub(in crate::controller) fn explain_waiting(&mut self) {
        self.pod_notes = POD_NOTES_PER_SECOND;
        // Before the first decision there is no reason to tell.
        if self.opening.is_some() {
            return;
        }
        for _ in 0..self.unexplained.len().min(EXPLAINED_PER_SECOND) {
            let Some((since, uid)) = self.unexplained.pop_front() else {
                return;
            };
            if since.elapsed() < EXPLAIN_AFTER {
                self.unexplained.push_front((since, uid));
                return;
            }
            if self.explain(&uid) {
                self.unexplained.push_back((Instant::now(), uid));
            } else {
                self.is_unexplained.remove(&uid);
            }
        }
    }

    /// Writes what a job waits for, if that is news. Returns whether it waits.
    fn explain(&mut self, uid: &Uid) -> bool {
        if self.objects.pods.key(uid).is_some() {
            return self.explain_pod(uid);
        }
        let Some((key, record)) = self.objects.workload_of(uid) else {
            return false;
        };
        if record.status.admission.is_some() || record.is_finished() || record.deleting {
            return false;
        }
        if self.flights.of(uid).is_some() {
            return true;
        }
        let said = self.undeclared(uid, record).or_else(|| self.paused(uid));
        let said = said.or_else(|| {
            let explanation = self.engine.explain(&WorkloadId::new(uid.clone()))?;
            let head = self.name_of_head(&explanation, Some(&*key.namespace));
            explain::waiting_workload(&explanation, record, head.as_deref())
        });
        let Some((reason, message)) = said else {
            return true;
        };
        if let Some(status) = workload::waiting(record, reason, message.clone(), clock::now()) {
            // That of a job that is not known does not matter: the Workload is written to.
            let resource = self.resource_of(uid);
            let resource = resource.unwrap_or_else(|| ApiResource::erase::<Workload>(&()));
            let write = Write::SetWorkloadStatus {
                key: key.clone(),
                revision: record.revision,
                status: Box::new(status),
                purpose: StatusPurpose::Explain,
            };
            let notes = vec![reason.note(message)];
            self.send(Flight {
                subject: uid.clone(),
                write,
                resource,
                notes,
            });
        }
        true
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
        let uid = Uid::from(head.as_str());
        if let Some((_, record)) = self.objects.workload_of(&uid) {
            let told = conditions::find(&record.status.conditions, Type::QuotaReserved)?;
            let (_, message) = explain::waiting(&self.engine.explain(head)?, None)?;
            if told.message != message {
                return None;
            }
        }
        let name = self.name_in(&uid, namespace);
        Some(name.unwrap_or_else(|| "a workload of another namespace".to_owned()))
    }

    /// What a Workload waits for whose job its user has suspended.
    fn paused(&self, uid: &Uid) -> Option<(NotReserved, String)> {
        let key = self.objects.job_key(uid)?;
        let job = self.objects.job(key).filter(|job| job.is_paused())?;
        let is_held = job.gates.is_held() && !job.released;
        let kind = self.kinds.compiled(&key.kind).filter(|_| !is_held)?;
        let waits = workload::waits_for_user(&kind.suspend_path()?.field());
        Some((NotReserved::OnHold, waits))
    }

    /// What a Workload waits for whose job is of a kind that no JobKind declares any more.
    fn undeclared(&self, uid: &Uid, record: &WorkloadRecord) -> Option<(NotReserved, String)> {
        let owner = record.job.as_ref().filter(|owner| !owner.is_nameless())?;
        let (group, kind) = &owner.group_kind;
        let is_known = self.objects.job_key(uid).is_some() || group_key(uid).is_some();
        (!is_known && !self.kinds.is_read(group, kind)).then(|| {
            let text = format!(
                "Not queued: no JobKind declares {kind} of API group {group:?}; create a JobKind to queue it again"
            );
            (NotReserved::KindNotDeclared, text)
        })
    }
}
