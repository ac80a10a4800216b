//! Waiting until no Sluice decides any more: by the Lease, which a leader renews every few seconds and gives back when it
//! ends. Its account has lost its rights by now, so one that runs somewhere else than in the Deployment ends, too.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::answer;
use crate::uninstall::outcome::UninstallError;
use crate::uninstall::parts::NAME;

/// How long a Lease lasts that is not renewed, and a leader's term with it.
const LEASE: Duration = Duration::from_secs(15);
/// How long a process may take to end: its grace period, and its Lease if it is killed.
const DEADLINE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(500);

/// Waits until nobody has renewed the Lease for as long as it lasts, or it was given back.
pub(super) async fn wait(client: &Client, namespace: &str) -> Result<(), UninstallError> {
    let resource = ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
    let leases = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let began = Instant::now();
    let mut seen: Option<(Value, Instant)> = None;
    loop {
        let lease = answer("read Sluice's Lease", leases.get_opt(NAME)).await?;
        let Some(spec) = lease.and_then(|lease| lease.data.get("spec").cloned()) else {
            return Ok(());
        };
        let holder = spec.get("holderIdentity").and_then(Value::as_str);
        let holder = holder.unwrap_or_default().to_owned();
        if holder.is_empty() {
            return Ok(());
        }
        // By a clock of one's own: the cluster's may be another.
        match &seen {
            Some((before, since)) if *before == spec => {
                if LEASE <= since.elapsed() {
                    return Ok(());
                }
            }
            _ => seen = Some((spec, Instant::now())),
        }
        if DEADLINE <= began.elapsed() {
            return Err(UninstallError::StillRuns {
                holder,
                namespace: namespace.to_owned(),
            });
        }
        sleep(POLL).await;
    }
}
