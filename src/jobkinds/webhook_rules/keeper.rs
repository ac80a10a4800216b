//! The task that compares and writes: at once when something changes or somebody has edited a configuration, and every few
//! seconds, as Gates and namespaces say nothing of themselves, and a watch may miss something. Never two writes at a time,
//! and none where all is right. What failed is tried again from what is stored then: at once at first, and never later than
//! the next look.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde_json::Value;
use sluice_webhooks::Policy;
use sluice_webhooks::manifests::own::{self, Making};
use sluice_webhooks::manifests::{
    self, APPLIED_MAX, CONFIGURATION, DECLARED, ManagedResource, Options, step,
};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::applied;
use super::wanted::{Reach, Rule, RulesBasis, Wanted, Wishes};
use crate::process::FIELD_MANAGER;
use crate::process::backoff::RetryBackoff;
use crate::process::clock::Moment;
use crate::process::notices::Notices;
use crate::process::term::Term;

/// How often all is looked at again.
const CHECK: Duration = Duration::from_secs(5);
/// Shortest wait after a failure. It doubles up to [`CHECK`].
const RETRY_MIN: Duration = Duration::from_millis(250);
/// JobKinds that come together make one write.
const BURST: Duration = Duration::from_millis(100);
/// API servers hear of a written rule by watches of their own, within milliseconds as a rule. Before
/// this has passed no JobKind is said to be ready.
const SPREADING: Duration = Duration::from_secs(1);
/// Looks in a row that may write because of what is stored. After them somebody else writes as often, or the API server
/// stores something else than what was sent: the next one is [`CHECK`] later.
const REWRITES_MAX: u32 = 3;
/// Longest time for one request: a lost answer keeps nobody waiting for long.
const DEADLINE: Duration = Duration::from_secs(3);

/// Why the configurations can't be read or written.
#[derive(Debug, Error)]
enum RulesError {
    #[error("the lease is lost")]
    LeaseLost,
    #[error("the API server did not answer")]
    Unanswered,
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// How the configurations stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeeperState {
    /// What there are rules for.
    in_place: Vec<ManagedResource>,
    /// Which Gates are set on all that they apply to; None before the first look.
    applied: Option<applied::InPlace>,
    /// Why there is nothing to write rules into, if so.
    missing: Option<String>,
    /// Why the last look has failed, if so.
    trouble: Option<String>,
}

impl KeeperState {
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
    state: watch::Sender<KeeperState>,
    /// When something was sent to Sluice's own configurations last, whether or not there was an answer. At first that is
    /// the present: an earlier leader may just have written.
    sent: Moment,
    /// How many looks in a row have written something, though nothing else was wished for.
    rewrites: u32,
    notices: Notices,
}

impl Keeper {
    pub(super) fn new(
        client: Client,
        term: Arc<Term>,
        basis: RulesBasis,
        state: watch::Sender<KeeperState>,
    ) -> Self {
        let RulesBasis {
            options,
            policy,
            notices,
        } = basis;
        Self {
            client,
            term,
            options,
            policy,
            state,
            sent: Moment::now(),
            rewrites: 0,
            notices,
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

    async fn keep(mut self, wished: &mut watch::Receiver<Option<Wishes>>) {
        let mut backoff = RetryBackoff::new(RETRY_MIN, CHECK);
        let mut wait = CHECK;
        loop {
            tokio::select! {
                biased;
                changed = wished.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.rewrites = 0;
                    sleep(BURST).await;
                }
                () = self.notices.next(), if self.rewrites < REWRITES_MAX => {}
                () = sleep(wait) => {}
            }
            let Some(wishes) = wished.borrow_and_update().clone() else {
                continue;
            };
            let sent = self.sent;
            wait = match self.look(&wishes).await {
                Ok(next) => {
                    backoff.reset();
                    let has_written = self.sent != sent;
                    self.rewrites = if has_written { self.rewrites + 1 } else { 0 };
                    if self.rewrites < REWRITES_MAX {
                        next
                    } else {
                        CHECK
                    }
                }
                Err(error) => {
                    let trouble = error.to_string();
                    warn!(
                        trouble,
                        "webhook configurations can't be updated; trying again"
                    );
                    self.state
                        .send_modify(|state| state.trouble = Some(trouble));
                    backoff.next_wait()
                }
            };
        }
    }

    /// Looks at all configurations and writes what is not right. Returns when to look again.
    async fn look(&mut self, wishes: &Wishes) -> Result<Duration, RulesError> {
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
            applied,
            judges_templates: !policy.applied().is_empty(),
            enforced: applied::enforced(&policy),
            ..self.options.clone().with_managed(&resources)
        };
        let shipped = options.clone().without_aliases();
        let validating = Wished::new(
            &manifests::validating(&shipped),
            &manifests::declared_validating(&options),
        )?;
        let mutating = Wished::new(
            &manifests::mutating(&shipped),
            &manifests::declared_mutating(&options),
        )?;
        // What keeps one of them back does not keep the other.
        let made = [
            self.make(&validating, &undecided).await,
            self.make(&mutating, &undecided).await,
        ];
        let mut missing = Vec::new();
        let mut patches = Vec::new();
        for (wished, made) in [&validating, &mutating].into_iter().zip(made) {
            let Some(shipped) = made? else {
                let kind = &wished.resource.kind;
                missing.push(format!("{kind} {CONFIGURATION:?} with a webhook for jobs"));
                continue;
            };
            if shipped.is_untrusting {
                // It will get a CA in a moment, and Sluice's own with it.
                next = RETRY_MIN;
            }
            patches.extend(shipped.patch.map(|patch| (wished, patch)));
        }
        let spreading = SPREADING.saturating_sub(self.sent.elapsed());
        if !spreading.is_zero() {
            // Not slept away here: meanwhile somebody may delete what was written.
            return Ok(next.min(spreading));
        }
        // Only now: what an earlier version wrote there is asked about until the other webhooks are known everywhere.
        for (wished, patch) in patches {
            self.clean(wished, patch).await?;
        }
        let state = KeeperState {
            in_place: resources,
            applied: Some(in_place),
            missing: (!missing.is_empty()).then(|| missing.join(" and no ")),
            trouble: None,
        };
        self.state.send_replace(state);
        Ok(next)
    }

