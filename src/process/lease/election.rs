//! Leader election on a Lease, after client-go's algorithm: a lease has expired when it was seen
//! unchanged for its whole duration on the local clock, whatever its timestamps say. A leader that can't
//! renew gives up well before others may take over. What a leader may do in its term is `term.rs`. Who finds
//! that the Lease was deleted waits until a former leader has noticed. How a process ends after losing the Lease is in
//! `run.rs`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::SignedDuration;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::leader_address::Leader;
use crate::process::answer::ApiAnswer;
use crate::process::clock::{Moment, WallClock};
use crate::process::invariants::violated;
use crate::process::pulse::Pulse;
use crate::process::term::{Term, WRITE_DEADLINE};

/// The name of the Lease.
const NAME: &str = "sluice";

/// The times of an election.
#[derive(Debug, Clone, Copy)]
struct Timing {
    /// How long a lease is good for after its last renewal.
    lease: Duration,
    /// A leader that could not renew for this long stops. A write that was sent just before has ended when the lease
    /// has: [`WRITE_DEADLINE`].
    renew_deadline: Duration,
    /// How often the lease is renewed or looked at.
    retry: Duration,
    /// How long to wait after a conflicting write.
    conflict: Duration,
    /// Requests that a dead leader had under way end with its connection; until then nothing is listed.
    aftermath: Duration,
    /// A leader whose Lease somebody has deleted finds that out when it renews it: a look and its answer.
    unaware: Duration,
    /// Longest time for one request.
    request: Duration,
}

const TIMING: Timing = Timing {
    lease: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(9),
    retry: Duration::from_secs(2),
    conflict: Duration::from_millis(500),
    aftermath: Duration::from_secs(1),
    unaware: Duration::from_secs(5),
    request: Duration::from_secs(3),
};
const _: () =
    assert!(TIMING.renew_deadline.as_secs() + WRITE_DEADLINE.as_secs() < TIMING.lease.as_secs());
const _: () =
    assert!(TIMING.retry.as_secs() + TIMING.request.as_secs() <= TIMING.unaware.as_secs());
const _: () =
    assert!(TIMING.retry.as_secs() + TIMING.request.as_secs() < TIMING.renew_deadline.as_secs());

/// Clocks that differ by less than this agree: a lease may have been renewed last so long before it is seen.
const CLOCKS_AGREE: SignedDuration = SignedDuration::from_mins(1);

/// What an attempt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    /// To take or renew the lease.
    Hold,
    /// To end it, so that another candidate need not wait.
    GiveBack,
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

/// Why the API server has not done what was asked for.
#[derive(Debug, Error)]
enum RequestError {
    #[error("{0}")]
    Failed(kube::Error),
    #[error("no reply in time")]
    NoReply,
}

/// The Lease as it is while this candidate holds it: another acquisition, also under the same name, has
/// another mark.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    uid: String,
    transitions: i32,
}

impl Mark {
    fn of(lease: &Lease) -> Self {
        let spec = lease.spec.as_ref();
        Self {
            uid: lease.metadata.uid.clone().unwrap_or_default(),
            transitions: spec.and_then(|s| s.lease_transitions).unwrap_or_default(),
        }
    }
}

/// One candidate.
pub struct Election {
    term: Arc<Term>,
    api: Api<Lease>,
    identity: String,
    timing: Timing,
    /// The lease as it was last seen, and when it was first seen so.
    observed: Option<(LeaseSpec, Moment)>,
    /// The lease as this candidate holds it.
    held: Option<Mark>,
    clock: WallClock,
    /// How far our clock is ahead of the former holder's, once the lease was seen.
    ahead: Option<SignedDuration>,
    /// For how long the former holder may still be writing.
    wait: Duration,
    /// Where other replicas find this one while it leads.
    address: Option<SocketAddr>,
    leader: watch::Sender<Leader>,
}

