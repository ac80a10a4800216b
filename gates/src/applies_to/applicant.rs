//! What is asked about: an object, and what was read of it. How that is read lies with the caller.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_kinds::problem::summarize;
use sluice_kinds::requests::Amounts;
use sluice_kinds::view::PodSetView;
use sluice_kinds::{EvaluationError, Problem};
use thiserror::Error;

/// An object that may be born with a gate.
pub trait Applicant {
    /// The API group of its kind.
    fn group(&self) -> &str;
    /// Its kind.
    fn kind(&self) -> &str;
    /// The labels of its namespace. None: not known yet.
    fn namespace_labels(&self) -> Option<&BTreeMap<String, String>>;
    /// The LocalQueue that it names.
    fn queue(&self) -> Option<&str>;
    /// Whether it names a queue or a gate.
    fn asks_for_sluice(&self) -> bool;
    /// The object.
    fn object(&self) -> &Value;
    /// What all its pods are and request, or why that can't be said.
    fn totals(&self) -> Result<Totals, NotKnown>;
    /// Its priority, or why that can't be said.
    fn priority(&self) -> Result<i32, NotKnown>;
    /// Who asks for it.
    fn user(&self) -> &str;
    /// The groups of whoever asks for it.
    fn groups(&self) -> &[String];
}

/// Why something that is asked about an object can't be said of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotKnown {
    /// The pods of a pod set claim devices.
    #[error(
        "the pods of pod set {0:?} claim devices, which are not counted before the object is queued"
    )]
    Claims(String),
    /// The sum of the requests of a resource is too large.
    #[error("the sum of the requests of {0} is too large to be counted")]
    TooLarge(String),
    /// A request is no number that expressions have.
    #[error("a request of {nanos} nano-units can't be compared")]
    NoDouble {
        /// The request.
        nanos: i128,
    },
    /// Nothing says where its pods are described.
    #[error("no JobKind declares its kind")]
    NoJobKind,
    /// What its pods request stands elsewhere.
    #[error("the requests of a {0} are not in the object")]
    NoRequests(String),
    /// Its pods can't be read.
    #[error("{}", summarize(.0))]
    Unreadable(Vec<Problem>),
    /// A WorkloadPriorityClass is not there.
    #[error("there is no WorkloadPriorityClass {0:?}")]
    NoWorkloadPriorityClass(String),
    /// A PriorityClass is not there.
    #[error("there is no PriorityClass {0:?}")]
    NoPriorityClass(String),
    /// Its queue can't be read for now.
    #[error("{0}")]
    NoQueue(&'static str),
    /// The expression does not fit it.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
}

/// What all pods of an object are and request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many pods.
    pub pods: u64,
    /// What they request, in nano-units by resource.
    pub requests: Amounts,
}

/// Whether an object is born with a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applies {
    /// No.
    No,
    /// Yes.
    Yes,
    /// Yes, as it can't be found out: why.
    Unclear(String),
    /// It can't be judged yet: nothing is known of its namespace.
    Early,
}

impl Applies {
    /// Whether the gate is to be set.
    pub fn is_set(&self) -> bool {
        matches!(self, Self::Yes | Self::Unclear(_))
    }
}

impl Totals {
    /// The sum over pod sets.
    ///
    /// # Errors
    /// They can't be added up: why.
    pub fn of(pod_sets: &[PodSetView]) -> Result<Self, NotKnown> {
        let mut totals = Self::default();
        for set in pod_sets {
            if !set.claims.is_empty() {
                return Err(NotKnown::Claims(set.name.to_string()));
            }
            totals.pods = totals.pods.saturating_add(set.count.into());
            for (name, nanos) in &set.requests {
                let sum = totals.requests.entry(name.clone()).or_default();
                let more = nanos.checked_mul(set.count.into());
                let more = more.and_then(|more| sum.checked_add(more));
                *sum = more.ok_or_else(|| NotKnown::TooLarge(name.clone()))?;
            }
        }
        Ok(totals)
    }
}
