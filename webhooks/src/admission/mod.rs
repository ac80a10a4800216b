//! An admission review: the question and the answer, and what the answer depends on besides the question.
//!
//! Must not know any rule, nor HTTP. Uses no other folder.

pub(crate) mod access;
pub(crate) mod edit;
pub(crate) mod observer;
pub(crate) mod policy;
pub(crate) mod queue_states;
pub(crate) mod request;
pub(crate) mod schemas;
pub(crate) mod surroundings;
pub(crate) mod verdict;
