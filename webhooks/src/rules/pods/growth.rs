//! What an admitted pod may not do: ask for more than it was admitted with. It may shrink.

use serde_json::Value;
use sluice_crds::Quantity;
use sluice_kinds::problem::{Problem, fill};

/// The rule for requests; with the amount before and after.
pub(crate) const GROWN: &str = "may not grow from {} to {} while the pod is admitted";

/// What is wrong with resizing an admitted pod from `old` to `new`. Containers can neither come nor
/// go. A quantity that can't be counted is growth, unless it was there before.
pub(super) fn problems(old: &Value, new: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for list in ["containers", "initContainers"] {
        let before = containers(old, list);
        for (index, container) in containers(new, list).iter().enumerate() {
            let was = before.get(index).unwrap_or(&Value::Null);
            let field = format!("spec.{list}[{index}]");
            problems.extend(growth(was, container, &field));
        }
    }
    let spec = |pod: &Value| pod.get("spec").cloned().unwrap_or_default();
    problems.extend(growth(&spec(old), &spec(new), "spec"));
    problems
}

/// What grows in the requests of `new`, which lies at `field`.
fn growth(old: &Value, new: &Value, field: &str) -> Vec<Problem> {
    let requests = |value: &'_ Value| value.pointer("/resources/requests").cloned();
    let before = requests(old).unwrap_or_default();
    let after = requests(new).unwrap_or_default();
    let grown = after
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, is)| {
            let was = before.get(name.as_str());
            match nanos(is) {
                None => was != Some(is),
                is => was.map_or(Some(0), nanos) < is,
            }
        });
    grown
        .map(|(name, is)| {
            let was = before.get(name.as_str()).map_or("0".to_owned(), text);
            Problem::forbidden(
                format!("{field}.resources.requests[{name}]"),
                fill(GROWN, &[&was, &text(is)]),
            )
        })
        .collect()
}

fn containers<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    pod.get("spec")
        .and_then(|spec| spec.get(list))
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn nanos(value: &Value) -> Option<i128> {
    Quantity(text(value)).nanos().ok()
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
