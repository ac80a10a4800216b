//! What the status of a Gate says: what its gate holds, and whether that is too much. What a LocalQueue says of gates
//! that hold too much of it. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;
use sluice_crds::{Backlog, ConditionType, GateStatus, HeldObject};
use sluice_kinds::problem::summarize;

use crate::cache::conditions::{self, ConditionUpdate};
use crate::cache::gates::GateObject;
use crate::cache::gates::trouble::Trouble;
use crate::cache::held::{Held, HeldOfQueue};
use crate::plan::writes::plan_and_notes::Present;

/// How many of the held objects a status names.
pub const NAMED_MAX: usize = 10;

/// What a gate holds.
#[derive(Debug)]
pub struct Holdings<'a> {
    /// How many objects.
    pub count: usize,
    /// How many have passed it and not finished.
    pub passed: usize,
    /// The oldest jobs and the oldest pods of these.
    pub oldest: Vec<&'a Held>,
}

/// The status of a Gate. `trouble` says what keeps it from being lifted after other objects, or nothing if that is not
/// known yet; `applied`, whether objects that it applies to are born with its gate, if that is known. `kind_of` says
/// what a JobKind's objects are called, as in `Job.batch`.
pub fn gate(
    object: &GateObject,
    holdings: &Holdings<'_>,
    trouble: Option<Result<(), Trouble>>,
    applied: Option<ConditionUpdate>,
    kind_of: &dyn Fn(&str) -> String,
    now: Present,
) -> GateStatus {
    let oldest = oldest(holdings.oldest.iter().copied());
    let since = oldest.first().and_then(|held| held.created);
    let count = count(holdings.count);
    let mut conditions = object.status.conditions.clone();
    let holds = "Objects that name this gate are held until it is lifted";
    let not_lifted = |reason, why: &str| {
        let message = format!("{holds}. It is not lifted by itself: {why}");
        Some((false, reason, message))
    };
    let active = match (&object.compiled, trouble) {
        (Err(problems), _) => not_lifted("Invalid", &summarize(problems)),
        (Ok(_), Some(Err(trouble))) => not_lifted(trouble.reason.as_str(), &trouble.message),
        (Ok(_), Some(Ok(()))) => Some((true, "Ready", holds.to_owned())),
        (Ok(_), None) => None,
    };
    if let Some((is_true, reason, message)) = active {
        let active = ConditionUpdate {
            kind: ConditionType::Active,
            is_true,
            reason,
            message,
        };
        conditions::set(&mut conditions, active, object.generation, now);
    }
    match (&object.spec.applies_to, applied) {
        (Some(_), Some(update)) => {
            conditions::set(&mut conditions, update, object.generation, now);
        }
        (Some(_), None) => {}
        (None, _) => conditions.retain(|known| known.type_ != ConditionType::Applied.name()),
    }
    match &object.spec.backlog {
        Some(backlog) => {
            let exists_since = oldest.first().and_then(|held| held.exists_since);
            let age = exists_since.map(|since| now.duration_since(since));
            let update = backlogged(backlog, count, age);
            conditions::set(&mut conditions, update, object.generation, now);
        }
        None => conditions.retain(|known| known.type_ != ConditionType::Backlogged.name()),
    }
    GateStatus {
        conditions,
        held: count,
        oldest_since: since.map(Time),
        oldest: oldest.iter().map(|held| named(held, kind_of)).collect(),
        passed: object.spec.counter.map(|_| self::count(holdings.passed)),
        lifted_total: object.lifted,
        expired_total: object.expired,
    }
}

fn named(held: &Held, kind_of: &dyn Fn(&str) -> String) -> HeldObject {
    HeldObject {
        kind: self::kind_of(held, kind_of),
        namespace: held.namespace.to_string(),
        name: held.name.to_string(),
        since: Time(held.created.unwrap_or_default()),
    }
}

/// The oldest of some objects, the oldest first.
pub fn oldest<'a>(held: impl Iterator<Item = &'a Held>) -> Vec<&'a Held> {
    let mut oldest: Vec<&Held> = held.collect();
    oldest.sort();
    oldest.truncate(NAMED_MAX);
    oldest
}

/// What the kind of an object is called, as in `Job.batch`.
pub fn kind_of(held: &Held, of_job_kind: &dyn Fn(&str) -> String) -> String {
    let kind = held.kind.as_deref();
    kind.map_or_else(|| "Pod".to_owned(), of_job_kind)
}

