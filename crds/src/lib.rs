//! The `sluice.dev/v1alpha1` API types, exact quantities, and durations. The YAML beside this crate is generated
//! from these types (`make generate`); a test keeps the two equal. No behaviour lives here.
//!
//! Field names are those of Kueue's `v1beta2` wherever a field means the same, so that a manifest
//! moves over by changing its `apiVersion`.
//!
//! Each kind has a file. Three have a folder:
//!
//! | folder | what lives there |
//! |---|---|
//! | `cluster_queue` | the ClusterQueue, and its preemption policies |
//! | `gate` | the Gate, its schedule, and what it applies to |
//! | `workload` | the Workload, and its name |
#![deny(missing_docs)]
// The KubeSchema derive emits `pub` twins of the types inside their private modules.
#![allow(unreachable_pub)]

mod cluster_queue;
mod cohort;
pub mod conditions;
pub mod duration;
mod fair_sharing;
mod gate;
mod generate;
mod job_kind;
pub mod kubernetes;
mod local_queue;
mod priority_class;
pub mod quantity;
pub mod reasons;
mod resource_flavor;
mod schema;
mod workload;

pub use cluster_queue::{
    Backoff, BorrowWithinCohort, BorrowWithinCohortPolicy, ClusterQueue, ClusterQueuePreemption,
    ClusterQueueSpec, ClusterQueueStatus, FlavorFungibility, FlavorPreference, FlavorQuotas,
    FlavorUsage, QueueingStrategy, ReclaimWithinCohort, Reservation, ResourceGroup, ResourceQuota,
    ResourceUsage, StopPolicy, UndeclaredResources, WhenCanBorrow, WhenCanPreempt,
    WhenNotRestartable, WithinClusterQueue,
};
pub use cohort::{Cohort, CohortSpec, CohortStatus};
pub use conditions::ConditionType;
pub use fair_sharing::{
    AdmissionFairSharingStatus, AdmissionScope, FairSharing, FairSharingStatus,
    LocalQueueFairSharingStatus, ScopeMode, Weight, WeightError,
};
pub use gate::{
    AFTER_ANNOTATION, AFTER_KINDS_MAX, After, AfterKind, AfterObject, AppliedKind, AppliesTo,
    Approval, Backlog, Counter, DEFAULT_TIME_ZONE, Deadline, Exception, Gate, GateSpec, GateStatus,
    HeldObject, Lifting, NOT_BEFORE_ANNOTATION, NotBefore, OnExpiry, QueuePlace, Schedule,
    WINDOW_SECONDS_MAX, Window,
};
pub use generate::{GeneratedFile, crd_files};
pub use job_kind::{
    AddedContainer, AdmissionMode, ChildKind, FinishedRule, JobKind, JobKindSpec, JobKindStatus,
    PartialAdmission, PodGroupsRule, PodSetRule, RefuseRule, RefuseScope, WhenAbsent,
};
pub use local_queue::{GatedObject, LocalQueue, LocalQueueSpec, LocalQueueStatus};
pub use priority_class::{
    QueuePriorityClasses, WorkloadPriorityClass, WorkloadPriorityClassFields,
};
pub use quantity::{Quantity, ResourceList};
pub use reasons::not_queued;
pub use resource_flavor::{ResourceFlavor, ResourceFlavorSpec};
pub use workload::{
    Admission, POD_GROUP_PREFIX, POD_PREFIX, PodSet, PodSetAssignment, PriorityClassRef,
    ReclaimablePod, RequeueState, Workload, WorkloadSpec, WorkloadStatus, group_workload_name,
    workload_name,
};

