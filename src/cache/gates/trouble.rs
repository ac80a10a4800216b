//! What keeps a Gate from being followed: the objects that its gate waits for can't be watched.

/// Why a Gate can't be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is the matter.
    pub reason: TroubleReason,
    /// A sentence for people.
    pub message: String,
}

/// What keeps a Gate from being followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleReason {
    /// Sluice may not read the objects of a kind.
    Forbidden,
    /// The API server does not serve a kind.
    NotServed,
    /// The API server says nothing about a kind for now.
    Unreachable,
    /// A kind has namespaces where it must have none, or the other way round.
    WrongScope,
}

impl TroubleReason {
    /// The reason of the condition that says so.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::NotServed => "KindNotServed",
            Self::Unreachable => "Unreachable",
            Self::WrongScope => "WrongScope",
        }
    }

    /// Whether it is over soon by itself. What was seen before still counts then.
    pub(super) fn is_passing(self) -> bool {
        match self {
            Self::Unreachable => true,
            Self::Forbidden | Self::NotServed | Self::WrongScope => false,
        }
    }
}
