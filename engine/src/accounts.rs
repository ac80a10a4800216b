//! What belongs to the names of ClusterQueues: who waits there, what is charged, who may have to go.
//! Accounts have numbers, so that a pass over a tree needs no names. What is done with them is
//! `workloads.rs` and `pass.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::demand::Demand;
use crate::ledger::Ledger;
use crate::model::ClusterQueue;
use crate::names::{LocalQueueKey, QueueName, WorkloadId};
use crate::pending::PendingQueue;
use crate::preemption::Rights;
use crate::settings::Settings;
use crate::victims::VictimKey;

/// What belongs to a ClusterQueue's name, whether or not its object exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) pending: PendingQueue,
    pub(crate) ledger: Ledger,
    /// What waits in the LocalQueues that point here, stopped ones included.
    pub(crate) demand: Demand,
    /// The workloads that are charged here.
    pub(crate) charged: BTreeSet<WorkloadId>,
    /// Those of them that may be preempted, in the order in which they would have to go.
    pub(crate) evictable: BTreeSet<VictimKey>,
    /// Those of them that are on their way out.
    pub(crate) leaving: BTreeSet<WorkloadId>,
    /// The LocalQueues that point here.
    pub(crate) locals: BTreeSet<LocalQueueKey>,
}

/// An account's number, which no other one will ever have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccountId(u64);

/// All accounts that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {
    ids: BTreeMap<QueueName, AccountId>,
    all: BTreeMap<AccountId, Account>,
    next: AccountId,
}

impl Account {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.charged.is_empty() && self.locals.is_empty()
    }

    /// What decides whether those that wait in this queue may make others go.
    pub(crate) fn rights(&self, config: &ClusterQueue, settings: &Settings) -> Rights {
        Rights {
            rules: config.preemption,
            by_shares: settings.fair_sharing.is_some(),
            lowest: self.evictable.first().map(VictimKey::priority),
        }
    }
}

impl Accounts {
    /// The account of this name, opened if it isn't.
    pub(crate) fn open(&mut self, name: &QueueName) -> &mut Account {
        let id = self.id(name).unwrap_or_else(|| {
            let id = self.next;
            self.next = AccountId(id.0.saturating_add(1));
            self.ids.insert(name.clone(), id);
            id
        });
        self.all.entry(id).or_default()
    }

    /// Closes an account for good, and drops what is in it.
    pub(crate) fn close(&mut self, name: &QueueName) {
        if let Some(id) = self.ids.remove(name) {
            self.all.remove(&id);
        }
    }

    pub(crate) fn id(&self, name: &QueueName) -> Option<AccountId> {
        self.ids.get(name).copied()
    }

    pub(crate) fn get(&self, name: &QueueName) -> Option<&Account> {
        self.at(self.id(name)?)
    }

    pub(crate) fn get_mut(&mut self, name: &QueueName) -> Option<&mut Account> {
        self.at_mut(self.id(name)?)
    }

    pub(crate) fn at(&self, id: AccountId) -> Option<&Account> {
        self.all.get(&id)
    }

    pub(crate) fn at_mut(&mut self, id: AccountId) -> Option<&mut Account> {
        self.all.get_mut(&id)
    }

    /// All accounts, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&QueueName, &Account)> {
        let account = |(name, id): (_, &AccountId)| Some((name, self.at(*id)?));
        self.ids.iter().filter_map(account)
    }
}
