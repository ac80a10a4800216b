//! After each batch of observations: plan the jobs that were touched, let the engine decide, send
//! the writes. And once a second: tell waiting jobs what they wait for.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ApiResource;
use sluice_crds::{Admission, PriorityClassRef, WorkloadSpec};
use sluice_engine::{Decision, Event, WorkloadId};
use sluice_translate as translate;
use tokio::time::Instant;
use tracing::{debug, error, info};

use super::Controller;
use super::account::time;
use crate::api::events::pod_reference;
use crate::cache::workload::group_key;
use crate::cache::{JobKey, JobRecord, PodRecord, Uid};
use crate::controller::decisions::evictions::Preempting;
use crate::controller::intake::lineage::Lineage;
use crate::controller::intake::pods::pods_resource;
use crate::controller::writes::flights::Flight;
use crate::plan::job::{Child, Situation, plan};
use crate::plan::workload::{self, Priority};
use crate::plan::{Note, Plan, StatusPurpose, Write, reservation};
use crate::process::clock;

/// Every so many seconds owners without an owner are looked up again.
const OWNERS_ASKED_EVERY: u64 = 60;

impl Controller {
    pub(super) fn settle(&mut self) {
        self.recount_devices();
        for uid in std::mem::take(&mut self.recount) {
            self.sync_engine(&uid);
            self.prune(&uid);
        }
        for uid in std::mem::take(&mut self.dirty) {
            if self.objects.pods.key(&uid).is_some() {
                self.plan_pod(&uid);
                continue;
            }
            match group_key(&uid) {
                Some(group) => self.plan_group(&uid, &group),
                None => self.plan_job(&uid),
            }
            self.release_pods(&uid);
        }
        if !self.may_decide() {
            return;
        }
        let begun = Instant::now();
        let decisions = self.engine.decide(time(clock::now()));
        self.metrics.decided(begun.elapsed().as_secs_f64());
        let violations = self.engine.invariant_violations();
        if self.metrics.violations(violations) {
            error!(
                violations,
                "usage is in a state that must not occur, and quota may be given out twice: restart Sluice, and report this bug"
            );
        }
        let mut preempting = Preempting::new();
        for decision in decisions {
            match decision {
                Decision::Admit { id, admission } => self.admit(&id, &admission),
                Decision::Evict { id, reason } => self.evict(&id, reason, &mut preempting),
            }
        }
        self.tell_preempting(preempting);
        self.take_back_late();
    }

    fn plan_job(&mut self, uid: &Uid) {
        if self.flights.of(uid).is_some() || self.resting.contains(uid) {
            return;
        }
        let Some(key) = self.objects.job_key(uid).cloned() else {
            return self.plan_orphan(uid);
        };
        let (Some(job), Some(kind)) = (self.objects.job(&key), self.kinds.compiled(&key.kind))
        else {
            return;
        };
        // What a JobKind read that was another one is no ground for a write.
        if !self.kinds.has_listed(&key.kind) {
            return;
        }
        let workload = self.objects.workload_of(uid);
        if workload.is_none()
            && (self.cluster.is_terminating(&key.namespace)
                || self.lineage(&key, job) == Lineage::Child)
        {
            return;
        }
        let still_in_use = workload.is_none()
            && self
                .engine
                .admission(&WorkloadId::new(uid.clone()))
                .is_some();
        let child = kind.has_pods_of_children();
        let child = child.then(|| self.child_with_pods(&key, uid)).flatten();
        let record = workload.map(|(_, record)| record);
        let record = record.filter(|record| job.deleting && record.status.admission.is_some());
        let unseen_for =
            record.and_then(|record| reservation::unseen_pods_for(record, clock::now()));
        let situation = Situation {
            key: &key,
            job,
            kind: &kind,
            child: child
                .as_ref()
                .map(|(key, job, kind)| Child { key, job, kind }),
            workload,
            still_in_use,
            live_pods: self.live_pods(uid),
            may_have_unseen_pods: unseen_for.is_some(),
            lasting_pods: self.lasting_pods(uid),
            live_pods_of_set: &|pod_set| self.live_pods_of_set(uid, pod_set),
            backoff: &|record| self.backoff(record),
            priority: &|| self.priority(job),
            now: clock::now(),
        };
        let Plan { mut write, notes } = plan(&situation);
        // After a write it is planned again anyway.
        if let (Some(wait), None) = (unseen_for, &write) {
            self.wake.insert(uid.clone(), wait);
        }
        if self.reports.hold_back(uid, write.as_ref()) {
            write = None;
        }
        match write {
            None => {
                for note in notes {
                    self.tell(&key, uid, note);
                }
            }
            Some(write) => {
                let kind = match &write {
                    Write::PatchJob { key, .. } => &key.kind,
                    _ => &key.kind,
                };
                let Some(resource) = self.kinds.resource(kind) else {
                    return;
                };
                self.send(Flight {
                    subject: uid.clone(),
                    write,
                    resource,
                    notes,
                });
            }
        }
    }

