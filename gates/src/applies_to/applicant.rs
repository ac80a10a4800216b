//! What is asked about: an object, and what was read of it. How that is read lies with the caller.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_kinds::requests::Amounts;
use sluice_kinds::view::PodSetView;

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
    fn totals(&self) -> Result<Totals, String>;
    /// Its priority, or why that can't be said.
    fn priority(&self) -> Result<i32, String>;
    /// Who asks for it.
    fn user(&self) -> &str;
    /// The groups of whoever asks for it.
    fn groups(&self) -> &[String];
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
    pub fn of(pod_sets: &[PodSetView]) -> Result<Self, String> {
        let mut totals = Self::default();
        for set in pod_sets {
            if !set.claims.is_empty() {
                return Err(format!(
                    "the pods of pod set {:?} claim devices, which are not counted before the object is queued",
                    set.name
                ));
            }
            totals.pods = totals.pods.saturating_add(set.count.into());
            for (name, nanos) in &set.requests {
                let sum = totals.requests.entry(name.clone()).or_default();
                let more = nanos.checked_mul(set.count.into());
                let more = more.and_then(|more| sum.checked_add(more));
                *sum = more.ok_or_else(|| {
                    format!("the sum of the requests of {name} is too large to be counted")
                })?;
            }
        }
        Ok(totals)
    }
}
