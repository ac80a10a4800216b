//! The reasons of Sluice's events, and of the conditions of Workloads: words that people select by, so one that was
//! published is not changed. Why a workload waits in its queue, and by which right it was preempted, is said by
//! the engine's enums. `docs/queues.md` says what users do about each.

/// Documented constants, and a list of all of them.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $name:ident = $reason:expr;)+) => {
        $($(#[$doc])+ pub const $name: &str = $reason;)+
        /// All of them.
        pub const ALL: &[&str] = &[$($name),+];
    };
}

/// Reasons of the condition `QuotaReserved` of a Workload that holds no quota, and is not queued for it either. That of
/// one that is deactivated is not among them: its spec says so.
pub mod not_queued {
    reasons! {
        /// Its pods wait behind scheduling gates of others; as the condition `PodScheduled` of such pods has it.
        SCHEDULING_GATED = "SchedulingGated";
        /// Its user has suspended the job.
        ON_HOLD = "OnHold";
        /// No JobKind declares the kind of its job any more.
        KIND_NOT_DECLARED = "KindNotDeclared";
        /// The JobKind of its job is not ready, so its jobs are not watched.
        KIND_NOT_READY = "KindNotReady";
        /// Not all pods of its group exist.
        GROUP_INCOMPLETE = "GroupIncomplete";
        /// It names a priority class that its ClusterQueue does not allow.
        PRIORITY_CLASS_NOT_ALLOWED = "PriorityClassNotAllowed";
        /// It names a priority class that is not there.
        PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound";
        /// Its job is being deleted.
        DELETED = "Deleted";
    }
}

/// Reasons of the condition `Evicted`: why a Workload was evicted.
pub mod eviction {
    reasons! {
        /// Another one needs its quota.
        PREEMPTED = "Preempted";
        /// The `stopPolicy` of its ClusterQueue is `HoldAndDrain`.
        CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped";
        /// The same of its LocalQueue.
        LOCAL_QUEUE_STOPPED = "LocalQueueStopped";
        /// Its user has suspended the job.
        SUSPENDED = "Suspended";
        /// Its `spec.active` is false.
        DEACTIVATED = "Deactivated";
        /// It did not use its quota in time.
        RESERVATION_TIMEOUT = "ReservationTimeout";
        /// The API server, or a webhook, refuses its release.
        RELEASE_BLOCKED = "ReleaseBlocked";
        /// Its queue label was changed before it was released.
        QUEUE_CHANGED = "QueueChanged";
        /// It requests more than it was admitted with.
        POD_SETS_CHANGED = "PodSetsChanged";
        /// Pods of a group were made again, for something else or in another number.
        PODS_CHANGED = "PodsChanged";
        /// All pods of a group are gone, and were not made again.
        PODS_GONE = "PodsGone";
        /// Pods run again whose quota it had given back.
        RECLAIMED_PODS_RETURNED = "ReclaimedPodsReturned";
        /// Its controller would never run it.
        NEVER_RUNS = "NeverRuns";
        /// It is being deleted, and its pods are gone.
        DELETED = "Deleted";
        /// It was admitted in a term that had ended.
        TERM_ENDED = "TermEnded";
    }
}

/// Reasons of events on jobs, pods and Workloads. What can't be queued, or is not, has the same reason in
/// `visibility.sluice.dev`.
pub mod event {
    use crate::reasons::{eviction, not_queued};

