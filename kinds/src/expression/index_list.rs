//! The function `indexes`: how many numbers a list of indexes has, as Kubernetes writes the failed ones of an Indexed Job
//! (`1,3-5`). CEL itself has no way to count them.

/// The name of the function.
pub(super) const NAME: &str = "indexes";

/// How many numbers `list` has; 0 if it is no such list.
pub(super) fn count(list: &str) -> i64 {
    let parts = list.split(',').filter(|part| !part.is_empty());
    let counts = parts.map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(i64::from(last.checked_sub(first)?).saturating_add(1))
    });
    counts.sum::<Option<i64>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none("", 0)]
    #[case::one("7", 1)]
    #[case::several("1,3-5,9", 5)]
    #[case::pairs("0-1,3-4", 4)]
    #[case::all("0-4294967295", 4_294_967_296)]
    #[case::backwards("5-3", 0)]
    #[case::beyond("4294967296", 0)]
    #[case::no_list("1,x", 0)]
    #[case::negative("-1", 0)]
    fn numbers_are_counted(#[case] list: &str, #[case] expected: i64) {
        assert_eq!(count(list), expected);
    }
}
