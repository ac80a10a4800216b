//! The configuration file of the controller, a kind of its own: its fields, and how its text is read and checked. Pure, for
//! the controller and the plugin alike.
//!
//! Must not know where the file is, nor what the fields mean for jobs: that is said where they are used. A new section
//! gets a file with its type and its check, and `kind` names it.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod aliases;
mod device_classes;
mod fair_sharing;
mod file;
mod kind;
mod managed_namespaces;
#[cfg(test)]
mod reference;
mod resources;
mod span;
mod structure;

pub use file::{ConfigError, parse};
pub use kind::Configuration;
