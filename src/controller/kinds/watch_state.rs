//! The state of the watch of a JobKind's objects: whether they are watched, and why not. Which of two JobKinds for one
//! kind counts is decided in `changes.rs`.

use crate::jobkinds::policy::TAKEN;
use crate::jobkinds::webhook_rules::Rule;

/// The reason of a JobKind whose kind is not served at all: nothing is wrong, there are no such objects.
pub const WAITING: &str = "Waiting";

/// The state of the watch of a JobKind's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchState {
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
        /// Why not.
        reason: UnavailableReason,
        /// A sentence for people.
        message: String,
    },
}

/// Why the objects of a JobKind can't be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnavailableReason {
    /// The JobKind breaks a rule, or can't be read.
    Invalid,
    /// Another JobKind reads the kind already.
    Taken,
    /// Sluice may not read the objects.
    Forbidden,
    /// The API server says nothing about the kind for now.
    Unreachable,
    /// The kind is served, but not in the version that the JobKind names.
    NotServed,
    /// The kind has no namespaces.
    NotNamespaced,
    /// The JobKind does not fit the published schema of its kind.
    SchemaMismatch,
}

impl UnavailableReason {
    /// The reason of the condition that says so.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Taken => TAKEN,
            Self::Forbidden => "Forbidden",
            Self::Unreachable => "Unreachable",
            Self::NotServed => "KindNotServed",
            Self::NotNamespaced => "NotNamespaced",
            Self::SchemaMismatch => "SchemaMismatch",
        }
    }

    /// Whether the webhooks keep the rule that they had. Objects that can't be watched or read now are held all the
    /// same; those of which there are none are not.
    fn keeps_rule(self) -> bool {
        match self {
            Self::Forbidden | Self::Unreachable | Self::SchemaMismatch | Self::NotServed => true,
            Self::Invalid | Self::Taken | Self::NotNamespaced => false,
        }
    }
}

impl WatchState {
    /// The rule of a JobKind whose watch is in this state, and that had the rule `before`.
    pub fn rule(&self, before: &Rule) -> Rule {
        match self {
            Self::Starting | Self::Listed => before.clone(),
            Self::Unavailable { reason, .. } if reason.keeps_rule() => before.clone(),
            Self::Unserved { .. } | Self::Unavailable { .. } => Rule::None,
        }
    }
}

/// The state of a JobKind whose objects can't be watched.
pub fn unavailable(reason: UnavailableReason, message: String) -> WatchState {
    WatchState::Unavailable { reason, message }
}
