//! Exact integer amounts of a resource. The engine does not know their unit: the caller chooses one per
//! resource. Nor does it know quantities: the caller parses and formats them.

use std::fmt;
use std::hash::Hash;

/// An exact amount of some resource, in the unit that the caller chose.
///
/// Any `i128` is allowed. As usage only amounts between zero and [`Amount::LIMIT`] count, and all others
/// have a defined meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The largest amount of one request, one quota or one usage: 2^96.
    ///
    /// In nano-units that is 7.9e19 whole units, eight times what fits an `i64`. A sum of 2^30 such amounts
    /// still fits an `i128`, so sums over all workloads or all nodes of a tree cannot overflow.
    pub const LIMIT: Self = Self(1 << 96);

    /// An amount of `units` of the caller's unit.
    pub const fn new(units: i128) -> Self {
        Self(units)
    }

    /// The number of units.
    pub const fn get(self) -> i128 {
        self.0
    }

    /// The sum, or `None` if it can't be represented.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` if it can't be represented.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    /// `count` times this amount, or `None` if it can't be represented.
    pub const fn checked_mul(self, count: u32) -> Option<Self> {
        match self.0.checked_mul(count as i128) {
            Some(product) => Some(Self(product)),
            None => None,
        }
    }

    /// `some` of `all` equal parts of this amount, rounded down; the whole if there are no more
    /// parts than those.
    pub(crate) const fn share(self, some: u32, all: u32) -> Self {
        if some >= all {
            return self;
        }
        // Quotient and remainder apart: their products can't overflow, that of the whole could.
        let (some, all) = (some as i128, all as i128);
        Self(self.0 / all * some + self.0 % all * some / all)
    }

    /// The sum, saturating. For sums of clamped amounts, which cannot overflow.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, saturating. As [`Amount::plus`].
    pub(crate) const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This amount, or zero if it is negative.
    pub(crate) fn at_least_zero(self) -> Self {
        self.max(Self::ZERO)
    }

    /// The nearest amount that counts as usage. A quota is cut *down* to it, which is safe. The usage of a
    /// stored admission is always clamped in the same way, so that exactly what was added is removed.
    pub(crate) fn clamped(self) -> Self {
        self.clamp(Self::ZERO, Self::LIMIT)
    }
}

impl From<i64> for Amount {
    fn from(units: i64) -> Self {
        Self(i128::from(units))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_errors_or_clamped_but_never_wrap() {
        let (min, max) = (Amount::new(i128::MIN), Amount::new(i128::MAX));
        assert_eq!(max.checked_add(Amount::new(1)), None);
        assert_eq!(min.checked_sub(Amount::new(1)), None);
        assert_eq!(max.checked_mul(2), None);
        assert_eq!(max.checked_mul(0), Some(Amount::ZERO));
        assert_eq!(max.clamped(), Amount::LIMIT);
        assert_eq!(min.clamped(), Amount::ZERO);
        assert_eq!(max.plus(max), max);
        assert_eq!(min.minus(max), min);
        let most = u32::MAX;
        assert_eq!(
            max.share(most - 1, most).get(),
            max.get() - max.get() / i128::from(most) - 1
        );
    }

    #[test]
    fn a_share_is_exact_and_rounded_down() {
        let seven = Amount::new(7);
        let share = |some, all| seven.share(some, all).get();
        assert_eq!([0, 1, 2, 3].map(|some| share(some, 3)), [0, 2, 4, 7]);
        assert_eq!([0, 1, 9, 10].map(|some| share(some, 10)), [0, 0, 6, 7]);
        assert_eq!((share(4, 3), share(0, 0)), (7, 7));
        // The whole times its share is more than an i128 holds.
        let limit = Amount::LIMIT.share(u32::MAX - 1, u32::MAX);
        assert_eq!(
            Amount::LIMIT.minus(limit),
            Amount::LIMIT.share(1, u32::MAX).plus(Amount::new(1))
        );
    }
}
