//! Gates: who lifts them, on which objects they are set by policy, and what an edit leaves on the object.

pub(super) mod applies;
mod applies_priority;
pub(super) mod lift;
mod made_pods;
mod marks;
mod reads;
mod reapplied;
mod restored;
