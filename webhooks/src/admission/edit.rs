//! The objects of a request that rules apply to.

use std::collections::HashSet;
use std::hash::Hash;

use serde_json::Value;
use sluice_kinds::gates::{GATE_ANNOTATIONS, OF_GATES, OF_RELEASE};
use sluice_kinds::metadata::{annotation, is_being_deleted};

use crate::admission::request::{Operation, Request};

/// The objects of a request that rules apply to.
pub(crate) struct Edit<'a> {
    /// The object as it shall be.
    pub(crate) new: &'a Value,
    /// The object as it is; absent when it is being created.
    pub(crate) old: Option<&'a Value>,
}

impl<'a> Edit<'a> {
    /// The edit of a request; none of what is being deleted, unless it changes what that tells of its gates and its
    /// release, or what a Gate reads.
    pub(crate) fn of(request: &'a Request) -> Option<Self> {
        let new = request.object.as_ref().filter(|object| {
            let is_judged = request.is_pod() || changes_gates(request, object);
            is_judged || changes_what_is_read(request, object) || !is_being_deleted(object)
        })?;
        match request.operation {
            Operation::Create => Some(Self { new, old: None }),
            Operation::Update => Some(Self {
                new,
                old: Some(request.old_object.as_ref()?),
            }),
            Operation::Delete | Operation::Connect => None,
        }
    }
}

impl Edit<'_> {
    /// The UID of the object. A manifest that replaces it need not name that: the API server fills it in later.
    pub(crate) fn uid(&self) -> Option<&str> {
        let uid = self.old.unwrap_or(self.new).pointer("/metadata/uid");
        uid.and_then(Value::as_str)
    }
}

/// What an edit brings in: what was `stored` before blocks no other edit.
pub(crate) fn brought_in<T: Eq + Hash>(mut new: Vec<T>, stored: Option<Vec<T>>) -> Vec<T> {
    // Objects of many labels have many.
    let stored: HashSet<T> = stored.into_iter().flatten().collect();
    new.retain(|one| !stored.contains(one));
    new
}

/// Whether the request changes what the object tells of its gates and its release.
fn changes_gates(request: &Request, new: &Value) -> bool {
    let old = request.old_object.as_ref();
    let differs = |key: &&str| old.is_some_and(|old| annotation(old, key) != annotation(new, key));
    let mut told = GATE_ANNOTATIONS.iter().chain(&OF_GATES).chain(&OF_RELEASE);
    request.operation == Operation::Update && told.any(differs)
}

/// Whether the request changes what a Gate has Sluice read: it does so until it is gone.
fn changes_what_is_read(request: &Request, new: &Value) -> bool {
    let after = |object: &Value| object.pointer("/spec/after").cloned();
    let is_gate = request.kind.group == sluice_crds::GROUP && request.kind.kind == "Gate";
    let old = request.old_object.as_ref();
    is_gate && old.is_some_and(|old| after(old) != after(new))
}
