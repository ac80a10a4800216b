//! What is read of the settings' objects: their types, and what is known of one that can't be read.

use kube::api::DynamicObject;
use serde_json::Value;
use sluice_crds::ClusterQueueSpec;
use sluice_engine::LocalQueueKey;
use thiserror::Error;

/// Why an object of the settings can't be read.
#[derive(Debug, Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Fields(#[from] serde_json::Error),
    #[error("its name must be <path>.<domain>")]
    GateName,
}

/// The object, as its type has it.
pub(super) fn parse<T: serde::de::DeserializeOwned + Clone>(
    object: Option<&DynamicObject>,
) -> Result<Option<T>, ReadError> {
    let Some(object) = object else {
        return Ok(None);
    };
    let value = serde_json::to_value(object)?;
    Ok(Some(serde_json::from_value(value)?))
}

/// A ClusterQueue that can't be read, and of which nothing is known: it admits nothing.
pub(super) fn held_queue(name: &str, object: &DynamicObject) -> sluice_engine::ClusterQueue {
    let spec = ClusterQueueSpec {
        cohort_name: text(object, "cohortName"),
        ..ClusterQueueSpec::default()
    };
    sluice_translate::uncountable_cluster_queue(name, &spec)
}

/// A Cohort that can't be read, and of which nothing is known: it has no quota.
pub(super) fn held_cohort(name: &str, object: &DynamicObject) -> sluice_engine::Cohort {
    sluice_engine::Cohort {
        parent: text(object, "parentName").map(|parent| parent.as_str().into()),
        ..sluice_engine::Cohort::new(name.into())
    }
}

/// A LocalQueue that can't be read, and of which nothing is known: its jobs wait.
pub(super) fn held_local_queue(
    key: &LocalQueueKey,
    object: &DynamicObject,
) -> sluice_engine::LocalQueue {
    let queue = text(object, "clusterQueue").unwrap_or_default();
    sluice_engine::LocalQueue {
        stop: sluice_engine::StopPolicy::Hold,
        ..sluice_engine::LocalQueue::new(key.clone(), queue.as_str().into())
    }
}

/// A field of the spec, if that can be read.
pub fn text(object: &DynamicObject, field: &str) -> Option<String> {
    let value = object.data.get("spec")?.get(field).and_then(Value::as_str);
    value.map(str::to_owned)
}
