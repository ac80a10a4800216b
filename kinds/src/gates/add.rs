//! What adding gates at the creation of an object changes in its gate annotations. Which gates those are lies in the
//! webhooks.

use std::collections::{BTreeMap, BTreeSet};

use super::annotations::{ADMISSION_GATED_BY, GATES_MAX, field_of, named};
use super::gate_name::Gate;
use crate::field::problem::Problem;

/// The gates of `more` that the annotations do not name.
pub fn missing<'a>(
    annotations: &BTreeMap<String, String>,
    more: impl IntoIterator<Item = &'a Gate>,
) -> BTreeSet<&'a Gate> {
    let named = named(annotations);
    let more = more.into_iter();
    more.filter(|gate| !named.contains(*gate)).collect()
}

/// The value of the list of gates after `more` was added, which the annotations do not name.
///
/// # Errors
/// The list gets too long.
///
/// ```
/// use std::collections::BTreeMap;
/// use sluice_kinds::gates::{ADMISSION_GATED_BY, Gate, with};
/// let data = BTreeMap::from([(ADMISSION_GATED_BY.to_owned(), "acme.io/data".to_owned())]);
/// let budget = Gate::parse("acme.io/budget", "").unwrap();
/// assert_eq!(with(&data, [&budget]).unwrap(), "acme.io/data,acme.io/budget");
/// ```
pub fn with<'a>(
    annotations: &BTreeMap<String, String>,
    more: impl IntoIterator<Item = &'a Gate>,
) -> Result<String, Problem> {
    let list = annotations.get(ADMISSION_GATED_BY).into_iter();
    let own = list.flat_map(|list| list.split(',')).map(str::trim);
    let more: Vec<&str> = more.into_iter().map(Gate::as_str).collect();
    let all: Vec<&str> = own.chain(more.iter().copied()).collect();
    if GATES_MAX < all.len() {
        let detail = format!(
            "must have at most {GATES_MAX} items, with those that Gates add: {}",
            more.join(", ")
        );
        return Err(Problem::too_many(
            field_of(ADMISSION_GATED_BY),
            all.len(),
            detail,
        ));
    }
    Ok(all.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::annotations::{GateState, SCHEDULING_GATED_BY, read};
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn gates_are_added_once_behind_its_own() {
        let gate = |name: &str| Gate::parse(name, "").unwrap();
        let (budget, data) = (gate("acme.io/budget"), gate("acme.io/data"));
        let both = [&budget, &data];
        let cases = [
            (annotations(&[]), "acme.io/budget,acme.io/data"),
            (
                annotations(&[(SCHEDULING_GATED_BY, "acme.io/data")]),
                "acme.io/budget",
            ),
            (
                annotations(&[(ADMISSION_GATED_BY, " b.io/x , acme.io/data")]),
                "b.io/x,acme.io/data,acme.io/budget",
            ),
        ];
        for (before, expected) in cases {
            let value = with(&before, missing(&before, both)).unwrap();
            assert_eq!(value, expected, "{before:?}");
            let mut after = before;
            after.insert(ADMISSION_GATED_BY.to_owned(), value);
            assert!(matches!(read(&after), GateState::Held(_)), "{after:?}");
            assert!(missing(&after, both).is_empty(), "{after:?}");
        }
    }

    #[test]
    fn a_full_list_takes_no_more() {
        let list: Vec<_> = (0..GATES_MAX).map(|n| format!("a.io/{n}")).collect();
        let full = annotations(&[(ADMISSION_GATED_BY, &list.join(","))]);
        let budget = Gate::parse("acme.io/budget", "").unwrap();
        assert_eq!(
            with(&full, [&budget]).unwrap_err().to_string(),
            "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Too many: 17: must have at most 16 items, with those that Gates add: acme.io/budget"
        );
    }
}
