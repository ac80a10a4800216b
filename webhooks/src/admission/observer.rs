//! The wall to whoever counts what is done about requests and objects.

use std::time::Duration;

use sluice_gates::Enforced;

use crate::admission::request::{GroupVersionKind, Request};

/// How an admission request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// `mutate` or `validate`.
    pub webhook: &'static str,
    /// `allowed`, `refused`, `retry` if it can't be judged yet, or `unreadable`.
    pub verdict: &'static str,
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
