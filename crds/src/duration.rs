//! Durations as users write them, in the controller's configuration and in the kubectl plugin: `90s`, `1h30m`,
//! `7d`. A day is 24 hours.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Span, SpanRelativeTo};

/// What is accepted.
pub const RULE: &str =
    "must be a duration with the units d, h, m, s or ms (such as \"90s\", \"1h30m\" or \"7d\")";

/// The units. The parser knows more of them under more names, which no page and no message tells of.
const UNITS: [&str; 5] = ["d", "h", "m", "s", "ms"];

/// Reads a duration, which is not negative.
///
/// # Errors
/// `text` is none: the rule.
pub fn parse(text: &str) -> Result<Duration, &'static str> {
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.' || c == ' ';
    let mut words = text.split(is_of_number).filter(|word| !word.is_empty());
    if !words.all(|word| UNITS.contains(&word)) {
        return Err(RULE);
    }
    let span = text.parse::<Span>().map_err(|_| RULE)?;
    let exact = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let exact = exact.unwrap_or(SignedDuration::MIN);
    Duration::try_from(exact).map_err(|_| RULE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_with_units() {
        let cases = [
            ("0s", Some(0)),
            ("90s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("1h 30m", Some(5_400_000)),
            ("0.5h", Some(1_800_000)),
            ("168h", Some(604_800_000)),
            ("7d", Some(604_800_000)),
            ("2d12h", Some(216_000_000)),
            ("250ms", Some(250)),
            ("", None),
            ("90", None),
            ("s", None),
            ("1x", None),
            ("1h30", None),
            ("-1s", None),
            ("1h ago", None),
            ("1w", None),
            ("1 hour", None),
            ("1us", None),
            ("PT1H", None),
            ("1h, 30m", None),
            ("01:30:00", None),
            ("1mo", None),
            ("1y", None),
            ("1.2.3s", None),
            ("99999999999999999999s", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(parse(text).ok(), expected, "{text:?}");
        }
    }
}
