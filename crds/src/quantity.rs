//! Kubernetes quantities as exact integers: parsing, and writing amounts back for people. What can't
//! be counted exactly is an error here; it never becomes 0 and never wraps.
//!
//! The grammar is apimachinery's `resource.Quantity`. Amounts are in nano-units (10⁻⁹), the finest
//! step that Kubernetes knows; finer values are rounded up, as there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// Nano-units in one unit.
pub const NANOS: i128 = 1_000_000_000;

/// A quantity as it was written: `"500m"`, `"2Gi"`, or a bare number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Quantity(pub String);

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Why a quantity can't be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// It is not of the form that Kubernetes accepts.
    #[error(
        "must be a quantity: a number with an optional suffix (such as \"500m\", \"2\", \"1.5Gi\" or \"1e3\")"
    )]
    Malformed,
    /// It is too large to be counted exactly.
    #[error("is too large to be counted: must be below 1e29")]
    Overflow,
    /// Its exponent is so far below zero that Kubernetes, which keeps 32 bits of it, may read another one.
    #[error("has an exponent that can't be counted: must not be below -99")]
    Exponent,
}

impl Quantity {
    /// The amount in nano-units. May be negative.
    pub fn nanos(&self) -> Result<i128, QuantityError> {
        parse_nanos(&self.0)
    }

    /// The canonical text for `nanos`, in the notation that `resource` is usually written in.
    pub fn of(resource: &str, nanos: i128) -> Self {
        Self(format_nanos(resource, nanos))
    }

    /// About as much, for people: in thousandths, bytes in MiB, rounded down.
    pub fn about(resource: &str, nanos: i128) -> Self {
        let step = if is_bytes(resource) {
            NANOS << 20
        } else {
            NANOS / 1000
        };
        Self::of(resource, nanos - nanos.rem_euclid(step))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Takes a string or a number, as the API server does for `x-kubernetes-int-or-string`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Number(serde_json::Number),
        }
        Ok(Self(match Form::deserialize(deserializer)? {
            Form::Text(text) => text,
            Form::Number(number) => number.to_string(),
        }))
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
            "maxLength": 64,
            "x-kubernetes-int-or-string": true,
        })
    }
}

/// Largest power of ten that is tried: 10⁹⁹ is beyond i128 by far, so larger ones need no sum. Kubernetes keeps the
/// lowest 32 bits of an exponent (apimachinery, resource/suffix.go): `4e-4294967296` is 4 there, so nothing beyond this
/// may be taken for a small amount.
const EXPONENT_MAX: i32 = 99;

fn parse_nanos(text: &str) -> Result<i128, QuantityError> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let number_end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(QuantityError::Malformed);
    }
    let magnitude = match suffix {
        "" => decimal(whole, fraction, 0),
        "n" => decimal(whole, fraction, -9),
        "u" => decimal(whole, fraction, -6),
        "m" => decimal(whole, fraction, -3),
        "k" => decimal(whole, fraction, 3),
        "M" => decimal(whole, fraction, 6),
        "G" => decimal(whole, fraction, 9),
        "T" => decimal(whole, fraction, 12),
        "P" => decimal(whole, fraction, 15),
        "E" => decimal(whole, fraction, 18),
        "Ki" => binary(whole, fraction, 1),
        "Mi" => binary(whole, fraction, 2),
        "Gi" => binary(whole, fraction, 3),
        "Ti" => binary(whole, fraction, 4),
        "Pi" => binary(whole, fraction, 5),
        "Ei" => binary(whole, fraction, 6),
        other => match other.strip_prefix(['e', 'E']) {
            Some(exponent) => match parse_exponent(exponent) {
                Err(QuantityError::Overflow | QuantityError::Exponent)
                    if is_zero(whole, fraction) =>
                {
                    Ok(0)
                }
                exponent => decimal(whole, fraction, exponent?),
            },
            None => Err(QuantityError::Malformed),
        },
    }?;
    Ok(if negative { -magnitude } else { magnitude })
}

fn parse_exponent(text: &str) -> Result<i32, QuantityError> {
    let is_negative = text.starts_with('-');
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Malformed);
    }
    let size = digits.parse::<i32>().ok();
    match (size.filter(|size| *size <= EXPONENT_MAX), is_negative) {
        (Some(size), false) => Ok(size),
        (Some(size), true) => Ok(-size),
        (None, false) => Err(QuantityError::Overflow),
        (None, true) => Err(QuantityError::Exponent),
    }
}

