//! The floor: a plain client that writes what Sluice writes for each Job, events included, and decides
//! nothing. It knows no quota, watches nothing, and writes nothing else (no statuses of queues).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::load::Size;
use crate::shared::resource;

/// Writes at the same time: as many as Sluice sends.
const CONCURRENCY: usize = 24;
/// Events at the same time, beside those, and how many may wait: as with Sluice.
const EVENTS_CONCURRENCY: usize = 4;
const EVENTS_WAITING_MAX: usize = 8192;
/// How Sluice is called in managedFields: they are part of an object's size.
const FIELD_MANAGER: &str = "sluice";
/// The label with the queue, which is also the name of its ClusterQueue.
const QUEUE: &str = "sluice.dev/queue-name";

/// What Sluice wrote for one Job, with the Job's names in it: those of others take their place.
#[derive(Clone, Debug)]
pub(crate) struct Mould {
    metadata: Value,
    spec: Value,
    admitted: Value,
    finished: Value,
    /// The events with which it told of the admission, and of the end.
    events: [Value; 2],
    /// What names the Job.
    names: Names,
}

#[derive(Clone, Debug)]
struct Names {
    uid: String,
    /// The first digits of the UID, which end a Workload's name.
    digits: String,
    name: String,
    queue: String,
}

impl Mould {
    /// From a Job, the Workload that Sluice has made for it, finished, and the events that it sent
    /// about the Job; none if events are missing, as not all are sent in a storm.
    pub(crate) fn of(
        job: &Job,
        workload: &DynamicObject,
        events: &[&Event],
    ) -> Result<Option<Self>> {
        let told = |reason| {
            let mut events = events.iter();
            events.find(|event| event.reason.as_deref() == Some(reason))
        };
        let (Some(admission), Some(end)) = (told("Admitted"), told("Finished")) else {
            return Ok(None);
        };
        let metadata = json!({
            "name": workload.metadata.name,
            "namespace": workload.metadata.namespace,
            "labels": workload.metadata.labels,
            "ownerReferences": workload.metadata.owner_references,
        });
        let finished = workload.data["status"].clone();
        let mut admitted = finished.clone();
        let conditions = admitted["conditions"].as_array_mut();
        conditions
            .context("a Workload without conditions")?
            .retain(|condition| condition["type"] != "Finished");
        Ok(Some(Self {
            metadata,
            spec: workload.data["spec"].clone(),
            admitted,
            finished,
            events: [sent(admission)?, sent(end)?],
            names: Names::of(job),
        }))
    }

    fn cast<T: DeserializeOwned>(&self, text: &Value, names: &Names) -> Result<T> {
        let text = text
            .to_string()
            .replace(&self.names.uid, &names.uid)
            .replace(&self.names.digits, &names.digits)
            .replace(&self.names.name, &names.name)
            .replace(&self.names.queue, &names.queue);
        Ok(serde_json::from_str(&text)?)
    }
}

/// An event as it was sent, under a name that the API server makes unique.
fn sent(event: &Event) -> Result<Value> {
    let event = event.clone();
    Ok(serde_json::to_value(Event {
        metadata: ObjectMeta {
            namespace: event.metadata.namespace,
            generate_name: Some("floor-".to_owned()),
            ..ObjectMeta::default()
        },
        deprecated_count: None,
        deprecated_first_timestamp: None,
        deprecated_last_timestamp: None,
        deprecated_source: None,
        ..event
    })?)
}

/// Sends events in the background, in order.
fn send_events(client: &Client) -> mpsc::Sender<Event> {
    let (sender, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let stream = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|event| (event, receiver))
    });
    tokio::spawn(
        stream.for_each_concurrent(EVENTS_CONCURRENCY, move |event| {
            let events = events.clone();
            async move {
                // It is missing in the report then.
                if let Err(error) = events.create(&PostParams::default(), &event).await {
                    eprintln!("an event of the floor was not sent: {error}");
                }
            }
        }),
    );
    sender
}

impl Names {
    fn of(job: &Job) -> Self {
        let uid = job.metadata.uid.clone().unwrap_or_default();
        let labels = job.metadata.labels.iter().flatten();
        let queue = labels
            .filter(|(key, _)| *key == QUEUE)
            .map(|(_, queue)| queue);
        Self {
            digits: uid.chars().filter(|c| *c != '-').take(16).collect(),
            uid,
            name: job.metadata.name.clone().unwrap_or_default(),
            queue: queue.cloned().collect(),
        }
    }
}

