//! Leader election on a Lease, after client-go's algorithm: a lease has expired when it was seen
//! unchanged for its whole duration on the local monotonic clock, whatever its timestamps say. A
//! leader that can't renew gives up well before others may take over.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// The name of the Lease.
const NAME: &str = "sluice";
/// How long a lease is good for after its last renewal.
const LEASE: Duration = Duration::from_secs(15);
/// A leader that could not renew for this long stops. A write that was sent just before has its own
/// deadline of 5 s, so it has ended when the lease has.
const RENEW_DEADLINE: Duration = Duration::from_secs(9);
/// How often the lease is renewed or looked at.
const RETRY: Duration = Duration::from_secs(2);
/// Requests that a dead leader had under way end with its connection; until then nothing is listed.
const AFTERMATH: Duration = Duration::from_secs(1);
/// Longest time for one request.
const REQUEST: Duration = Duration::from_secs(3);
const _: () = assert!(RENEW_DEADLINE.as_secs() + 5 < LEASE.as_secs());
const _: () = assert!(RETRY.as_secs() + REQUEST.as_secs() < RENEW_DEADLINE.as_secs());

/// One candidate.
pub struct Election {
    api: Api<Lease>,
    identity: String,
    /// The lease as it was last seen, and when it was first seen so.
    observed: Option<(LeaseSpec, Instant)>,
    /// Whether the lease was taken from somebody who had not given it back.
    took_over: bool,
}

impl Election {
    /// A candidate with a name of its own.
    pub fn new(client: Client, namespace: &str, identity: String) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            identity,
            observed: None,
            took_over: false,
        }
    }

    /// Waits until this candidate leads and whoever led before writes no more. False if `stop` came
    /// first.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        info!(identity = %self.identity, "waiting for the lease");
        loop {
            match self.attempt(false).await {
                Ok(true) if self.took_over => {
                    sleep(AFTERMATH).await;
                    return true;
                }
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => warn!(error, "the lease can't be looked at, trying again"),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = sleep(RETRY) => {}
            }
        }
    }

    /// Keeps the lease until `stop`, then gives it back. Returns earlier if the lease is lost.
    pub async fn keep(&mut self, stop: &CancellationToken) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < RENEW_DEADLINE {
            let sent = Instant::now();
            match self.attempt(false).await {
                Ok(true) => renewed = sent,
                Ok(false) => {
                    warn!("another process holds the lease");
                    return;
                }
                Err(error) => warn!(error, "the lease can't be renewed, trying again"),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(RETRY) => {}
            }
        }
        warn!("the lease could not be renewed in time");
    }

    /// Gives the lease back, so that another candidate need not wait. Only for one who holds it and
    /// writes no more.
    pub async fn release(&mut self) {
        match self.attempt(true).await {
            Ok(_) => info!("gave the lease back"),
            Err(error) => debug!(error, "the lease was not given back"),
        }
    }

    /// Takes or renews the lease. Whether this candidate holds it now.
    async fn attempt(&mut self, give_back: bool) -> Result<bool, String> {
        let Some(mut lease) = self.request(self.api.get_opt(NAME)).await? else {
            return self.create().await;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if self.observed.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.observed = Some((spec.clone(), Instant::now()));
        }
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let is_ours = holder == self.identity;
        self.took_over = !holder.is_empty();
        if !is_ours && !holder.is_empty() && !self.has_expired() {
            return Ok(false);
        }
        if give_back && !is_ours {
            return Ok(false);
        }
        let mut next = self.spec(&spec, is_ours);
        if give_back {
            next.holder_identity = Some(String::new());
            next.lease_duration_seconds = Some(1);
        }
        lease.spec = Some(next);
        // Carries the resourceVersion that was read: of two candidates one fails.
        match self
            .request(self.api.replace(NAME, &PostParams::default(), &lease))
            .await
        {
            Ok(written) => {
                self.observed = written.spec.map(|spec| (spec, Instant::now()));
                Ok(true)
            }
            Err(error) if error.starts_with("conflict") => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn create(&mut self) -> Result<bool, String> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(self.spec(&LeaseSpec::default(), false)),
        };
        match self
            .request(self.api.create(&PostParams::default(), &lease))
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.starts_with("conflict") => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn spec(&self, before: &LeaseSpec, is_ours: bool) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let transitions = before.lease_transitions.unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
            acquire_time: if is_ours {
                before.acquire_time.clone()
            } else {
                Some(now.clone())
            },
            renew_time: Some(now),
            lease_transitions: Some(if is_ours {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }
    }

    /// Whether the lease was seen unchanged for as long as its holder said it is good for.
    fn has_expired(&self) -> bool {
        let Some((spec, since)) = &self.observed else {
            return false;
        };
        let seconds =
            u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        since.elapsed() > Duration::from_secs(seconds)
    }

    async fn request<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, String> {
        match timeout(REQUEST, request).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Error::Api(status))) if status.code == 409 => {
                Err(format!("conflict: {}", status.message))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no reply in time".to_owned()),
        }
    }
}
