//! All that is kept of the settings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::core::Selector;
use sluice_crds::{
    ClusterQueueStatus, CohortStatus, LocalQueueStatus, QueuePriorityClasses, Reservation,
    ResourceFlavorSpec,
};
use sluice_engine::LocalQueueKey;
use sluice_gates::ManagedNamespaces;
use sluice_kinds::priority_classes::PriorityClasses;

use super::kept::Kept;
use crate::cache::additions::PodAdditions;
use crate::cache::devices::Devices;
use crate::cache::gates::Gates;
use crate::cache::gates::dependencies::Dependencies;

/// The settings.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Flavors by name.
    pub flavors: BTreeMap<String, ResourceFlavorSpec>,
    /// ClusterQueues by name.
    pub queues: BTreeMap<String, Kept<ClusterQueueStatus>>,
    /// Cohorts by name.
    pub cohorts: BTreeMap<String, Kept<CohortStatus>>,
    /// LocalQueues.
    pub local_queues: BTreeMap<LocalQueueKey, Kept<LocalQueueStatus>>,
    /// WorkloadPriorityClasses by name.
    pub workload_priorities: BTreeMap<String, i32>,
    /// PriorityClasses by name.
    pub priority_classes: PriorityClasses,
    /// How long quota may be held without being used, by ClusterQueue.
    pub reservations: BTreeMap<String, Reservation>,
    /// What ClusterQueues say of the priority classes of their jobs.
    pub(super) classes: BTreeMap<String, QueuePriorityClasses>,
    /// ClusterQueues that keep pods which nobody would make again (`whenNotRestartable: Keep`).
    pub(super) keepers: BTreeSet<String>,
    /// The Gates.
    pub gates: Gates,
    /// The objects that gates wait for.
    pub dependencies: Dependencies,
    /// What namespaces and RuntimeClasses add to pods.
    pub additions: PodAdditions,
    /// What the devices are counted by that pods claim.
    pub devices: Devices,
    /// LocalQueues as the engine is told, but for whether their namespace is selected.
    pub(super) local_queue_specs: BTreeMap<LocalQueueKey, sluice_engine::LocalQueue>,
    /// The flavor that each resource of a ClusterQueue is taken from first.
    pub(super) first_flavors: BTreeMap<String, BTreeMap<String, String>>,
    /// Which namespaces each ClusterQueue takes. None: the selector can't be read and selects none.
    pub(super) selectors: BTreeMap<String, Option<Selector>>,
    pub(super) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) managed_namespaces: Arc<ManagedNamespaces>,
    /// Namespaces that are being deleted: the API server takes no new object for them.
    pub(super) terminating: BTreeSet<String>,
}

impl Cluster {
    /// Nothing but what the configuration says is known.
    pub fn new(devices: Devices, managed_namespaces: Arc<ManagedNamespaces>) -> Self {
        Self {
            devices,
            managed_namespaces,
            ..Self::default()
        }
    }
}
