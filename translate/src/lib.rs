//! API types to engine types and back. Amounts are exact; what can't be counted is an error that
//! names the field, never zero. Pure, for the controller and the simulator alike. What the types mean
//! is said in `sluice-crds` and `sluice-engine`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod admissions;
mod amounts;
mod nodes;
mod queues;
mod workloads;

pub use admissions::{
    ReleasedPod, admission, admission_record, admitted_pod_sets, first_flavors, pod_admission,
};
pub use amounts::{POD, quantity, resource_list};
pub use nodes::flavor;
pub use queues::{
    IGNORED_RESOURCES, cluster_queue, cohort, local_queue, uncountable_cluster_queue, undeclared,
};
pub use workloads::{pod_set, pod_set_record, pod_sets};
