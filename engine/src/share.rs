//! Dominant resource shares: how much a node borrows, measured by what there is to borrow. Fixed-point
//! integers, so that equal states have equal shares everywhere. What counts as borrowed is `tree.rs`.

use std::fmt;

use crate::amount::Amount;
use crate::model::Weight;

/// A dominant resource share, in billionths of what there is to lend, divided by the weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(i128);

/// A share of one: everything.
const WHOLE: i128 = 1_000_000_000;

impl Share {
    /// Nothing is borrowed.
    pub const ZERO: Self = Self(0);

    /// More than any other: something is borrowed by one that is due nothing.
    pub const MAX: Self = Self(i128::MAX);

    /// Its billionths; `i128::MAX` for [`Share::MAX`].
    pub const fn billionths(self) -> i128 {
        self.0
    }

    /// `part` of `whole`, rounded down.
    pub(crate) fn of(part: Amount, whole: Amount) -> Self {
        if part <= Amount::ZERO {
            return Self::ZERO;
        }
        let product = part.get().saturating_mul(WHOLE);
        product.checked_div(whole.get()).map_or(Self::MAX, Self)
    }

    /// As it weighs for one that is due `weight`.
    pub(crate) fn weighted(self, weight: Weight) -> Self {
        if self == Self::ZERO || self == Self::MAX {
            return self;
        }
        let product = self.0.saturating_mul(1000);
        let weighed = product.checked_div(i128::from(weight.thousandths()));
        weighed.map_or(Self::MAX, Self)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX {
            return f.write_str("unlimited");
        }
        write!(f, "{}.{:03}", self.0 / WHOLE, self.0 % WHOLE / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_part_of_what_can_be_lent_by_weight() {
        let share = |part, whole, weight| {
            let share = Share::of(Amount::new(part), Amount::new(whole));
            share.weighted(Weight::from_thousandths(weight))
        };
        let cases = [
            ("nothing", (0, 10, 1000), Share::ZERO),
            ("less than nothing", (-3, 10, 1000), Share::ZERO),
            ("half", (5, 10, 1000), Share(500_000_000)),
            ("half of double weight", (5, 10, 2000), Share(250_000_000)),
            ("a third, rounded down", (1, 3, 1000), Share(333_333_333)),
            ("without weight", (1, 10, 0), Share::MAX),
            ("nothing without weight", (0, 10, 0), Share::ZERO),
            ("of nothing", (1, 0, 1000), Share::MAX),
        ];
        for (name, (part, whole, weight), expected) in cases {
            assert_eq!(share(part, whole, weight), expected, "{name}");
        }
        assert_eq!(share(3, 2, 1000).to_string(), "1.500");
        assert_eq!(Share::MAX.to_string(), "unlimited");
    }

    #[test]
    fn the_largest_amounts_are_still_told_apart() {
        let limit = Amount::LIMIT;
        let less = limit.minus(Amount::new(limit.get() / 1_000_000));
        assert!(Share::of(less, limit) < Share::of(limit, limit));
    }
}
