//! The task that compares and writes: at once when something changes, and every few seconds, as
//! somebody may have applied the shipped manifests again. Never two writes at a time, and none where
//! all is right.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Client, Error};
use serde::Serialize;
use sluice_webhooks::Policy;
use sluice_webhooks::manifests::{
    self, APPLIED_MAX, CONFIGURATION, ManagedResource, Options, step,
};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::applied;
use super::wanted::{Basis, Reach, Rule, Wanted, Wishes};
use crate::process::FIELD_MANAGER;
use crate::process::term::Term;

/// How often all is looked at again.
const CHECK: Duration = Duration::from_secs(5);
/// Shortest and longest wait after a failure.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// JobKinds that come together make one write.
const BURST: Duration = Duration::from_millis(100);
/// API servers hear of a written rule by watches of their own, within milliseconds as a rule. Before
/// this has passed no JobKind is said to be ready.
const SPREADING: Duration = Duration::from_secs(1);
/// Longest time for one request.
const DEADLINE: Duration = Duration::from_secs(5);

/// How the configurations stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// What there are rules for.
    in_place: Vec<ManagedResource>,
    /// Which Gates are set on all that they apply to; None before the first look.
    applied: Option<applied::InPlace>,
    /// Why there is nothing to write rules into, if so.
    missing: Option<String>,
    /// Why the last look has failed, if so.
    trouble: Option<String>,
}

impl State {
    pub(super) fn reach(&self, resource: &ManagedResource) -> Reach {
        if let Some(missing) = &self.missing {
            return Reach::NoWebhook(missing.clone());
        }
        if self.in_place.contains(resource) {
            return Reach::InPlace;
        }
        Reach::Pending(self.trouble.clone())
    }

    /// Whether objects are born with the gate of this Gate, which says to what it applies.
    pub(super) fn reach_of_gate(&self, gate: &str) -> Reach {
        if let Some(missing) = &self.missing {
            return Reach::NoWebhook(missing.clone());
        }
        match &self.applied {
            Some(applied) if applied.is_in_place(gate) => Reach::InPlace,
            Some(applied) if applied.is_one_too_many(gate) => Reach::Pending(Some(format!(
                "there are {APPLIED_MAX} Gates with a namespaceSelector before it, which is the most that there may be"
            ))),
            Some(_) | None => Reach::Pending(self.trouble.clone()),
        }
    }
}

/// Keeps the rules.
pub(super) struct Keeper {
    client: Client,
    term: Arc<Term>,
    options: Options,
    policy: Arc<ArcSwap<Policy>>,
    state: watch::Sender<State>,
}

impl Keeper {
    pub(super) fn new(
        client: Client,
        term: Arc<Term>,
        basis: Basis,
        state: watch::Sender<State>,
    ) -> Self {
        let Basis { options, policy } = basis;
        Self {
            client,
            term,
            options,
            policy,
            state,
        }
    }

    pub(super) async fn run(
        self,
        mut wished: watch::Receiver<Option<Wishes>>,
        stop: CancellationToken,
    ) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep(&mut wished) => {}
        }
    }

    async fn keep(self, wished: &mut watch::Receiver<Option<Wishes>>) {
        let mut backoff = RETRY_MIN;
        let mut wait = CHECK;
        loop {
            tokio::select! {
                biased;
                changed = wished.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep(BURST).await;
                }
                () = sleep(wait) => {}
            }
            let Some(wishes) = wished.borrow_and_update().clone() else {
                continue;
            };
            wait = match self.look(&wishes).await {
                Ok(next) => {
                    backoff = RETRY_MIN;
                    next
                }
                Err(trouble) => {
                    warn!(
                        trouble,
                        "webhook configurations can't be updated; trying again"
                    );
                    self.state
                        .send_modify(|state| state.trouble = Some(trouble));
                    backoff = (backoff * 2).min(RETRY_MAX);
                    backoff
                }
            };
        }
    }

    /// Looks at both configurations and writes what is not right. Returns when to look again.
    async fn look(&self, wishes: &Wishes) -> Result<Duration, String> {
        let (mut resources, mut undecided) = (Vec::new(), BTreeSet::new());
        let mut next = CHECK;
        let policy = self.policy.load_full();
        if !policy.knows_kinds() {
            // Nothing is known of Gates either, whose webhooks would be taken away.
            return Ok(RETRY_MIN);
        }
        let mut of_kinds = Vec::new();
        for Wanted { group, kind, rule } in wishes.values() {
            match rule {
                Rule::For(resource) if policy.manages(group, kind) => {
                    resources.push(resource.clone());
                    of_kinds.push((group.as_str(), kind.as_str(), resource));
                }
                // This process would refuse its objects. It hears of the JobKind in a moment.
                Rule::For(_) => {
                    undecided.insert(group.as_str());
                    next = RETRY_MIN;
                }
                Rule::Undecided => {
                    undecided.insert(group.as_str());
                }
                Rule::None => {}
            }
        }
        let (applied, in_place) = applied::wanted(&policy, &of_kinds);
        let options = Options {
            resources: resources.clone(),
            applied,
            enforced: applied::enforced(&policy),
            ..self.options.clone()
        };
        let outcomes = [
            self.bring(&manifests::validating(&options), &undecided)
                .await?,
            self.bring(&manifests::mutating(&options), &undecided)
                .await?,
        ];
        let missing = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Missing(kind) => {
                Some(format!("{kind} {CONFIGURATION:?} with a webhook for jobs"))
            }
            Outcome::Right | Outcome::Written => None,
        });
        let missing: Vec<String> = missing.collect();
        let missing = (!missing.is_empty()).then(|| missing.join(" and no "));
        if outcomes.contains(&Outcome::Written) {
            sleep(SPREADING).await;
        }
        let state = State {
            in_place: resources,
            applied: Some(in_place),
            missing,
            trouble: None,
        };
        self.state.send_replace(state);
        Ok(next)
    }

    /// Brings the configuration of this kind into step with `wanted`.
    async fn bring<K>(&self, wanted: &K, undecided: &BTreeSet<&str>) -> Result<Outcome, String>
    where
        K: Serialize + k8s_openapi::Resource + kube::Resource<DynamicType = ()>,
    {
        let wanted = serde_json::to_value(wanted).map_err(|error| error.to_string())?;
        let resource = ApiResource::erase::<K>(&());
        // JSON, so that fields of newer API servers are no matter.
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let stored = request(api.get_opt(CONFIGURATION)).await?;
        let stored = serde_json::to_value(stored).map_err(|error| error.to_string())?;
        if !step::has_webhook_for_jobs(&stored) {
            return Ok(Outcome::Missing(<K as k8s_openapi::Resource>::KIND));
        }
        let Some(patch) = step::patch(&stored, &wanted, undecided) else {
            return Ok(Outcome::Right);
        };
        if !self.term.is_valid() {
            return Err("the lease is lost".to_owned());
        }
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        request(api.patch(CONFIGURATION, &params, &Patch::Strategic(patch))).await?;
        info!(
            kind = resource.kind,
            "updated the rules of the webhook configuration"
        );
        Ok(Outcome::Written)
    }
}

/// How a configuration was found.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// As it should be.
    Right,
    /// Otherwise, and was mended.
    Written,
    /// It is not there, or without a webhook for jobs. Names its kind.
    Missing(&'static str),
}

async fn request<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match timeout(DEADLINE, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the API server did not answer".to_owned()),
    }
}
