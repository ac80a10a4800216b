//! Times and amounts for people.

use sluice_crds::Quantity;
pub use sluice_estimates::seconds::Seconds;

use super::span;

/// A time for people.
pub fn time(Seconds(millis): Seconds) -> String {
    span::shown(millis)
}

/// An amount for people: to three or four digits where the rest would be an average's long tail.
pub fn rounded(resource: &str, nanos: i128) -> String {
    let steps: &[i128] = &[1 << 40, 1 << 30, 1 << 20, 1 << 10];
    let is_bytes = Quantity::of(resource, sluice_crds::quantity::NANOS << 10).0 == "1Ki";
    let unit = if is_bytes {
        let bytes = nanos / sluice_crds::quantity::NANOS;
        let step = steps.iter().find(|step| **step * 100 <= bytes);
        step.copied().unwrap_or(1) * sluice_crds::quantity::NANOS
    } else {
        match nanos / sluice_crds::quantity::NANOS {
            0..100 => sluice_crds::quantity::NANOS / 100,
            100..1000 => sluice_crds::quantity::NANOS / 10,
            _ => sluice_crds::quantity::NANOS,
        }
    };
    let nearest = (nanos + unit / 2) / unit * unit;
    if is_bytes {
        return Quantity::of(resource, nearest).to_string();
    }
    // 1.33 is read faster than 1330m.
    let hundredths = nearest / (sluice_crds::quantity::NANOS / 100);
    let (whole, part) = (hundredths / 100, hundredths % 100);
    match (part, part % 10) {
        (0, _) => whole.to_string(),
        (_, 0) => format!("{whole}.{}", part / 10),
        _ => format!("{whole}.{part:02}"),
    }
}

/// Units of a resource for people.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a figure for people"
)]
pub fn amount(resource: &str, units: f64) -> String {
    rounded(
        resource,
        (units * sluice_crds::quantity::NANOS as f64) as i128,
    )
}

/// Nano-units as units.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn units(nanos: i128) -> f64 {
    nanos as f64 / sluice_crds::quantity::NANOS as f64
}

/// To so many digits behind the point, so that figures are the same everywhere and short.
pub fn to_digits(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_for_people() {
        let nano = sluice_crds::quantity::NANOS;
        let cases = [
            ("cpu", 0, "0"),
            ("cpu", nano / 3, "0.33"),
            ("cpu", nano * 3 / 2, "1.5"),
            ("cpu", nano * 4, "4"),
            ("cpu", nano * 12_345 / 100, "123.5"),
            ("nvidia.com/gpu", nano * 12_345 / 10, "1235"),
            ("memory", nano * ((8 << 30) + 5), "8Gi"),
            ("memory", nano * 1000, "1000"),
        ];
        for (resource, nanos, expected) in cases {
            assert_eq!(rounded(resource, nanos), expected, "{resource} {nanos}");
        }
    }
}
