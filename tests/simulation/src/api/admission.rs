//! Admission: the webhooks of a replica, called as an API server calls them. Which requests they are asked
//! about is wider than the match conditions that are installed: whatever is written to jobs and pods.

use std::sync::{Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request as HttpRequest;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::answer::Refusal;
use super::patch;
use super::resource::Place;
use super::server::Author;
use crate::network::SLUICE;

/// Kinds whose objects webhooks are asked about.
const KINDS: [&str; 2] = ["Job", "Pod"];

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
}

/// The webhooks that are asked.
#[derive(Debug, Default)]
pub struct Reviews(Mutex<Webhooks>);

/// Who is asked.
#[derive(Debug, Default)]
pub enum Webhooks {
    /// None are installed.
    #[default]
    None,
    /// They are installed, and nobody answers.
    Down,
    /// These.
    Up(Router),
}

impl Reviews {
    /// From now on this one is asked.
    pub fn serve(&self, router: Router) {
        drop(self.set(Webhooks::Up(router)));
    }

    /// From now on nobody answers. Who did until now.
    pub fn fail(&self) -> Webhooks {
        self.set(Webhooks::Down)
    }

    /// Those answer again, unless others do by now.
    pub fn restore(&self, webhooks: Webhooks) {
        let mut present = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*present, Webhooks::Down) {
            *present = webhooks;
        }
    }

    fn set(&self, webhooks: Webhooks) -> Webhooks {
        let mut present = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *present, webhooks)
    }

    /// The object as the mutating webhook makes it.
    pub(super) async fn mutate(
        &self,
        author: &Author,
        operation: Operation,
        place: &Place,
        old: Option<&Value>,
        mut object: Value,
    ) -> Result<Value, Refusal> {
        let answer = self
            .ask("/mutate", author, operation, place, old, &object)
            .await?;
        if let Some(text) = answer["patch"].as_str() {
            let malformed = || Refusal::new(500, "the patch of a webhook can't be read");
            let bytes = STANDARD.decode(text).map_err(|_| malformed())?;
            let made: Value = serde_json::from_slice(&bytes).map_err(|_| malformed())?;
            patch::apply("application/json-patch+json", &mut object, &made)
                .map_err(|(_, message)| Refusal::new(500, message))?;
        }
        Ok(object)
    }

    /// Whether the validating webhook allows an object.
    pub(super) async fn validate(
        &self,
        author: &Author,
        operation: Operation,
        place: &Place,
        old: Option<&Value>,
        object: &Value,
    ) -> Result<(), Refusal> {
        self.ask("/validate", author, operation, place, old, object)
            .await
            .map(drop)
    }

    async fn ask(
        &self,
        path: &str,
        author: &Author,
        operation: Operation,
        place: &Place,
        old: Option<&Value>,
        object: &Value,
    ) -> Result<Value, Refusal> {
        // As the match conditions have it.
        let is_job = place.resource.kind == "Job";
        let is_deleted = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let is_asked = KINDS.contains(&place.resource.kind)
            && **author != *SLUICE
            && !(is_job && old.is_some_and(is_deleted));
        if !is_asked {
            return Ok(Value::Null);
        }
        let router = match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Webhooks::None => return Ok(Value::Null),
            Webhooks::Down => {
                let why = "Internal error occurred: failed calling webhook: connection refused";
                return Err(Refusal::new(500, why));
            }
            Webhooks::Up(router) => router.clone(),
        };
        let review = review(author, operation, place, old, object);
        let failed = |why: String| {
            Refusal::new(
                500,
                format!("Internal error occurred: failed calling webhook: {why}"),
            )
        };
        let body = Body::from(review.to_string());
        let request = HttpRequest::post(path).header("content-type", "application/json");
        let request = request
            .body(body)
            .map_err(|error| failed(error.to_string()))?;
        let answer = router.oneshot(request).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let status = answer.status();
        let body = answer.into_body().collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body).into_owned();
            return Err(failed(format!("{status}: {text}")));
        }
        let answer: Value =
            serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))?;
        let response = &answer["response"];
        if response["allowed"] == true {
            return Ok(response.clone());
        }
        let code = response["status"]["code"].as_u64().unwrap_or(403);
        let message = response["status"]["message"].as_str().unwrap_or_default();
        let message = format!("admission webhook denied the request: {message}");
        Err(Refusal::new(u16::try_from(code).unwrap_or(403), message))
    }
}

fn review(
    author: &Author,
    operation: Operation,
    place: &Place,
    old: Option<&Value>,
    object: &Value,
) -> Value {
    let resource = place.resource;
    let kind = json!({
        "group": resource.group, "version": resource.version, "kind": resource.kind,
    });
    let named = json!({
        "group": resource.group, "version": resource.version, "resource": resource.plural,
    });
    let operation = match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
    };
    let groups = match author.split(':').collect::<Vec<_>>().as_slice() {
        ["system", "serviceaccount", namespace, _] => vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        _ => vec!["system:authenticated".to_owned()],
    };
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "00000000-0000-4000-8000-000000000000",
            "kind": kind, "resource": named, "requestKind": kind, "requestResource": named,
            "name": place.name, "namespace": place.namespace, "operation": operation,
            "userInfo": {"username": &**author, "groups": groups},
            "object": object, "oldObject": old, "dryRun": false,
        },
    })
}
