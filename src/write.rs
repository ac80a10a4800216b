//! The only place that writes to jobs, pods, Workloads and statuses. Every write has a deadline, is sent
//! once, and ends in a [`Reply`] that says whether it has happened, has not, or might have.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Client, Error};
use serde_json::{Value, json};
use sluice_crds::{Workload, WorkloadSpec};
use tracing::debug;

use crate::lease::Term;
use crate::metrics::Metrics;
use crate::plan::{JobPatch, JobPurpose, PodPurpose, StatusPurpose, Write};
use crate::world::WorkloadKey;
use crate::world::workload::Owner;

/// Longest time for one request.
const DEADLINE: Duration = Duration::from_secs(5);
/// The name under which our fields are recorded in managedFields.
pub const FIELD_MANAGER: &str = "sluice";

/// What the API server says of a JSON patch whose `test` failed (`NewGenericServerResponse` in
/// apimachinery): it leaves the cause out, and no other 422 reads so.
const FAILED_TEST: &str = "the server rejected our request due to an error in our request";

/// How a write ended.
#[derive(Debug)]
pub enum Reply {
    /// It has happened, and this is the object now. None for a deletion.
    Done(Option<Box<DynamicObject>>),
    /// It has not happened: the object has changed. This is the object now; none if it is gone.
    Conflict(Option<Box<DynamicObject>>),
    /// It has not happened and never will as it is: the API server's own words.
    Refused(String),
    /// It has not happened, or nobody knows: to be looked at again.
    Unknown(String),
}

/// Sends writes.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    metrics: Arc<Metrics>,
    term: Arc<Term>,
    workloads: ApiResource,
}

impl Writer {
    /// A writer that uses `client`, which must not repeat requests by itself, and writes to jobs and
    /// Workloads only within `term`.
    pub fn new(client: Client, metrics: Arc<Metrics>, term: Arc<Term>) -> Self {
        Self {
            client,
            metrics,
            term,
            workloads: ApiResource::erase::<Workload>(&()),
        }
    }

    /// Sends `write`. `resource` is the resource of the job.
    pub async fn send(&self, write: Write, resource: ApiResource) -> Reply {
        if !self.term.is_valid() {
            return Reply::Unknown("the lease is lost".to_owned());
        }
        let operation = operation(&write);
        let reply = match write {
            Write::CreateWorkload(workload) => self.create(*workload).await,
            Write::UpdateWorkloadSpec {
                key,
                revision,
                spec,
            } => {
                // Every field is named: what is left out of a merge patch stays as it was.
                let WorkloadSpec {
                    queue_name,
                    pod_sets,
                    priority,
                    priority_class_ref,
                    active,
                } = *spec;
                let patch = json!({
                    "metadata": {"resourceVersion": revision.0.to_string()},
                    "spec": {
                        "queueName": queue_name,
                        "podSets": pod_sets,
                        "priority": priority,
                        "priorityClassRef": priority_class_ref,
                        "active": active,
                    },
                });
                let api = self.workload_api(&key);
                // The pod sets are a list and are replaced as a whole by a merge patch.
                self.settle(
                    &api,
                    &key.name,
                    deadline(api.patch(&key.name, &params(), &Patch::Merge(patch))).await,
                )
                .await
            }
            Write::SetWorkloadStatus {
                key,
                revision,
                status,
                ..
            } => {
                let sluice_crds::WorkloadStatus {
                    conditions,
                    admission,
                    requeue_state,
                    makes_room_for,
                    reclaimable_pods,
                } = *status;
                let patch = json!({
                    "metadata": {"resourceVersion": revision.0.to_string()},
                    "status": {
                        "conditions": conditions,
                        "admission": admission,
                        "requeueState": requeue_state,
                        "makesRoomFor": makes_room_for,
                        "reclaimablePods": reclaimable_pods,
                    },
                });
                let api = self.workload_api(&key);
                let sent =
                    deadline(api.patch_status(&key.name, &params(), &Patch::Merge(patch))).await;
                self.settle(&api, &key.name, sent).await
            }
            Write::DeleteWorkload { key, uid, unless } => {
                if let Some(job) = unless
                    && let Some(reply) = self.still_there(&key, &job, &resource).await
                {
                    return reply;
                }
                delete(&self.workload_api(&key), &key.name, uid).await
            }
            Write::PatchJob { key, patch, .. } => {
                let api = Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
                let sent = match patch {
                    JobPatch::Json(patch) => {
                        deadline(api.patch(&key.name, &params(), &Patch::Json::<()>(patch))).await
                    }
                    JobPatch::Merge(patch) => {
                        deadline(api.patch(&key.name, &params(), &Patch::Merge(patch))).await
                    }
                };
                self.settle(&api, &key.name, sent).await
            }
            Write::PatchPod { key, patch, .. } => {
                let api = Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
                let patch = Patch::Strategic(patch);
                let sent = deadline(api.patch(&key.name, &params(), &patch)).await;
                self.settle(&api, &key.name, sent).await
            }
            Write::DeletePod { key, uid, .. } => {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
                delete(&api, &key.name, uid).await
            }
        };
        self.metrics.write(operation, outcome(&reply));
        reply
    }

