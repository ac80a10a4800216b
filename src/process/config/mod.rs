//! The configuration file: reads it, checks it for a user, and follows it. What it says is in `sluice-configuration`.

mod check;
mod file;
mod follow;

pub use check::CheckArgs;
pub use file::load;
pub use follow::{Follower, follow};
