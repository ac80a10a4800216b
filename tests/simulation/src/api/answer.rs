//! Answers as an API server words them.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::resource::{Place, Resource};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code of the answer.
    pub code: u16,
    /// The reason, one word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// The object that it is about: its name, kind and group.
    about: Option<(String, String, String)>,
}

impl Refusal {
    /// A refusal that names no object.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        let reason = match code {
            400 => "BadRequest",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        Self {
            code,
            reason,
            message: message.into(),
            about: None,
        }
    }

    fn about(mut self, place: &Place) -> Self {
        let Resource { plural, group, .. } = place.resource;
        self.about = Some((
            place.name.clone(),
            (*plural).to_owned(),
            (*group).to_owned(),
        ));
        self
    }

    /// There is no such object.
    pub fn not_found(place: &Place) -> Self {
        let message = format!("{} {:?} not found", place.resource.qualified(), place.name);
        Self::new(404, message).about(place)
    }

    /// There is one of this name already.
    pub fn exists(place: &Place) -> Self {
        let message = format!(
            "{} {:?} already exists",
            place.resource.qualified(),
            place.name
        );
        Self {
            reason: "AlreadyExists",
            ..Self::new(409, message).about(place)
        }
    }

    /// The object is not as the request says.
    pub fn conflict(place: &Place, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {:?}: {why}",
            place.resource.qualified(),
            place.name
        );
        Self::new(409, message).about(place)
    }

    /// The object may not be so.
    pub fn invalid(place: &Place, why: &str) -> Self {
        let message = format!("{} {:?} is invalid: {why}", place.resource.kind, place.name);
        Self::new(422, message).about(place)
    }

    /// As a Status object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some((name, kind, group)) = &self.about {
            status["details"] = json!({"name": name, "kind": kind, "group": group});
            // The field comes first in the message: as in `Pod "a" is invalid: spec.x: Invalid value`.
            let field = self.message.split(" is invalid: ").nth(1);
            let field = field.and_then(|rest| rest.split_once(": "));
            if let (422, Some((field, message))) = (self.code, field) {
                status["details"]["causes"] = json!([{"field": field, "message": message}]);
            }
        }
        status
    }
}

/// An answer of this code.
pub(super) fn json_of(code: u16, value: &Value) -> Response<Vec<u8>> {
    let body = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

/// An object as a request wants it: whole, or its metadata alone.
pub(super) fn shown(object: &Value, metadata_only: bool) -> Value {
    if !metadata_only {
        return object.clone();
    }
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": object["metadata"],
    })
}
