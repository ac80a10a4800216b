//! Keeps the webhook configurations in step with the JobKinds and Gates: one narrow rule for each kind that is
//! compiled and served, one webhook for each Gate that applies to objects which ask for nothing, and match conditions
//! that know the configured aliases. Runs on the leader
//! alone. What is written where is decided by `sluice_webhooks::manifests::step`.
//!
//! The controller tells what it knows of each JobKind ([`Rules::want`]) and asks whether the API
//! server sends objects of it here ([`Rules::reach`]).

mod applied;
mod keeper;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;
use sluice_webhooks::Policy;
use sluice_webhooks::manifests::{ManagedResource, Options};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::process::term::Term;
use keeper::{Keeper, State};

/// What the rules are made of besides JobKinds.
pub struct Basis {
    /// The manifests without a resource: labels, gates, and who Sluice is.
    pub options: Options,
    /// What this process judges by. A kind gets its rule when it is known here.
    pub policy: Arc<ArcSwap<Policy>>,
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

/// The rules, as the controller sees them.
pub struct Rules {
    wishes: watch::Sender<Option<Wishes>>,
    state: watch::Receiver<State>,
}

impl Rules {
    /// Starts to keep the rules, within `term` and until `stop`. Nothing is written before
    /// [`Rules::want`] has been called once.
    pub fn keep(client: Client, term: Arc<Term>, basis: Basis, stop: CancellationToken) -> Self {
        let (wishes, wished) = watch::channel(None);
        let (told, state) = watch::channel(State::default());
        let keeper = Keeper::new(client, term, basis, told);
        tokio::spawn(keeper.run(wished, stop));
        Self { wishes, state }
    }

    /// Says what is to be. Must name all JobKinds that there are.
    pub fn want(&self, wishes: Wishes) {
        self.wishes.send_if_modified(|known| {
            let is_other = known.as_ref() != Some(&wishes);
            *known = Some(wishes);
            is_other
        });
    }

    /// Whether the rule of the JobKind `name` is in place.
    pub fn reach(&self, name: &str) -> Reach {
        let wishes = self.wishes.borrow();
        match wishes.as_ref().and_then(|wishes| wishes.get(name)) {
            Some(Wanted {
                rule: Rule::For(resource),
                ..
            }) => self.state.borrow().reach(resource),
            Some(_) | None => Reach::Pending(None),
        }
    }

    /// Whether objects that the Gate of this name applies to are born with its gate.
    pub fn reach_of_gate(&self, gate: &str) -> Reach {
        self.state.borrow().reach_of_gate(gate)
    }
}
