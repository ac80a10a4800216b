//! Where something that is known comes from: the watch of one kind. What a watch does is in `api/watch.rs`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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

    /// Its object with this metadata, to tell something about.
    pub fn reference(&self, metadata: &ObjectMeta) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version()),
            kind: Some(self.kind().to_owned()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }

    fn api_version(&self) -> String {
        match self {
            Self::Namespace | Self::LimitRange | Self::Pod => "v1".to_owned(),
            Self::RuntimeClass => "node.k8s.io/v1".to_owned(),
            Self::PriorityClass => "scheduling.k8s.io/v1".to_owned(),
            Self::ResourceClaimTemplate => "resource.k8s.io/v1".to_owned(),
            _ => format!("{}/{}", sluice_crds::GROUP, sluice_crds::VERSION),
        }
    }

    /// The kind of its objects.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ResourceFlavor => "ResourceFlavor",
            Self::Cohort => "Cohort",
            Self::ClusterQueue => "ClusterQueue",
            Self::LocalQueue => "LocalQueue",
            Self::WorkloadPriorityClass => "WorkloadPriorityClass",
            Self::JobKind => "JobKind",
            Self::Gate => "Gate",
            Self::Workload => "Workload",
            Self::Pod => "Pod",
            Self::Namespace => "Namespace",
            Self::LimitRange => "LimitRange",
            Self::RuntimeClass => "RuntimeClass",
            Self::ResourceClaimTemplate => "ResourceClaimTemplate",
            Self::PriorityClass => "PriorityClass",
            // Objects of these kinds are read where they are watched, and tell of themselves.
            Self::Jobs(..) | Self::Dependencies(..) => "Job",
        }
    }
}
