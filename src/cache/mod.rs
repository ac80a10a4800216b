//! What is known of the cluster: records of the objects that matter, kept small. Filled from
//! watches and from the replies to our own writes, whichever is newer. Decides nothing.
//!
//! Must not know what follows from a record. Uses `process`.

pub mod additions;
pub mod children;
pub mod cluster;
pub mod conditions;
pub mod devices;
pub mod gates;
pub mod held;
pub mod job;
pub mod kept_gates;
mod objects;
pub mod pod;
pub mod pods;
mod revisions;
mod source;
mod subject;
pub mod workload;

use std::time::Duration;

pub use job::{JobKey, JobRecord};
pub use objects::ObjectCache;
pub use pod::{PodKey, PodRecord};
pub use revisions::Revision;
pub use source::Source;
pub use subject::{GroupKey, NamespacedName, Subject, Template, Uid};
pub use workload::{WorkloadKey, WorkloadRecord};

/// For so long a watch may lag behind what has happened: a pod that was made, a write that took effect, a deletion.
/// Each watch lags by another time.
pub const WATCH_LAG: Duration = Duration::from_secs(5);
