//! The decision: what is admitted, from which flavors, and why everything else waits.
//!
//! Pure: no I/O, no clock, no randomness, no async, no floats, no hash order, no Kubernetes types.
//! [`Engine::apply`] takes note of a change, [`Engine::decide`] says what to do. After that,
//! [`Engine::explain`] and the `*_status` questions say how things stand.
//!
//! | folder | what lives there |
//! |---|---|
//! | `api` | what goes in and out: configuration, workloads, events, decisions, explanations, statuses |
//! | `quota` | the configured quota; the arithmetic of one cohort tree; usage, now and over time |
//! | `workload` | what is known of each workload; the shapes and orders that workloads share |
//! | `flavor` | which flavors a workload can take, and which it takes at the present usage |
//! | `queue` | what is kept of each ClusterQueue and LocalQueue; who waits there, and what blocks them |
//! | `cohort` | which queues and cohorts make up which tree |
//! | `preemption` | which workloads are evicted so that another one gets quota |
//! | `state` | the engine's state, and what each event changes in it |
//! | `cycle` | the decision: one run over a cohort tree |
//! | `explain` | why a workload waits; the status of queues and cohorts |
//!
//! A folder uses only folders above it in this table; `explain` does not use `cycle`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod api;
mod cohort;
mod cycle;
mod explain;
mod flavor;
mod preemption;
mod queue;
mod quota;
mod state;
mod workload;

pub use api::amount::Amount;
pub use api::event::{Decision, Event, EvictReason, PreemptionRight};
pub use api::explanation::{
    Explanation, FlavorMiss, FormatAmount, MissReason, RequestProblem, Shortage,
};
pub use api::flavor::{Flavor, FlavorFungibility, FlavorPreference, WhenCanBorrow, WhenCanPreempt};
pub use api::limits;
pub use api::names::{
    ClusterQueueName, CohortName, FlavorName, LocalQueueKey, NodeName, PodSetName, ResourceName,
    WorkloadId,
};
pub use api::node_selection::{
    LabelExpression, LabelOperator, Mismatch, NodeSelectorTerm, Taint, TaintEffect, Toleration,
    TolerationOperator,
};
pub use api::outlook::{LimitingNode, Need, NotPreempted, Outlook, ShortResource, Trial, Trials};
pub use api::preemption::{
    BorrowWithinCohort, Preemption, ReclaimWithinCohort, WithinClusterQueue,
};
pub use api::queues::{
    AdmissionScope, ClusterQueue, Cohort, Consumed, LocalQueue, QueueingStrategy, StopPolicy,
    UndeclaredResources,
};
pub use api::quota::{Borrowing, FlavorQuotas, Quota, ResourceGroup};
pub use api::settings::{FairPreemption, Settings};
pub use api::share::{Share, Weight};
pub use api::status::{
    ByFlavor, CohortStatus, InactiveReason, LocalQueueInactiveReason, LocalQueueStatus,
    NodeAmounts, Pending, PendingReason, QueueQuota, QueueStatus, ResourceUsage, Snapshot,
    TreeNode, Usage, sum_by_resource,
};
pub use api::time::Time;
pub use api::workload::{Admission, PodSet, PodSetAssignment, Workload, WorkloadState};
pub use explain::holders::{Holder, Holders};
pub use explain::standing::{Standing, StandingState};
pub use state::engine::Engine;
