//! When an object takes its place in its queue: at its creation, or when a gate was lifted whose Gate says so. Jobs and
//! groups keep it in their Workload; a pod that is admitted by itself has what it keeps of its gates.

use k8s_openapi::jiff::Timestamp;
use sluice_crds::{LIFTED_GATES_ANNOTATION, QueuePlace};
use sluice_kinds::gates::record::lifted_value;
use sluice_kinds::gates::{Gate, Lifted};

use crate::cache::held::Gated;
use crate::plan::gates::action::{GateAction, GateNow};
use crate::plan::writes::plan_and_notes::Present;

/// Says where an object takes its place for which this gate was lifted.
pub type PlaceOf<'a> = &'a dyn Fn(&Gate) -> QueuePlace;

/// Where an object takes its place for which a gate was lifted whose Gate says this, if there is one.
pub fn of(gate: Option<&GateNow>) -> QueuePlace {
    gate.map_or_else(QueuePlace::default, |now| now.spec.place)
}

/// When the object takes its place. A gate that was lifted at a time that nobody knows was lifted `now`.
pub fn taken(gated: Gated<'_>, place_of: PlaceOf<'_>, now: Present) -> Option<Timestamp> {
    gated.created.max(lifted(gated, place_of, now))
}

/// When a pod takes its place that is admitted by itself: the gates of its owner held it too.
pub fn taken_by_pod(
    pod: Gated<'_>,
    owner: Option<Gated<'_>>,
    place_of: PlaceOf<'_>,
    now: Present,
) -> Option<Timestamp> {
    let of_owner = owner.and_then(|owner| lifted(owner, place_of, now));
    taken(pod, place_of, now).max(of_owner)
}

/// When the last gate was lifted from it that says where it takes its place.
fn lifted(gated: Gated<'_>, place_of: PlaceOf<'_>, now: Present) -> Option<Timestamp> {
    let lifted = when_lifted(gated, place_of);
    let lifted = lifted.map(|lifted| lifted.at.unwrap_or(now));
    lifted.map(in_seconds).max()
}

/// The same, as far as anybody knows the time.
pub fn known(gated: Gated<'_>, place_of: PlaceOf<'_>) -> Option<Timestamp> {
    let lifted = when_lifted(gated, place_of);
    lifted.filter_map(|lifted| lifted.at).map(in_seconds).max()
}

/// The place that a Workload keeps: what was recorded, but not before the creation of its job.
pub fn kept(recorded: Option<Timestamp>, created: Option<Timestamp>) -> Option<Timestamp> {
    recorded.max(created).filter(|_| recorded.is_some())
}

/// Has the object keep that a gate was lifted `now`, where its place depends on that and nobody knows when it was:
/// admission policies know no time.
pub fn complete(gated: Gated<'_>, place_of: PlaceOf<'_>, now: Present) -> Option<GateAction> {
    when_lifted(gated, place_of).find(|lifted| lifted.at.is_none())?;
    let lifted = gated.kept.lifted.iter().cloned().map(|mut lifted| {
        let is_own = lifted.uid.as_deref() == Some(&**gated.uid);
        if is_own && lifted.at.is_none() {
            lifted.at = Some(now);
        }
        lifted
    });
    let value = lifted_value(&[], lifted);
    Some(GateAction::annotation(LIFTED_GATES_ANNOTATION, value))
}

/// A time as the API keeps it: what is recorded with less would differ from it for ever.
fn in_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn when_lifted<'a>(gated: Gated<'a>, place_of: PlaceOf<'a>) -> impl Iterator<Item = &'a Lifted> {
    let lifted = gated.kept.lifted_from(gated.uid);
    lifted.filter(move |lifted| {
        let gate = Gate::parse(&lifted.gate, "").ok();
        gate.is_some_and(|gate| place_of(&gate) == QueuePlace::WhenLifted)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sluice_kinds::gates::{self, GateRecord};
    use sluice_kinds::view::LabelledQueue;

    use super::*;
    use crate::cache::kept_gates::KeptGates;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn lifted(gate: &str, seconds: Option<i64>, uid: &str) -> Lifted {
        Lifted {
            gate: gate.to_owned(),
            by: "ann".to_owned(),
            at: seconds.map(at),
            reason: None,
            uid: Some(uid.to_owned()),
        }
    }

    fn place_of(gate: &Gate) -> QueuePlace {
        match gate.as_str() {
            "acme.io/late" => QueuePlace::WhenLifted,
            _ => QueuePlace::WhenCreated,
        }
    }

    #[test]
    fn a_place_is_taken_at_creation_or_when_the_last_such_gate_was_lifted() {
        let late = |seconds| lifted("acme.io/late", seconds, "u1");
        let mut fraction = late(Some(50));
        fraction.at = Some(Timestamp::new(at(50).as_second(), 999_999_999).unwrap());
        let cases = [
            ("no gate", vec![], 0, false),
            (
                "another gate",
                vec![lifted("acme.io/a", Some(50), "u1")],
                0,
                false,
            ),
            ("when lifted", vec![late(Some(50))], 50, false),
            ("in seconds", vec![fraction], 50, false),
            (
                "the last one",
                vec![late(Some(50)), late(Some(70))],
                70,
                false,
            ),
            (
                "a copy of another object's",
                vec![lifted("acme.io/late", Some(50), "u2")],
                0,
                false,
            ),
            (
                "before its creation, by a wrong clock",
                vec![late(Some(-50))],
                0,
                false,
            ),
            ("at a time that nobody knows", vec![late(None)], 100, true),
            (
                "nobody knows of another gate",
                vec![lifted("acme.io/a", None, "u1")],
                0,
                false,
            ),
        ];
        for (name, records, seconds, is_completed) in cases {
            let value = lifted_value(&[], records.clone());
            let annotations = BTreeMap::from([(LIFTED_GATES_ANNOTATION.to_owned(), value)]);
            let kept = KeptGates::read(&annotations);
            let gated = Gated {
                uid: &"u1".into(),
                created: Some(at(0)),
                exists_since: Some(at(0)),
                gates: &gates::read(&annotations),
                kept: &kept,
                is_held: false,
                has_ended: false,
                queue: &LabelledQueue::None,
            };
            assert_eq!(
                taken(gated, &place_of, at(100)),
                Some(at(seconds)),
                "{name}"
            );
            let action = complete(gated, &place_of, at(100));
            assert_eq!(action.is_some(), is_completed, "{name}");
            if let Some(action) = action {
                let metadata = action.metadata("7");
                let value = metadata["annotations"][LIFTED_GATES_ANNOTATION].as_str();
                let annotations = BTreeMap::from([(
                    LIFTED_GATES_ANNOTATION.to_owned(),
                    value.unwrap().to_owned(),
                )]);
                let record = GateRecord::read(&annotations);
                assert_eq!(record.lifted, [late(Some(100))], "{name}");
            }
        }
    }

    #[test]
    fn a_recorded_place_stays_but_not_before_the_creation() {
        let cases = [
            (None, Some(10), None),
            (Some(20), Some(10), Some(20)),
            (Some(5), Some(10), Some(10)),
            (Some(5), None, Some(5)),
        ];
        for (recorded, created, expected) in cases {
            let [recorded, created, expected] = [recorded, created, expected].map(|s| s.map(at));
            assert_eq!(kept(recorded, created), expected);
        }
    }
}
