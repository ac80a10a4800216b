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

/// A dominant resource share: a part of what could be lent, divided by the weight. With weight zero shares are above
/// all others, and still ordered by what is borrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(i128);

/// A part of a whole, not weighted yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part(i128);

/// The digits of a part are worked out so many at a time.
const STEP: i128 = 100_000_000;

/// A part of one: everything. So even beside a quota of `1E` CPUs one of them counts, up to a weight of 1000.
const WHOLE_PART: i128 = STEP * STEP * STEP;

/// A share of one. A part divided by the thousandths of its weight is a share.
const WHOLE_SHARE: i128 = WHOLE_PART / 1000;

/// A billionth of a share of one.
const BILLIONTH: i128 = WHOLE_SHARE / 1_000_000_000;

/// Shares with weight zero are above this, and all others below.
const DUE_NOTHING: i128 = i128::MAX / 2;

impl Share {
    /// Nothing is borrowed.
    pub const ZERO: Self = Self(0);

    /// Above all others: part of nothing.
    pub const MAX: Self = Self(i128::MAX);

    /// The billionths, rounded up: zero means that nothing is borrowed. `i128::MAX` for an unlimited share.
    pub const fn billionths(self) -> i128 {
        if self.is_unlimited() {
            i128::MAX
        } else {
            (self.0 + BILLIONTH - 1) / BILLIONTH
        }
    }

    /// Whether something is borrowed with weight zero.
    pub const fn is_unlimited(self) -> bool {
        self.0 >= DUE_NOTHING
    }
}

impl Part {
    /// Nothing.
    pub(crate) const ZERO: Self = Self(0);

    /// Part of nothing.
    const MAX: Self = Self(i128::MAX);

    /// `part` of `whole`, rounded down.
    pub(crate) fn of(part: Amount, whole: Amount) -> Self {
        if part <= Amount::ZERO {
            return Self::ZERO;
        }
        let (part, whole) = (part.get(), whole.at_least_zero().get());
        if let Some(product) = part.checked_mul(WHOLE_PART) {
            return product.checked_div(whole).map_or(Self::MAX, Self);
        }
        // Long division. A step could overflow, too, if the whole is the sum of several of the largest amounts: the digits
        // that these lose are of no account.
        let excess = (STEP.ilog2() + 2).saturating_sub(whole.leading_zeros());
        let (part, whole) = (part >> excess, whole >> excess);
        let Some(mut quotient) = part.checked_div(whole) else {
            return Self::MAX;
        };
        let mut rest = part - quotient * whole;
        for _ in 0..3 {
            let digits = rest * STEP / whole;
            rest = rest * STEP - digits * whole;
            quotient = quotient.saturating_mul(STEP).saturating_add(digits);
        }
        Self(quotient.min(Self::MAX.0 - 1))
    }

    /// The share of what is borrowed, divided by this weight. Who borrows nothing is due as much with weight zero.
    pub(crate) fn weighted(self, weight: Weight) -> Share {
        match self {
            Self::ZERO => Share::ZERO,
            Self::MAX => Share::MAX,
            part => part.divided_by(weight),
        }
    }

    /// The share divided by this weight. With weight zero it is above all others, even if nothing was used.
    pub(crate) fn divided_by(self, weight: Weight) -> Share {
        match self.0.checked_div(i128::from(weight.thousandths())) {
            Some(weighed) => Share(weighed.min(DUE_NOTHING - 1)),
            None => Share(DUE_NOTHING.saturating_add(self.0)),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.write_str("unlimited");
        }
        let thousandths = self.0 / (WHOLE_SHARE / 1000);
        write!(f, "{}.{:03}", thousandths / 1000, thousandths % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(part: i128, whole: i128, weight: u32) -> Share {
        let part = Part::of(Amount::new(part), Amount::new(whole));
        part.weighted(Weight::from_thousandths(weight))
    }

    #[test]
    fn a_share_is_part_of_what_can_be_lent_by_weight() {
        let cases = [
            ("nothing", (0, 10, 1000), Share::ZERO),
            ("less than nothing", (-3, 10, 1000), Share::ZERO),
            ("half", (5, 10, 1000), Share(WHOLE_SHARE / 2)),
            ("half of double weight", (5, 10, 2000), share(5, 20, 1000)),
            (
                "a third, rounded down",
                (1, 3, 1000),
                Share(WHOLE_SHARE / 3),
            ),
            (
                "without weight",
                (1, 10, 0),
                Share(DUE_NOTHING + WHOLE_PART / 10),
            ),
            ("nothing without weight", (0, 10, 0), Share::ZERO),
            ("of nothing", (1, 0, 1000), Share::MAX),
        ];
        for (name, (part, whole, weight), expected) in cases {
            assert_eq!(share(part, whole, weight), expected, "{name}");
        }
        let unused = Part::ZERO.divided_by(Weight::from_thousandths(0));
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
    fn equal_shares_of_different_weights_are_equal() {
        for weight in [1, 3, 700, 1_000, 1_001, 1_500, 4_000_000_000] {
            let part = i128::from(weight);
            assert_eq!(share(part, 7_000, weight), share(1, 7, 1000), "{weight}");
        }
    }

    #[test]
    fn the_largest_amounts_are_still_told_apart() {
        let limit = Amount::LIMIT.get();
        for whole in [limit, 3 * limit, 1000 * limit, i128::MAX] {
            let less = whole - whole / 1_000_000;
            assert!(share(less, whole, 1000) < share(whole, whole, 1000));
            assert_eq!(share(whole, whole, 1000), Share(WHOLE_SHARE));
        }
    }

    #[test]
    fn the_smallest_parts_are_still_told_apart() {
        let exa = 10_i128.pow(27);
        for (unit, whole, weight) in [
            (4_000_000, exa, 1000),
            (1_000_000_000, exa, 1_000_000),
            (1, 250, u32::MAX),
        ] {
            let (one, two) = (share(unit, whole, weight), share(2 * unit, whole, weight));
            assert!(Share::ZERO < one && one < two, "{unit} of {whole}");
            assert_eq!(one.billionths(), 1, "something is borrowed");
        }
        assert!(
            share(exa, 1, 1000) < share(1, 1, 0),
            "too much, and limited"
        );
    }
}
