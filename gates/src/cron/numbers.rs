//! A set of small numbers.

/// Numbers from 0 to 63.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Every `step`th number from `first` to `last`.
    pub(crate) fn steps(first: i8, last: i8, step: usize) -> Self {
        let numbers = (first..=last).step_by(step.max(1));
        Self(numbers.fold(0, |bits, number| bits | bit(number)))
    }

    /// The numbers of both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn contains(self, number: i8) -> bool {
        self.0 & bit(number) != 0
    }

    /// The smallest of them that is not smaller than `number`.
    pub(crate) fn first_from(self, number: i8) -> Option<i8> {
        (number..64).find(|number| self.contains(*number))
    }
}

fn bit(number: i8) -> u64 {
    let shift = u32::try_from(number).ok();
    shift
        .and_then(|shift| 1_u64.checked_shl(shift))
        .unwrap_or_default()
}
