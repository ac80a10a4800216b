//! What is printed.

use serde::Serialize;

use super::finding::{ObjectState, UnqueuedObject};
use super::judge::ObjectFate;
use super::outcome::AuditError;
use crate::cluster::Format;
use crate::table::{NONE, columns};

/// A finding, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    namespace: &'a str,
    object: &'a str,
    /// The label of the namespace; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    enforcement: Option<&'a str>,
    /// The field that names the queue.
    field: &'a str,
    /// What becomes of it, in one word.
    outcome: &'static str,
    /// What becomes of it, in words.
    message: String,
}

/// The findings in the form that was asked for.
pub(super) fn shown(
    findings: &[UnqueuedObject],
    format: Option<Format>,
) -> Result<String, AuditError> {
    let unprintable = |error: &dyn std::error::Error| AuditError::Unprintable(error.to_string());
    let rows: Vec<Row<'_>> = findings.iter().map(Row::of).collect();
    match format {
        None => Ok(table(findings, false)),
        Some(Format::Wide) => Ok(table(findings, true)),
        Some(Format::Json) => serde_json::to_string_pretty(&rows)
            .map(|text| text + "\n")
            .map_err(|error| unprintable(&error)),
        Some(Format::Yaml) => serde_saphyr::to_string(&rows).map_err(|error| unprintable(&error)),
    }
}

/// The findings as a table; a wide one says where a queue is to be named.
fn table(findings: &[UnqueuedObject], is_wide: bool) -> String {
    if findings.is_empty() {
        return "Every object names a queue.\n".to_owned();
    }
    let mut headers = vec!["NAMESPACE", "OBJECT", "ENFORCEMENT", "WITHOUT A QUEUE"];
    headers.extend(is_wide.then_some("FIELD"));
    let row = |finding: &UnqueuedObject| {
        let enforcement = finding.enforcement.clone();
        let mut row = vec![
            finding.namespace.clone(),
            finding.object.clone(),
            enforcement.unwrap_or_else(|| NONE.to_owned()),
            finding.state.to_string(),
        ];
        row.extend(is_wide.then(|| finding.field.clone()));
        row
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    columns(&headers, &rows, 0)
}

impl<'a> Row<'a> {
    fn of(finding: &'a UnqueuedObject) -> Self {
        Self {
            namespace: &finding.namespace,
            object: &finding.object,
            enforcement: finding.enforcement.as_deref(),
            field: &finding.field,
            outcome: finding.state.word(),
            message: finding.state.to_string(),
        }
    }
}

impl ObjectState {
    fn word(&self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::WouldBe(fate) | Self::WouldBeUnlessExcepted(fate) => match fate {
                ObjectFate::Queued => "WouldBeQueued",
                ObjectFate::Held => "WouldBeHeld",
                ObjectFate::Refused => "WouldBeRefused",
                ObjectFate::Excepted => "Excepted",
                ObjectFate::Ignored => "Ignored",
            },
            Self::MadeBy(_) => "NoJobKind",
        }
    }
}

impl std::fmt::Display for ObjectState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Held => f.write_str("held"),
            Self::WouldBe(fate) => f.write_str(fate.text()),
            Self::WouldBeUnlessExcepted(fate) => {
                write!(f, "{}, unless its author is an exception", fate.text())
            }
            Self::MadeBy(kind) => write!(f, "no JobKind declares {kind}, which made it"),
        }
    }
}

impl ObjectFate {
    fn text(self) -> &'static str {
        match self {
            Self::Queued => "would be queued in the default LocalQueue",
            Self::Held => "would be held",
            Self::Refused => "would be refused",
            Self::Excepted => "left alone, as an exception covers it",
            Self::Ignored => "left alone",
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn findings_are_shown_in_each_form() {
        let finding = |object: &str, enforcement: Option<&str>, path: &str, state| UnqueuedObject {
            namespace: "team-a".to_owned(),
            object: object.to_owned(),
            enforcement: enforcement.map(str::to_owned),
            field: format!("{path}.labels[sluice.dev/queue-name]"),
            state,
        };
        let findings = [
            finding(
                "cronjob.batch/nightly",
                Some("Hold"),
                "spec.jobTemplate.metadata",
                ObjectState::WouldBe(ObjectFate::Held),
            ),
            finding(
                "pod/x",
                None,
                "metadata",
                ObjectState::MadeBy("Train".to_owned()),
            ),
            finding(
                "pod/y",
                None,
                "metadata",
                ObjectState::WouldBeUnlessExcepted(ObjectFate::Refused),
            ),
        ];
        let all = [
            None,
            Some(Format::Wide),
            Some(Format::Json),
            Some(Format::Yaml),
        ];
        let all = all.map(|format| shown(&findings, format).unwrap());
        assert_snapshot!(all.join("\n"), @r#"
        NAMESPACE   OBJECT                  ENFORCEMENT   WITHOUT A QUEUE
        team-a      cronjob.batch/nightly   Hold          would be held
        team-a      pod/x                   <none>        no JobKind declares Train, which made it
        team-a      pod/y                   <none>        would be refused, unless its author is an exception

        NAMESPACE   OBJECT                  ENFORCEMENT   WITHOUT A QUEUE                                       FIELD
        team-a      cronjob.batch/nightly   Hold          would be held                                         spec.jobTemplate.metadata.labels[sluice.dev/queue-name]
        team-a      pod/x                   <none>        no JobKind declares Train, which made it              metadata.labels[sluice.dev/queue-name]
        team-a      pod/y                   <none>        would be refused, unless its author is an exception   metadata.labels[sluice.dev/queue-name]

        [
          {
            "namespace": "team-a",
            "object": "cronjob.batch/nightly",
            "enforcement": "Hold",
            "field": "spec.jobTemplate.metadata.labels[sluice.dev/queue-name]",
            "outcome": "WouldBeHeld",
            "message": "would be held"
          },
          {
            "namespace": "team-a",
            "object": "pod/x",
            "field": "metadata.labels[sluice.dev/queue-name]",
            "outcome": "NoJobKind",
            "message": "no JobKind declares Train, which made it"
          },
          {
            "namespace": "team-a",
            "object": "pod/y",
            "field": "metadata.labels[sluice.dev/queue-name]",
            "outcome": "WouldBeRefused",
            "message": "would be refused, unless its author is an exception"
          }
        ]

        - namespace: team-a
          object: cronjob.batch/nightly
          enforcement: Hold
          field: spec.jobTemplate.metadata.labels[sluice.dev/queue-name]
          outcome: WouldBeHeld
          message: would be held
        - namespace: team-a
          object: pod/x
          field: metadata.labels[sluice.dev/queue-name]
          outcome: NoJobKind
          message: no JobKind declares Train, which made it
        - namespace: team-a
          object: pod/y
          field: metadata.labels[sluice.dev/queue-name]
          outcome: WouldBeRefused
          message: would be refused, unless its author is an exception
        "#);
        let none = [Some(Format::Wide), Some(Format::Json)];
        let none = none.map(|format| shown(&[], format).unwrap());
        assert_eq!(none, ["Every object names a queue.\n", "[]\n"]);
    }
}
