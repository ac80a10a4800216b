//! The configuration file: reads it, checks it for a user, makes admission policies of it, and follows it. What it
//! says is in `sluice-configuration`.
//!
//! Must not know what the fields mean for jobs: that is said where they are used.

mod check;
mod file;
mod follow;
mod held_kinds;
mod policies;

pub use check::CheckArgs;
pub use file::load;
pub use follow::{Follower, follow};
pub use policies::PoliciesArgs;