    pub(super) fn send(&mut self, flight: Flight) {
        let uid = flight.subject.clone();
        debug!(subject = %uid, write = ?flight.write, "write");
        self.flights.send(flight);
        // What is about to change is not decided about.
        self.sync(&uid);
    }

    fn admit(&mut self, id: &WorkloadId, admission: &sluice_engine::Admission) {
        let uid = Uid::from(id.as_str());
        if self.objects.pods.key(&uid).is_some() {
            return self.admit_pod(&uid, admission);
        }
        let now = clock::now();
        self.flights.withdraw_explanation(&uid);
        let found = self.objects.workload_of(&uid).zip(self.resource_of(&uid));
        let (Some(((key, record), resource)), None) = (found, self.flights.of(&uid)) else {
            self.engine.apply(Event::AdmissionFailed(id.clone()));
            return;
        };
        let mut admission = translate::admission_record(admission, &self.cluster.flavors);
        admission.term = Some(self.term.to_string());
        let note = Note::normal("Admitted", admitted_text(&admission, &record.spec));
        let tells_readiness = self.tells_readiness(&uid);
        let write = Write::SetWorkloadStatus {
            key: key.clone(),
            revision: record.revision,
            status: Box::new(workload::admitted(record, admission, tells_readiness, now)),
            purpose: StatusPurpose::Admit,
        };
        self.flights.send(Flight {
            subject: uid,
            write,
            resource,
            notes: vec![note],
        });
    }

    pub(super) fn resource_of(&self, uid: &Uid) -> Option<ApiResource> {
        if group_key(uid).is_some() {
            return Some(pods_resource());
        }
        self.kinds.resource(&self.objects.job_key(uid)?.kind)
    }

    /// The priority of a job: its WorkloadPriorityClass, or its pods' PriorityClass, or 0.
    fn priority(&self, job: &JobRecord) -> Result<Priority, Note> {
        if let Some(name) = &job.priority_class {
            return self.class_priority(name);
        }
        let pod_sets = job
            .reading
            .as_ref()
            .ok()
            .and_then(|r| r.pod_sets.as_ref().ok());
        let class = pod_sets
            .into_iter()
            .flat_map(|sets| sets.iter())
            .find_map(|set| set.priority_class.clone());
        let Some((name, value)) = class.and_then(|name| {
            self.cluster
                .pod_priorities
                .get(&name)
                .map(|value| (name, *value))
        }) else {
            return Ok(Priority::default());
        };
        let class = PriorityClassRef {
            group: "scheduling.k8s.io".to_owned(),
            kind: "PriorityClass".to_owned(),
            name,
        };
        Ok(Priority {
            value,
            class: Some(class),
        })
    }

