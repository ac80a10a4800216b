//! Sending a write for a job, a group or a pod.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ApiResource;
use tracing::debug;

use super::in_flight::InFlightWrite;
use crate::cache::Subject;
use crate::controller::Controller;
use crate::plan::{Note, Write};

impl Controller {
    pub(in crate::controller) fn send(&mut self, write: InFlightWrite) {
        let subject = write.subject.clone();
        debug!(%subject, write = ?write.write, "write");
        self.writes.send(write);
        // What is about to change is not decided about.
        self.sync(&subject);
    }

    /// Sends a write for a pod or a group.
    pub(in crate::controller) fn send_for_pods(
        &mut self,
        subject: Subject,
        write: Write,
        notes: Vec<Note>,
    ) {
        self.send(InFlightWrite {
            subject,
            write,
            resource: pods_resource(),
            notes,
        });
    }

    pub(in crate::controller) fn resource_of(&self, subject: &Subject) -> Option<ApiResource> {
        match subject {
            Subject::Group(_) | Subject::Pod(_) => Some(pods_resource()),
            Subject::Job(uid) => self.kinds.resource(&self.objects.job_key(uid)?.kind),
        }
    }
}

/// The resource of pods.
pub(in crate::controller) fn pods_resource() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}