    /// A configuration as it is stored; null if it is not there.
    async fn stored(&self, wished: &Wished, name: &str) -> Result<Value, RulesError> {
        let stored = request(self.api(wished).get_opt(name)).await?;
        Ok(serde_json::to_value(stored)?)
    }

    /// Makes or replaces Sluice's own configuration of this kind, if it is not right. Returns what has to become of the
    /// shipped one then; None if there is none with a webhook for jobs.
    async fn make(
        &mut self,
        wished: &Wished,
        undecided: &BTreeSet<&str>,
    ) -> Result<Option<Shipped>, RulesError> {
        let shipped = self.stored(wished, CONFIGURATION).await?;
        let next = step::webhook_for_jobs(&shipped).map(|jobs| Shipped {
            is_untrusting: manifests::ca_bundle(jobs).is_none(),
            patch: step::patch(&shipped, &wished.shipped, undecided),
        });
        let stored = self.stored(wished, DECLARED).await?;
        let making = Making {
            shipped: &shipped,
            wanted_shipped: &wished.shipped,
            wanted: &wished.own,
            stored: &stored,
            undecided,
        };
        let Some(made) = own::made(&making) else {
            return Ok(next);
        };
        self.may_write()?;
        let made: DynamicObject = serde_json::from_value(made)?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api = self.api(wished);
        self.sent = Moment::now();
        if stored.is_null() {
            request(api.create(&params, &made)).await?;
        } else {
            // Carries the resource version: what somebody else has written meanwhile is looked at first.
            request(api.replace(DECLARED, &params, &made)).await?;
        }
        let kind = &wished.resource.kind;
        info!(kind, name = DECLARED, "wrote the webhook configuration");
        Ok(next)
    }

    /// Takes out of the shipped configuration of this kind what does not belong there.
    async fn clean(&self, wished: &Wished, patch: Value) -> Result<(), RulesError> {
        self.may_write()?;
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(wished);
        request(api.patch(CONFIGURATION, &params, &Patch::Strategic(patch))).await?;
        let kind = &wished.resource.kind;
        info!(
            kind,
            name = CONFIGURATION,
            "updated the webhook configuration"
        );
        Ok(())
    }

    // JSON, so that fields of newer API servers are no matter.
    fn api(&self, wished: &Wished) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &wished.resource)
    }

    fn may_write(&self) -> Result<(), RulesError> {
        if self.term.is_valid() {
            Ok(())
        } else {
            Err(RulesError::LeaseLost)
        }
    }
}

/// What has to become of a shipped configuration.
struct Shipped {
    /// Whether it has no CA yet.
    is_untrusting: bool,
    /// What does not belong there, if anything.
    patch: Option<Value>,
}

/// What the configurations of one kind are to be.
struct Wished {
    resource: ApiResource,
    shipped: Value,
    own: Value,
}

impl Wished {
    fn new<K>(shipped: &K, own: &K) -> Result<Self, RulesError>
    where
        K: Serialize + kube::Resource<DynamicType = ()>,
    {
        Ok(Self {
            resource: ApiResource::erase::<K>(&()),
            shipped: serde_json::to_value(shipped)?,
            own: serde_json::to_value(own)?,
        })
    }
}

async fn request<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, RulesError> {
    match timeout(DEADLINE, request).await {
        Ok(answered) => Ok(answered?),
        Err(_) => Err(RulesError::Unanswered),
    }
}
