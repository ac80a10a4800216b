//! The only place that writes to jobs, pods, Workloads and statuses. Every write has a deadline, is sent
//! once, and ends in a [`Reply`] that says whether it has happened, has not, or might have. What is written is
//! planned in `crate::plan`; what follows from a reply lies in `controller/writes`.

mod failure;
mod patches;
mod reply;
mod words;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, ObjectList, PartialObjectMeta,
    Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sluice_crds::{ADMITTED_ANNOTATION, Workload};
use sluice_gates::GroupKind;
use sluice_kinds::stored::Stored;
use tracing::warn;

use crate::api::lookup;
use crate::cache::WorkloadKey;
use crate::cache::pod::is_like_uid;
use crate::cache::workload::Owner;
use crate::plan::{JobPatch, Write};
use crate::process::FIELD_MANAGER;
use crate::process::answer::ApiAnswer;
use crate::process::clock::Moment;
use crate::process::metrics::Metrics;
use crate::process::term::Term;
use failure::{RequestFailure, deadline};
use patches::{spec_patch, status_patch};
pub use reply::Reply;
pub use words::operation;
use words::outcome;

/// The label by which the Job controller finds the pods of a Job.
const JOB_CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// Why nothing is written any more.
const LEASE_LOST: &str = "the lease is lost";
/// Most pods of a job that is gone that are looked at: if there are more, its Workload stays.
const PODS_PAGE: u32 = 500;

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
            return Reply::Unknown(LEASE_LOST.to_owned());
        }
        let (operation, begun) = (operation(&write), Moment::now());
        let reply = match write {
            Write::CreateWorkload(workload) => self.create(*workload).await,
            Write::UpdateWorkloadSpec {
                key,
                revision,
                spec,
            } => {
                let patch = spec_patch(revision, *spec);
                let api = self.workload_api(&key);
                // The pod sets are a list and are replaced as a whole by a merge patch.
                self.reply_to(
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
                let patch = status_patch(revision, *status);
                let api = self.workload_api(&key);
                let sent =
                    deadline(api.patch_status(&key.name, &params(), &Patch::Merge(patch))).await;
                self.reply_to(&api, &key.name, sent).await
            }
            Write::DeleteWorkload { key, uid, unless } => {
                self.delete_workload(&key, uid, unless, &resource).await
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
                    JobPatch::JsonOfStatus(patch) => {
                        let patch = Patch::Json::<()>(patch);
                        deadline(api.patch_status(&key.name, &params(), &patch)).await
                    }
                };
                self.reply_to(&api, &key.name, sent).await
            }
            Write::PatchPod { key, patch, .. } => {
                let api = Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
                let patch = Patch::Strategic(patch);
                let sent = deadline(api.patch(&key.name, &params(), &patch)).await;
                self.reply_to(&api, &key.name, sent).await
            }
            Write::DeletePod { key, uid, .. } => {
                let api: Api<Stored<DynamicObject>> =
                    Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
                delete(&api, &key.name, uid).await
            }
        };
        self.metrics
            .traffic
            .write(operation, outcome(&reply), begun.elapsed());
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
        if !self.term.is_valid() {
            return false;
        }
        let api: Api<Stored<DynamicObject>> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        };
        let patch = Patch::Merge(json!({ "status": status }));
        let begun = Moment::now();
        let sent = deadline(api.patch_status(name, &params(), &patch)).await;
        let is_done = sent.is_ok();
        let outcome = match sent {
            Ok(_) => "done",
            Err(failure) => {
                warn!(kind = %resource.kind, name, failure = %failure.text(), "status was not written");
                outcome(&failure.into_reply())
            }
        };
        self.metrics
            .traffic
            .write("queue_status", outcome, begun.elapsed());
        is_done
    }

    async fn create(&self, workload: Workload) -> Reply {
        let namespace = workload.metadata.namespace.clone().unwrap_or_default();
        let name = workload.metadata.name.clone().unwrap_or_default();
        let api: Api<Stored<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), &namespace, &self.workloads);
        let object = match serde_json::to_value(&workload)
            .and_then(serde_json::from_value::<Stored<DynamicObject>>)
        {
            Ok(object) => object,
            Err(error) => return Reply::Refused(error.to_string()),
        };
        let params = PostParams {
            dry_run: false,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let sent = deadline(api.create(&params, &object)).await;
        self.reply_to(&api, &name, sent).await
    }

    /// Turns the outcome of a request into a reply. After a conflict the object is read afresh, so
    /// that the next plan is made from what is there and not from a watch that lags.
    async fn reply_to(
        &self,
        api: &Api<Stored<DynamicObject>>,
        name: &str,
        sent: Result<Stored<DynamicObject>, RequestFailure>,
    ) -> Reply {
        match sent {
            Ok(Stored(object)) => Reply::Done(Some(Box::new(object))),
            Err(failure) if failure.is_conflict() => match read(api, name).await {
                Ok(object) => Reply::Conflict(object.map(Box::new)),
                Err(failure) => Reply::Unknown(failure.text()),
            },
            Err(failure) => failure.into_reply(),
        }
    }

    /// Deletes a Workload, unless this job of it is there after all.
    async fn delete_workload(
        &self,
        key: &WorkloadKey,
        uid: String,
        unless: Option<Owner>,
        resource: &ApiResource,
    ) -> Reply {
        if let Some(job) = unless {
            if let Some(reply) = self.still_there(key, &job, resource).await {
                return reply;
            }
            // The look took its time.
            if !self.term.is_valid() {
                return Reply::Unknown(LEASE_LOST.to_owned());
            }
        }
        delete(&self.workload_api(key), &key.name, uid).await
    }

    /// Why a Workload without a job may not be deleted yet, if so: its job is there after all, or pods
    /// of it run that no watch has shown.
    async fn still_there(
        &self,
        key: &WorkloadKey,
        job: &Owner,
        resource: &ApiResource,
    ) -> Option<Reply> {
        let api: Api<Stored<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), &key.namespace, resource);
        let uid = job.subject.job().map(|uid| &**uid);
        let found = if job.is_nameless() {
            Ok(None)
        } else {
            read(&api, &job.name).await
        };
        match found {
            Ok(Some(found)) if found.metadata.uid.as_deref() == uid => Some(Reply::Unknown(
                "the Workload was not deleted: its job exists, and the watch lags".to_owned(),
            )),
            Ok(_) => self.pods_run(key, uid).await,
            // Its CRD went, and took it along.
            Err(failure) if failure.is_not_found() && self.is_unserved(job).await => {
                self.pods_run(key, uid).await
            }
            Err(failure) => Some(Reply::Unknown(failure.text())),
        }
    }

    /// Whether it is certain that no version of its API group has the kind of a job.
    async fn is_unserved(&self, job: &Owner) -> bool {
        let GroupKind { group, kind } = &job.group_kind;
        let versions = lookup::served_versions(&self.client, group, kind).await;
        versions.is_ok_and(|versions| versions.is_empty())
    }

    /// Whether pods of a batch Job run, whatever labels of ours they carry. One with a record of its own has usage of its
    /// own: only Sluice writes that.
    async fn pods_run(&self, key: &WorkloadKey, job: Option<&str>) -> Option<Reply> {
        // A UID is what somebody has written into a reference: only what can be one is asked for.
        let job = job.filter(|job| is_like_uid(job))?;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let running = ListParams::default()
            .labels(&format!("{JOB_CONTROLLER_UID_LABEL}={job}"))
            .fields("status.phase!=Succeeded,status.phase!=Failed")
            .limit(PODS_PAGE);
        let have_records = |pods: &ObjectList<PartialObjectMeta<Pod>>| {
            let mut all = pods.items.iter();
            let is_last = pods
                .metadata
                .continue_
                .as_deref()
                .unwrap_or_default()
                .is_empty();
            is_last && all.all(|pod| pod.annotations().contains_key(ADMITTED_ANNOTATION))
        };
        match deadline(api.list_metadata(&running)).await {
            Ok(pods) if have_records(&pods) => None,
            Ok(_) => Some(Reply::Unknown(
                "pods of its job run: the Workload was not deleted".to_owned(),
            )),
            Err(failure) => Some(Reply::Unknown(failure.text())),
        }
    }

    fn workload_api(&self, key: &WorkloadKey) -> Api<Stored<DynamicObject>> {
        Api::namespaced_with(self.client.clone(), &key.namespace, &self.workloads)
    }
}

/// Deletes the object with this UID; that it is gone already is as good.
async fn delete(api: &Api<Stored<DynamicObject>>, name: &str, uid: String) -> Reply {
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
        Err(failure) if failure.is_gone() => Reply::Done(None),
        Err(failure) => failure.into_reply(),
    }
}

/// The object as it is now; none if there is no such object. That its kind is not served is another
/// matter: such a 404 names no object.
async fn read(
    api: &Api<Stored<DynamicObject>>,
    name: &str,
) -> Result<Option<DynamicObject>, RequestFailure> {
    match deadline(api.get(name)).await {
        Ok(Stored(object)) => Ok(Some(object)),
        Err(RequestFailure::Api(status))
            if ApiAnswer::of_status(&status) == ApiAnswer::NotFound
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

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
