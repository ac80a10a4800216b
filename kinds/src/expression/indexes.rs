//! The function `indexes`: how many indexes a text such as `0-3,7` names, in which an Indexed Job tells which of its pods
//! have ended. CEL itself can't read it, and no API server knows the function.

use cel::common::types::{CelInt, CelString};
use cel::{Env, ExecutionError};

/// Its name.
pub(super) const NAME: &str = "indexes";

/// The functions of CEL, and this one.
pub(super) fn environment() -> Env {
    let mut environment = Env::stdlib();
    let added = cel::add_overload!(environment, fn indexes: (CelString) -> Result<CelInt>);
    debug_assert!(added.is_ok(), "CEL has no function of that name");
    environment
}

fn indexes(text: &CelString<'_>) -> Result<CelInt, ExecutionError> {
    let count = count(text.inner());
    let count = count.ok_or_else(|| {
        ExecutionError::function_error(NAME, "must be numbers and ranges in order, as in 0-3,7")
    })?;
    Ok(CelInt::from(count))
}

/// How many there are; none if that is no list of numbers and ranges in ascending order.
fn count(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (mut count, mut next) = (0i64, 0u32);
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first < next || last < first {
            return None;
        }
        count = count.checked_add(i64::from(last - first) + 1)?;
        next = last.checked_add(1)?;
    }
    Some(count)
}

/// A number without sign.
fn number(text: &str) -> Option<u32> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::count;

    #[rstest]
    #[case::none("", Some(0))]
    #[case::one("7", Some(1))]
    #[case::range("0-3", Some(4))]
    #[case::both("0-3,7,9-10", Some(7))]
    #[case::of_one("4-4", Some(1))]
    #[case::largest("0-4294967294", Some(4_294_967_295))]
    #[case::too_large("0-4294967295", None)]
    #[case::out_of_order("7,0-3", None)]
    #[case::twice("3,3", None)]
    #[case::overlapping("0-3,3-5", None)]
    #[case::backwards("3-0", None)]
    #[case::no_end("3-", None)]
    #[case::no_start("-3", None)]
    #[case::signed("+3", None)]
    #[case::empty_part("1,,2", None)]
    #[case::last_part_is_empty("1,", None)]
    #[case::spaces("1, 2", None)]
    #[case::words("many", None)]
    fn indexes_are_counted(#[case] text: &str, #[case] expected: Option<i64>) {
        assert_eq!(count(text), expected);
    }
}
