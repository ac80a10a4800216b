//! A JobKind, checked and compiled: reads the objects of its kind, and says how they are held.
//!
//! Must not know any kind by name, and writes nothing. Uses all folders but `patch`.

pub(crate) mod compile;
pub(crate) mod groups;
pub mod hold;
pub(crate) mod kind;
pub mod manageable_groups;
pub(crate) mod refuse_rules;
pub mod schema;
pub(crate) mod templates;
