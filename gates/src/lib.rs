//! What a Gate says of an object and a time: whether the object is born with its gate; whether the gate is lifted by
//! itself, and if not, why and until when; or after which other object it is. Pure: the time is an argument, and time
//! zones come with the crate. No client, no clock, and no decision about who may lift a gate.
//!
//! | folder | what lives there |
//! |---|---|
//! | `cron` | a schedule in five fields, as in a CronJob |
//! | `schedule` | windows, exceptions, and the time that an object names |
//! | `after` | the object that another one waits for, and what is to be true of it |
//! | `applies_to` | which objects are born with the gate |
//! | `enforcement` | what becomes of objects that name no queue, by namespace |
//!
//! A folder uses only folders above it in this table.
#![deny(missing_docs)]

mod after;
mod applies_to;
mod compiled_gate;
mod cron;
mod enforcement;
mod schedule;

pub use after::compiled::CompiledAfter;
pub use after::dependency::{Dependency, NamedBy, WrongScope};
pub use after::rule::{DependencyRule, GroupKind, Outcome};
pub use after::waiting::Waiting;
pub use applies_to::applicant::{Applicant, Applies, NotKnown, Totals};
pub use applies_to::compiled::CompiledAppliesTo;
pub use compiled_gate::CompiledGate;
pub use enforcement::exception::Exception;
pub use enforcement::managed::{Enforced, ManagedNamespaces, ManagedNamespacesSpec};
pub use enforcement::unlabelled::Unlabelled;
pub use schedule::opening::{Closed, Opening, Why};
