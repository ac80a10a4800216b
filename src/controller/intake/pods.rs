//! Taking in what is seen of pods, and to whom they belong. How they are planned lies in `planning/pods.rs`, what the
//! engine is told of them in `engine_sync.rs`.

use std::sync::Arc;

use kube::api::DynamicObject;
use sluice_crds::MANAGED_LABEL;
use sluice_engine::Event;
use sluice_kinds::pod::PodMode;

use crate::cache::pods::{QuotaOf, Root};
use crate::cache::{PodKey, PodRecord, Subject, Uid};
use crate::controller::Controller;
use crate::controller::gates::count_changes;
use crate::process::hashing::HashSet;

/// What is known of the labels by which pods are watched.
#[derive(Debug, Default)]
pub struct PodLabels {
    /// JobKinds whose objects' pods are found by their label.
    shown_kinds: HashSet<Arc<str>>,
    /// Pods that may run and have lost the label.
    lost: HashSet<Uid>,
}

impl PodLabels {
    /// Whether the pods of a JobKind's objects are found by their label.
    pub fn show(&self, kind: &str) -> bool {
        self.shown_kinds.contains(kind)
    }

    /// Forgets a JobKind.
    pub fn forget_kind(&mut self, kind: &str) {
        self.shown_kinds.remove(kind);
    }

    /// Whether a pod has lost the label.
    pub fn are_lost(&self, pod: &Uid) -> bool {
        self.lost.contains(pod)
    }
}

impl Controller {
    pub(in crate::controller) fn pod_applied(&mut self, key: &PodKey, object: DynamicObject) {
        let labels = object.metadata.labels.as_ref();
        let is_labelled =
            labels.is_some_and(|labels| labels.get(MANAGED_LABEL).is_some_and(|v| v == "true"));
        let reading = self.kinds.reading();
        let mut record = PodRecord::read(object, &reading.queue_labels, &reading.queue_gates);
        record.count_requested_devices(&reading.device_classes);
        let uid = record.uid.clone();
        let before = self.objects.pods.get(key).cloned();
        if self.objects.pods.is_stale(key, &record) {
            return;
        }
        if !is_labelled {
            // Read after a conflict: another pod by this name, or one that is not Sluice's any more.
            match before {
                Some(before) if before.uid == uid => self.pod_unlabelled(key, &before),
                _ => self.pod_gone(key, None),
            }
            return;
        }
        if let Some(before) = &before {
            if before.uid != uid {
                self.pod_gone(key, None);
            } else if record.is_bound && record.is_live() && !before.is_bound {
                self.end_pod_backoff(&record);
            }
        }
        self.note_ended_term_pod(before.as_ref(), &record);
        let known = before.as_ref().filter(|before| before.uid == uid);
        record.see_times(known, self.sight());
        let moved = known
            .filter(|known| known.owner != record.owner || known.named_uids != record.named_uids);
        let quota_of = moved.map(|known| self.quota_of(key, known));
        let notes = known.map_or_else(Vec::new, |known| {
            let (gates, metrics) = (&mut self.cluster.gates, &self.metrics);
            count_changes(
                gates,
                metrics,
                known.into(),
                (&record).into(),
                self.now.wall,
            )
        });
        if record.mode == PodMode::Single {
            let object = ("Pod", &*key.namespace, &*key.name);
            self.tell_gates(object, known.map(Into::into), &(&record).into());
        }
        if let Some(known) = known {
            self.tell_pod_ended(key, known, &record);
        }
        // Whether or not the write was answered. What only records the usage of a pod that runs names no term.
        let is_admitted = self.is_of_this_term(&record)
            && known.is_some_and(|known| !self.is_of_this_term(known));
        let is_ungated =
            record.queue_gate.is_none() && known.is_some_and(|k| k.queue_gate.is_some());
        let released = is_ungated.then(|| self.belongs_to(&record, &key.namespace));
        if self.objects.pods.put(key.clone(), record) {
            self.pod_labels.lost.remove(&uid);
            if is_ungated {
                self.writes.seen_ungated(&Subject::Pod(uid.clone()));
            }
            if is_admitted {
                self.tell_pod_admitted(&uid);
            }
            if let Some(root) = released.flatten() {
                self.tell_pod_released(&root);
            }
            for note in notes {
                self.tell_about(&Subject::Pod(uid.clone()), note);
            }
            if let Some(before) = before.filter(|before| before.uid == uid) {
                self.pod_belongs_changed(&before, &key.namespace);
            }
            if let Some(QuotaOf::With(subject)) = quota_of {
                self.note_left(&uid, &subject);
            }
            self.pod_changed(&uid);
        }
    }

