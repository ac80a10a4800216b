//! What a Gate says of an object and a time: whether it lifts its gate by itself, and if not, why and until when; or
//! after which other object it does. Pure: the time is an argument, and time zones come with the crate. No client, no
//! clock, and no decision about who may lift a gate.
//!
//! | folder | what lives there |
//! |---|---|
//! | `cron` | a schedule in five fields, as in a CronJob |
//! | `schedule` | windows, exceptions, and the time that an object names |
//! | `after` | the object that another one waits for, and what is to be true of it |
//!
//! A folder uses only folders above it in this table.
#![deny(missing_docs)]

mod after;
mod cron;
mod gate;
mod schedule;

pub use after::compiled::CompiledAfter;
pub use after::dependency::{Dependency, NamedBy, WrongScope};
pub use after::rule::{DependencyRule, GroupKind, Outcome};
pub use after::waiting::Waiting;
pub use gate::CompiledGate;
pub use schedule::opening::{Closed, Opening, Why};
