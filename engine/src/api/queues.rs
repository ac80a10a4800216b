//! Cohorts, ClusterQueues and LocalQueues as they are configured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::amount::Amount;
use crate::api::flavor::FlavorFungibility;
use crate::api::names::{ClusterQueueName, CohortName, LocalQueueKey, ResourceName};
use crate::api::preemption::Preemption;
use crate::api::quota::ResourceGroup;
use crate::api::share::Weight;
use crate::api::time::Time;
use crate::api::workload::Admission;

/// A node of the tree in which queues share quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cohort {
    /// Its name.
    pub name: CohortName,
    /// The parent; none for a root.
    pub parent: Option<CohortName>,
    /// The quota of the cohort itself.
    pub resource_groups: Vec<ResourceGroup>,
    /// The weight of its share among the children of its parent (fair sharing).
    pub fair_weight: Weight,
}

/// A queue with quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterQueue {
    /// Its name.
    pub name: ClusterQueueName,
    /// Its cohort. A cohort that does not exist is a root without quota.
    pub cohort: Option<CohortName>,
    /// Whether a workload that does not fit blocks later ones.
    pub strategy: QueueingStrategy,
    /// Its quota. If two groups cover a resource, the first counts.
    pub resource_groups: Vec<ResourceGroup>,
    /// Whether it admits workloads, and what happens to admitted ones.
    pub stop: StopPolicy,
    /// Which flavor ends the search.
    pub fungibility: FlavorFungibility,
    /// Which workloads may be preempted.
    pub preemption: Preemption,
    /// The weight of its share among the children of its cohort (fair sharing).
    pub fair_weight: Weight,
    /// How the next of its LocalQueues is chosen.
    pub admission_scope: AdmissionScope,
    /// How many pending workloads are queued. Later ones, in the order of the queue, are not considered.
    /// None: no limit.
    pub max_pending: Option<usize>,
    /// How long a workload may have quota that its pods do not use. None: for ever.
    pub reservation_timeout: Option<Duration>,
    /// The same for a workload whose pods have all had nodes: how long it may wait for those that replace some
    /// of them.
    pub recovery_timeout: Option<Duration>,
    /// What happens to a workload that requests a resource that no group covers. None: what the settings of
    /// the engine say.
    pub undeclared_resources: Option<UndeclaredResources>,
}

/// What happens to a workload that requests a resource that no resource group of its queue covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum UndeclaredResources {
    /// It is inadmissible.
    #[default]
    Block,
    /// The resource is ignored.
    Ignore,
    /// These resources are ignored; any other makes the workload inadmissible.
    IgnoreOnly(Arc<BTreeSet<ResourceName>>),
}

/// How a ClusterQueue chooses among its LocalQueues: Kueue's `admissionScope`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionScope {
    /// It does not: only the order of the workloads counts.
    #[default]
    ByOrder,
    /// The LocalQueue with the least usage comes first; within it the order of the workloads counts.
    ByUsage,
}

/// Whether a workload that does not fit blocks later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueingStrategy {
    /// It does not.
    #[default]
    BestEffortFifo,
    /// It does.
    StrictFifo,
}

/// Whether a queue admits workloads, and what happens to admitted ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopPolicy {
    /// It admits workloads.
    #[default]
    None,
    /// It admits no workloads.
    Hold,
    /// It admits no workloads, and admitted ones are evicted.
    HoldAndDrain,
}

/// A queue of a namespace, which points to a ClusterQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalQueue {
    /// Its namespace and name.
    pub key: LocalQueueKey,
    /// The ClusterQueue that its workloads are queued in.
    pub cluster_queue: ClusterQueueName,
    /// Whether its workloads are admitted, and what happens to admitted ones.
    pub stop: StopPolicy,
    /// Whether the ClusterQueue's namespace selector matches this namespace.
    pub namespace_selected: bool,
    /// The weight of its usage among the LocalQueues of its ClusterQueue ([`AdmissionScope::ByUsage`]).
    pub fair_weight: Weight,
    /// Its recorded usage history. It is used unless it is older than what is known.
    pub consumed: Option<Consumed>,
}

/// The usage up to a time; older usage counts less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    /// The time.
    pub at: Time,
    /// By resource, in all flavors together.
    pub amounts: BTreeMap<ResourceName, Amount>,
}

impl Cohort {
    /// A root without quota.
    pub fn new(name: CohortName) -> Self {
        Self {
            name,
            parent: None,
            resource_groups: Vec::new(),
            fair_weight: Weight::ONE,
        }
    }
}

impl ClusterQueue {
    /// A queue without quota and cohort, with defaults for the rest.
    pub fn new(name: ClusterQueueName) -> Self {
        Self {
            name,
            cohort: None,
            strategy: QueueingStrategy::default(),
            resource_groups: Vec::new(),
            stop: StopPolicy::default(),
            fungibility: FlavorFungibility::default(),
            preemption: Preemption::default(),
            fair_weight: Weight::ONE,
            admission_scope: AdmissionScope::default(),
            max_pending: None,
            reservation_timeout: None,
            recovery_timeout: None,
            undeclared_resources: None,
        }
    }
}

impl ClusterQueue {
    /// How long an admission may stay unused. None: for ever.
    pub(crate) fn unused_timeout(&self, admission: &Admission) -> Option<Duration> {
        if admission.had_nodes {
            self.recovery_timeout
        } else {
            self.reservation_timeout
        }
    }
}

impl UndeclaredResources {
    /// Whether a workload may request `resource` though no group covers it.
    pub(crate) fn ignores(&self, resource: &ResourceName) -> bool {
        match self {
            Self::Block => false,
            Self::Ignore => true,
            Self::IgnoreOnly(ignored) => ignored.contains(resource),
        }
    }
}

impl LocalQueue {
    /// A LocalQueue of `cluster_queue`, which selects its namespace.
    pub fn new(key: LocalQueueKey, cluster_queue: ClusterQueueName) -> Self {
        Self {
            key,
            cluster_queue,
            stop: StopPolicy::default(),
            namespace_selected: true,
            fair_weight: Weight::ONE,
            consumed: None,
        }
    }
}
