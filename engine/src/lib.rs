//! The decision: what is admitted, from which flavors, and why everything else waits.
//!
//! Pure: no I/O, no clock, no randomness, no async, no floats, no hash order, no Kubernetes types.
//! [`Engine::apply`] takes note of a change, [`Engine::decide`] says what to do. After that,
//! [`Engine::explain`] and the `*_status` questions say how things stand.
//!
//! | file | what it holds |
//! |---|---|
//! | `model`, `event`, `preemption`, `settings`, `time`, `names`, `amount`, `nodes` | what goes in and out, and what it means |
//! | `engine`, `workloads` | the state, and what each event changes in it |
//! | `cells`, `tree`, `forest`, `share` | what is counted; quota arithmetic of one cohort tree; which nodes make up which tree; shares |
//! | `accounts`, `ledger`, `demand`, `consumption` | what belongs to a queue; what is charged to it; what waits there, in sum; what was used over time |
//! | `shape`, `pending`, `obstacles` | equal requests; the order in a queue; what they wait for, in sum |
//! | `lookup` | a map without an order |
//! | `flavors` | which flavors a shape takes |
//! | `candidates`, `victims`, `fair` | who has to go for whom, by rights and by fair shares |
//! | `decide`, `pass`, `contest` | what is due and who is admitted; one look at a tree; what can be done for one |
//! | `explain`, `why` | why a workload waits, in words; how that is found out |
//! | `outlook`, `prospect` | how things stand for it at this moment, in words; how that is found out |
//! | `status`, `report` | how queues and cohorts stand; how that is found out |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod accounts;
mod amount;
mod candidates;
mod cells;
mod consumption;
mod contest;
mod decide;
mod demand;
mod engine;
mod event;
mod explain;
mod fair;
mod flavors;
mod forest;
mod ledger;
pub mod limits;
mod lookup;
mod model;
mod names;
mod nodes;
mod obstacles;
mod outlook;
mod pass;
mod pending;
mod plans;
mod preemption;
mod promises;
mod prospect;
mod report;
mod settings;
mod shape;
mod share;
mod status;
mod time;
mod tree;
mod victims;
mod why;
mod workloads;

pub use amount::Amount;
pub use engine::Engine;
pub use event::{Decision, Event, EvictReason, PreemptionRight};
pub use explain::{Explanation, FlavorMiss, FormatAmount, MissReason, RequestProblem, Shortage};
pub use model::{
    Admission, AdmissionMode, ClusterQueue, Cohort, Consumed, Flavor, FlavorFungibility,
    FlavorPreference, FlavorQuotas, LocalQueue, PodSet, PodSetAssignment, QueueingStrategy, Quota,
    ResourceGroup, StopPolicy, Weight, WhenCanBorrow, WhenCanPreempt, Workload, WorkloadState,
};
pub use names::{
    CohortName, FlavorName, LocalQueueKey, PodSetName, QueueName, ResourceName, WorkloadId,
};
pub use nodes::{
    LabelExpression, LabelOperator, Mismatch, NodeSelectorTerm, Taint, TaintEffect, Toleration,
    TolerationOperator,
};
pub use outlook::{Limit, Outlook, Short, Spared};
pub use preemption::{BorrowWithinCohort, Preemption, ReclaimWithinCohort, WithinClusterQueue};
pub use settings::{FairPreemption, Settings};
pub use share::Share;
pub use status::{
    ByFlavor, Charged, CohortStatus, InactiveReason, LocalQueueInactiveReason, LocalQueueStatus,
    QueueStatus, Snapshot, Usage,
};
pub use time::Time;
