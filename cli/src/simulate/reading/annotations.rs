//! What objects say for the simulator alone: when they are created, and how long they take.

use std::time::Duration;

use serde_json::Value;
use sluice_kinds::Problem;
use sluice_kinds::metadata::annotation_text;

use super::settings::text;
use crate::simulate::span::{self, Moment};

/// Annotation on a job: how long it takes, for the simulator alone.
const DURATION_ANNOTATION: &str = "sluice.dev/simulate-duration";
/// Annotation on a job: when it is created, for the simulator alone.
const ARRIVAL_ANNOTATION: &str = "sluice.dev/simulate-arrival";

/// How long an object says that it takes.
pub fn said_duration(object: &Value) -> Result<Option<Duration>, Problem> {
    let Some(text) = annotation_text(object, DURATION_ANNOTATION) else {
        return Ok(None);
    };
    let said = span::parse(text);
    said.map(Some)
        .map_err(|rule| Problem::invalid(field_of(DURATION_ANNOTATION), text, rule))
}

/// The problem of one that does not say it.
pub fn no_duration() -> Problem {
    Problem::required(
        field_of(DURATION_ANNOTATION),
        "the time that the job runs (such as \"5m\"); or set --duration for all jobs without one",
    )
}

fn field_of(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

/// When an object was, or is to be, created.
pub fn arrival(object: &Value) -> Result<Option<Moment>, Problem> {
    if let Some(text) = annotation_text(object, ARRIVAL_ANNOTATION) {
        let moment = span::parse_moment(text);
        return moment
            .map(Some)
            .map_err(|rule| Problem::invalid(field_of(ARRIVAL_ANNOTATION), text, rule));
    }
    let field = "metadata.creationTimestamp";
    match text(object, "/metadata/creationTimestamp") {
        "" => Ok(None),
        created => match span::parse_moment(created) {
            Ok(moment @ Moment::At(_)) => Ok(Some(moment)),
            _ => Err(Problem::invalid(
                field,
                created,
                "must be an RFC 3339 time (such as \"2026-01-31T12:00:00Z\")",
            )),
        },
    }
}