/// The plain client.
#[derive(Clone)]
pub(crate) struct Floor {
    workloads: Api<DynamicObject>,
    jobs: Api<Job>,
    moulds: Arc<HashMap<&'static str, Mould>>,
    slots: Arc<Semaphore>,
    events: mpsc::Sender<Event>,
    /// Whom to tell that a Job is complete, by its UID.
    waiting: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>,
    ended: mpsc::UnboundedSender<Result<()>>,
}

impl Floor {
    /// A client that tells of each Job whose last write was answered.
    pub(crate) fn new(
        client: &Client,
        moulds: HashMap<&'static str, Mould>,
    ) -> (Self, mpsc::UnboundedReceiver<Result<()>>) {
        let (ended, receiver) = mpsc::unbounded_channel();
        let workloads = resource("Workload", "workloads");
        let floor = Self {
            workloads: Api::default_namespaced_with(client.clone(), &workloads),
            jobs: Api::default_namespaced(client.clone()),
            moulds: Arc::new(moulds),
            slots: Arc::new(Semaphore::new(CONCURRENCY)),
            events: send_events(client),
            waiting: Arc::default(),
            ended,
        };
        (floor, receiver)
    }

    /// Begins with a Job that was created.
    pub(crate) fn created(&self, job: Job) {
        let (sender, completed) = oneshot::channel();
        let names = Names::of(&job);
        self.waiting().insert(names.uid.clone(), sender);
        let floor = self.clone();
        tokio::spawn(async move {
            let written = floor.write_all(&job, &names, completed).await;
            let _ = floor.ended.send(written);
        });
    }

    /// Goes on with a Job that is complete.
    pub(crate) fn completed(&self, uid: &str) {
        if let Some(sender) = self.waiting().remove(uid) {
            let _ = sender.send(());
        }
    }

    /// The four writes of a Job, one after the other, each with the preconditions that Sluice gives it,
    /// and the events about it.
    async fn write_all(
        &self,
        job: &Job,
        names: &Names,
        completed: oneshot::Receiver<()>,
    ) -> Result<()> {
        let size = Size::of_job(&names.name).context("a Job of no size")?;
        let mould = self.moulds.get(size.name()).context("no mould")?;
        let metadata: Value = mould.cast(&mould.metadata, names)?;
        let spec: Value = mould.cast(&mould.spec, names)?;
        let workload = serde_json::from_value(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
            "metadata": metadata, "spec": spec,
        }))?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let permit = self.slots.acquire().await?;
        let workload = self.workloads.create(&params, &workload).await?;
        drop(permit);

        let workload = self
            .write_status(&workload, mould, &mould.admitted, names)
            .await?;
        let [admission, end] = &mould.events;
        self.tell(mould.cast(admission, names)?);
        self.release(job, names).await?;
        completed.await.context("the stand-in ended")?;
        self.write_status(&workload, mould, &mould.finished, names)
            .await?;
        self.tell(mould.cast(end, names)?);
        Ok(())
    }

    /// Hands in an event. As with Sluice, an event for which there is no slot is dropped.
    fn tell(&self, event: Event) {
        let _ = self.events.try_send(event);
    }

    async fn write_status(
        &self,
        workload: &DynamicObject,
        mould: &Mould,
        status: &Value,
        names: &Names,
    ) -> Result<DynamicObject> {
        let status: Value = mould.cast(status, names)?;
        let patch = json!({
            "metadata": {"resourceVersion": workload.metadata.resource_version},
            "status": status,
        });
        let name = workload.metadata.name.as_deref().context("no name")?;
        let _permit = self.slots.acquire().await?;
        let patch = Patch::Merge(patch);
        Ok(self.workloads.patch_status(name, &params(), &patch).await?)
    }

    async fn release(&self, job: &Job, names: &Names) -> Result<()> {
        let patch = serde_json::from_value(json!([
            {"op": "test", "path": "/metadata/uid", "value": names.uid},
            {"op": "test", "path": "/metadata/generation", "value": job.metadata.generation},
            {"op": "test", "path": "/spec/suspend", "value": true},
            {"op": "add", "path": "/spec/template/metadata/labels/sluice.dev~1managed", "value": "true"},
            {"op": "add", "path": "/spec/template/metadata/annotations",
                "value": {"sluice.dev/pod-set": "main"}},
            {"op": "add", "path": "/spec/suspend", "value": false},
        ]))?;
        let _permit = self.slots.acquire().await?;
        let patch = Patch::Json::<()>(patch);
        self.jobs.patch(&names.name, &params(), &patch).await?;
        Ok(())
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
