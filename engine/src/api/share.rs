//! Dominant resource shares and the weights that they are divided by. Fixed-point integers, so that
//! equal states have equal shares everywhere. The share of a node is worked out in `quota`.

use std::fmt;

use crate::api::amount::Amount;

/// The weight of a share, in thousandths: with twice the weight, twice the usage has the same share. With
/// weight zero all borrowing is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// The default weight.
    pub const ONE: Self = Self(1000);

    /// A weight of so many thousandths.
    pub const fn from_thousandths(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// The thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

/// A dominant resource share, in billionths of what could be lent, divided by the weight. With weight zero
/// shares are above all others, and still ordered by what is borrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(i128);

/// A share of one: everything.
const WHOLE: i128 = 1_000_000_000;

/// Shares with weight zero are above this, and all others below.
const DUE_NOTHING: i128 = i128::MAX / 2;

impl Share {
    /// Nothing is borrowed.
    pub const ZERO: Self = Self(0);

    /// Above all others: part of nothing.
    pub const MAX: Self = Self(i128::MAX);

    /// The billionths; `i128::MAX` for an unlimited share.
    pub const fn billionths(self) -> i128 {
        if self.is_unlimited() {
            i128::MAX
        } else {
            self.0
        }
    }

    /// Whether something is borrowed with weight zero.
    pub const fn is_unlimited(self) -> bool {
        self.0 >= DUE_NOTHING
    }

    /// `part` of `whole`, rounded down.
    pub(crate) fn of(part: Amount, whole: Amount) -> Self {
        if part <= Amount::ZERO {
            return Self::ZERO;
        }
        let product = part.get().saturating_mul(WHOLE);
        product.checked_div(whole.get()).map_or(Self::MAX, Self)
    }

    /// The share of what is borrowed, divided by this weight. Who borrows nothing is due as much with weight zero.
    pub(crate) fn weighted(self, weight: Weight) -> Self {
        if self == Self::ZERO || self == Self::MAX {
            return self;
        }
        self.divided_by(weight)
    }

    /// The share divided by this weight. With weight zero it is above all others, even if nothing was used.
    pub(crate) fn divided_by(self, weight: Weight) -> Self {
        let product = self.0.saturating_mul(1000);
        match product.checked_div(i128::from(weight.thousandths())) {
            Some(weighed) => Self(weighed.min(DUE_NOTHING - 1)),
            None => Self(DUE_NOTHING.saturating_add(self.0)),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
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
            (
                "without weight",
                (1, 10, 0),
                Share(DUE_NOTHING + 100_000_000),
            ),
            ("nothing without weight", (0, 10, 0), Share::ZERO),
            ("of nothing", (1, 0, 1000), Share::MAX),
        ];
        for (name, (part, whole, weight), expected) in cases {
            assert_eq!(share(part, whole, weight), expected, "{name}");
        }
        let unused = Share::ZERO.divided_by(Weight::from_thousandths(0));
        assert!(share(1, 10, 1) < unused && unused < share(1, 10, 0));
        assert_eq!(share(3, 2, 1000).to_string(), "1.500");
        assert_eq!(Share::MAX.to_string(), "unlimited");
        assert_eq!(share(1, 10, 0).to_string(), "unlimited");
        assert_eq!(share(1, 10, 0).billionths(), i128::MAX);
        assert!(
            share(1, 10, 0) < share(2, 10, 0),
            "due nothing, and has more"
        );
        assert!(share(2, 10, 0) < Share::MAX);
    }

    #[test]
    fn the_largest_amounts_are_still_told_apart() {
        let limit = Amount::LIMIT;
        let less = limit.minus(Amount::new(limit.get() / 1_000_000));
        assert!(Share::of(less, limit) < Share::of(limit, limit));
    }
}