    /// The priority of a pod, or of the group whose oldest it is: its WorkloadPriorityClass, or what the
    /// API server gave it. One that was admitted by itself keeps what it had then.
    pub(super) fn pod_priority(&self, pod: &PodRecord) -> Result<Priority, Note> {
        let kept = match (&pod.queue_gate, &pod.admitted) {
            (None, Some(Ok(admitted))) => admitted.priority,
            _ => None,
        };
        match (kept, &pod.priority_class_label) {
            (None, Some(name)) => self.class_priority(name),
            (kept, _) => Ok(Priority {
                value: kept.unwrap_or(pod.priority),
                class: None,
            }),
        }
    }

    /// The priority of a WorkloadPriorityClass.
    fn class_priority(&self, name: &str) -> Result<Priority, Note> {
        let Some(value) = self.cluster.workload_priorities.get(name) else {
            return Err(Note::warning(
                "PriorityClassNotFound",
                format!(
                    "Can't be queued: there is no WorkloadPriorityClass {name:?}; create it, or change the label {}",
                    sluice_crds::PRIORITY_CLASS_LABEL
                ),
            ));
        };
        let class = PriorityClassRef {
            group: sluice_crds::GROUP.to_owned(),
            kind: "WorkloadPriorityClass".to_owned(),
            name: name.to_owned(),
        };
        Ok(Priority {
            value: *value,
            class: Some(class),
        })
    }

    pub(super) fn housekeep(&mut self) {
        if !self.started {
            return;
        }
        self.explain_waiting();
        self.look_after_reports();
        self.end_retired();
        self.forget_unserved();
        self.look_after_orphans();
        self.check_blocked();
        self.look_after_stalls();
        self.suspend_excess_children();
        self.forget_backoffs();
        self.seconds = self.seconds.wrapping_add(1);
        if self.seconds.is_multiple_of(OWNERS_ASKED_EVERY) {
            self.ask_again();
        }
        let gated: i64 = self
            .objects
            .gated()
            .values()
            .chain(self.objects.pods.gated().values())
            .map(|count| i64::from(*count))
            .sum();
        self.metrics.gated(gated);
        self.statuses.refresh(
            &self.engine,
            &self.cluster,
            &self.objects,
            &self.kinds,
            &self.metrics,
        );
    }

    /// Tells the user about a job, once.
    pub(super) fn tell(&mut self, key: &JobKey, uid: &Uid, note: Note) {
        if let Some(object) = self.reference(key, uid) {
            self.tell_object(object, uid, note);
        }
    }

    /// A job, to tell something about.
    pub(super) fn reference(&self, key: &JobKey, uid: &Uid) -> Option<ObjectReference> {
        let resource = self.kinds.resource(&key.kind)?;
        Some(ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        })
    }

    /// Tells the user about a job, a pod or a group, once. A group is told by its oldest pod.
    pub(super) fn tell_about(&mut self, uid: &Uid, note: Note) {
        if let Some(key) = self.objects.job_key(uid).cloned() {
            return self.tell(&key, uid, note);
        }
        let pod = self.objects.pods.of(uid);
        let pod = pod.or_else(|| {
            let pods = group_key(uid).map(|_| self.objects.pods_by_age(uid));
            pods.and_then(|pods| pods.into_iter().next())
        });
        if let Some((key, pod)) = pod {
            let object = pod_reference(&key.namespace, &key.name, &pod.uid);
            self.tell_object(object, uid, note);
        }
    }

    /// Whether the last that was told about this was something else.
    pub(super) fn is_news(&self, uid: &Uid, note: &Note) -> bool {
        self.told.get(uid) != Some(&digest(note))
    }

    pub(super) fn tell_object(&mut self, object: ObjectReference, uid: &Uid, note: Note) {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        if self.cluster.is_terminating(namespace) {
            return;
        }
        let digest = digest(&note);
        let before = self.told.insert(uid.clone(), digest);
        if before == Some(digest) || (self.is_quiet && !note.is_warning) {
            return;
        }
        if note.is_warning {
            info!(
                kind = object.kind,
                namespace = object.namespace,
                name = object.name,
                reason = note.reason,
                told = %note.message,
                "problem"
            );
        }
        self.events.tell(object, note);
    }
}

fn digest(note: &Note) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(note)
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
