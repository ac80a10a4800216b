//! The types of the conditions that Sluice writes, and how a condition is found by its type.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The type of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionType {
    /// A queue or cohort admits.
    Active,
    /// A JobKind's objects are watched.
    Ready,
    /// Objects that a Gate applies to are born with its gate.
    Applied,
    /// A Gate holds more than it should, or for longer.
    Backlogged,
    /// A Workload holds quota.
    QuotaReserved,
    /// A Workload holds quota and may run.
    Admitted,
    /// All pods of a Workload's job do their work.
    PodsReady,
    /// The Workload is evicted, or was before its last admission.
    Evicted,
    /// The Workload is preempted, or was at its last eviction.
    Preempted,
    /// A Workload was put back into its queue.
    Requeued,
    /// A Workload's job has ended.
    Finished,
    /// A Workload was evicted and its job has not stopped in time.
    Stalled,
}

impl ConditionType {
    const ALL: [Self; 12] = [
        Self::Active,
        Self::Ready,
        Self::Applied,
        Self::Backlogged,
        Self::QuotaReserved,
        Self::Admitted,
        Self::PodsReady,
        Self::Evicted,
        Self::Preempted,
        Self::Requeued,
        Self::Finished,
        Self::Stalled,
    ];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Ready => "Ready",
            Self::Applied => "Applied",
            Self::Backlogged => "Backlogged",
            Self::QuotaReserved => "QuotaReserved",
            Self::Admitted => "Admitted",
            Self::PodsReady => "PodsReady",
            Self::Evicted => "Evicted",
            Self::Preempted => "Preempted",
            Self::Requeued => "Requeued",
            Self::Finished => "Finished",
            Self::Stalled => "Stalled",
        }
    }

    /// The type with this name in the API.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether `condition` is of this type.
    pub fn is_of(self, condition: &Condition) -> bool {
        condition.type_ == self.name()
    }
}

/// The condition of this type, True or not.
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| kind.is_of(condition))
}

/// The condition of this type, if it is True.
pub fn find_true(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    find(conditions, kind).filter(|condition| condition.status == "True")
}

/// The condition of this type, if it is False.
pub fn find_false(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    find(conditions, kind).filter(|condition| condition.status == "False")
}

/// Whether the condition of this type is True.
pub fn is_true(conditions: &[Condition], kind: ConditionType) -> bool {
    find_true(conditions, kind).is_some()
}