    reasons! {
        // From the gates to the end.

        /// Gates hold it.
        GATED = "Gated";
        /// A gate was lifted.
        GATE_LIFTED = "GateLifted";
        /// The deadline of a gate has passed.
        GATE_EXPIRED = "GateExpired";
        /// What a gate waits for has failed.
        DEPENDENCY_FAILED = "DependencyFailed";
        /// A gate annotation is invalid, so the job is held.
        INVALID_GATE = "InvalidGate";
        /// A gate was added after the release, and has no effect.
        GATE_IGNORED = "GateIgnored";
        /// Gates of the pod are left that nobody lifts.
        GATES_LEFT = "GatesLeft";
        /// No webhook put Sluice's gates into its pod template.
        NOT_GATED = "NotGated";
        /// Nothing holds it any more, and it is started.
        STARTED = "Started";
        /// Nothing holds it any more, and it stays suspended, as its user created it so.
        LEFT_SUSPENDED = "LeftSuspended";
        /// It waits, and that changes by itself.
        PENDING = "Pending";
        /// It waits until something is changed.
        INADMISSIBLE = "Inadmissible";
        /// It is admitted.
        ADMITTED = "Admitted";
        /// Sluice can't admit it pod by pod.
        ADMITTED_AS_A_WHOLE = "AdmittedAsAWhole";
        /// It ran without being admitted, and is suspended.
        STOPPED = "Stopped";
        /// Others are evicted so that it can be admitted.
        PREEMPTING = "Preempting";
        /// It is evicted, as another one needs its quota.
        PREEMPTED = eviction::PREEMPTED;
        /// It is evicted for another reason.
        EVICTED = "Evicted";
        /// It was evicted, and has not stopped in time.
        EVICTION_OVERDUE = "EvictionOverdue";
        /// It is being deleted, and is not gone in time.
        DELETION_OVERDUE = "DeletionOverdue";
        /// It can't be evicted.
        NOT_EVICTED = "NotEvicted";
        /// It is queued again.
        REQUEUED = "Requeued";
        /// Its user has suspended it.
        SUSPENDED = eviction::SUSPENDED;
        /// It is not queued again until its user says so.
        DEACTIVATED = eviction::DEACTIVATED;
        /// It is being deleted, and is not queued again.
        DELETED = not_queued::DELETED;
        /// It has finished, and its quota is free.
        FINISHED = "Finished";
        /// It had finished and was started again.
        UNFINISHED = "Unfinished";
        /// It has finished, and pods of it run on.
        PODS_RUN_ON = "PodsRunOn";
        /// It is admitted, and no pods are made for it.
        NO_PODS = "NoPods";

        // Why it is not queued.

        /// It names no queue.
        NO_QUEUE = "NoQueue";
        /// Its queue label is not a name of a LocalQueue.
        INVALID_QUEUE_NAME = "InvalidQueueName";
        /// Its namespace will require a queue.
        QUEUE_WILL_BE_REQUIRED = "QueueWillBeRequired";
        /// Its pod sets can't be read, or what they request can't be counted.
        INVALID_POD_SETS = "InvalidPodSets";
        /// It does not fit its JobKind.
        UNREADABLE = "Unreadable";
        /// Its controller would never run it.
        NEVER_RUNS = eviction::NEVER_RUNS;
        /// Its pods wait behind scheduling gates of others.
        SCHEDULING_GATED = not_queued::SCHEDULING_GATED;
        /// It names a priority class that its ClusterQueue does not allow.
        PRIORITY_CLASS_NOT_ALLOWED = not_queued::PRIORITY_CLASS_NOT_ALLOWED;
        /// It names a priority class that is not there.
        PRIORITY_CLASS_NOT_FOUND = not_queued::PRIORITY_CLASS_NOT_FOUND;
        /// Another object has the name of its Workload.
        WORKLOAD_NAME_CONFLICT = "WorkloadNameConflict";

        // Its Workload.

        /// Its Workload can't be read, and it keeps its quota.
        WORKLOAD_UNREADABLE = "WorkloadUnreadable";
        /// The job of a Workload is gone, and its pods are not.
        ORPHANED = "Orphaned";
        /// No JobKind declares the kind of the job of an admitted Workload any more.
        KIND_NOT_DECLARED = not_queued::KIND_NOT_DECLARED;

        // Writes.

        /// Another client reverts each write.
        CHANGED_BACK = "ChangedBack";
        /// The API server, or a webhook, refuses a write.
        WRITE_REFUSED = "WriteRefused";
        /// Writes are not answered.
        WRITE_UNANSWERED = "WriteUnanswered";

        // Its owner.

        /// Its owner is queued, and resumes it.
        LEFT_TO_OWNER = "LeftToOwner";
        /// Its owner can't be read.
        OWNER_UNREADABLE = "OwnerUnreadable";
        /// Its owner is not admitted.
        OWNER_NOT_ADMITTED = "OwnerNotAdmitted";
        /// Its owner has finished.
        OWNER_FINISHED = "OwnerFinished";
        /// It requests more than its owner was admitted with.
        EXCEEDS_OWNER = "ExceedsOwner";
        /// Its template has lost the label of Sluice's pods.
        LABEL_REMOVED = "LabelRemoved";
        /// Its controller has yet to create the object that its requests are read from.
        WAITS_FOR_CHILD = "WaitsForChild";

        // Groups of pods.

        /// Its label and annotations don't say of which group it is.
        INVALID_POD_GROUP = "InvalidPodGroup";
        /// Not all pods of its group exist.
        GROUP_INCOMPLETE = not_queued::GROUP_INCOMPLETE;
        /// All pods of its group exist, and it waits for quota.
        QUEUED = "Queued";
        /// The pods of its group do not say the same of it.
        PODS_DISAGREE = "PodsDisagree";
        /// Its group holds quota for pods that are yet to be made again.
        WAITS_FOR_REPLACEMENT = "WaitsForReplacement";
        /// Its group has ended.
        GROUP_ENDED = "GroupEnded";

        // Pods, and whose quota they use.

        /// It runs without an admission.
        NOT_ADMITTED = "NotAdmitted";
        /// It no longer belongs to what it was admitted with.
        DETACHED = "Detached";
        /// It runs in place of a pod that has ended.
        REPLACED = "Replaced";
        /// Pods wait although their job is admitted.
        PODS_WAITING = "PodsWaiting";
        /// It requests something else than its job was admitted with.
        REQUESTS_DIFFER = "RequestsDiffer";
        /// It requests more than its job was admitted with.
        REQUESTS_EXCEEDED = "RequestsExceeded";
    }
}
