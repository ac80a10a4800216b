//! Spans of time as kubectl writes them.

use k8s_openapi::jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// How long ago a time was, as kubectl writes it.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    span(now.as_second().saturating_sub(since.as_second()).max(0))
}

/// A span of time as kubectl writes it: the larger it is, the less exactly.
pub fn span(seconds: i64) -> String {
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        let (whole, rest) = (seconds / large, seconds % large / small);
        if rest == 0 {
            format!("{whole}{large_unit}")
        } else {
            format!("{whole}{large_unit}{rest}{small_unit}")
        }
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => pair(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}
