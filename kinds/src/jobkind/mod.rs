//! A JobKind, checked and compiled: reads the objects of its kind, and says how they are held.
//!
//! Must not know any kind by name, and writes nothing. Uses all folders but `patch`.

pub mod api_groups;
pub(crate) mod compile;
pub(crate) mod groups;
pub mod hold;
pub(crate) mod kind;
pub(crate) mod refusals;
pub mod schema;
pub(crate) mod templates;