    /// Writes the status of one of our own objects. Nobody waits for it: what fails is planned again.
    pub async fn status(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        status: Value,
    ) -> bool {
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        };
        let patch = Patch::Merge(json!({ "status": status }));
        let sent = deadline(api.patch_status(name, &params(), &patch)).await;
        let is_done = sent.is_ok();
        if let Err(failure) = sent {
            debug!(kind = %resource.kind, name, failure = %failure.text(), "status was not written");
        }
        self.metrics
            .write("queue_status", if is_done { "done" } else { "unknown" });
        is_done
    }

    async fn create(&self, workload: Workload) -> Reply {
        let namespace = workload.metadata.namespace.clone().unwrap_or_default();
        let name = workload.metadata.name.clone().unwrap_or_default();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, &self.workloads);
        let object = match serde_json::to_value(&workload)
            .and_then(serde_json::from_value::<DynamicObject>)
        {
            Ok(object) => object,
            Err(error) => return Reply::Refused(error.to_string()),
        };
        let params = PostParams {
            dry_run: false,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let sent = deadline(api.create(&params, &object)).await;
        self.settle(&api, &name, sent).await
    }

    /// Turns the outcome of a request into a reply. After a conflict the object is read afresh, so
    /// that the next plan is made from what is there and not from a watch that lags.
    async fn settle(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        sent: Result<DynamicObject, Failure>,
    ) -> Reply {
        match sent {
            Ok(object) => Reply::Done(Some(Box::new(object))),
            Err(failure) if failure.is_conflict() => match read(api, name).await {
                Ok(object) => Reply::Conflict(object.map(Box::new)),
                Err(failure) => Reply::Unknown(failure.text()),
            },
            Err(failure) => failure.into_reply(),
        }
    }

    /// Why a Workload without a job may not be deleted yet, if so: its job is there after all.
    async fn still_there(
        &self,
        key: &WorkloadKey,
        job: &Owner,
        resource: &ApiResource,
    ) -> Option<Reply> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &key.namespace, resource);
        match read(&api, &job.name).await {
            Ok(Some(found)) if found.metadata.uid.as_deref() == Some(&*job.uid) => Some(
                Reply::Unknown("its job is there, the watch lags".to_owned()),
            ),
            Ok(_) => None,
            Err(failure) => Some(Reply::Unknown(failure.text())),
        }
    }

    fn workload_api(&self, key: &WorkloadKey) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &key.namespace, &self.workloads)
    }
}

/// Why a request failed.
#[derive(Debug)]
enum Failure {
    Api(Box<kube::core::Status>),
    Other(String),
}

