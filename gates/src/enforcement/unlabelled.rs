//! The choices of what becomes of an object without a queue label.

use std::str::FromStr;

/// What becomes of an object without a queue label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unlabelled {
    /// It gets the label of the default LocalQueue.
    Default,
    /// It is held until it names a queue.
    Hold,
    /// It is refused.
    Refuse,
    /// Nothing: it runs without a queue.
    Ignore,
}

impl Unlabelled {
    /// All choices, by their names in the API.
    pub const NAMES: [&str; 4] = ["Default", "Hold", "Ignore", "Refuse"];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::Hold => "Hold",
            Self::Refuse => "Refuse",
            Self::Ignore => "Ignore",
        }
    }

    /// Whether objects are judged by this, if only to report what would become of them.
    pub fn is_judged(self) -> bool {
        self != Self::Ignore
    }
}

impl FromStr for Unlabelled {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let all = [Self::Default, Self::Hold, Self::Refuse, Self::Ignore];
        let named = all.into_iter().find(|choice| choice.name() == name);
        named.ok_or(())
    }
}
