//! What Sluice told about an object by events.
//!
//! Must not know what is made of them.

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use crate::cluster::{ClusterError, answer};

/// What Sluice last told about a pod; nothing about one that is gone.
///
/// # Errors
/// The API server refuses or does not answer.
pub(super) async fn last_event(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Vec<(String, String)>, ClusterError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = match answer("read the pod", pods.get_metadata(name)).await {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        found => found?,
    };
    let uid = pod.uid().unwrap_or_default();
    let events = events_about(client, namespace, &uid).await?;
    let last = events.into_iter().max_by_key(told_at);
    let told = last.map(|event| {
        (
            event.reason.unwrap_or_default(),
            event.message.unwrap_or_default(),
        )
    });
    Ok(told.into_iter().collect())
}

/// Members of a pod group whose events are read: what is told of a group is told of one of them.
const MEMBERS_MAX: usize = 20;

/// What Sluice last told about any of the objects with these UIDs, in words.
///
/// # Errors
/// The API server refuses or does not answer.
pub(super) async fn last_told(
    client: &Client,
    namespace: &str,
    uids: impl IntoIterator<Item = String>,
) -> Result<Option<String>, ClusterError> {
    let mut all = Vec::new();
    for uid in uids.into_iter().take(MEMBERS_MAX) {
        all.extend(events_about(client, namespace, &uid).await?);
    }
    let last = all.into_iter().max_by_key(told_at);
    let told = last.and_then(|event| event.reason.zip(event.message));
    Ok(told.map(|(reason, message)| format!("{reason}: {message}")))
}

/// What Sluice told about the object with this UID.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn events_about(
    client: &Client,
    namespace: &str,
    uid: &str,
) -> Result<Vec<Event>, ClusterError> {
    let fields = format!("involvedObject.uid={uid}");
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().fields(&fields);
    let mut found = answer("list events", events.list(&params)).await?.items;
    found.retain(|event| event.reporting_component.as_deref() == Some("sluice"));
    Ok(found)
}

/// When an event was told last.
pub fn told_at(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref();
    let last = series.and_then(|series| series.last_observed_time.clone());
    last.or(event.event_time.clone()).map(|at| at.0)
}
