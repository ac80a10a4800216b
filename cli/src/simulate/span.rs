//! Spans of time, and moments, as users write and read them: `90s`, `1h30m`, `2d`; and RFC 3339. What
//! takes so long is not known here.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::duration;

/// What is accepted as a span.
pub const RULE: &str = "must be a duration with the units d, h, m, s or ms (such as \"90s\", \"1h30m\" or \"7d\"), or a number of seconds, and at most ten years";
/// What is accepted as an arrival.
pub const ARRIVAL_RULE: &str = "must be a duration since the beginning (such as \"90s\" or \"1h30m\"), a number of seconds, or an RFC 3339 time (such as \"2026-01-31T12:00:00Z\")";

/// Units in which a span is shown, in milliseconds, the longest first.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
/// Longest span: sums of two of them, and usage times such a span, are far from any limit.
const MILLIS_MAX: u64 = 10 * 366 * 86_400_000;

/// When something is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// So much after the beginning.
    After(Duration),
    /// At this moment, in milliseconds since 1970.
    At(i64),
}

/// Reads a span.
///
/// # Errors
/// It isn't one: the rule.
pub fn parse(text: &str) -> Result<Duration, String> {
    let is_number = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let parsed = if is_number {
        duration::parse(&format!("{text}s"))
    } else {
        duration::parse(text)
    };
    let millis = parsed
        .ok()
        .and_then(|span| u64::try_from(span.as_millis()).ok());
    millis
        .filter(|millis| *millis <= MILLIS_MAX)
        .map(Duration::from_millis)
        .ok_or_else(|| RULE.to_owned())
}

/// Reads a span since the beginning, or a moment.
///
/// # Errors
/// It is neither: the rule.
pub fn parse_moment(text: &str) -> Result<Moment, String> {
    if let Ok(after) = parse(text) {
        return Ok(Moment::After(after));
    }
    let at: Result<Timestamp, _> = text.parse();
    at.map(|at| Moment::At(at.as_millisecond()))
        .map_err(|_| ARRIVAL_RULE.to_owned())
}

/// A span for people: its two largest units.
pub fn shown(millis: i64) -> String {
    let sign = if millis < 0 { "-" } else { "" };
    let mut left = millis.unsigned_abs();
    if 10_000 <= left {
        left = (left + 500) / 1000 * 1000;
    }
    let mut parts = Vec::new();
    for (index, (unit, scale)) in UNITS.iter().enumerate() {
        let number = left / scale;
        left %= scale;
        if 0 < number && parts.len() < 2 {
            parts.push((index, format!("{number}{unit}")));
        }
    }
    // Two units that are not neighbours say more than is meant: 2d 3s.
    let first = parts.first().map_or(0, |(index, _)| *index);
    let texts = parts
        .into_iter()
        .filter(|(index, _)| index - first <= 1)
        .map(|(_, text)| text);
    let text: String = texts.collect();
    if text.is_empty() {
        return "0s".to_owned();
    }
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let cases = [
            ("0", Some(0)),
            ("90", Some(90_000)),
            ("1.5", Some(1500)),
            ("90s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("0.5h", Some(1_800_000)),
            ("2d", Some(172_800_000)),
            ("250ms", Some(250)),
            ("3660d", Some(MILLIS_MAX)),
            ("3661d", None),
            ("", None),
            ("s", None),
            ("1", Some(1000)),
            ("1.9999", Some(1999)),
            ("1x", None),
            ("1h30", None),
            ("-1s", None),
            ("1.2.3", None),
            (".", None),
            ("99999999999999999999s", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(parse(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_moment_may_be_a_date() {
        let cases = [
            ("5m", Some(Moment::After(Duration::from_mins(5)))),
            ("1970-01-01T00:00:01Z", Some(Moment::At(1000))),
            ("1970-01-01T01:00:00+01:00", Some(Moment::At(0))),
            ("yesterday", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_moment(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn shows_two_units() {
        let cases = [
            (0, "0s"),
            (999, "999ms"),
            (1500, "1s500ms"),
            (37_059, "37s"),
            (61_500, "1m2s"),
            (3_600_000, "1h"),
            (3_601_000, "1h"),
            (100_000_000, "1d3h"),
            (-90_000, "-1m30s"),
        ];
        for (millis, expected) in cases {
            assert_eq!(shown(millis), expected);
        }
    }
}
