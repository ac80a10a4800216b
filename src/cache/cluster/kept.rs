//! What is kept of a queue, a cohort or a JobKind beside what it says, and what is wrong with it.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

/// What is kept of a queue or cohort beside what the engine knows.
#[derive(Debug, Clone)]
pub struct Kept<Status> {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The status that the API server has.
    pub status: Status,
    /// What is wrong with the object, if something is.
    pub fault: Option<Fault>,
}

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It can't be used at all.
    Broken(String),
    /// It can't be read, and is in force as it was before.
    Unreadable(String),
}

impl<Status: Default> Kept<Status> {
    /// An object that was read. What is wrong with it says why it can't be used.
    pub fn new(metadata: &ObjectMeta, status: Option<Status>, broken: Option<String>) -> Self {
        Self {
            generation: metadata.generation,
            status: status.unwrap_or_default(),
            fault: broken.map(Fault::Broken),
        }
    }
}

impl<Status> Kept<Status> {
    /// Whether the object can't be used at all.
    pub fn is_broken(&self) -> bool {
        matches!(self.fault, Some(Fault::Broken(_)))
    }

    /// The object can't be read any more.
    pub fn note_unreadable(&mut self, object: &DynamicObject, error: &str) {
        self.generation = object.metadata.generation;
        self.fault = Some(if self.is_broken() {
            Fault::Broken(error.to_owned())
        } else {
            Fault::Unreadable(error.to_owned())
        });
    }
}

/// One of these objects can't be read any more.
pub(super) fn note_unreadable<Key: Ord + Borrow<At>, At: Ord + ?Sized, Status>(
    kept: &mut BTreeMap<Key, Kept<Status>>,
    at: &At,
    object: &DynamicObject,
    error: &str,
) {
    if let Some(kept) = kept.get_mut(at) {
        kept.note_unreadable(object, error);
    }
}

/// What is kept of an object of which nothing was known before.
pub fn unknown<Status: DeserializeOwned + Default>(
    object: &DynamicObject,
    error: &str,
) -> Kept<Status> {
    let status = object.data.get("status").cloned();
    let status = status.and_then(|status| serde_json::from_value(status).ok());
    Kept::new(&object.metadata, status, Some(error.to_owned()))
}
