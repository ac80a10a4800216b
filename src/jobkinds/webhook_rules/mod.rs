//! Keeps webhook configurations of Sluice's own in step with the JobKinds and Gates: one narrow rule for each kind that
//! is compiled and served and that the shipped ones don't name, and one webhook for each Gate that applies to objects
//! which ask for nothing. Out of the shipped ones it takes what does not belong there. Runs on the leader alone. What is
//! written where is decided by `sluice_webhooks::manifests`, in `own` and `step`.
//!
//! The controller tells what it knows of each JobKind ([`Rules::want`]) and asks whether the API
//! server sends objects of it here ([`Rules::reach`]).
//!
//! Must not know objects of a kind.

mod applied;
mod keeper;
mod wanted;

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Client;
use kube::api::ApiResource;
use sluice_webhooks::manifests::{CONFIGURATION, DECLARED};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::notices::watch_names;
use crate::process::notices::Notices;
use crate::process::term::Term;
use keeper::{Keeper, KeeperState};
pub use wanted::{Reach, Rule, RulesBasis, Wanted, Wishes};

/// Notices of changes of the shipped webhook configurations and of those of Sluice's own.
pub fn notices(client: &Client) -> Notices {
    let resources = [
        ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        ApiResource::erase::<MutatingWebhookConfiguration>(&()),
    ];
    watch_names(client, &resources, &[CONFIGURATION, DECLARED])
}

/// The rules, as the controller sees them.
pub struct Rules {
    wishes: watch::Sender<Option<Wishes>>,
    state: watch::Receiver<KeeperState>,
}

impl Rules {
    /// Starts to keep the rules, within `term` and until `stop`. Nothing is written before
    /// [`Rules::want`] has been called once.
    pub fn keep(
        client: Client,
        term: Arc<Term>,
        basis: RulesBasis,
        stop: CancellationToken,
    ) -> Self {
        let (wishes, wished) = watch::channel(None);
        let (told, state) = watch::channel(KeeperState::default());
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
