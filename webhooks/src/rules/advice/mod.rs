//! What the author of an object is warned of, though it is taken: it would wait for what never comes, or for nothing.
//! Never a refusal, and nothing is said of what is not known yet.
//!
//! Must not know how objects are held, nor refuse anything. Uses files of `rules`, and `jobs`.

mod classes;
mod deadlines;
mod fits;
mod gate_annotations;
pub(crate) mod keys;
mod queues;
pub(crate) mod templates;
pub(crate) mod warnings;
