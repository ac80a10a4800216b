//! What is wrong with an object, in the API server's own words: field path, value, rule and what
//! would be accepted. One type serves webhook replies, conditions and events; it decides nothing.

use std::fmt::{self, Write as _};

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where, as the API server writes it: `metadata.annotations[acme.io/x]`, `spec.podSets[0].count`.
    pub field: String,
    /// Which kind of wrong.
    pub kind: ProblemKind,
    /// The rule and what would be accepted.
    pub detail: String,
}

/// The API server's error types (`field.ErrorType` of apimachinery) that Sluice uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// The value breaks a rule. Holds the offending value.
    Invalid(String),
    /// The value appears twice where it may appear once.
    Duplicate(String),
    /// The value is none of those that there are.
    NotSupported(String),
    /// The edit is not allowed.
    Forbidden,
    /// The value is missing.
    Required,
    /// There are more elements than allowed. Holds how many there are.
    TooMany(usize),
    /// The value is longer than allowed. The value itself is not repeated.
    TooLong,
}

/// Longest value that is quoted back to the user, in bytes: enough to recognise it, too short to
/// flood a log or an event with hostile input.
const QUOTED_BYTES_MAX: usize = 128;

impl Problem {
    /// The value at `field` breaks the rule in `detail`.
    pub fn invalid(
        field: impl Into<String>,
        value: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            kind: ProblemKind::Invalid(value.into()),
            detail: detail.into(),
        }
    }

    /// The value at `field` stands there twice.
    pub fn duplicate(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind: ProblemKind::Duplicate(value.into()),
            detail: String::new(),
        }
    }

    /// The value at `field` is none of the `supported` ones.
    pub fn not_supported(
        field: impl Into<String>,
        value: impl Into<String>,
        supported: &[&str],
    ) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        Self {
            field: field.into(),
            kind: ProblemKind::NotSupported(value.into()),
            detail: format!("supported values: {}", supported.join(", ")),
        }
    }

    /// The edit of `field` is not allowed, for the reason in `detail`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind: ProblemKind::Forbidden,
            detail: detail.into(),
        }
    }

    /// There is nothing at `field`; `detail` says what belongs there.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind: ProblemKind::Required,
            detail: detail.into(),
        }
    }

    /// There are `count` elements at `field`; `detail` says how many are allowed.
    pub fn too_many(field: impl Into<String>, count: usize, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind: ProblemKind::TooMany(count),
            detail: detail.into(),
        }
    }

    /// The value at `field` is longer than `bytes_max` bytes.
    pub fn too_long(field: impl Into<String>, bytes_max: usize) -> Self {
        let detail = format!("may not be more than {bytes_max} bytes");
        Self {
            field: field.into(),
            kind: ProblemKind::TooLong,
            detail,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            kind,
            detail,
        } = self;
        match kind {
            ProblemKind::Invalid(value) => {
                write!(f, "{field}: Invalid value: {}: {detail}", quote(value))
            }
            ProblemKind::Duplicate(value) => {
                write!(f, "{field}: Duplicate value: {}", quote(value))
            }
            ProblemKind::NotSupported(value) => {
                write!(f, "{field}: Unsupported value: {}: {detail}", quote(value))
            }
            ProblemKind::Forbidden => write!(f, "{field}: Forbidden: {detail}"),
            ProblemKind::Required => write!(f, "{field}: Required value: {detail}"),
            ProblemKind::TooMany(count) => write!(f, "{field}: Too many: {count}: {detail}"),
            ProblemKind::TooLong => write!(f, "{field}: Too long: {detail}"),
        }
    }
}

/// Quotes `value` with control characters escaped, cut to [`QUOTED_BYTES_MAX`].
fn quote(value: &str) -> String {
    let end = value.floor_char_boundary(QUOTED_BYTES_MAX);
    match value.get(..end) {
        Some(head) if end < value.len() => format!("{:?}", format!("{head}…")),
        _ => format!("{value:?}"),
    }
}

/// All problems in one line, the first ten spelled out.
pub fn summarize(problems: &[Problem]) -> String {
    const SHOWN_MAX: usize = 10;
    let mut text = problems
        .iter()
        .take(SHOWN_MAX)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    if problems.len() > SHOWN_MAX {
        // Writing to a String can't fail.
        let _ = write!(text, "; and {} more", problems.len() - SHOWN_MAX);
    }
    text
}

/// `text` with `values` in place of its `{}`. Webhooks and admission policies share such texts; a policy fills them
/// in by an expression.
pub fn fill(text: &str, values: &[&str]) -> String {
    let mut parts = text.split("{}");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for (value, part) in values.iter().zip(parts) {
        filled.push_str(value);
        filled.push_str(part);
    }
    filled
}
