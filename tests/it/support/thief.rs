//! Somebody with a stolen token of Sluice's service account.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use sluice_testbed::Sluice;

use super::bed::BINARY;
use super::persist::{answered, persist};
use super::refusal;

/// What the jail says of a label or annotation of others.
pub const ENTRY: &str = "is not a key of Sluice: its account may write no others";
/// What the API server says where the account has no right.
pub const RBAC: &str = "User \"system:serviceaccount:sluice-system:sluice\" cannot";

/// Somebody with Sluice's token.
pub struct Thief(kube::Client);

impl Thief {
    pub async fn new() -> Result<Self> {
        Self::of(Sluice::shared(BINARY).sluice.kubeconfig()).await
    }

    pub async fn of(kubeconfig: &Path) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options).await?;
        config.default_retry = false;
        Ok(Self(kube::Client::try_from(config)?))
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> kube::Result<Value> {
        let kind = match (&method, body) {
            (&Method::PATCH, Value::Array(_)) => "application/json-patch+json",
            (&Method::PATCH, _) => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, kind);
        self.0
            .request(request.body(body).map_err(kube::Error::HttpError)?)
            .await
    }

    /// That the request is denied, with these words.
    pub async fn is_denied(
        &self,
        method: Method,
        path: &str,
        body: Value,
        why: &str,
    ) -> Result<()> {
        let answer = answered(async || self.send(method.clone(), path, &body).await).await?;
        let told = refusal(answer).with_context(|| format!("{method} {path} {body}"))?;
        ensure!(told.contains(why), "{method} {path} {body}: {told}");
        Ok(())
    }

    pub async fn is_allowed(&self, path: &str, body: Value) -> Result<()> {
        let answer = persist(async || self.send(Method::PATCH, path, &body).await).await;
        answer
            .map(drop)
            .with_context(|| format!("PATCH {path} {body}"))
    }
}

pub fn add(path: &str, value: Value) -> Value {
    json!([{"op": "add", "path": path, "value": value}])
}
