//! Events about jobs, groups and pods: each is told once, until something else is told. How events are sent lies in
//! `crate::api::events`.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use k8s_openapi::api::core::v1::ObjectReference;
use tracing::info;

use crate::api::events::pod_reference;
use crate::cache::{JobKey, Subject, Uid};
use crate::controller::Controller;
use crate::plan::Note;

impl Controller {
    /// Tells the user about a job, once.
    pub(in crate::controller) fn tell(&mut self, key: &JobKey, uid: &Uid, note: Note) {
        if let Some(object) = self.reference(key, uid) {
            self.tell_object(object, &Subject::Job(uid.clone()), note);
        }
    }

    /// A job, to tell something about.
    pub(in crate::controller) fn reference(
        &self,
        key: &JobKey,
        uid: &Uid,
    ) -> Option<ObjectReference> {
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
    pub(in crate::controller) fn tell_about(&mut self, subject: &Subject, note: Note) {
        let pod = match subject {
            Subject::Job(uid) => {
                if let Some(key) = self.world.job_key(uid).cloned() {
                    self.tell(&key, uid, note);
                }
                return;
            }
            Subject::Group(_) => self.world.pods_by_age(subject).into_iter().next(),
            Subject::Pod(uid) => self.world.pods.of(uid),
        };
        if let Some((key, pod)) = pod {
            let object = pod_reference(&key.namespace, &key.name, &pod.uid);
            self.tell_object(object, subject, note);
        }
    }

    /// Whether the last that was told about this was something else.
    pub(in crate::controller) fn is_news(&self, subject: &Subject, note: &Note) -> bool {
        self.told.get(subject) != Some(&digest(note))
    }

    pub(in crate::controller) fn tell_object(
        &mut self,
        object: ObjectReference,
        subject: &Subject,
        note: Note,
    ) {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        if self.cluster.is_terminating(namespace) {
            return;
        }
        let digest = digest(&note);
        let before = self.told.insert(subject.clone(), digest);
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
        self.tell_event(object, note);
    }
}

fn digest(note: &Note) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(note)
}