fn is_zero(whole: &str, fraction: &str) -> bool {
    whole.bytes().chain(fraction.bytes()).all(|b| b == b'0')
}

/// `whole.fraction × 10^exponent`, in nano-units, rounded up.
fn decimal(whole: &str, fraction: &str, exponent: i32) -> Result<i128, QuantityError> {
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    let fraction_len = i32::try_from(fraction.len()).map_err(|_| QuantityError::Malformed)?;
    let power = exponent - fraction_len + 9;
    if power >= 0 {
        let value = significant
            .parse::<i128>()
            .map_err(|_| QuantityError::Overflow)?;
        let scale = power_of_ten(power).ok_or(QuantityError::Overflow)?;
        return value.checked_mul(scale).ok_or(QuantityError::Overflow);
    }
    // Digits below the nano are cut off and rounded up.
    let cut = usize::try_from(-power).unwrap_or(usize::MAX);
    let kept_len = significant.len().saturating_sub(cut);
    let (kept, lost) = significant.split_at(kept_len);
    let value = if kept.is_empty() {
        0
    } else {
        kept.parse::<i128>().map_err(|_| QuantityError::Overflow)?
    };
    let round_up = i128::from(lost.bytes().any(|b| b != b'0'));
    value.checked_add(round_up).ok_or(QuantityError::Overflow)
}

/// `whole.fraction × 1024^power`, in nano-units, rounded up.
fn binary(whole: &str, fraction: &str, power: u32) -> Result<i128, QuantityError> {
    let scale = 1024_i128.pow(power);
    let whole_nanos = if whole.is_empty() {
        0
    } else {
        decimal(whole, "", 0)?
    };
    let scaled = whole_nanos
        .checked_mul(scale)
        .ok_or(QuantityError::Overflow)?;
    scaled
        .checked_add(share(fraction, scale * NANOS))
        .ok_or(QuantityError::Overflow)
}

/// `0.fraction × unit`, rounded up, for a unit of at most 2^60 × 10^9, which needs 90 bits. One digit after the other, from
/// the last one on: a tenth of all below it is added to each, and what a division leaves can only round up.
fn share(fraction: &str, unit: i128) -> i128 {
    let mut share = 0;
    let mut is_rounded = false;
    for digit in fraction.bytes().rev() {
        let tenfold = i128::from(digit - b'0') * unit + share;
        share = tenfold / 10;
        is_rounded |= tenfold % 10 != 0;
    }
    share + i128::from(is_rounded)
}

fn power_of_ten(power: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(power).ok()?)
}

const DECIMAL_SUFFIXES: [(&str, i128); 6] = [
    ("E", NANOS * 1_000_000_000_000_000_000),
    ("P", NANOS * 1_000_000_000_000_000),
    ("T", NANOS * 1_000_000_000_000),
    ("G", NANOS * 1_000_000_000),
    ("M", NANOS * 1_000_000),
    ("k", NANOS * 1_000),
];
const SMALL_SUFFIXES: [(&str, i128); 4] = [("", NANOS), ("m", 1_000_000), ("u", 1_000), ("n", 1)];
const BINARY_SUFFIXES: [(&str, i128); 6] = [
    ("Ei", NANOS << 60),
    ("Pi", NANOS << 50),
    ("Ti", NANOS << 40),
    ("Gi", NANOS << 30),
    ("Mi", NANOS << 20),
    ("Ki", NANOS << 10),
];

/// Bytes are written with binary suffixes, all else with decimal ones: the largest that is exact.
fn format_nanos(resource: &str, nanos: i128) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let large = if is_bytes(resource) {
        &BINARY_SUFFIXES
    } else {
        &DECIMAL_SUFFIXES
    };
    large
        .iter()
        .chain(&SMALL_SUFFIXES)
        .find(|(_, unit)| nanos % unit == 0)
        .map_or_else(
            || format!("{nanos}n"),
            |(suffix, unit)| format!("{}{suffix}", nanos / unit),
        )
}

