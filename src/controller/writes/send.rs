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

    /// The resource with which the status of a Workload is written: that of its job, if it is there. The write itself
    /// needs none, so that what is to be told of a Workload is told although its job is gone.
    pub(in crate::controller) fn resource_for_status(&self, subject: &Subject) -> ApiResource {
        self.resource_of(subject).unwrap_or_else(pods_resource)
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
