//! In which flavors a pending workload was tried, why it gets none, and what it lacks: data for those who ask. It changes
//! with every admission. It is worked out in `explain/trials.rs`.

use crate::api::amount::Amount;
use crate::api::explanation::MissReason;
use crate::api::names::{FlavorName, PodSetName, QueueName, ResourceName};
use crate::api::outlook::LimitingNode;

/// How the flavors of its ClusterQueue stand for a pending workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trials {
    /// The ClusterQueue.
    pub queue: QueueName,
    /// Whether it would fit if nothing else used quota.
    pub ever_fits: bool,
    /// Each pod set in each flavor, in the order in which they are tried.
    pub flavors: Vec<Trial>,
    /// What it lacks: so much more quota, or less usage in its ClusterQueue, and it fits. For each pod set that is in the
    /// first flavor that fits, or else in the first that suits its pods. Only what is above zero.
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

impl Trial {
    /// Whether its pods suit the flavor, and all that it needs is free.
    pub fn fits(&self) -> bool {
        let needs = self.needs.as_ref();
        needs.is_ok_and(|needs| needs.iter().all(|need| need.lacking == Amount::ZERO))
    }
}
