//! What an expression sees of an object: the values of its variables.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value, json};
use sluice_crds::quantity::NANOS;
use sluice_kinds::{Condition, Type};

use super::applicant::{Applicant, NotKnown};

/// What an expression may name.
pub(super) const VARIABLES: &[&str] = &[
    "object", "queue", "priority", "requests", "pods", "user", "groups",
];

/// The type of a variable. Of `object` nothing is known before there is one.
pub(super) fn type_of(variable: &str) -> Option<Type> {
    match variable {
        "queue" | "user" => Some(Type::Text),
        "priority" | "pods" => Some(Type::Int),
        "requests" => Some(Type::Map(Some(Box::new(Type::Double)))),
        "groups" => Some(Type::List(Some(Box::new(Type::Text)))),
        _ => None,
    }
}

/// The values of all variables but `object`, as far as `condition` names them.
///
/// # Errors
/// One of them can't be read: why.
pub(super) fn read(
    condition: &Condition,
    candidate: &dyn Applicant,
) -> Result<BTreeMap<&'static str, Value>, NotKnown> {
    let mut values = BTreeMap::new();
    if condition.reads("requests") || condition.reads("pods") {
        let totals = candidate.totals()?;
        values.insert("pods", json!(totals.pods));
        let amounts = totals.requests.iter();
        let amounts = amounts.map(|(name, nanos)| Ok((name.clone(), double(*nanos)?)));
        values.insert("requests", requests(condition, amounts)?);
    }
    if condition.reads("priority") {
        values.insert("priority", json!(candidate.priority()?));
    }
    values.insert("queue", json!(candidate.queue().unwrap_or_default()));
    values.insert("user", json!(candidate.user()));
    values.insert("groups", json!(candidate.groups()));
    Ok(values)
}

/// Values of the types that an object has: to find out what fails for every object.
pub(super) fn samples(condition: &Condition) -> [BTreeMap<&'static str, Value>; 2] {
    [(0, ""), (1, "sample")].map(|(number, text)| {
        let none = std::iter::empty::<Result<(String, Value), NotKnown>>();
        let mut requests = requests(condition, none).unwrap_or_default();
        for amount in requests
            .as_object_mut()
            .into_iter()
            .flat_map(Map::values_mut)
        {
            *amount = json!(f64::from(number));
        }
        BTreeMap::from([
            ("pods", json!(number)),
            ("requests", requests),
            ("priority", json!(number)),
            ("queue", json!(text)),
            ("user", json!(text)),
            ("groups", json!([text])),
        ])
    })
}

/// The map of requests. A resource that the expression names is there: nothing is requested of it if nothing is
/// said.
fn requests(
    condition: &Condition,
    amounts: impl Iterator<Item = Result<(String, Value), NotKnown>>,
) -> Result<Value, NotKnown> {
    let named = condition.keys("requests");
    let mut requests: Map<String, Value> =
        named.map(|name| (name.to_owned(), json!(0.0))).collect();
    for amount in amounts {
        let (name, value) = amount?;
        requests.insert(name, value);
    }
    Ok(requests.into())
}

/// An amount as the double that is nearest to it: the one that a literal of the same text is.
fn double(nanos: i128) -> Result<Value, NotKnown> {
    let (whole, rest) = (nanos / NANOS, nanos % NANOS);
    let parsed = format!("{whole}.{rest:09}").parse::<f64>().ok();
    let number = parsed.and_then(Number::from_f64);
    number
        .map(Value::Number)
        .ok_or(NotKnown::NoDouble { nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_the_double_of_its_text() {
        let cases = [
            (0, 0.0),
            (64 * NANOS, 64.0),
            (NANOS / 10, 0.1),
            (1_000 * NANOS + NANOS / 10, 1000.1),
            (NANOS * 9_007_199_254_740_991, 9_007_199_254_740_991.0),
            (1, 0.000_000_001),
        ];
        for (nanos, expected) in cases {
            assert_eq!(double(nanos), Ok(json!(expected)), "{nanos}");
        }
    }
}
