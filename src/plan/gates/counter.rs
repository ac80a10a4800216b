//! Gates with a counter (`spec.counter`): how many places are free, who gets the next one, and why an object gets none.
//! Which places were given and are not shown yet is not known here (`controller/gates/counters.rs`).

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

/// Why an object gets no place at a gate with a counter, for whoever waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WithoutPlace {
    #[error("gets no place: suspended by its user; set its suspend field to false")]
    Suspended,
    #[error("gets no place: its queue label is invalid")]
    InvalidQueue,
    #[error("gets no place: LocalQueue {0:?} does not exist or is not active")]
    InactiveQueue(String),
    /// It can't be read, or nothing of its kind is planned now.
    #[error("gets no place: Sluice can't start it now")]
    NotStarted,
    #[error("gets no place until its other gates are lifted")]
    OtherGates,
    #[error("all places are taken (limit {0})")]
    Taken(usize),
}

/// Why an object would neither start nor be queued if no gate held it: what its user has suspended, or what names a queue
/// that admits nothing, would take a place for nothing.
pub fn does_not_go_on(
    queue: &LabelledQueue,
    suspension: Suspension,
    is_active: &dyn Fn(&str) -> bool,
) -> Option<WithoutPlace> {
    match queue {
        LabelledQueue::Invalid(_) => Some(WithoutPlace::InvalidQueue),
        LabelledQueue::Named(queue) if !is_active(queue.as_str()) => {
            Some(WithoutPlace::InactiveQueue(queue.clone()))
        }
        LabelledQueue::Named(_) if suspension == Suspension::ByUser => {
            Some(WithoutPlace::Suspended)
        }
        LabelledQueue::Named(_) => None,
        LabelledQueue::None => match suspension {
            Suspension::None | Suspension::BySluice => None,
            Suspension::AtCreation | Suspension::ByUser => Some(WithoutPlace::Suspended),
        },
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
    fn what_would_not_start_has_no_place() {
        let named = |name: &str| LabelledQueue::Named(name.into());
        let cases = [
            (LabelledQueue::None, Suspension::None, None),
            (LabelledQueue::None, Suspension::BySluice, None),
            (
                LabelledQueue::None,
                Suspension::AtCreation,
                Some(WithoutPlace::Suspended),
            ),
            (
                LabelledQueue::None,
                Suspension::ByUser,
                Some(WithoutPlace::Suspended),
            ),
            (named("q"), Suspension::AtCreation, None),
            (
                named("q"),
                Suspension::ByUser,
                Some(WithoutPlace::Suspended),
            ),
            (
                named("stopped"),
                Suspension::None,
                Some(WithoutPlace::InactiveQueue("stopped".into())),
            ),
        ];
        for (queue, suspension, expected) in cases {
            let why = does_not_go_on(&queue, suspension, &|queue| queue == "q");
            assert_eq!(why, expected, "{queue:?}, {suspension:?}");
        }
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
