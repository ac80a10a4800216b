//! What users do in a round. They ask again until they are answered: API servers and webhooks come and go.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use kube::{Client, Error};
use serde_json::{Value, json};
use sluice_faults::load::Act;
use sluice_testbed::eventually;

/// For so long a request is tried again: longer than anything is away.
const PATIENCE: Duration = Duration::from_mins(3);
/// Longest time for one request.
const REQUEST: Duration = Duration::from_secs(10);

pub struct User {
    client: Client,
    namespace: String,
}

impl User {
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
        }
    }

    pub async fn act(&self, act: &Act) -> Result<()> {
        match act {
            Act::Create(job) => self.create(job).await,
            Act::Delete(name) => self.delete(name).await,
            Act::LiftGate(name) => {
                let gates = json!({"kueue.x-k8s.io/scheduling-gated-by": null});
                let patch = Patch::Merge(json!({"metadata": {"annotations": gates}}));
                let api = self.api(&json!({"apiVersion": "batch/v1", "kind": "Job"}))?;
                persist("lift a gate", async || {
                    api.patch(name, &PatchParams::default(), &patch).await
                })
                .await
            }
        }
    }

    pub async fn create(&self, object: &Value) -> Result<()> {
        let api = self.api(object)?;
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        persist("create", async || {
            api.create(&PostParams::default(), &object).await
        })
        .await
    }

    /// The jobs of the namespace.
    pub async fn jobs(&self) -> Result<Vec<Value>> {
        self.list(self.api(&json!({"apiVersion": "batch/v1", "kind": "Job"}))?)
            .await
    }

    /// The Workloads of the namespace.
    pub async fn workloads(&self) -> Result<Vec<Value>> {
        let kind = json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Workload"});
        self.list(self.api(&kind)?).await
    }

    /// The pods of the namespace.
    pub async fn pods(&self) -> Result<Vec<Value>> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        self.list(Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &resource,
        ))
        .await
    }

    async fn list(&self, api: Api<DynamicObject>) -> Result<Vec<Value>> {
        let list = tokio::time::timeout(REQUEST, api.list(&ListParams::default())).await??;
        list.items
            .into_iter()
            .map(|job| Ok(serde_json::to_value(job)?))
            .collect()
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let api = self.api(&json!({"apiVersion": "batch/v1", "kind": "Job"}))?;
        persist("delete", async || {
            match api.delete(name, &DeleteParams::background()).await {
                Ok(_) => Ok(()),
                Err(Error::Api(status)) if status.code == 404 => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await
    }

    fn api(&self, object: &Value) -> Result<Api<DynamicObject>> {
        let text = |field: &str| object[field].as_str().context("an object without a kind");
        let (group, version) = text("apiVersion")?
            .split_once('/')
            .context("a kind without a group")?;
        let kind = text("kind")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Ok(if ["Job", "LocalQueue", "Workload"].contains(&kind) {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        })
    }
}

/// Asks until it is answered; that it is there already is an answer to who asks again.
async fn persist<T>(what: &str, mut attempt: impl AsyncFnMut() -> kube::Result<T>) -> Result<()> {
    eventually(what, PATIENCE, async || {
        match tokio::time::timeout(REQUEST, attempt()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Error::Api(status))) if status.reason == "AlreadyExists" => Ok(()),
            Ok(Err(error)) => Err(format!("{error}")),
            Err(_) => Err("no answer".to_owned()),
        }
    })
    .await
}
