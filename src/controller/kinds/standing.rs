//! How a JobKind stands: whether its objects are watched, and why not. Which of two for one kind counts is
//! decided in `changes.rs`.

pub use crate::jobkinds::policy::TAKEN;
use crate::jobkinds::webhook_rules::Rule;

/// The reason of a JobKind whose objects Sluice may not read.
pub const FORBIDDEN: &str = "Forbidden";
/// The reason of a JobKind about which the API server says nothing for now.
pub const UNREACHABLE: &str = "Unreachable";
/// The reason of a JobKind whose kind is not served at all: nothing is wrong, there are no such objects.
pub const WAITING: &str = "Waiting";
/// The reason of a JobKind whose kind is served, but not in its version.
pub const NOT_SERVED: &str = "KindNotServed";
/// The reason of a JobKind that does not fit the published schema of its kind.
pub const MISMATCH: &str = "SchemaMismatch";

/// How a JobKind stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It has not been looked for, or its first list is under way.
    Starting,
    /// Its objects are watched and all are known.
    Listed,
    /// No version of its group has the kind: there are no objects.
    Unserved {
        /// A sentence for people.
        message: String,
    },
    /// Its objects can't be watched.
    Unavailable {
        /// One CamelCase word of a closed set.
        reason: &'static str,
        /// A sentence for people.
        message: String,
    },
}

impl Standing {
    /// The rule of a JobKind that stands so and had the rule `before`. Objects that can't be watched or
    /// read now are held all the same; those of which there are none are not.
    pub fn rule(&self, before: &Rule) -> Rule {
        match self {
            Self::Starting | Self::Listed => before.clone(),
            Self::Unavailable { reason, .. }
                if [FORBIDDEN, UNREACHABLE, MISMATCH].contains(reason) =>
            {
                before.clone()
            }
            Self::Unserved { .. } | Self::Unavailable { .. } => Rule::None,
        }
    }
}

/// How a JobKind stands that can't be watched.
pub fn unavailable(reason: &'static str, message: String) -> Standing {
    Standing::Unavailable { reason, message }
}
