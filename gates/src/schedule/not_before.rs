//! The time that an object names in an annotation.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sluice_crds::NotBefore;
use sluice_kinds::gates::field_of;
use sluice_kinds::{Problem, names};

use super::opening::Why;

/// What a value that is no time gets to hear.
const NO_TIME: &str = "must be a time in the form of RFC 3339, such as 2026-12-01T08:00:00Z or \
     2026-12-01T09:00:00+01:00";

/// Which annotation names the time.
#[derive(Debug, Clone)]
pub(crate) struct TimeAnnotation(String);

/// The time that an object names, and how it spells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedTime {
    pub(crate) annotation: String,
    pub(crate) value: String,
    pub(crate) time: Timestamp,
}

impl TimeAnnotation {
    /// Checks the rule at `field`.
    pub(crate) fn compile(rule: &NotBefore, field: &str) -> Result<Self, Problem> {
        let problem = names::annotation_key(&rule.annotation, &format!("{field}.annotation"));
        problem.map_or_else(|| Ok(Self(rule.annotation.clone())), Err)
    }

    /// Its key.
    pub(crate) fn key(&self) -> &str {
        &self.0
    }

    /// The time that these annotations name.
    ///
    /// # Errors
    /// They name none, or what they name is none. Either holds the object.
    pub(crate) fn read(&self, annotations: &BTreeMap<String, String>) -> Result<NamedTime, Why> {
        let Self(key) = self;
        let Some(value) = annotations.get(key) else {
            return Err(Why::NoTime {
                annotation: key.clone(),
            });
        };
        let time = rfc3339(value);
        let time =
            time.ok_or_else(|| Why::BadTime(Problem::invalid(field_of(key), value, NO_TIME)))?;
        Ok(NamedTime {
            annotation: key.clone(),
            value: value.clone(),
            time,
        })
    }
}

/// Reads a time. The form is checked first, as jiff reads more: dates alone, and zones that it does not look at.
fn rfc3339(text: &str) -> Option<Timestamp> {
    const FORM: &str = "dddd-dd-ddTdd:dd:dd";
    let (seconds, rest) = text.split_at_checked(FORM.len())?;
    let rest = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            // One digit at least.
            (rest.len() < fraction.len()).then_some(rest)?
        }
    };
    let is_zone = rest == "Z" || has_form(rest, "+dd:dd") || has_form(rest, "-dd:dd");
    let is_time = has_form(seconds, FORM) && is_zone;
    is_time.then(|| text.parse().ok()).flatten()
}

/// Whether `text` has a digit wherever `form` has a `d`, and is equal to it elsewhere.
fn has_form(text: &str, form: &str) -> bool {
    let fits = |(byte, form): (u8, u8)| match form {
        b'd' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::utc("2026-12-01T08:00:00Z", Some("2026-12-01T08:00:00Z"))]
    #[case::offset("2026-12-01T09:00:00+01:00", Some("2026-12-01T08:00:00Z"))]
    #[case::west("2026-12-01T03:30:00-04:30", Some("2026-12-01T08:00:00Z"))]
    #[case::fraction("2026-12-01T08:00:00.25Z", Some("2026-12-01T08:00:00.25Z"))]
    #[case::leap_second("2026-12-31T23:59:60Z", Some("2026-12-31T23:59:59Z"))]
    #[case::leap_day("2028-02-29T00:00:00Z", Some("2028-02-29T00:00:00Z"))]
    #[case::no_leap_day("2026-02-29T00:00:00Z", None)]
    #[case::hour_24("2026-12-01T24:00:00Z", None)]
    #[case::month_13("2026-13-01T00:00:00Z", None)]
    #[case::no_zone("2026-12-01T08:00:00", None)]
    #[case::named_zone("2026-12-01T08:00:00+01:00[Europe/Berlin]", None)]
    #[case::date("2026-12-01", None)]
    #[case::space("2026-12-01 08:00:00Z", None)]
    #[case::no_seconds("2026-12-01T08:00Z", None)]
    #[case::short_offset("2026-12-01T08:00:00+01", None)]
    #[case::no_fraction("2026-12-01T08:00:00.Z", None)]
    #[case::long_fraction("2026-12-01T08:00:00.0000000000000001Z", None)]
    #[case::padded(" 2026-12-01T08:00:00Z", None)]
    #[case::word("tomorrow", None)]
    #[case::empty("", None)]
    #[case::wide_characters("२०२६-१२-०१T०८:००:००Z", None)]
    #[case::beyond_the_calendar("9999-12-31T23:59:59-23:00", None)]
    #[case::unix("1764576000", None)]
    fn reads_rfc_3339_and_nothing_else(#[case] text: &str, #[case] expected: Option<&str>) {
        let expected = expected.map(|time| time.parse().unwrap());
        assert_eq!(rfc3339(text), expected);
    }
}
