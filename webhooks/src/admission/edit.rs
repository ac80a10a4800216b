//! The objects of a request that rules apply to.

use serde_json::Value;
use sluice_kinds::metadata::is_being_deleted;

use crate::admission::request::{Operation, Request};

/// The objects of a request that rules apply to.
pub(crate) struct Edit<'a> {
    /// The object as it shall be.
    pub(crate) new: &'a Value,
    /// The object as it is; absent when it is being created.
    pub(crate) old: Option<&'a Value>,
}

impl<'a> Edit<'a> {
    pub(crate) fn of(request: &'a Request) -> Option<Self> {
        let new = request
            .object
            .as_ref()
            .filter(|object| request.is_pod() || !is_being_deleted(object))?;
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
