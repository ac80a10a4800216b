//! The answer: what is wrong, what to warn of and what to change; and how that is told to the API
//! server.

use json_patch::PatchOperation;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusDetails};
use serde::Serialize;
use sluice_gates::Enforced;
use sluice_kinds::problem::{Problem, ProblemKind, summarize};

use crate::admission::request::{API_VERSION, KIND};

/// When to ask again about what can't be judged yet.
const RETRY_SECONDS: i32 = 1;

/// The answer to one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// What is wrong. Empty: the request is allowed.
    pub problems: Vec<Problem>,
    /// What the user is told although the request is allowed.
    pub warnings: Vec<String>,
    /// What to change in the object. Empty unless the request is allowed.
    pub patch: Vec<PatchOperation>,
    /// Whether the same request may be allowed in a moment: it can't be judged yet.
    pub is_early: bool,
    /// What was done, or reported, about an object that names no queue where one is required.
    pub enforced: Option<Enforced>,
    /// What would be done about the object, for an event on it once it is there.
    pub report: Option<String>,
}

/// A right that a request needs, and that its author was not found to have; with what is told of that.
#[derive(Debug)]
pub(crate) enum NoRight {
    /// The API server says no.
    Denied(Problem),
    /// It can't be found out now.
    Unknown(Problem),
}

/// An `AdmissionReview` that answers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Verdict {
    /// Allows the request as it is.
    pub fn allowed() -> Self {
        Self::default()
    }

    /// Refuses the request if there are problems.
    pub fn of(problems: Vec<Problem>) -> Self {
        Self {
            problems,
            ..Self::default()
        }
    }

    /// Refuses a request that can't be judged yet.
    pub fn early(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
            is_early: true,
            ..Self::default()
        }
    }

    /// Refuses a request whose author misses these rights. What is denied is all that is told then, as another try would
    /// be denied again; without that, another try may do.
    pub(crate) fn of_missing(missing: impl IntoIterator<Item = NoRight>) -> Self {
        let mut denied = Vec::new();
        let mut unknown = None;
        for right in missing {
            match right {
                NoRight::Denied(problem) => denied.push(problem),
                NoRight::Unknown(problem) => unknown = unknown.or(Some(problem)),
            }
        }
        match unknown {
            Some(problem) if denied.is_empty() => Self::early(problem),
            Some(_) | None => Self::of(denied),
        }
    }

    /// Whether the request may go on.
    pub fn is_allowed(&self) -> bool {
        self.problems.is_empty()
    }

    /// The problems in one line; empty if the request is allowed.
    pub fn message(&self) -> String {
        summarize(&self.problems)
    }

    /// The answer to the request `uid`.
    pub(crate) fn into_answer(self, uid: String) -> Result<Answer, serde_json::Error> {
        let patch = if self.is_allowed() && !self.patch.is_empty() {
            Some(ByteString(serde_json::to_vec(&self.patch)?))
        } else {
            None
        };
        let response = Response {
            uid,
            allowed: self.is_allowed(),
            status: (!self.is_allowed()).then(|| self.status()),
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            patch,
            warnings: self.warnings,
        };
        Ok(Answer {
            api_version: API_VERSION,
            kind: KIND,
            response,
        })
    }

    /// The status of a refusal: 403 if all that is wrong is that the edit is not allowed, 422 if a
    /// value is wrong; as the API server itself tells the two apart. 503 if it can't be judged yet: with
    /// the seconds to wait, clients of Kubernetes send the request again by themselves.
    ///
    /// Without causes in `details`: kubectl would show them in place of the message, which is where the
    /// API server names the webhook.
    fn status(&self) -> Status {
        if self.is_early {
            return Status {
                status: Some("Failure".to_owned()),
                code: Some(503),
                reason: Some("ServiceUnavailable".to_owned()),
                message: Some(self.message()),
                details: Some(StatusDetails {
                    retry_after_seconds: Some(RETRY_SECONDS),
                    ..StatusDetails::default()
                }),
                ..Status::default()
            };
        }
        let only_forbidden = self
            .problems
            .iter()
            .all(|p| p.kind == ProblemKind::Forbidden);
        let (code, reason) = if only_forbidden {
            (403, "Forbidden")
        } else {
            (422, "Invalid")
        };
        Status {
            status: Some("Failure".to_owned()),
            code: Some(code),
            reason: Some(reason.to_owned()),
            message: Some(self.message()),
            ..Status::default()
        }
    }
}