impl Election {
    /// A candidate with a name of its own.
    pub fn new(client: Client, namespace: &str, identity: String) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            identity,
            timing: TIMING,
            observed: None,
            held: None,
            clock: WallClock::default(),
            ahead: None,
            wait: Duration::ZERO,
            term: Arc::new(Term::new()),
            address: None,
            leader: watch::Sender::new(Leader::Unknown),
        }
    }

    /// Has the Lease tell the other replicas where this one is found while it leads.
    pub fn advertise(&mut self, address: SocketAddr) {
        self.address = Some(address);
    }

    /// Who leads, as the Lease was seen last.
    pub fn leader(&self) -> watch::Receiver<Leader> {
        self.leader.subscribe()
    }

    /// The term of this candidate.
    pub fn term(&self) -> Arc<Term> {
        self.term.clone()
    }

    /// Has this clock tell it what time it is.
    pub fn set_clock(&mut self, clock: WallClock) {
        self.clock = clock;
    }

    /// By how much this candidate's clock is ahead of that of whoever held the lease before, as far as the lease shows.
    /// The time between its last renewal and when that was seen is a part of it. Nothing where they agree.
    pub fn clock_ahead(&self) -> SignedDuration {
        let ahead = self.ahead.unwrap_or_default();
        if ahead.abs() <= CLOCKS_AGREE {
            return SignedDuration::ZERO;
        }
        ahead
    }

    /// Waits until this candidate leads and whoever led before writes no more. False if `stop` came
    /// first: then the lease is given back.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        info!(identity = %self.identity, "waiting for the lease");
        loop {
            let sent = Moment::now();
            match self.attempt(Intent::Hold).await {
                Ok(Outcome::Held) => {
                    let Some(Mark { uid, transitions }) = &self.held else {
                        violated("whoever holds the Lease has seen it");
                        return false;
                    };
                    // A term that lasts has a name.
                    self.term.begin(&format!("{transitions}.{uid}"));
                    self.term.extend(sent.after(self.timing.renew_deadline));
                    let mut waited = std::pin::pin!(sleep(self.wait));
                    tokio::select! {
                        biased;
                        () = waited.as_mut() => return true,
                        () = stop.cancelled() => self.term.end(),
                    }
                    // Whoever takes the lease that is given back does not wait for the former leader.
                    waited.await;
                    self.give_back().await;
                    return false;
                }
                Ok(Outcome::NotHeld | Outcome::Conflict) => {}
                Err(error) => warn!(%error, "the lease can't be read; trying again"),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                () = sleep(self.timing.retry) => {}
            }
        }
    }

    /// Keeps the lease until `stop`, or until it is lost: to another one, because it could not be
    /// renewed, or because the controller has no pulse any more.
    pub async fn keep(&mut self, pulse: &Pulse, stop: &CancellationToken) {
        while self.term.is_valid() {
            let wait = if pulse.is_beating() {
                let sent = Moment::now();
                let remaining = self.term.ends().remaining();
                let attempt = tokio::select! {
                    biased;
                    attempt = self.attempt(Intent::Hold) => attempt,
                    () = sleep(remaining) => break,
                    () = stop.cancelled() => return,
                };
                // A machine that slept meanwhile has lost its term, whatever the answer was.
                if !self.term.is_valid() {
                    break;
                }
                match attempt {
                    Ok(Outcome::Held) => {
                        self.term.extend(sent.after(self.timing.renew_deadline));
                        self.timing.retry
                    }
                    // Somebody else writes to it: not to be met by writing faster.
                    Ok(Outcome::Conflict) => self.timing.conflict,
                    Ok(Outcome::NotHeld) => {
                        warn!("another process holds the lease, or the lease was deleted");
                        self.term.end();
                        return;
                    }
                    Err(error) => {
                        warn!(%error, "the lease can't be renewed; trying again");
                        self.timing.retry
                    }
                }
            } else {
                warn!("the controller hangs: the lease is not renewed");
                self.timing.retry
            };
            tokio::select! {
                biased;
                () = sleep(wait.min(self.term.ends().remaining())) => {}
                () = stop.cancelled() => return,
            }
        }
        warn!("the lease could not be renewed in time");
    }

    /// Gives the lease back, so that another candidate need not wait. Only for one who holds it and
    /// writes no more.
    pub async fn give_back(&mut self) {
        self.term.end();
        match self.attempt(Intent::GiveBack).await {
            Ok(_) => info!("released the lease"),
            Err(error) => debug!(%error, "the lease was not released"),
        }
        self.tell(Leader::Unknown);
    }

    /// Takes, renews or gives back the lease. Whether this candidate holds it now.
    async fn attempt(&mut self, intent: Intent) -> Result<Outcome, RequestError> {
        let found = self.request(self.api.get_opt(NAME)).await?;
        let Some(mut lease) = found else {
            // One who goes on without it would lead in a term that no Lease names.
            if self.held.is_some() {
                return Ok(Outcome::NotHeld);
            }
            return self.create_anew().await;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if self.observed.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.observed = Some((spec.clone(), Moment::now()));
        }
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let is_ours = holder == self.identity;
        // A lease that is its own may be one that it took without hearing so.
        if self.held.is_none() && (!is_ours || self.ahead.is_none()) {
            self.compare_clocks();
        }
        let mark = Mark::of(&lease);
        // Another process may go by the same name: only one of them has acquired it last.
        let is_another = self.held.as_ref().is_some_and(|held| *held != mark) || !is_ours;
        if is_another && (self.held.is_some() || intent == Intent::GiveBack) {
            return Ok(Outcome::NotHeld);
        }
        self.wait = if holder.is_empty() {
            Duration::ZERO
        } else {
            self.timing.aftermath
        };
        if !is_ours && !holder.is_empty() && !self.has_expired() {
            self.tell(Leader::of(&lease));
            return Ok(Outcome::NotHeld);
        }
        if self.held.is_none() {
            self.tell(Leader::Unknown);
        }
        Leader::put(self.address, &mut lease);
        let next = if self.held.is_some() {
            self.renewed(&spec)
        } else {
            self.acquired(&spec)
        };
        lease.spec = Some(match intent {
            Intent::Hold => next,
            Intent::GiveBack => LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                ..next
            },
        });
        // Carries the resourceVersion that was read: of two candidates one fails.
        let params = PostParams::default();
        let sent = self.request(self.api.replace(NAME, &params, &lease)).await;
        self.written(sent)
    }

    fn compare_clocks(&mut self) {
        let Some((spec, seen)) = &self.observed else {
            return;
        };
        if let Some(MicroTime(renewed)) = spec.renew_time {
            let now = self.clock.wall();
            let at = now.saturating_sub(seen.elapsed()).unwrap_or(now);
            self.ahead = Some(at.duration_since(renewed));
        }
    }

    /// There is none, or somebody has deleted it: whoever held it does not know yet.
    async fn create_anew(&mut self) -> Result<Outcome, RequestError> {
        let is_foreign = self.observed.as_ref().is_some_and(|(seen, _)| {
            let holder = seen.holder_identity.as_deref().unwrap_or_default();
            !holder.is_empty() && holder != self.identity
        });
        if is_foreign && !self.has_expired() {
            return Ok(Outcome::NotHeld);
        }
        self.wait = self.timing.unaware;
        let before = self.observed.as_ref().map(|(seen, _)| seen.clone());
        let mut lease = Lease {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(self.acquired(&before.unwrap_or_default())),
        };
        Leader::put(self.address, &mut lease);
        let params = PostParams::default();
        let sent = self.request(self.api.create(&params, &lease)).await;
        self.written(sent)
    }

    fn tell(&self, leader: Leader) {
        let is_news = |told: &mut Leader| std::mem::replace(told, leader) != leader;
        self.leader.send_if_modified(is_news);
    }

    /// What an answer to a write means.
    fn written(&mut self, sent: Result<Lease, RequestError>) -> Result<Outcome, RequestError> {
        match sent {
            Ok(lease) => {
                self.tell(Leader::Here);
                self.held = Some(Mark::of(&lease));
                self.observed = lease.spec.map(|spec| (spec, Moment::now()));
                Ok(Outcome::Held)
            }
            Err(RequestError::Failed(error)) if ApiAnswer::of(&error) == ApiAnswer::Conflict => {
                Ok(Outcome::Conflict)
            }
            Err(error) => Err(error),
        }
    }

    /// What the lease is to say after an acquisition. It counts, also by a process that comes back under its old name:
    /// what it sent before it ended may still arrive.
    fn acquired(&self, before: &LeaseSpec) -> LeaseSpec {
        let renewed = self.renewed(before);
        let transitions = before.lease_transitions.unwrap_or_default();
        LeaseSpec {
            acquire_time: renewed.renew_time.clone(),
            lease_transitions: Some(transitions.saturating_add(1)),
            ..renewed
        }
    }

    /// What the lease is to say after a renewal.
    fn renewed(&self, before: &LeaseSpec) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.timing.lease.as_secs().max(1)).ok(),
            acquire_time: before.acquire_time.clone(),
            renew_time: Some(MicroTime(self.clock.wall())),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default()),
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
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        match timeout(self.timing.request, request).await {
            Ok(answered) => answered.map_err(RequestError::Failed),
            Err(_) => Err(RequestError::NoReply),
        }
    }
}

#[cfg(test)]
mod tests;