/// What a LocalQueue says of gates that hold more of it than `spec.backlog` of their Gates says: nothing if there is
/// none. A gate comes with the name and the thresholds of its Gate, and with what it holds of this queue.
pub fn queue_backlog<'a>(
    gates: impl Iterator<Item = (String, &'a Backlog, HeldOfQueue)>,
    now: Present,
) -> Option<ConditionUpdate> {
    let mut reason = None;
    let mut told = Vec::new();
    for (gate, backlog, held) in gates {
        let exists_since = held.oldest_exists_since;
        let age = exists_since.map(|since| now.duration_since(since));
        match exceeded(backlog, count(held.count), age) {
            Some(Exceeded::Count(max)) => {
                reason = Some(TOO_MANY_HELD);
                told.push(format!(
                    "Gate {gate} holds more than {max} objects of this queue"
                ));
            }
            Some(Exceeded::Age(seconds)) => {
                reason = reason.or(Some(HELD_TOO_LONG));
                told.push(format!(
                    "Gate {gate} has held an object of this queue for more than {seconds} s"
                ));
            }
            None => {}
        }
    }
    Some(ConditionUpdate {
        kind: ConditionType::Backlogged,
        is_true: true,
        reason: reason?,
        message: told.join("; "),
    })
}

/// What a LocalQueue says when no gate holds too much of it any more.
pub fn no_queue_backlog() -> ConditionUpdate {
    ConditionUpdate {
        kind: ConditionType::Backlogged,
        is_true: false,
        reason: WITHIN_THRESHOLDS,
        message: "No Gate exceeds its spec.backlog for objects of this queue".to_owned(),
    }
}

const WITHIN_THRESHOLDS: &str = "WithinThresholds";
/// Why a backlog is one.
const TOO_MANY_HELD: &str = "TooManyHeld";
const HELD_TOO_LONG: &str = "HeldTooLong";

/// The threshold of a Gate that is exceeded.
enum Exceeded {
    /// So many objects.
    Count(i32),
    /// The oldest object's age in seconds.
    Age(i32),
}

