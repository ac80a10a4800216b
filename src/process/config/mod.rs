//! The configuration file, a kind of its own: its fields, how it is read and checked, and how a change of the file
//! takes effect.
//!
//! Must not know what the fields mean for jobs: that is said where they are used. A new section gets a file with its
//! type and its check, and `kind` names it.

mod aliases;
mod check;
mod device_classes;
mod fair_sharing;
mod file;
mod follow;
mod kind;
mod managed_namespaces;
#[cfg(test)]
mod reference;
mod resources;
mod span;
mod structure;

pub use check::CheckArgs;
pub use file::load;
pub use follow::{Follower, follow};
pub use kind::Configuration;
