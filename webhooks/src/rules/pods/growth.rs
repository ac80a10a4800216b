//! What an admitted pod may not do: ask for more than it was admitted with. It may shrink, and its containers may share
//! anew what it has.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sluice_crds::Quantity;
use sluice_kinds::problem::{Problem, fill};
use sluice_kinds::requests::{Amounts, PodDefaults, beyond, pod_requests};

/// The rule for requests; with the amount before and after.
pub(crate) const GROWN: &str = "may not grow from {} to {} while the pod is admitted";

/// What is wrong with resizing an admitted pod from `old` to `new`: a resource of which the pod requests more than before.
/// Told is where it grows. Containers can neither come nor go.
pub(super) fn problems(old: &Value, new: &Value) -> Vec<Problem> {
    let (before, after) = match (requests(old), requests(new)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(problems), _) | (_, Err(problems)) => return problems,
    };
    let beyond: Vec<_> = beyond(&after, |name| before.get(name).copied()).collect();
    let grown: BTreeSet<&str> = beyond.iter().map(|(name, ..)| *name).collect();
    let mut told = BTreeSet::new();
    let mut problems = Vec::new();
    for (field, was, is) in pairs(old, new) {
        for (name, amount) in grown_requests(was, is) {
            if grown.contains(name) {
                let before = was.and_then(|was| was.get(name));
                let before = before.map_or("0".to_owned(), text);
                problems.push(problem(&field, name, &before, &text(amount)));
                told.insert(name);
            }
        }
    }
    // Where it stands in no request, as where a limit stands for one that is gone.
    let untold = beyond.iter().filter(|(name, ..)| !told.contains(name));
    problems.extend(untold.map(|(name, was, is)| {
        let [was, is] = [was.unwrap_or_default(), *is].map(|nanos| Quantity::of(name, nanos).0);
        problem("spec", name, &was, &is)
    }));
    problems
}

fn problem(field: &str, name: &str, was: &str, is: &str) -> Problem {
    Problem::forbidden(
        format!("{field}.resources.requests[{name}]"),
        fill(GROWN, &[was, is]),
    )
}

/// What `pod` requests in all. A pod that is stored has all defaults.
fn requests(pod: &Value) -> Result<Amounts, Vec<Problem>> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    pod_requests(spec, "spec", &PodDefaults::default())
}

type Requests = Map<String, Value>;

/// The requests of each container, and of the pod, where they lie, as they were and as they shall be.
fn pairs<'a>(
    old: &'a Value,
    new: &'a Value,
) -> impl Iterator<Item = (String, Option<&'a Requests>, Option<&'a Requests>)> {
    let of_lists = ["containers", "initContainers"].into_iter();
    let of_containers = of_lists.flat_map(move |list| {
        let list_at = format!("/spec/{list}");
        let containers = |pod: &'a Value| pod.pointer(&list_at).and_then(Value::as_array);
        let before = containers(old);
        let after = containers(new).into_iter().flatten().enumerate();
        after.map(move |(index, container)| {
            let was = before.and_then(|before| before.get(index));
            let field = format!("spec.{list}[{index}]");
            (field, was.and_then(requests_of), requests_of(container))
        })
    });
    let of_pod = |pod: &'a Value| pod.get("spec").and_then(requests_of);
    of_containers.chain([("spec".to_owned(), of_pod(old), of_pod(new))])
}

fn requests_of(asking: &Value) -> Option<&Requests> {
    asking.pointer("/resources/requests")?.as_object()
}

/// The requests of `is` that are larger than those of `was`.
fn grown_requests<'a>(
    was: Option<&'a Requests>,
    is: Option<&'a Requests>,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let nanos = |value: &Value| Quantity(text(value)).nanos().ok();
    let is = is.into_iter().flatten();
    is.filter(move |(name, amount)| {
        let before = was.and_then(|was| was.get(name.as_str()));
        before.map_or(Some(0), nanos) < nanos(amount)
    })
    .map(|(name, amount)| (name.as_str(), amount))
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
