//! What was looked at, and how it is.

use std::fmt;

use serde::Serialize;

use crate::cluster::ClusterError;
use crate::table::columns;

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Health {
    Ok,
    Failed,
    /// The caller may not see it.
    Unknown,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) health: Health,
    pub(super) detail: String,
}

/// What follows from an answer. What the caller may not see is not known.
pub(super) fn of<T>(
    check: &'static str,
    answered: Result<T, ClusterError>,
    judge: impl FnOnce(T) -> Result<String, String>,
) -> Finding {
    let (health, detail) = match answered.map(judge) {
        Ok(Ok(detail)) => (Health::Ok, detail),
        Ok(Err(detail)) => (Health::Failed, detail),
        Err(error) if error.is_forbidden() => (Health::Unknown, error.to_string()),
        Err(error) => (Health::Failed, error.to_string()),
    };
    Finding {
        check,
        health,
        detail,
    }
}

pub(super) fn table(findings: &[Finding]) -> String {
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|finding| {
            let detail = finding.detail.clone();
            vec![finding.check.to_owned(), finding.health.to_string(), detail]
        })
        .collect();
    columns(&["CHECK", "RESULT", "DETAIL"], &rows, 0)
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Unknown => "unknown",
        })
    }
}
