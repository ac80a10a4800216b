//! Something that a word of the command line may be, and what is said of it.

/// Something that the word may be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The word.
    pub value: String,
    /// What it is, if that is known.
    pub about: String,
}

impl Candidate {
    /// One of which nothing is said.
    pub fn new(value: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            about: String::new(),
        }
    }
}
