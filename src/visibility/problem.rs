//! Why a request is not answered, as a Status of the Kubernetes API.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use thiserror::Error;

use super::discovery::GROUP;

/// Seconds after which a client is to try again that could not be answered now.
const TRY_AGAIN_SECONDS: u32 = 1;
/// Longest part of a value that is told back, in characters.
const VALUE_MAX: usize = 64;

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// A parameter of the query has another value than it may have.
    #[error("{name}: Invalid value: {value:?}: {rule}")]
    Parameter {
        /// The parameter.
        name: String,
        /// Its value.
        value: String,
        /// What would be accepted.
        rule: &'static str,
    },
    /// There is no such object.
    #[error("{resource}.{GROUP} {name:?} not found")]
    NotFound {
        /// The resource.
        resource: &'static str,
        /// The name.
        name: String,
    },
    /// There is no such path.
    #[error("the server could not find the requested resource")]
    NoSuchPath,
    /// There is no such object, but something below it.
    #[error("{0}")]
    OnlySubresources(String),
    /// Nothing is written in a form that the reader accepts.
    #[error("only the following media types are accepted: application/json")]
    NotAcceptable,
    /// Nothing is changed by this API.
    #[error("the server does not allow this method on the requested resource")]
    Method,
    /// No replica leads at the moment, or the one that leads has just begun.
    #[error("no replica of Sluice leads at the moment; try again in a second")]
    NoLeader,
    /// The controller did not answer in time, or too many ask.
    #[error("Sluice is busy; try again in a second")]
    Busy,
    /// More wait in this queue than are kept for readers.
    #[error("more than {max} wait in this queue, which is more than is listed; see its status")]
    TooMany {
        /// How many are kept.
        max: usize,
    },
}

impl Problem {
    /// A parameter has a value that it may not have.
    pub fn parameter(name: &str, value: &str, rule: &'static str) -> Self {
        Self::Parameter {
            name: name.to_owned(),
            value: value.chars().take(VALUE_MAX).collect(),
            rule,
        }
    }

    /// There is no object of this name.
    pub fn not_found(resource: &'static str, name: &str) -> Self {
        Self::NotFound {
            resource,
            name: name.to_owned(),
        }
    }

    /// What the user is told.
    pub fn message(&self) -> String {
        self.to_string()
    }

    fn code_and_reason(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Parameter { .. } => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::NotFound { .. } | Self::NoSuchPath | Self::OnlySubresources(_) => {
                (StatusCode::NOT_FOUND, "NotFound")
            }
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "NotAcceptable"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::NoLeader | Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            // It lasts: clients try again what is not available.
            Self::TooMany { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
        }
    }

    fn is_passing(&self) -> bool {
        matches!(self, Self::NoLeader | Self::Busy)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, reason) = self.code_and_reason();
        let details = match &self {
            Self::NotFound { resource, name } => {
                json!({"group": GROUP, "kind": resource, "name": name})
            }
            _ if self.is_passing() => json!({"retryAfterSeconds": TRY_AGAIN_SECONDS}),
            _ => json!({}),
        };
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message(),
            "reason": reason,
            "details": details,
            "code": code.as_u16(),
        });
        let mut response = (code, Json(status)).into_response();
        if self.is_passing() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, TRY_AGAIN_SECONDS.into());
        }
        response
    }
}
