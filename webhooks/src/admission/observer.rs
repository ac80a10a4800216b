//! The wall to whoever counts what is done about requests and objects.

use std::time::Duration;

use sluice_gates::Enforced;

use crate::admission::request::{GroupVersionKind, Request};

/// One of the two webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Webhook {
    /// It says what to change in an object.
    Mutate,
    /// It says whether a request may go on.
    Validate,
}

impl Webhook {
    /// The name, as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

/// What came of an admission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// It may go on.
    Allowed,
    /// It may not.
    Refused,
    /// It can't be judged yet, and its sender is to ask again.
    Retry,
    /// It is no review, or did not arrive whole.
    Unreadable,
}

impl ReviewOutcome {
    /// The name, as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Retry => "retry",
            Self::Unreadable => "unreadable",
        }
    }
}

/// How an admission request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// By which webhook.
    pub webhook: Webhook,
    /// What came of it.
    pub outcome: ReviewOutcome,
    /// The time from the headers to the answer.
    pub took: Duration,
}

/// What would be done about an object that is being created, if it were enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What the object is.
    pub kind: GroupVersionKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What would be done.
    pub message: String,
}

impl Report {
    /// Of the object of a request; none if it has no name or UID yet.
    pub(crate) fn of(request: &Request, message: String) -> Option<Self> {
        let metadata = request.object.as_ref()?.get("metadata")?;
        let text = |key: &str| metadata.get(key)?.as_str().map(str::to_owned);
        Some(Self {
            kind: request.kind.clone(),
            namespace: request.namespace.clone(),
            name: text("name")?,
            uid: text("uid")?,
            message,
        })
    }
}

/// Counts what is done.
pub trait Observer: Send + Sync {
    /// A request was answered.
    fn answered(&self, answered: Answered);

    /// An object that names no queue was created where one is required, and this was done or reported.
    fn enforced(&self, enforced: Enforced);

    /// An object is being created, of which is only reported what would be done about it.
    fn reported(&self, report: Report);
}