    /// A watch by label shows pods as deleted that have only lost the label.
    pub(in crate::controller) fn pod_deleted(&mut self, key: &PodKey, object: &DynamicObject) {
        if let Some(uid) = &object.metadata.uid {
            self.objects.pods.stale().deleted(uid);
        }
        let known = self.objects.pods.get(key);
        let known = known.filter(|pod| Some(&*pod.uid) == object.metadata.uid.as_deref());
        match known.cloned() {
            Some(pod) if object.metadata.deletion_timestamp.is_none() => {
                self.pod_unlabelled(key, &pod);
            }
            _ => self.pod_gone(key, object.metadata.uid.as_deref()),
        }
    }

    /// A pod that may run is given back the label that it is watched by: if it is gone, that says so.
    fn pod_unlabelled(&mut self, key: &PodKey, pod: &PodRecord) {
        if pod.is_released() && !pod.deleting {
            self.pod_labels.lost.insert(pod.uid.clone());
            self.agenda.plan(Subject::Pod(pod.uid.clone()));
        } else {
            self.forget_pod(key, pod);
        }
    }

    pub(in crate::controller) fn pod_gone(&mut self, key: &PodKey, uid: Option<&str>) {
        let Some(known) = self.objects.pods.get(key) else {
            return;
        };
        if uid.is_some_and(|uid| *known.uid != *uid) {
            return;
        }
        let record = known.clone();
        self.tell_pod_gone(key, &record);
        if let Some(group @ Subject::Group(_)) = self.belongs_to(&record, &key.namespace) {
            self.note_gone_member(&record, &group);
        }
        self.forget_pod(key, &record);
    }

    /// Nothing is known of a pod any more.
    fn forget_pod(&mut self, key: &PodKey, record: &PodRecord) {
        let uid = record.uid.clone();
        self.pod_belongs_changed(record, &key.namespace);
        self.objects.pods.remove(key);
        self.pod_labels.lost.remove(&uid);
        self.forget_usage(&uid);
        let subject = Subject::Pod(uid);
        self.agenda.unplan(&subject);
        self.engine.apply(Event::RemoveWorkload(subject.id()));
        self.prune(&subject);
    }

    /// Looks again at a pod and at what it belongs to.
    pub(in crate::controller) fn pod_changed(&mut self, uid: &Uid) {
        let Some((key, record)) = self.objects.pods.of(uid) else {
            return;
        };
        let (namespace, record) = (key.namespace.clone(), record.clone());
        self.agenda.plan(Subject::Pod(uid.clone()));
        self.sync_pod(uid);
        if record.mode == PodMode::Child {
            self.ask_for_owner(&record, &namespace);
        }
        self.pod_belongs_changed(&record, &namespace);
    }

    /// Marks the job or group of a pod to be looked at again.
    fn pod_belongs_changed(&mut self, record: &PodRecord, namespace: &Arc<str>) {
        if let Some(root) = self.belongs_to(record, namespace) {
            let kind = self.objects.job_of(&root).map(|(key, _)| key.kind.clone());
            if let Some(kind) = kind
                && self.pod_labels.shown_kinds.insert(kind.clone())
            {
                // Jobs of this kind without pods have none: they would be seen.
                self.agenda.sync_all(self.jobs_of(&kind));
            }
            self.agenda.plan(root.clone());
            self.agenda.sync(root);
        }
    }

    /// The job or group that a pod is admitted with.
    pub(in crate::controller) fn belongs_to(
        &self,
        record: &PodRecord,
        namespace: &Arc<str>,
    ) -> Option<Subject> {
        match &record.mode {
            PodMode::Group(_) => record.group_key(namespace).map(Subject::Group),
            PodMode::Child => match self.root_of(record, namespace) {
                Root::Uid(uid) => Some(Subject::Job(uid)),
                Root::None | Root::Unknown(_) => None,
            },
            PodMode::Single => None,
        }
    }

    /// The job that a pod belongs to.
    pub(in crate::controller) fn root_of(&self, record: &PodRecord, namespace: &Arc<str>) -> Root {
        // A job that is gone has usage while its pods run.
        let is_known = |uid: &Uid| {
            let has_usage = || {
                let subject = Subject::Job(uid.clone());
                self.engine.admission(&subject.id()).is_some()
            };
            let key = self.objects.job_key(uid);
            key.map_or_else(has_usage, |key| key.namespace == *namespace)
        };
        self.objects.pods.root(namespace, record, is_known)
    }

    /// Looks up the owner that tells whom a pod belongs to, if it is not known.
    pub(in crate::controller) fn ask_for_owner(&mut self, pod: &PodRecord, namespace: &Arc<str>) {
        match self.root_of(pod, namespace) {
            // Before everything is listed it may only not be known yet.
            Root::Unknown(uid) if self.phase.has_listed() => {
                self.owners.ask(&uid, pod.owner.as_ref(), namespace);
            }
            Root::Unknown(_) | Root::Uid(_) | Root::None => {}
        }
    }
}
