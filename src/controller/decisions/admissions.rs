//! Admissions, as the engine has decided them: the write that records each, and what is counted of it. What is
//! admitted is released by its plan.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sluice_crds::reasons::event;
use sluice_crds::{Admission, PriorityClassRef, WorkloadSpec};
use sluice_engine::Event;
use sluice_kinds::pod::PodAdmission;
use sluice_kinds::template::Placement;
use sluice_translate as translate;

use crate::cache::{Subject, Uid};
use crate::controller::Controller;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::controller::writes::send::pods_resource;
use crate::plan::{Note, StatusPurpose, Write, pod as plan, workload};
use crate::process::invariants::violated;

impl Controller {
    pub(in crate::controller) fn admit(
        &mut self,
        subject: Subject,
        admission: &sluice_engine::Admission,
    ) {
        if let Subject::Pod(uid) = &subject {
            return self.admit_pod(uid, admission);
        }
        let now = self.now.wall;
        self.writes.withdraw_explanation(&subject);
        let found = self
            .objects
            .workload_of(&subject)
            .zip(self.resource_of(&subject));
        // Its kind may be gone, or the explanation that the engine does not mind is being sent.
        let (Some(((key, record), resource)), None) = (found, self.writes.of(&subject)) else {
            self.engine.apply(Event::AdmissionFailed(subject.id()));
            return;
        };
        self.decided.note(&subject, self.now);
        let mut admission = translate::admission_record(admission, &self.cluster.flavors);
        admission.term = Some(self.ended_terms.term().to_string());
        let note = Note::normal(event::ADMITTED, admitted_text(&admission, &record.spec));
        let tells_readiness = self.tells_readiness(&subject);
        let write = Write::SetWorkloadStatus {
            key: key.clone(),
            revision: record.revision,
            status: Box::new(workload::admitted(record, admission, tells_readiness, now)),
            purpose: StatusPurpose::Admit,
        };
        self.writes.send(InFlightWrite {
            subject,
            write,
            resource,
            notes: vec![note],
        });
    }

    /// Admits a pod by itself, as the engine has decided.
    pub(in crate::controller) fn admit_pod(
        &mut self,
        uid: &Uid,
        admission: &sluice_engine::Admission,
    ) {
        let subject = Subject::Pod(uid.clone());
        let failed = Event::AdmissionFailed(subject.id());
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            violated("the engine knows no pod that is gone");
            self.engine.apply(failed);
            return;
        };
        let record = translate::admission_record(admission, &self.cluster.flavors);
        let priority = self.pod_priority(&key.namespace, pod).ok();
        // That of a pod without a WorkloadPriorityClass can't change.
        let is_of_workloads = |class: &PriorityClassRef| class.group == sluice_crds::GROUP;
        let priority =
            priority.filter(|priority| priority.class.as_ref().is_some_and(is_of_workloads));
        let assignment = record.pod_set_assignments.into_iter().next();
        let Some(assignment) = assignment else {
            violated("the admission of a pod assigns one pod set");
            self.engine.apply(failed);
            return;
        };
        let placement = Placement {
            node_selector: assignment.node_selector,
            tolerations: assignment.tolerations,
        };
        let admitted = PodAdmission {
            term: Some(self.ended_terms.term().to_string()),
            cluster_queue: record.cluster_queue,
            cohort: record.cohort_name,
            flavors: assignment.flavors,
            at: Time(self.now.wall),
            priority: priority.map(|priority| priority.value),
            job: None,
            group: None,
        };
        let write = if self.ended_terms.has_pod(uid) {
            // It runs where its first flavors say.
            let recorded = pod.recorded_admission();
            let is_same = recorded.is_some_and(|recorded| {
                recorded.cluster_queue == admitted.cluster_queue
                    && recorded.flavors == admitted.flavors
            });
            is_same.then(|| plan::take_over(key, pod, &admitted))
        } else {
            plan::admit(key, pod, &admitted, &placement)
        };
        match write {
            Some(write) if self.writes.of(&subject).is_none() => {
                self.writes.send(InFlightWrite {
                    subject,
                    write,
                    resource: pods_resource(),
                    notes: Vec::new(),
                });
            }
            _ => {
                self.engine.apply(failed);
            }
        }
    }
}

fn admitted_text(admission: &Admission, asked: &WorkloadSpec) -> String {
    let mut flavors: Vec<&str> = admission
        .pod_set_assignments
        .iter()
        .flat_map(|set| set.flavors.values().map(String::as_str))
        .collect();
    flavors.sort_unstable();
    flavors.dedup();
    let queue = &admission.cluster_queue;
    let text = match flavors.as_slice() {
        [] => format!("Admitted by ClusterQueue {queue:?}"),
        flavors => format!(
            "Admitted by ClusterQueue {queue:?} with flavor {}",
            flavors.join(", ")
        ),
    };
    let fewer = admission.pod_set_assignments.iter().filter_map(|given| {
        let asked = asked.pod_sets.iter().find(|set| set.name == given.name)?;
        let (name, given, asked) = (&given.name, given.count, asked.count);
        (given < asked).then(|| format!("{given} of {asked} pods of set {name:?}"))
    });
    let uncounted = uncounted_resources(admission, asked);
    let uncounted =
        (!uncounted.is_empty()).then(|| format!("not counted: {}", uncounted.join(", ")));
    let told: Vec<_> = (std::iter::once(text).chain(fewer).chain(uncounted)).collect();
    told.join(", ")
}

/// The resources that were asked for and that the ClusterQueue neither covers nor blocks.
fn uncounted_resources<'a>(admission: &Admission, asked: &'a WorkloadSpec) -> Vec<&'a str> {
    let is_counted = |resource: &str| {
        let mut sets = admission.pod_set_assignments.iter();
        sets.any(|set| set.flavors.contains_key(resource))
    };
    let mut uncounted: Vec<&str> = (asked.pod_sets.iter())
        .flat_map(|set| set.requests.keys().map(String::as_str))
        .filter(|resource| *resource != "pods" && !is_counted(resource))
        .collect();
    uncounted.sort_unstable();
    uncounted.dedup();
    uncounted
}