fn exceeded(backlog: &Backlog, count: i32, age: Option<SignedDuration>) -> Option<Exceeded> {
    let is_old = |max: &i32| age.is_some_and(|age| i64::from(*max) < age.as_secs());
    let too_many = backlog.held.filter(|max| *max < count);
    let too_long = || backlog.age_seconds.filter(is_old);
    too_many
        .map(Exceeded::Count)
        .or_else(|| too_long().map(Exceeded::Age))
}

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Without the numbers of the present: a condition changes when something has happened, not as time passes.
fn backlogged(backlog: &Backlog, count: i32, age: Option<SignedDuration>) -> ConditionUpdate {
    let (is_true, reason, message) = match exceeded(backlog, count, age) {
        Some(Exceeded::Count(max)) => (
            true,
            TOO_MANY_HELD,
            format!("More than {max} objects are held"),
        ),
        Some(Exceeded::Age(max)) => (
            true,
            HELD_TOO_LONG,
            format!("The oldest object has been held for more than {max} s"),
        ),
        None => (
            false,
            WITHIN_THRESHOLDS,
            "The number and age of held objects are within spec.backlog".to_owned(),
        ),
    };
    ConditionUpdate {
        kind: ConditionType::Backlogged,
        is_true,
        reason,
        message,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::jiff::Timestamp;
    use sluice_crds::GateSpec;
    use sluice_gates::CompiledGate;

    use super::*;
    use crate::cache::Subject;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn held(kind: Option<&str>, seconds: i64) -> Held {
        let name = format!("{}-{seconds}", kind.unwrap_or("pod"));
        Held {
            created: Some(at(seconds)),
            namespace: "blue".into(),
            kind: kind.map(Into::into),
            name: name.as_str().into(),
            subject: Subject::Job(name.as_str().into()),
            exists_since: Some(at(seconds)),
        }
    }

    fn with_backlog(held: Option<i32>, age_seconds: Option<i32>) -> GateObject {
        object(GateSpec {
            backlog: Some(Backlog { held, age_seconds }),
            ..GateSpec::default()
        })
    }

    fn object(spec: GateSpec) -> GateObject {
        GateObject {
            generation: Some(1),
            compiled: CompiledGate::compile("budget.acme.io", &spec),
            spec: Arc::new(spec),
            status: GateStatus::default(),
            lifted: 0,
            expired: 0,
        }
    }

    #[test]
    fn the_ten_oldest_of_jobs_and_pods_are_named() {
        let jobs: Vec<_> = (0..12).map(|n| held(Some("job"), 2 * n)).collect();
        let pods: Vec<_> = (0..12).map(|n| held(None, 2 * n + 1)).collect();
        let holdings = Holdings {
            count: 24,
            passed: 0,
            oldest: jobs.iter().chain(&pods).collect(),
        };
        let kind_of = |kind: &str| format!("{kind}.batch");
        let status = gate(
            &object(GateSpec::default()),
            &holdings,
            Some(Ok(())),
            None,
            &kind_of,
            at(100),
        );
        assert_eq!(status.held, 24);
        assert_eq!(status.oldest_since, Some(Time(at(0))));
        let names: Vec<_> = status
            .oldest
            .iter()
            .map(|held| held.name.as_str())
            .collect();
        let wanted: Vec<_> = (0..10)
            .map(|n| format!("{}-{n}", if n % 2 == 0 { "job" } else { "pod" }))
            .collect();
        assert_eq!(names, wanted);
        assert_eq!(status.oldest[0].kind, "job.batch");
        assert_eq!(status.oldest[1].kind, "Pod");
    }

    #[test]
    fn a_backlog_is_told_by_number_and_by_age() {
        let cases = [
            (Some(2), None, 2, 10, "WithinThresholds"),
            (Some(1), None, 2, 10, "TooManyHeld"),
            (None, Some(10), 2, 10, "WithinThresholds"),
            (None, Some(9), 2, 10, "HeldTooLong"),
            (Some(1), Some(9), 2, 10, "TooManyHeld"),
            (Some(0), Some(1), 0, 10, "WithinThresholds"),
        ];
        for (max, seconds, count, age, reason) in cases {
            let jobs: Vec<_> = (0..count).map(|n| held(Some("job"), n)).collect();
            let holdings = Holdings {
                count: jobs.len(),
                passed: 0,
                oldest: jobs.iter().collect(),
            };
            let object = with_backlog(max, seconds);
            let status = gate(
                &object,
                &holdings,
                Some(Ok(())),
                None,
                &str::to_owned,
                at(age),
            );
            let condition =
                conditions::find(&status.conditions, ConditionType::Backlogged).unwrap();
            assert_eq!(condition.reason, reason, "{max:?} {seconds:?} {count}");
        }
    }

    #[test]
    fn a_queue_tells_which_gates_hold_too_much_of_it() {
        let of = |count, created| HeldOfQueue {
            count,
            oldest: Some(at(created)),
            oldest_exists_since: Some(at(created)),
        };
        let by_count = Backlog {
            held: Some(2),
            age_seconds: None,
        };
        let by_age = Backlog {
            held: None,
            age_seconds: Some(10),
        };
        let cases = [
            ("nothing is held", vec![], None),
            (
                "as many as may be",
                vec![("a.io", &by_count, of(2, 0))],
                None,
            ),
            ("as old as may be", vec![("a.io", &by_age, of(9, 90))], None),
            (
                "too many",
                vec![("a.io", &by_count, of(3, 100))],
                Some((
                    "TooManyHeld",
                    "Gate a.io holds more than 2 objects of this queue",
                )),
            ),
            (
                "one too old, and too many of another",
                vec![
                    ("a.io", &by_age, of(1, 89)),
                    ("b.io", &by_count, of(3, 100)),
                ],
                Some((
                    "TooManyHeld",
                    "Gate a.io has held an object of this queue for more than 10 s; \
                     Gate b.io holds more than 2 objects of this queue",
                )),
            ),
            (
                "one too old",
                vec![("a.io", &by_age, of(1, 89)), ("b.io", &by_count, of(2, 0))],
                Some((
                    "HeldTooLong",
                    "Gate a.io has held an object of this queue for more than 10 s",
                )),
            ),
        ];
        for (name, gates, expected) in cases {
            let told = queue_backlog(
                gates
                    .into_iter()
                    .map(|(gate, backlog, held)| (gate.to_owned(), backlog, held)),
                at(100),
            );
            let told = told.map(|told| (told.reason, told.message));
            let expected = expected.map(|(reason, message)| (reason, message.to_owned()));
            assert_eq!(told, expected, "{name}");
        }
    }

    #[test]
    fn a_status_says_the_same_while_nothing_happens() {
        let jobs = [held(Some("job"), 0)];
        let holdings = Holdings {
            count: 1,
            passed: 0,
            oldest: jobs.iter().collect(),
        };
        let mut object = with_backlog(Some(3), Some(5));
        let status_at = |object: &GateObject, seconds| {
            let now = at(seconds);
            gate(object, &holdings, Some(Ok(())), None, &str::to_owned, now)
        };
        object.status = status_at(&object, 10);
        for seconds in [11, 100, 1_000_000] {
            let status = status_at(&object, seconds);
            assert_eq!(status, object.status);
        }
    }
}
