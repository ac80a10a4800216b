//! What is wrong with the input, each with its place: file, document or line, object, field. And what else keeps a play
//! from being shown.

use std::fmt;

use sluice_kinds::Problem;

use crate::input::InputError;

/// Why nothing was played, or shown.
#[derive(Debug)]
pub enum Failure {
    /// Files can't be read.
    Unreadable(Vec<InputError>),
    /// What is in them is wrong.
    Problems(Problems),
    /// The result can't be written.
    Unwritable(String),
    /// The job to explain is none, or not one.
    NotOneJob(Problem),
}

/// Problems that are listed; the others are counted.
const TOLD_MAX: usize = 100;

/// All that was found to be wrong. Not empty where it is an error.
#[derive(Debug, Default)]
pub struct Problems(Vec<String>);

impl Problems {
    /// One more, at `place`.
    pub fn add(&mut self, place: &impl fmt::Display, problem: &Problem) {
        self.0.push(format!("{place}: {problem}"));
    }

    /// One more, at `place`, in words.
    pub fn add_text(&mut self, place: &impl fmt::Display, problem: &str) {
        self.0.push(format!("{place}: {problem}"));
    }

    /// More of them, all at `place`.
    pub fn extend<'p>(
        &mut self,
        place: &impl fmt::Display,
        problems: impl IntoIterator<Item = &'p Problem>,
    ) {
        for problem in problems {
            self.add(place, problem);
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One line for each, and one for all those that are too many.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let more = self.0.len().saturating_sub(TOLD_MAX);
        let more = (0 < more).then(|| format!("and {more} more problems"));
        self.0.iter().take(TOLD_MAX).cloned().chain(more)
    }
}
