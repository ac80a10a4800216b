//! What keeps a pending workload waiting at this moment, as data: scarce resources,
//! workloads ahead, why others are not preempted, and what became of each flavor. It changes with every admission, so it
//! is for people who ask, not for a status. It is worked out in `explain/outlook.rs` and `explain/trials.rs`, and
//! put into words in `explain/message.rs`.

use std::collections::BTreeMap;

use crate::api::amount::Amount;
use crate::api::explanation::MissReason;
use crate::api::names::{
    ClusterQueueName, CohortName, FlavorName, PodSetName, ResourceName, WorkloadId,
};

/// What keeps a workload waiting that is queued in a ClusterQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The ClusterQueue.
    pub queue: ClusterQueueName,
    /// The number of workloads of the same ClusterQueue that come before it.
    pub ahead: usize,
    /// The head, if that is another workload.
    pub head: Option<WorkloadId>,
    /// What is available to the ClusterQueue now, borrowing included.
    pub free: Vec<(FlavorName, ResourceName, Amount)>,
    /// The resources that are short in each possible flavor, for the fewest pods that are accepted.
    pub short: Vec<ShortResource>,
    /// The evicted workloads of the same cohort tree that have not stopped.
    pub evicting: Vec<WorkloadId>,
    /// Why workloads with scarce resources are not preempted, with their numbers.
    pub not_preempted: BTreeMap<NotPreempted, usize>,
    /// The workloads whose end would let it fit in the flavors for which [`Trials`] says what is lacking, whatever its
    /// preemption policy: in the order of preemption, and none in vain. Empty if that would not suffice.
    pub fits_after: Vec<WorkloadId>,
}

/// A resource that is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortResource {
    /// The pod set.
    pub pod_set: PodSetName,
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
    /// What the pod set requests.
    pub request: Amount,
    /// What is available.
    pub free: Amount,
    /// The node whose quota or limit is exhausted.
    pub limit: LimitingNode,
}

/// A node of the cohort tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitingNode {
    /// The ClusterQueue: it may not use, or borrow, more.
    Queue(ClusterQueueName),
    /// A cohort: the nodes below it together may not.
    Cohort(CohortName),
}

/// How the flavors of its ClusterQueue stand for a pending workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trials {
    /// The ClusterQueue.
    pub queue: ClusterQueueName,
    /// Whether it would fit if nothing else used quota.
    pub ever_fits: bool,
    /// Each pod set in each flavor, in the order in which they are tried.
    pub flavors: Vec<Trial>,
    /// What it lacks: so much more quota, or less usage in its ClusterQueue, and it fits. For each pod set that is in the
    /// first flavor that fits, or else in the first that suits its pods. If the flavor of one pod set may leave too
    /// little to another, it is in the combination that lacks least, as long as there are not too many to try. Only what
    /// is above zero.
    pub lacking: Vec<(FlavorName, ResourceName, Amount)>,
}

/// A pod set in a flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The pod set.
    pub pod_set: PodSetName,
    /// The flavor.
    pub flavor: FlavorName,
    /// What it needs there; or why the flavor is out of the question, whatever is used.
    pub needs: Result<Vec<Need>, MissReason>,
}

/// What a pod set needs of one resource in one flavor, for the fewest pods that are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The resource.
    pub resource: ResourceName,
    /// What it requests.
    pub request: Amount,
    /// What is free for it now, borrowing included, after what pod sets before it need.
    pub free: Amount,
    /// The most that there can be, if nothing else uses quota.
    pub most: Amount,
    /// How much less would have to be used for it to fit. Zero if it fits.
    pub lacking: Amount,
    /// The node whose quota or limit is exhausted, if it does not fit.
    pub limit: Option<LimitingNode>,
}

/// Why a workload is not preempted for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotPreempted {
    /// An eviction would have no effect on it.
    NotEvictable,
    /// It is in the same queue, and preemption there is off.
    OwnQueueNever,
    /// It is in the same queue and is not ordered after the other one.
    OwnQueueOrder,
    /// It is in the same queue, which admits by usage, and in another LocalQueue.
    OtherLocalQueue,
    /// It is in another queue, and preemption in the cohort is off.
    CohortNever,
    /// It is in another queue, and its priority is not lower.
    CohortPriority,
    /// It is in another queue. That one, or a cohort between it and the cohort that both share, does not borrow.
    WithinItsQuota,
    /// The other one's queue would have to borrow, and each cohort below the one that both share too.
    WouldBorrow,
    /// It was preempted already, and nothing but preemptions has changed in its cohort tree since.
    PreemptedBefore,
    /// It is a candidate, but all candidates together would not suffice.
    NotEnough,
}

impl Need {
    /// Whether it can never be met, whatever is used.
    pub fn is_too_large(&self) -> bool {
        self.most < self.request
    }
}

impl Trial {
    /// Whether its pods suit the flavor, and all that it needs is free.
    pub fn fits(&self) -> bool {
        let needs = self.needs.as_ref();
        needs.is_ok_and(|needs| needs.iter().all(|need| need.lacking == Amount::ZERO))
    }
}
