//! What planning comes to: the next write, and what is told.

use k8s_openapi::jiff::Timestamp;

use crate::plan::writes::write::Write;

/// Something that the user is told about a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Note {
    /// One CamelCase word of a closed set.
    pub reason: &'static str,
    /// Whether something is wrong.
    pub is_warning: bool,
    /// A sentence that helps.
    pub message: String,
}

impl Note {
    /// All is well.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            is_warning: false,
            message: message.into(),
        }
    }

    /// Something is wrong.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            is_warning: true,
            message: message.into(),
        }
    }
}

/// What to do about a job.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The next write.
    pub write: Option<Write>,
    /// What to tell the user once the write has succeeded; at once if there is none.
    pub notes: Vec<Note>,
}

impl Plan {
    pub(crate) fn write(write: Write) -> Self {
        Self {
            write: Some(write),
            notes: Vec::new(),
        }
    }

    pub(crate) fn and_note(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }

    pub(crate) fn note(note: Note) -> Self {
        Self {
            write: None,
            notes: vec![note],
        }
    }
}

/// The present.
pub type Present = Timestamp;
