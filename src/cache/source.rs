//! Where something that is known comes from: the watch of one kind. What a watch does is in `api/watch.rs`.

use std::sync::Arc;

use sluice_gates::GroupKind;

/// Which watch an observation comes from: a fixed kind, the objects of a JobKind, or what gates wait for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// `ResourceFlavor`.
    ResourceFlavor,
    /// `Cohort`.
    Cohort,
    /// `ClusterQueue`.
    ClusterQueue,
    /// `LocalQueue`.
    LocalQueue,
    /// `WorkloadPriorityClass`.
    WorkloadPriorityClass,
    /// `JobKind`.
    JobKind,
    /// `Gate`.
    Gate,
    /// `Workload`.
    Workload,
    /// `Pod`, those that Sluice looks after.
    Pod,
    /// `Namespace`.
    Namespace,
    /// `LimitRange`.
    LimitRange,
    /// `RuntimeClass`.
    RuntimeClass,
    /// `ResourceClaimTemplate`, if devices are counted.
    ResourceClaimTemplate,
    /// `PriorityClass`.
    PriorityClass,
    /// The objects of the JobKind with this name. The number tells one life of a watch from the
    /// next, so that late observations of an ended watch can be told apart.
    Jobs(Arc<str>, u64),
    /// The objects of a kind that gates wait for, in one life of their watch.
    Dependencies(GroupKind, u64),
}

impl Source {
    /// Whether those of its objects are left out that are in namespaces of the system. What gates wait for may be
    /// anywhere: it is only read.
    pub fn is_outside_of_the_system(&self) -> bool {
        match self {
            Self::LocalQueue
            | Self::Workload
            | Self::Pod
            | Self::LimitRange
            | Self::ResourceClaimTemplate
            | Self::Jobs(..) => true,
            Self::ResourceFlavor
            | Self::Cohort
            | Self::ClusterQueue
            | Self::WorkloadPriorityClass
            | Self::JobKind
            | Self::Gate
            | Self::Namespace
            | Self::RuntimeClass
            | Self::PriorityClass
            | Self::Dependencies(..) => false,
        }
    }

    /// Whether its objects may not be served, or not to Sluice, with the rest going on.
    pub fn may_be_refused(&self) -> bool {
        matches!(
            self,
            Self::ResourceClaimTemplate | Self::Jobs(..) | Self::Dependencies(..)
        )
    }
}
