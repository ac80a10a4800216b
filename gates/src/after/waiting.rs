//! Why a gate is not lifted after another object yet, in words for people.

use sluice_kinds::Problem;

/// Why a held object still waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Waiting {
    /// It lacks the annotation that names what it waits for.
    #[error("metadata.annotations[{annotation}]: Required value: {form}")]
    Unnamed {
        /// The key of the annotation.
        annotation: String,
        /// What it is to hold.
        form: String,
    },
    /// The annotation names nothing.
    #[error("{0}")]
    BadName(Problem),
    /// Objects of the kind can't be watched.
    #[error(
        "waits for {0}, and such objects can't be watched; ask whoever looks after the Gate, whose conditions say why"
    )]
    NotWatched(String),
    /// Objects of the kind are being listed.
    #[error("waits for {0}, which has not been read yet")]
    NotRead(String),
    /// There is no such object.
    #[error("waits for {0}, which does not exist")]
    Missing(String),
    /// Its condition is not true.
    #[error("waits for {0}: its condition is not true yet")]
    NotYet(String),
    /// It has failed.
    #[error("{0} has failed")]
    Failed(String),
    /// An expression can't be evaluated.
    #[error("waits for {object}, of which an expression of the Gate can't be evaluated: {why}")]
    Unknown {
        /// The object.
        object: String,
        /// What went wrong.
        why: String,
    },
}