fn is_bytes(resource: &str) -> bool {
    let name = resource.strip_prefix("requests.").unwrap_or(resource);
    matches!(name, "memory" | "storage" | "ephemeral-storage") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_what_kubernetes_parses() {
        let cases = [
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("1", Ok(NANOS)),
            ("+5", Ok(5 * NANOS)),
            ("-1", Ok(-NANOS)),
            ("0.1m", Ok(100_000)),
            ("1n", Ok(1)),
            ("1e-30", Ok(1)),
            ("1.0000000001", Ok(NANOS + 1)),
            (".5", Ok(NANOS / 2)),
            ("5.", Ok(5 * NANOS)),
            ("1e3", Ok(1000 * NANOS)),
            ("1E3", Ok(1000 * NANOS)),
            ("1E", Ok(NANOS * 1_000_000_000_000_000_000)),
            ("100m", Ok(NANOS / 10)),
            ("1Ki", Ok(1024 * NANOS)),
            ("1.5Gi", Ok((1024 * 1024 * 1024 * 3 / 2) * NANOS)),
            ("8Ei", Ok((8_i128 << 60) * NANOS)),
            ("9223372036854775808", Ok(9_223_372_036_854_775_808 * NANOS)),
            ("1e400", Err(QuantityError::Overflow)),
            ("0e400", Ok(0)),
            ("0.00e-400", Ok(0)),
            ("1e-99", Ok(1)),
            ("1e-100", Err(QuantityError::Exponent)),
            // 4, and 8, in Kubernetes.
            ("4e-4294967296", Err(QuantityError::Exponent)),
            ("8e4294967296", Err(QuantityError::Overflow)),
            ("8e-18446744073709551616", Err(QuantityError::Exponent)),
            ("1e-", Err(QuantityError::Malformed)),
            // Each digit of a fraction counts: 2^60 × 0.00000000000999 is more than 11 MB.
            ("0.00000000000999Ei", Ok(11_517_685_831_022_402)),
            ("0.0000000001Ki", Ok(103)),
            ("0.0009765625Ki", Ok(NANOS)),
            (
                "99999999999999999999999999999999999999",
                Err(QuantityError::Overflow),
            ),
            ("", Err(QuantityError::Malformed)),
            (" 5", Err(QuantityError::Malformed)),
            ("5 ", Err(QuantityError::Malformed)),
            ("0x10", Err(QuantityError::Malformed)),
            ("NaN", Err(QuantityError::Malformed)),
            ("١", Err(QuantityError::Malformed)),
            ("1.2.3", Err(QuantityError::Malformed)),
            (".", Err(QuantityError::Malformed)),
            ("1ki", Err(QuantityError::Malformed)),
            ("1e", Err(QuantityError::Malformed)),
            ("--1", Err(QuantityError::Malformed)),
        ];
        for (text, expected) in cases {
            assert_eq!(Quantity(text.to_owned()).nanos(), expected, "{text:?}");
        }
    }

    #[test]
    fn writes_the_canonical_form() {
        let cases = [
            ("cpu", 1_500_000_000, "1500m"),
            ("cpu", 4 * NANOS, "4"),
            ("memory", (NANOS << 30) * 2, "2Gi"),
            ("memory", NANOS * 1500, "1500"),
            ("nvidia.com/gpu", 3 * NANOS, "3"),
            ("cpu", 0, "0"),
            ("cpu", 1, "1n"),
        ];
        for (resource, nanos, expected) in cases {
            assert_eq!(format_nanos(resource, nanos), expected);
        }
    }

    #[test]
    fn about_as_much_is_thousandths_or_mebibytes() {
        let cases = [
            ("cpu", 1_234_567_891, "1234m"),
            ("nvidia.com/gpu", 2 * NANOS + 1, "2"),
            ("cpu", 999_999, "0"),
            ("memory", (NANOS << 30) + 1, "1Gi"),
            ("memory", (NANOS << 20) - 1, "0"),
        ];
        for (resource, nanos, expected) in cases {
            assert_eq!(Quantity::about(resource, nanos).0, expected);
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = parse_nanos(&text);
        }

        #[test]
        fn what_is_written_reads_back(nanos in -(1_i128 << 90)..(1_i128 << 90), bytes: bool) {
            let text = format_nanos(if bytes { "memory" } else { "cpu" }, nanos);
            prop_assert_eq!(parse_nanos(&text), Ok(nanos), "{}", text);
        }
    }
}