impl Failure {
    /// The object has changed since the write was planned: 409; 422 for a JSON patch whose `test`
    /// failed, and for another UID in a patch; 404 for an object that is gone.
    fn is_conflict(&self) -> bool {
        match self {
            Self::Api(status) => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                status.code == 409
                    || status.code == 404
                    || (status.code == 422 && status.message.starts_with(FAILED_TEST))
                    || (status.code == 422 && causes.into_iter().any(|c| c.field == "metadata.uid"))
            }
            Self::Other(_) => false,
        }
    }

    fn into_reply(self) -> Reply {
        match self {
            Self::Api(status) if matches!(status.code, 400 | 403 | 405 | 413 | 415 | 422) => {
                Reply::Refused(status.message.clone())
            }
            other => Reply::Unknown(other.text()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Api(status) => format!("{} ({})", status.message, status.code),
            Self::Other(text) => text.clone(),
        }
    }
}

/// Deletes the object with this UID; that it is gone already is as good.
async fn delete(api: &Api<DynamicObject>, name: &str, uid: String) -> Reply {
    let preconditions = Preconditions {
        uid: Some(uid),
        resource_version: None,
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    match deadline(api.delete(name, &params)).await {
        Ok(_) => Reply::Done(None),
        Err(Failure::Api(error)) if error.code == 404 || error.code == 409 => Reply::Done(None),
        Err(failure) => failure.into_reply(),
    }
}

/// The object as it is now; none if there is no such object. That its kind is not served is another
/// matter: such a 404 names no object.
async fn read(api: &Api<DynamicObject>, name: &str) -> Result<Option<DynamicObject>, Failure> {
    match deadline(api.get(name)).await {
        Ok(object) => Ok(Some(object)),
        Err(Failure::Api(status))
            if status.code == 404
                && status
                    .details
                    .as_ref()
                    .is_some_and(|details| !details.name.is_empty()) =>
        {
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

async fn deadline<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Error::Api(status))) => Err(Failure::Api(status)),
        Ok(Err(error)) => Err(Failure::Other(error.to_string())),
        Err(_) => Err(Failure::Other(format!(
            "no reply within {} s",
            DEADLINE.as_secs()
        ))),
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// What a write does, in a word of a closed set.
pub fn operation(write: &Write) -> &'static str {
    match write {
        Write::CreateWorkload(_) => "create_workload",
        Write::UpdateWorkloadSpec { .. } => "update_workload",
        Write::DeleteWorkload { .. } => "delete_workload",
        Write::SetWorkloadStatus { purpose, .. } => match purpose {
            StatusPurpose::Admit => "admit",
            StatusPurpose::Evict => "evict",
            StatusPurpose::Requeue => "requeue",
            StatusPurpose::Finish => "finish",
            StatusPurpose::Report => "report",
            StatusPurpose::Explain => "explain",
        },
        Write::PatchJob { purpose, .. } => match purpose {
            JobPurpose::Suspend => "suspend",
            JobPurpose::Prepare => "prepare",
            JobPurpose::Release => "release",
            JobPurpose::Restore => "restore",
            JobPurpose::MarkHeld => "mark_held",
        },
        Write::PatchPod { purpose, .. } | Write::DeletePod { purpose, .. } => match purpose {
            PodPurpose::Admit => "admit_pod",
            PodPurpose::Release => "release_pod",
            PodPurpose::LiftGates => "lift_gates",
            PodPurpose::Relabel => "relabel_pod",
            PodPurpose::Evict => "evict_pod",
            PodPurpose::TimeOut => "time_out_pod",
        },
    }
}

fn outcome(reply: &Reply) -> &'static str {
    match reply {
        Reply::Done(_) => "done",
        Reply::Conflict(_) => "conflict",
        Reply::Refused(_) => "refused",
        Reply::Unknown(_) => "unknown",
    }
}
