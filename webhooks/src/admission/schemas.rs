//! The wall to the API server. One question can't be judged from a request alone: whether a JobKind
//! fits the schema of its kind. The caller of this crate looks that up; nothing here does.

use std::pin::Pin;

use serde_json::Value;

/// Looks up what the API server publishes.
pub trait Schemas: Send + Sync {
    /// The OpenAPI v3 document of this API group, empty for the core group, and version. Both are
    /// valid as parts of a path. Must answer within a second: an API server waits meanwhile.
    fn published<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> Pin<Box<dyn Future<Output = Published> + Send + 'a>>;
}

/// What is known of the schema of an API group and version.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// This OpenAPI v3 document.
    Document(Value),
    /// It is not served.
    NotServed,
    /// It can't be had for now. Says why.
    Unreadable(String),
}
