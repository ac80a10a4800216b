//! Leader election on a Lease, after client-go's algorithm: a lease has expired when it was seen
//! unchanged for its whole duration on the local monotonic clock, whatever its timestamps say. A
//! leader that can't renew gives up well before others may take over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use tokio::time::{Instant, sleep, sleep_until, timeout};
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

/// For how long this process may write: until some time after the last renewal that is known, on the
/// monotonic clock. It ends by itself, whoever is asleep.
pub struct Term {
    base: Instant,
    ends_ms: AtomicU64,
}

impl Term {
    /// A term that has ended.
    pub fn new() -> Self {
        Self {
            base: Instant::now(),
            ends_ms: AtomicU64::new(0),
        }
    }

    /// Whether it lasts.
    pub fn is_valid(&self) -> bool {
        Instant::now() < self.ends()
    }

    fn ends(&self) -> Instant {
        self.base + Duration::from_millis(self.ends_ms.load(Ordering::Acquire))
    }

    fn extend(&self, until: Instant) {
        let since = until.duration_since(self.base).as_millis();
        self.ends_ms
            .store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Release);
    }

    fn end(&self) {
        self.ends_ms.store(0, Ordering::Release);
    }
}

/// How an attempt to hold the lease ended.
enum Outcome {
    /// This candidate holds it.
    Held,
    /// Another one does.
    NotHeld,
    /// The lease changed meanwhile: look again.
    Conflict,
}

/// Why a request failed.
enum Failure {
    Conflict,
    Other(String),
}

/// One candidate.
pub struct Election {
    term: Arc<Term>,
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
            term: Arc::new(Term::new()),
        }
    }

    /// The term of this candidate.
    pub fn term(&self) -> Arc<Term> {
        self.term.clone()
    }

    /// Waits until this candidate leads and whoever led before writes no more. False if `stop` came
    /// first.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        info!(identity = %self.identity, "waiting for the lease");
        loop {
            let sent = Instant::now();
            match self.attempt(false).await {
                Ok(Outcome::Held) => {
                    self.term.extend(sent + RENEW_DEADLINE);
                    if self.took_over {
                        sleep(AFTERMATH).await;
                    }
                    return true;
                }
                Ok(Outcome::NotHeld | Outcome::Conflict) => {}
                Err(error) => warn!(error, "the lease can't be looked at, trying again"),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = sleep(RETRY) => {}
            }
        }
    }

    /// Keeps the lease until `stop`, or until it is lost.
    pub async fn keep(&mut self, stop: &CancellationToken) {
        loop {
            let ends = self.term.ends();
            let sent = Instant::now();
            let attempt = tokio::select! {
                attempt = self.attempt(false) => attempt,
                () = sleep_until(ends) => break,
                () = stop.cancelled() => return,
            };
            match attempt {
                Ok(Outcome::Held) => self.term.extend(sent + RENEW_DEADLINE),
                Ok(Outcome::Conflict) => continue,
                Ok(Outcome::NotHeld) => {
                    warn!("another process holds the lease");
                    self.term.end();
                    return;
                }
                Err(error) => warn!(error, "the lease can't be renewed, trying again"),
            }
            tokio::select! {
                () = sleep(RETRY) => {}
                () = sleep_until(self.term.ends()) => break,
                () = stop.cancelled() => return,
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
    async fn attempt(&mut self, give_back: bool) -> Result<Outcome, String> {
        let found = match self.request(self.api.get_opt(NAME)).await {
            Ok(found) => found,
            Err(Failure::Conflict) => return Ok(Outcome::Conflict),
            Err(Failure::Other(error)) => return Err(error),
        };
        let Some(mut lease) = found else {
            // Somebody deleted it: whoever held it does not know yet.
            let is_foreign = self.observed.as_ref().is_some_and(|(seen, _)| {
                let holder = seen.holder_identity.as_deref().unwrap_or_default();
                !holder.is_empty() && holder != self.identity
            });
            if is_foreign && !self.has_expired() {
                return Ok(Outcome::NotHeld);
            }
            self.took_over = true;
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
            return Ok(Outcome::NotHeld);
        }
        if give_back && !is_ours {
            return Ok(Outcome::NotHeld);
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
                Ok(Outcome::Held)
            }
            Err(Failure::Conflict) => Ok(Outcome::Conflict),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    async fn create(&mut self) -> Result<Outcome, String> {
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
            Ok(_) => Ok(Outcome::Held),
            Err(Failure::Conflict) => Ok(Outcome::Conflict),
            Err(Failure::Other(error)) => Err(error),
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
    ) -> Result<T, Failure> {
        match timeout(REQUEST, request).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Error::Api(status))) if status.code == 409 => Err(Failure::Conflict),
            Ok(Err(error)) => Err(Failure::Other(error.to_string())),
            Err(_) => Err(Failure::Other("no reply in time".to_owned())),
        }
    }
}
