//! The usage of a LocalQueue over time, for ClusterQueues that admit by usage. Older usage counts less:
//! after each half-life, half. Fixed-point integers, no floats.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::amount::Amount;
use crate::api::names::ResourceName;
use crate::api::queues::Consumed;
use crate::api::time::Time;

/// Bits of a fraction.
const BITS: u32 = 60;

/// One, as a fraction.
const ONE: u128 = 1 << BITS;

/// `2^(-1/2)`, `2^(-1/4)` and so on, as fractions.
const ROOTS: [u128; 40] = roots();

const fn roots() -> [u128; 40] {
    let mut roots = [0; 40];
    let mut root = ONE / 2;
    let mut index = 0;
    #[allow(clippy::indexing_slicing, reason = "worked out when this is compiled")]
    while index < roots.len() {
        root = (root << BITS).isqrt();
        roots[index] = root;
        index += 1;
    }
    roots
}

/// The fraction that is left after a time: `2^(-elapsed/half_life)`.
fn left_after(elapsed: Duration, half_life: Duration) -> u128 {
    let (elapsed, half_life) = (elapsed.as_millis(), half_life.as_millis());
    let Some(halvings) = elapsed.checked_div(half_life) else {
        return 0;
    };
    if halvings >= u128::from(BITS) {
        return 0;
    }
    let mut left = ONE >> halvings;
    // The rest of the exponent, bit by bit.
    let mut rest = elapsed % half_life;
    for root in ROOTS {
        rest <<= 1;
        if rest >= half_life {
            rest -= half_life;
            left = (left * root) >> BITS;
        }
    }
    left
}

/// A fraction of an amount.
fn part(amount: Amount, fraction: u128) -> Amount {
    let units = amount.at_least_zero().get().unsigned_abs();
    let (whole, rest) = (units >> BITS, units & (ONE - 1));
    let product = whole.saturating_mul(fraction) + ((rest * fraction) >> BITS);
    Amount::new(i128::try_from(product).unwrap_or(i128::MAX))
}

impl Consumed {
    /// Updates the history to `now`; since the last update the usage was `used`.
    pub(crate) fn bring_up(
        &mut self,
        now: Time,
        half_life: Duration,
        used: &BTreeMap<ResourceName, Amount>,
    ) {
        if now <= self.at {
            return;
        }
        let left = left_after(now.since(self.at), half_life);
        for resource in used.keys() {
            self.amounts.entry(resource.clone()).or_default();
        }
        for (resource, amount) in &mut self.amounts {
            let used = used.get(resource).copied().unwrap_or_default();
            *amount = part(*amount, left).plus(part(used, ONE - left));
        }
        self.amounts.retain(|_, amount| *amount > Amount::ZERO);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn half_of_it_is_left_after_each_half_life() {
        // In billionths, computed with another tool.
        let billionths = |elapsed| (left_after(elapsed, HOUR) * 1_000_000_000) >> BITS;
        let cases = [
            (Duration::ZERO, 1_000_000_000),
            (HOUR, 500_000_000),
            (HOUR / 2, 707_106_781),
            (HOUR * 5 / 2, 176_776_695),
            (Duration::from_millis(1), 999_999_807),
            (HOUR * 29, 1),
            (HOUR * 30, 0),
        ];
        for (elapsed, expected) in cases {
            assert_eq!(billionths(elapsed), expected, "{elapsed:?}");
        }
        assert_eq!(left_after(HOUR * 100, HOUR), 0);
        assert_eq!(left_after(HOUR, Duration::ZERO), 0);
    }

    #[test]
    fn steady_use_counts_in_full_in_the_end_and_is_forgotten_when_it_ends() {
        let used = BTreeMap::from([("cpu".into(), Amount::new(1 << 70))]);
        let mut consumed = Consumed::default();
        let at = |hours: i64| Time::from_millis(hours * 3_600_000);
        consumed.bring_up(at(1), HOUR, &used);
        assert_eq!(consumed.amounts.get("cpu"), Some(&Amount::new(1 << 69)));
        consumed.bring_up(at(70), HOUR, &used);
        assert_eq!(consumed.amounts.get("cpu"), Some(&Amount::new(1 << 70)));
        consumed.bring_up(at(300), HOUR, &BTreeMap::new());
        assert!(consumed.amounts.is_empty());
        let before = consumed.clone();
        consumed.bring_up(at(2), HOUR, &used);
        assert_eq!(consumed, before, "time does not run backwards");
    }
}