/// The API group of every type in this crate.
pub const GROUP: &str = "sluice.dev";
/// The only version so far.
pub const VERSION: &str = "v1alpha1";
/// Label on a Job-like object: the name of its LocalQueue.
pub const QUEUE_NAME_LABEL: &str = "sluice.dev/queue-name";
/// Label on a Job-like object: the name of its `WorkloadPriorityClass`.
pub const PRIORITY_CLASS_LABEL: &str = "sluice.dev/priority-class";
/// Annotation on a Job-like object: the fewest pods that it accepts. The shipped JobKinds read it; others may read another.
pub const MIN_PARALLELISM_ANNOTATION: &str = "sluice.dev/min-parallelism";
/// Label that Sluice puts on a Workload: the UID of the Job-like object it stands for.
pub const JOB_UID_LABEL: &str = "sluice.dev/job-uid";
/// Annotation that Sluice puts on a Job-like object in the same write as its suspend field: `true` if
/// Sluice suspended it, and starts it when nothing holds it any more; `false` if Sluice released it. A
/// suspended object without the value `true` was suspended by its user.
pub const HELD_ANNOTATION: &str = "sluice.dev/held";
/// Annotation that Sluice puts on a Job-like object without a queue when its last gate has gone, with the UID of the
/// object: a gate that turns up later has no effect. With another value it is a copy, or made up, and says nothing.
pub const RELEASED_ANNOTATION: &str = "sluice.dev/released";
/// Annotation on a Job-like object: `Whole` or `PerPod`, see [`AdmissionMode`].
pub const ADMISSION_ANNOTATION: &str = "sluice.dev/admission";
/// The scheduling gate of a pod that waits for queue capacity; and the annotation on a pod or pod
/// template by which the pod, with the value `true`, asks to be admitted by itself.
pub const QUEUE_GATE: &str = "sluice.dev/queue-allocation-gate";
/// Label on every pod that Sluice looks after, with the value `true`: what it watches pods by.
pub const MANAGED_LABEL: &str = "sluice.dev/managed";
/// Annotation on the pods of a Job-like object: the name of their pod set.
pub const POD_SET_ANNOTATION: &str = "sluice.dev/pod-set";
/// Annotation on a pod or pod template: the scheduling gates, separated by commas, that stand for
/// the gate annotation of the Job-like object. Sluice removes them as that shrinks.
pub const PROPAGATED_GATES_ANNOTATION: &str = "sluice.dev/propagated-gates";
/// Annotation that Sluice puts on a pod when it removes the queue gate: from which `ClusterQueue` and
/// flavors the pod's quota is taken. For a pod that is admitted by itself this is the record of its
/// admission.
pub const ADMITTED_ANNOTATION: &str = "sluice.dev/admitted";
/// Label on bare pods that are admitted together: the name of their group.
pub const POD_GROUP_LABEL: &str = "sluice.dev/pod-group-name";
/// Annotation on the pods of a group: how many pods it has.
pub const POD_GROUP_TOTAL_ANNOTATION: &str = "sluice.dev/pod-group-total-count";
/// Annotation on pods that a controller makes, by groups: the keys of the labels, separated by commas, whose
/// values name the group of the pod (`podGroups` of its JobKind). Empty: there are no groups.
pub const POD_GROUP_LABELS_ANNOTATION: &str = "sluice.dev/pod-group-labels";
/// Annotation on such pods: the key of the annotation that says how many pods the group has.
pub const POD_GROUP_TOTAL_FROM_ANNOTATION: &str = "sluice.dev/pod-group-total-from";
/// Annotation that Sluice puts on the Workload of a group of pods: which controller makes them again.
pub const PODS_MADE_BY_ANNOTATION: &str = "sluice.dev/pods-made-by";
/// Annotation on a pod of a group: with the value `false` the group ends when this pod has failed,
/// instead of waiting for a replacement.
pub const RETRIABLE_IN_GROUP_ANNOTATION: &str = "sluice.dev/retriable-in-group";
/// The verb of RBAC by which owners lift a gate: asked for on its Gate, in the namespace of the object.
pub const LIFT_VERB: &str = "lift";
/// Annotation on a Job-like object: which gates were lifted from it, by whom, when, and why if Sluice did. A JSON list;
/// written in the request that lifts the gate.
pub const LIFTED_GATES_ANNOTATION: &str = "sluice.dev/lifted-gates";
/// Annotation that Sluice puts on a Job-like object: its UID and the gates, separated by commas,
/// whose deadlines have passed. With another UID it is a copy, or made up, and says nothing.
pub const EXPIRED_GATES_ANNOTATION: &str = "sluice.dev/expired-gates";
/// Annotation that Sluice puts on a Job-like object: the gate whose deadline has deactivated it. It stays held,
/// also without gates, until its user removes this annotation.
pub const DEACTIVATED_BY_ANNOTATION: &str = "sluice.dev/deactivated-by";
/// Annotation that Sluice puts on an object at its creation: which gates it was given because it could not be found out
/// whether their Gates apply to it, and why.
pub const GATE_FAILURES_ANNOTATION: &str = "sluice.dev/gate-failures";
/// Label on a Namespace: what becomes of objects there that name no queue.
pub const ENFORCEMENT_LABEL: &str = "sluice.dev/enforcement";
/// The gate of an object that names no queue, in a namespace that requires one.
pub const QUEUE_REQUIRED_GATE: &str = "sluice.dev/queue-required";
/// The Secret with the certificate of Sluice's servers, in Sluice's namespace.
pub const CERTIFICATE_SECRET: &str = "sluice-webhook-certificate";
/// Annotation that cert-manager puts on the Secrets that it keeps: the name of the Certificate. Sluice leaves them
/// to it, as long as it renews.
pub const CERT_MANAGER_ANNOTATION: &str = "cert-manager.io/certificate-name";
/// Sluice renews a certificate when one part in so many is left of its life.
pub const RENEWED_AT_ONE_IN: i32 = 3;
/// Prefix of a label on each object that gates hold: the rest is the name of the Gate, the value is `true`. It comes
/// and goes with the gate, in the same request, and holds nothing by itself.
pub const HELD_BY_LABEL_PREFIX: &str = "gate.sluice.dev/";
