//! In which form somebody wants an answer: the object, or a Table of it, for which `kubectl get` asks.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::problem::Problem;
use crate::process::clock;

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// The object itself.
    Object,
    /// A Table, in a version of `meta.k8s.io`.
    Table {
        /// The version.
        version: &'static str,
        /// Whether each row says which object it is about.
        has_objects: bool,
    },
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What is above it.
    pub name: &'static str,
    /// The type of its cells in OpenAPI.
    pub of_type: &'static str,
    /// Whether only `-o wide` shows it.
    pub is_wide: bool,
    /// What it says.
    pub description: &'static str,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// As many as there are columns.
    pub cells: Vec<Value>,
    /// The metadata of what it is about.
    pub metadata: Value,
}

/// What can be answered as a table.
pub trait Tabular: Serialize {
    /// What each row says.
    const COLUMNS: &'static [Column];

    /// The rows at that time.
    fn rows(&self, now: Timestamp) -> Vec<Row>;
}

/// A column of texts.
pub const fn text(name: &'static str, description: &'static str) -> Column {
    Column {
        name,
        of_type: "string",
        is_wide: false,
        description,
    }
}

/// A column of numbers.
pub const fn number(name: &'static str, description: &'static str) -> Column {
    Column {
        of_type: "integer",
        ..text(name, description)
    }
}

/// A column of texts that are too long for most.
pub const fn wide(name: &'static str, description: &'static str) -> Column {
    Column {
        is_wide: true,
        ..text(name, description)
    }
}

impl<S: Sync> FromRequestParts<S> for Form {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let accept = parts.headers.get_all(ACCEPT).iter();
        let accept: Vec<_> = accept.filter_map(|value| value.to_str().ok()).collect();
        Self::read(&accept.join(","), parts.uri.query())
    }
}

impl Form {
    /// Of the forms that somebody accepts and that can be answered in, the first of those with the greatest weight (RFC 9110,
    /// 12.4.2).
    fn read(accept: &str, query: Option<&str>) -> Result<Self, Problem> {
        if accept.trim().is_empty() {
            return Ok(Self::Object);
        }
        let mut best: Option<(f32, Self)> = None;
        for range in accept.split(',') {
            if let Some((weight, form)) = Self::of_range(range, query)
                && best.as_ref().is_none_or(|(most, _)| *most < weight)
            {
                best = Some((weight, form));
            }
        }
        let best = best.filter(|(weight, _)| 0.0 < *weight);
        best.map(|(_, form)| form).ok_or(Problem::NotAcceptable)
    }

    /// The form that a media range asks for, with its weight.
    fn of_range(range: &str, query: Option<&str>) -> Option<(f32, Self)> {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "application/*" | "*/*") {
            return None;
        }
        let (mut of_kind, mut group, mut version) = (None, None, None);
        let mut weight = 1.0;
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "as" => of_kind = Some(value),
                "g" => group = Some(value),
                "v" => version = Some(value),
                "q" => weight = value.parse().unwrap_or(weight),
                _ => {}
            }
        }
        let version = match (of_kind, group, version) {
            (None, _, _) => return Some((weight, Self::Object)),
            (Some("Table"), Some("meta.k8s.io"), Some("v1")) => "v1",
            (Some("Table"), Some("meta.k8s.io"), Some("v1beta1")) => "v1beta1",
            _ => return None,
        };
        let mut pairs = query.unwrap_or_default().split('&');
        let table = Self::Table {
            version,
            has_objects: !pairs.any(|pair| pair == "includeObject=None"),
        };
        Some((weight, table))
    }

    /// The answer in this form.
    pub fn answer<T: Tabular>(&self, object: &T) -> Response {
        match *self {
            Self::Object => Json(object).into_response(),
            Self::Table {
                version,
                has_objects,
            } => {
                let rows = object.rows(clock::wall());
                Json(table(version, has_objects, T::COLUMNS, rows)).into_response()
            }
        }
    }
}

fn table(version: &str, has_objects: bool, columns: &[Column], rows: Vec<Row>) -> Value {
    let columns = columns.iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.of_type,
            "format": if column.name == "Name" { "name" } else { "" },
            "description": column.description,
            "priority": i32::from(column.is_wide),
        })
    });
    let api_version = format!("meta.k8s.io/{version}");
    let rows = rows.into_iter().map(|row| {
        let object = has_objects.then(|| {
            json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": api_version,
                "metadata": row.metadata,
            })
        });
        json!({"cells": row.cells, "object": object})
    });
    json!({
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": {},
        "columnDefinitions": columns.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// How long ago that was, as kubectl writes it: in two units at most.
pub fn ago(at: Option<&Time>, now: Timestamp) -> Value {
    let Some(Time(at)) = at else {
        return Value::String("<unknown>".into());
    };
    let seconds = now.as_second().saturating_sub(at.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let text = match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 != 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    };
    Value::String(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_there_is_is_chosen() {
        let table = |version, has_objects| {
            Ok(Form::Table {
                version,
                has_objects,
            })
        };
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                       application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json";
        for (case, accept, query, expected) in [
            ("nothing", "", None, Ok(Form::Object)),
            ("anything", "*/*", None, Ok(Form::Object)),
            ("JSON", "application/json", None, Ok(Form::Object)),
            ("kubectl get", kubectl, None, table("v1", true)),
            ("an old kubectl", old, None, table("v1beta1", true)),
            (
                "no objects",
                kubectl,
                Some("a=b&includeObject=None"),
                table("v1", false),
            ),
            (
                "what there is not, or JSON",
                "application/vnd.kubernetes.protobuf,application/json",
                None,
                Ok(Form::Object),
            ),
            (
                "another form, or JSON",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;q=0.9",
                None,
                Ok(Form::Object),
            ),
            (
                "a table, if need be",
                "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.5, application/json",
                None,
                Ok(Form::Object),
            ),
            (
                "anything but JSON",
                "application/json;q=0, application/json;as=Table;v=v1;g=meta.k8s.io;q=0",
                None,
                Err(Problem::NotAcceptable),
            ),
            (
                "what there is not",
                "application/vnd.kubernetes.protobuf",
                None,
                Err(Problem::NotAcceptable),
            ),
            (
                "a table of another version",
                "application/json;as=Table;v=v9;g=meta.k8s.io",
                None,
                Err(Problem::NotAcceptable),
            ),
        ] {
            assert_eq!(Form::read(accept, query), expected, "{case}");
        }
        assert_eq!(
            Problem::NotAcceptable.to_string(),
            "only the following media types are accepted: application/json"
        );
    }

    #[test]
    fn ages_are_written_as_kubectl_does() {
        let now: Timestamp = "2026-03-01T09:00:00Z".parse().unwrap();
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (125, "2m5s"),
            (180, "3m"),
            (7200, "120m"),
            (11_100, "3h5m"),
            (36_061, "10h"),
            (180_000, "2d2h"),
            (864_001, "10d"),
        ] {
            let at = Time(Timestamp::from_second(now.as_second() - seconds).unwrap());
            assert_eq!(ago(Some(&at), now), expected, "{seconds}");
        }
        assert_eq!(ago(None, now), "<unknown>");
    }
}
