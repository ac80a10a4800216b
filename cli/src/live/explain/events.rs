//! What Sluice told about an object by events.
//!
//! Must not know what is made of them.

use std::ops::ControlFlow;

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use crate::cluster::{ClusterError, answer, pages};

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

/// How many bytes of events about one object are kept: whoever may create events may create many.
const EVENTS_BYTES_MAX: usize = 1 << 20;

/// What Sluice told about the object with this UID, as far as that is no more than can be looked at.
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
    let (mut found, mut left) = (Vec::new(), EVENTS_BYTES_MAX);
    pages::each("list events", &events, params, |written| {
        // One that can't be read is of somebody else.
        let event = written.read::<Event>().ok();
        let own = event.filter(|event| event.reporting_component.as_deref() == Some("sluice"));
        let Some(mut event) = own else {
            return Ok(ControlFlow::Continue(()));
        };
        event.metadata.managed_fields = None;
        event.metadata.annotations = None;
        let bytes = serde_json::to_vec(&event).map_or(0, |text| text.len());
        let Some(rest) = left.checked_sub(bytes) else {
            return Ok(ControlFlow::Break(()));
        };
        left = rest;
        found.push(event);
        Ok::<_, ClusterError>(ControlFlow::Continue(()))
    })
    .await?;
    Ok(found)
}

/// When an event was told last.
pub fn told_at(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref();
    let last = series.and_then(|series| series.last_observed_time.clone());
    last.or(event.event_time.clone()).map(|at| at.0)
}
