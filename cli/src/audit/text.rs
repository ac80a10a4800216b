//! What is printed.

use super::finding::{Fate, Finding, State};
use crate::table::{NONE, columns};

/// The findings as a table.
pub(super) fn table(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "Every object names a queue.\n".to_owned();
    }
    let row = |finding: &Finding| {
        let enforcement = finding.enforcement.clone();
        vec![
            finding.namespace.clone(),
            finding.object.clone(),
            enforcement.unwrap_or_else(|| NONE.to_owned()),
            state(&finding.state),
        ]
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    columns(
        &["NAMESPACE", "OBJECT", "ENFORCEMENT", "WITHOUT A QUEUE"],
        &rows,
        0,
    )
}

fn state(state: &State) -> String {
    match state {
        State::Held => "held".to_owned(),
        State::WouldBe(Fate::Queued) => "would be queued in the default LocalQueue".to_owned(),
        State::WouldBe(Fate::Held) => "would be held".to_owned(),
        State::WouldBe(Fate::Refused) => "would be refused".to_owned(),
        State::WouldBe(Fate::Ignored) => "left alone".to_owned(),
        State::MadeBy(kind) => format!("no JobKind declares {kind}, which made it"),
    }
}
