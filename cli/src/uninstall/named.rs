//! An object that Sluice holds, as it is told of, read again and written; and with what that is done.
//!
//! Must not know which objects there are, nor what has to be done to one.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::Value;
use sluice_kinds::CompiledKind;
use tokio::time::{Instant, sleep};

use crate::cluster::{ClusterError, DryRun, Resource, Served, answer};
use crate::uninstall::held::Queued;

/// How long API servers may take to forget a policy or webhook that was deleted: as a rule a second.
const FORGETTING: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(500);

/// How often an object is looked at that was changed, or made again, meanwhile.
pub(super) const TRIES: usize = 5;

/// With what objects and pods are read and written.
pub(super) struct Held<'a> {
    pub(super) client: &'a Client,
    pub(super) served: &'a Served,
    pub(super) road: Road,
    /// The kinds, by group and kind.
    pub(super) kinds: BTreeMap<(String, String), CompiledKind>,
    pub(super) queued: Queued,
}

/// What becomes of what Sluice holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Road {
    /// It stays, and is listed.
    List,
    /// It is started.
    Start {
        /// Whether the API server is only asked.
        dry_run: DryRun,
    },
}

/// An object, as it is told of.
pub(super) struct Named<'a> {
    pub(super) resource: &'a Resource,
    pub(super) object: &'a DynamicObject,
}

impl Named<'_> {
    /// The object as it is now; None if it is gone.
    pub(super) async fn again(
        &self,
        client: &Client,
    ) -> Result<Option<DynamicObject>, ClusterError> {
        let metadata = &self.object.metadata;
        let objects = self.resource.objects(client, metadata.namespace.as_deref());
        let name = metadata.name.as_deref().unwrap_or_default();
        answer(format!("read {self}"), objects.get_opt(name)).await
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = &self.object.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        write!(f, "{}/{name} in {namespace}", self.resource.name)
    }
}

/// Sends a patch; again while an API server has not yet forgotten a webhook or policy of Sluice that was deleted.
pub(super) async fn write<P: serde::Serialize + fmt::Debug>(
    client: &Client,
    named: &Named<'_>,
    patch: &Patch<P>,
    dry_run: DryRun,
) -> Result<(), ClusterError> {
    let namespace = named.object.metadata.namespace.as_deref();
    let objects: Api<DynamicObject> = named.resource.objects(client, namespace);
    let name = named.object.metadata.name.as_deref().unwrap_or_default();
    let params = PatchParams {
        dry_run: dry_run.is_dry(),
        ..PatchParams::default()
    };
    let began = Instant::now();
    loop {
        let written = answer(
            format!("patch {named}"),
            objects.patch(name, &params, patch),
        )
        .await;
        match written {
            Ok(_) => return Ok(()),
            // In a dry run they are there still, and will be gone.
            Err(error) if dry_run.is_dry() && is_of_sluice(&error) => return Ok(()),
            Err(error) if is_of_sluice(&error) && began.elapsed() < FORGETTING => sleep(POLL).await,
            Err(error) => return Err(error),
        }
    }
}

/// Whether one of Sluice's own webhooks or policies refuses.
fn is_of_sluice(error: &ClusterError) -> bool {
    let ClusterError::Refused(status) = error else {
        return false;
    };
    let told = &status.message;
    let is_policy = told.contains("AdmissionPolicy 'sluice-");
    is_policy || told.contains("webhook") && told.contains(".sluice.dev\"")
}

pub(super) fn value(object: &DynamicObject) -> Value {
    // It was made of JSON.
    serde_json::to_value(object).unwrap_or_default()
}
