//! What a change of the settings means for others.

use sluice_engine::Event;
use sluice_kinds::gates::Gate;

use crate::cache::additions::Added;
use crate::cache::subject::Template;

/// What a change of the settings means for others.
#[derive(Debug, Default)]
pub struct Effect {
    /// What to tell the engine.
    pub events: Vec<Event>,
    /// Whether the priority of jobs may have changed.
    pub priorities: bool,
    /// Whether the usage of pods that run without a record may have changed.
    pub first_choice: bool,
    /// Whether a ClusterQueue keeps pods now that it did not keep, or the other way round.
    pub keeps: bool,
    /// The template of claims that counts as something else now.
    pub template: Option<Template>,
    /// Whose pods something else is added to now.
    pub added: Option<Added>,
    /// The gate of which its Gate, or a namespace, says something else now.
    pub gate: Option<Gate>,
}

/// An object that can't be read.
#[derive(Debug)]
pub struct Unreadable {
    /// What is wrong with it.
    pub error: String,
    /// Whether it is in force as it was before.
    pub is_in_force: bool,
    /// What to tell the engine.
    pub events: Vec<Event>,
}

impl Unreadable {
    /// Nothing is there any more that could be read.
    pub fn gone(error: String) -> Self {
        Self {
            error,
            is_in_force: false,
            events: Vec::new(),
        }
    }
}
