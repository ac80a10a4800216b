//! The patch that gives an object labels at its creation. Which those are lies in the webhooks.

use std::collections::BTreeMap;

use json_patch::Patch;
use serde_json::Value;

use crate::patch::gating::add_metadata;
use crate::read::place::Place;

/// The patch that gives `object` these labels.
pub fn label_object_patch(object: &Value, labels: &BTreeMap<String, String>) -> Patch {
    Patch(add_metadata(
        object,
        &Place::pod(),
        labels,
        &BTreeMap::new(),
    ))
}
