//! What an admitted job may not do: ask for more than it was admitted with, or for other nodes. It may shrink.

use serde_json::Value;
use sluice_crds::Quantity;
use sluice_crds::quantity::NANOS;
use sluice_kinds::CompiledKind;
use sluice_kinds::problem::{Problem, fill};
use sluice_kinds::requests::{PodDefaults, beyond};
use sluice_kinds::view::PodSetView;

use crate::rules::queue_label::QueueLabel;

/// What every refusal ends with.
pub(crate) const ADVICE: &str = "while the job is admitted; suspend the job in the same update, and it is queued with the new value";

/// The same of a child, which can't be queued again.
const ADVICE_OF_CHILD: &str = "while the job that it belongs to is admitted";

/// The rules for the number of pods, and for their claims for devices.
pub(crate) const GROWN: &str = "may not grow from {} to {} pods";
pub(crate) const CLAIMS_CHANGED: &str = "the resourceClaims of its pods may not change";

/// The rule for the nodes that its pods may run on. Sluice wrote there those of the flavor whose quota they use. Fewer
/// nodes are fine: a manifest that is applied again may take the tolerations of the flavor out.
pub(crate) const PLACEMENT_CHANGED: &str = "the nodeSelector and the required node affinity of its pods may not change, nor may tolerations be added";

/// The rule for what each pod requests: the resource, and the amount before and after. Requests that shrink are fine, as
/// for the controller, which compares them with what was admitted.
const REQUESTS_GROWN: &str = "the {} that each pod requests may not grow from {} to {}";

/// The rule for what adds to requests from outside of the object.
pub(crate) const RUNTIME_CHANGED: &str = "may not change";

/// The rule for requests that a LimitRange may add, which is not known here; with the resources.
const UNREQUESTED: &str =
    "may not leave out more requests for {} than before, as a LimitRange may add them";

/// What a LimitRange is taken to give to each container that requests nothing: more than anybody requests.
const GIVEN: i128 = 1_000_000_000 * NANOS * NANOS;

/// What a LimitRange may give though nobody names it.
const USUAL: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];

/// What is wrong with editing the pod sets of an admitted job.
///
/// Defaults from elsewhere are not known here, so the edit may not leave more to them. An object that could not be read
/// before is left alone, so that it can be mended.
pub(crate) fn check(old: &Value, new: &Value, kind: &CompiledKind) -> Vec<Problem> {
    let defaults = PodDefaults::default();
    let Ok(before) = kind.pod_sets(old, &defaults) else {
        return Vec::new();
    };
    match kind.pod_sets(new, &defaults) {
        Err(problems) => problems,
        Ok(after) => {
            let sets = after.iter();
            let mut problems: Vec<_> = sets.flat_map(|set| check_set(&before, set)).collect();
            problems.extend(check_runtimes(old, new, kind, ADVICE));
            if problems.is_empty() {
                problems.extend(check_unrequested(
                    (old, &before),
                    (new, &after),
                    kind,
                    ADVICE,
                ));
            }
            problems
        }
    }
}

/// What is wrong with editing a child of an admitted job, by somebody else than the controller of its owner. The owner is not
/// known here: it was admitted if the templates of the child have the mark. The controller compares the requests of the child
/// with what its owner was admitted with.
///
/// `left` is the queue label that the child loses: without that label nobody asks the webhook about the next edit.
pub(crate) fn check_child(
    old: &Value,
    new: &Value,
    left: Option<QueueLabel<'_>>,
    kind: &CompiledKind,
) -> Vec<Problem> {
    let defaults = PodDefaults::default();
    let (Ok(before), Ok(after)) = (kind.pod_sets(old, &defaults), kind.pod_sets(new, &defaults))
    else {
        return Vec::new();
    };
    if !before.iter().any(|set| set.marks.are_watched()) {
        return Vec::new();
    }
    let sets = after.iter();
    let mut problems: Vec<_> = sets
        .filter_map(|set| match same_set(&before, set) {
            None => Some(added(set, ADVICE_OF_CHILD)),
            Some(was) => check_place(was, set, ADVICE_OF_CHILD),
        })
        .collect();
    problems.extend(left.map(|left| {
        Problem::forbidden(
            left.field(),
            format!("may not be removed {ADVICE_OF_CHILD}"),
        )
    }));
    problems.extend(check_runtimes(old, new, kind, ADVICE_OF_CHILD));
    if problems.is_empty() {
        let (before, after) = ((old, &*before), (new, &*after));
        problems.extend(check_unrequested(before, after, kind, ADVICE_OF_CHILD));
    }
    problems
}

