//! What could not be shown, and why, as the page gets it: a right that is lacking hides only what it is for, while the
//! page as a whole fails if the API server does not answer.

use std::io;

use http::StatusCode;
use kube::core::Status;
use serde::Serialize;

use crate::cluster::{ClusterError, Told};
use crate::live::LiveError;

/// Something that is not shown, or less of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What is not shown; empty for a note.
    pub what: String,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, in the words of the API server if it is its decision.
    pub message: String,
}

/// Why something is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Reason {
    /// The caller lacks a right.
    Forbidden,
    /// It is not there.
    NotFound,
    /// The API server does not know the caller.
    Unauthorized,
    /// The API server does not serve the kind: Sluice is not installed, or not all of it.
    Unserved,
    /// The API server does not answer, or not what was asked for.
    Unanswered,
    /// There is one answer of its kind at a time, and another is being made.
    Busy,
    /// Less is shown than there is.
    Note,
}

/// What is known, with what is not.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problem {
    /// What is not shown because of an error.
    pub fn of(what: &str, error: &ClusterError) -> Self {
        let reason = match error {
            ClusterError::Refused(status) => reason(status),
            ClusterError::Unserved { .. } => Reason::Unserved,
            _ => Reason::Unanswered,
        };
        Self {
            what: what.to_owned(),
            reason,
            message: error.to_string(),
        }
    }

    /// Something that is not there.
    pub fn not_found(what: &str, message: String) -> Self {
        Self {
            what: what.to_owned(),
            reason: Reason::NotFound,
            message,
        }
    }

    /// The status of an answer that is nothing but this problem.
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Forbidden => StatusCode::FORBIDDEN,
            Reason::NotFound => StatusCode::NOT_FOUND,
            Reason::Busy => StatusCode::SERVICE_UNAVAILABLE,
            // 401 is for the token of the page.
            Reason::Unauthorized | Reason::Unserved | Reason::Unanswered | Reason::Note => {
                StatusCode::BAD_GATEWAY
            }
        }
    }
}

fn reason(status: &Status) -> Reason {
    match status.code {
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        404 => Reason::NotFound,
        _ => Reason::Unanswered,
    }
}

impl Problems {
    /// What was found; nothing, and a problem, if the caller may not see it or it is not there.
    ///
    /// # Errors
    /// The API server does not answer: then all that is shown would be wrong.
    pub fn or_nothing<T: Default>(
        &mut self,
        what: &str,
        found: Result<T, LiveError>,
    ) -> Result<T, Problem> {
        let problem = match found {
            Ok(found) => return Ok(found),
            Err(LiveError::Cluster(error)) => Problem::of(what, &error),
            Err(other) => Problem {
                what: what.to_owned(),
                reason: Reason::Unanswered,
                message: other.to_string(),
            },
        };
        match problem.reason {
            Reason::Forbidden | Reason::NotFound => {
                self.add(problem);
                Ok(T::default())
            }
            _ => Err(problem),
        }
    }

    /// One more, unless it is known.
    pub fn add(&mut self, problem: Problem) {
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// That less is shown than there is.
    pub fn note(&mut self, message: String) {
        self.add(Problem {
            what: String::new(),
            reason: Reason::Note,
            message,
        });
    }

    /// Takes what a command tells besides.
    pub fn tell(&mut self) -> impl FnMut(Told) -> io::Result<()> + Send {
        |told| {
            if let Told::Note(message) | Told::Error(message) = told {
                self.note(message);
            }
            Ok(())
        }
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|problem| problem.reason == Reason::Note)
    }

    /// All of them.
    pub fn all(self) -> Vec<Problem> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_served_is_no_silence() {
        let what = "list clusterqueues".to_owned();
        let unserved = ClusterError::Unserved { what };
        let found: Result<Vec<()>, LiveError> = Err(LiveError::Cluster(unserved));
        let problem = Problems::default().or_nothing("clusterqueues", found);
        let problem = problem.unwrap_err();
        assert_eq!(problem.reason, Reason::Unserved);
        assert!(problem.message.contains("kubectl sluice check"));
    }
}
