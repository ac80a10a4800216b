//! The API server's audit log: who sent what. At the level Metadata there are no bodies in it.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// Sluice's own account.
pub const SLUICE: &str = "system:serviceaccount:sluice-system:sluice";

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub verb: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// The HTTP code of the answer.
    pub code: u64,
    /// When it was received: RFC 3339 with microseconds, in UTC, so that texts compare as times.
    pub at: String,
    /// The body, where the audit policy has it logged.
    pub body: Value,
}

impl Request {
    fn read(event: &Value) -> Self {
        let text = |pointer: &str| {
            event
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            verb: text("/verb"),
            resource: text("/objectRef/resource"),
            subresource: text("/objectRef/subresource"),
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            at: text("/requestReceivedTimestamp"),
            body: event["requestObject"].clone(),
        }
    }

    pub fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }

    pub fn has_succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// `patch jobs`, `patch workloads/status`.
    pub fn what(&self) -> String {
        let Self {
            verb,
            resource,
            subresource,
            ..
        } = self;
        match subresource.as_str() {
            "" => format!("{verb} {resource}"),
            subresource => format!("{verb} {resource}/{subresource}"),
        }
    }
}

/// Sluice's requests so far, in the order in which they were answered.
pub fn of_sluice(log: &Path) -> Result<Vec<Request>> {
    let text = std::fs::read_to_string(log).context("read the audit log")?;
    let events = text
        .lines()
        .filter(|line| line.contains(SLUICE))
        // The last line may be on its way.
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| {
            event["user"]["username"] == SLUICE && event["stage"] == "ResponseComplete"
        });
    Ok(events.map(|event| Request::read(&event)).collect())
}

/// Sluice's writes so far, events apart.
pub fn writes(log: &Path) -> Result<Vec<Request>> {
    let mut requests = of_sluice(log)?;
    requests.retain(|r| r.is_write() && r.resource != "events");
    Ok(requests)
}