fn same_set<'a>(before: &'a [PodSetView], set: &PodSetView) -> Option<&'a PodSetView> {
    before.iter().find(|other| other.name == set.name)
}

fn added(set: &PodSetView, advice: &str) -> Problem {
    let field = format!("pod set {:?}", set.name);
    Problem::forbidden(field, format!("may not be added {advice}"))
}

fn check_set(before: &[PodSetView], set: &PodSetView) -> Vec<Problem> {
    let field = format!("pod set {:?}", set.name);
    let Some(was) = same_set(before, set) else {
        return vec![added(set, ADVICE)];
    };
    if was.count < set.count {
        let grown = fill(GROWN, &[&was.count.to_string(), &set.count.to_string()]);
        let detail = format!("{grown} {ADVICE}");
        return vec![Problem::forbidden(field, detail)];
    }
    let more = beyond(&set.requests, |name| was.requests.get(name).copied());
    let more = more.map(|(name, was, is)| {
        let [was, is] = [was.unwrap_or_default(), is].map(|nanos| Quantity::of(name, nanos).0);
        let grown = fill(REQUESTS_GROWN, &[name, &was, &is]);
        Problem::forbidden(set.place.spec_field(), format!("{grown} {ADVICE}"))
    });
    let mut problems: Vec<_> = more.collect();
    if was.claims != set.claims {
        let detail = format!("{CLAIMS_CHANGED} {ADVICE}");
        problems.push(Problem::forbidden(field, detail));
    }
    problems.extend(check_place(was, set, ADVICE));
    problems
}

fn check_place(was: &PodSetView, set: &PodSetView, advice: &str) -> Option<Problem> {
    let field = format!("pod set {:?}", set.name);
    let detail = format!("{PLACEMENT_CHANGED} {advice}");
    allows_other_nodes(was, set).then(|| Problem::forbidden(field, detail))
}

/// The overhead of a RuntimeClass counts too, and is not known here.
fn check_runtimes(old: &Value, new: &Value, kind: &CompiledKind, advice: &str) -> Vec<Problem> {
    let changed = kind.runtime_fields_changed(old, new).into_iter();
    let detail = format!("{RUNTIME_CHANGED} {advice}");
    changed
        .map(|field| Problem::forbidden(field, detail.clone()))
        .collect()
}

/// Counts again, as if a LimitRange gave much to each container that requests nothing: what is more then is left to
/// LimitRanges.
fn check_unrequested(
    (old, before): (&Value, &[PodSetView]),
    (new, after): (&Value, &[PodSetView]),
    kind: &CompiledKind,
    advice: &str,
) -> Vec<Problem> {
    let named = before.iter().chain(after);
    let named = named.flat_map(|set| set.requests.keys().map(String::as_str));
    let given = named.chain(USUAL).map(|name| (name.to_owned(), GIVEN));
    let defaults = PodDefaults {
        container_requests: given.collect(),
        ..PodDefaults::default()
    };
    let (Ok(before), Ok(after)) = (kind.pod_sets(old, &defaults), kind.pod_sets(new, &defaults))
    else {
        return Vec::new();
    };
    let unrequested = after.iter().filter_map(|set| {
        let was = same_set(&before, set)?;
        let declared = |set: &PodSetView, name: &str| set.declared.get(name).copied();
        // What the object itself asks for is compared elsewhere.
        let more = beyond(&set.requests, |name| was.requests.get(name).copied())
            .map(|(name, ..)| name)
            .filter(|name| declared(set, name) <= declared(was, name))
            .collect::<Vec<_>>();
        let rule = fill(UNREQUESTED, &[&more.join(", ")]);
        let problem = || Problem::forbidden(set.place.spec_field(), format!("{rule} {advice}"));
        (!more.is_empty()).then(problem)
    });
    unrequested.collect()
}

/// Whether pods may run on nodes that they could not run on before.
fn allows_other_nodes(was: &PodSetView, is: &PodSetView) -> bool {
    is.placement.allows_other_nodes_than(&was.placement)
        || was.required_affinity != is.required_affinity
}
