//! What rules are asked for, and what is told of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sluice_webhooks::Policy;
use sluice_webhooks::manifests::{ManagedResource, Options};

use crate::process::notices::Notices;

/// What the rules are made of besides JobKinds.
pub struct RulesBasis {
    /// The manifests without a resource: labels, gates, and who Sluice is.
    pub options: Options,
    /// What this process judges by. A kind gets its rule when it is known here.
    pub policy: Arc<ArcSwap<Policy>>,
    /// Of changes of the webhook configurations.
    pub notices: Notices,
}

/// Which rule a JobKind is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// It is not known yet: the API group keeps the rules that it has.
    Undecided,
    /// None: its objects can't be managed.
    None,
    /// This one.
    For(ManagedResource),
}

/// A JobKind and its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The API group of its objects.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// The rule.
    pub rule: Rule,
}

/// All JobKinds by name.
pub type Wishes = BTreeMap<Arc<str>, Wanted>;

/// Whether the API server asks Sluice about the objects of a JobKind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// It does.
    InPlace,
    /// There is no webhook to be asked. Says what is missing.
    NoWebhook(String),
    /// It does not yet: for no longer than a moment, unless this says why.
    Pending(Option<String>),
}
