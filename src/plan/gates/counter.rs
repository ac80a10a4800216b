//! Gates with a counter (`spec.counter`): how many places are free, and who gets the next one. Which places were given and
//! are not shown yet is not known here (`controller/gates/counters.rs`).

use std::cmp::Reverse;

use k8s_openapi::jiff::Timestamp;
use sluice_kinds::suspension::Suspension;
use sluice_kinds::view::LabelledQueue;

use crate::cache::Subject;
use crate::plan::workload::priority::Priority;

/// How many places are free: `passed` are shown by objects, and `not_shown` were given, too.
pub fn free(limit: usize, passed: usize, not_shown: usize) -> usize {
    limit.saturating_sub(passed.saturating_add(not_shown))
}

/// Where an object stands among those that a gate holds: the higher priority first, then the older object.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceAtGate(Reverse<i32>, Option<Timestamp>, Subject);

impl PlaceAtGate {
    /// The place of an object. What names a class that is not there, or not allowed, has no priority.
    pub fn new(priority: Option<&Priority>, created: Option<Timestamp>, subject: Subject) -> Self {
        let value = priority.map_or(0, |priority| priority.value);
        Self(Reverse(value), created, subject)
    }
}

/// The first `count` of those that wait.
pub fn first(waiting: impl Iterator<Item = PlaceAtGate>, count: usize) -> Vec<Subject> {
    let mut waiting: Vec<_> = waiting.collect();
    waiting.sort();
    let first = waiting.into_iter().take(count);
    first.map(|PlaceAtGate(_, _, subject)| subject).collect()
}

/// Whether an object starts or is queued when no gate holds it: what its user has suspended, or what names a queue that
/// admits nothing, would take a place for nothing.
pub fn goes_on(
    queue: &LabelledQueue,
    suspension: Suspension,
    is_active: &dyn Fn(&str) -> bool,
) -> bool {
    match queue {
        LabelledQueue::None => matches!(suspension, Suspension::None | Suspension::BySluice),
        LabelledQueue::Invalid(_) => false,
        LabelledQueue::Named(queue) => {
            suspension != Suspension::ByUser && is_active(queue.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_free_up_to_the_limit() {
        assert_eq!(free(3, 1, 1), 1);
        assert_eq!(free(3, 3, 1), 0, "the limit was lowered");
    }

    #[test]
    fn the_higher_priority_comes_first_then_the_older_object() {
        let place = |name: &str, value: Option<i32>, second: i64| {
            let priority = value.map(|value| Priority { value, class: None });
            let created = Timestamp::from_second(second).ok();
            PlaceAtGate::new(priority.as_ref(), created, Subject::Pod(name.into()))
        };
        let waiting = [
            place("young", Some(5), 9),
            place("low", Some(-1), 1),
            place("none", None, 1),
            place("old", Some(5), 8),
        ];
        let first = first(waiting.into_iter(), 3);
        let expected = ["old", "young", "none"].map(|name| Subject::Pod(name.into()));
        assert_eq!(first, expected);
    }
}
