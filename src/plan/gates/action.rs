//! What a Gate asks for about an object that its gate holds: that the gate is lifted; that its deadline is told, lifts
//! the gate, or deactivates the object, at its time or once what the gate waits for has failed. Who may lift a gate by
//! hand is decided by the webhooks (`rules/lifting/lift.rs`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use sluice_crds::reasons::event;
use sluice_crds::{
    DEACTIVATED_BY_ANNOTATION, Deadline, EXPIRED_GATES_ANNOTATION, GateSpec,
    LIFTED_GATES_ANNOTATION, OnExpiry,
};
use sluice_kinds::gates::record::{expired_value, lifted_value};
use sluice_kinds::gates::{Gate, Lifted, without};

use crate::cache::held::Gated;
use crate::plan::writes::plan_and_notes::{Note, Present};

/// Who lifts a gate whose deadline has passed, in the record of the object.
const SLUICE: &str = "sluice";

/// What a Gate says of an object at a time.
#[derive(Debug, Clone, Default)]
pub struct GateNow {
    /// The Gate.
    pub spec: Arc<GateSpec>,
    /// Its deadline, if that acts.
    pub deadline: Option<Deadline>,
    /// Why its gate is to be lifted now, if it is.
    pub opened: Option<Cow<'static, str>>,
    /// Why it is not, where that can be told.
    pub closed: Option<String>,
    /// That what it waits for has failed, if it has.
    pub failed: Option<String>,
}

/// A gate that is lifted, and why.
type LiftedGate<'a> = (&'a Gate, Cow<'static, str>);

/// What is to change in the metadata of an object, and what its user is told then.
#[derive(Debug, Default)]
pub struct GateAction {
    annotations: BTreeMap<&'static str, Option<String>>,
    /// Labels that go.
    labels: Vec<String>,
    /// What to tell.
    pub notes: Vec<Note>,
}

impl GateAction {
    /// Sets an annotation.
    pub fn annotation(key: &'static str, value: String) -> Self {
        Self {
            annotations: BTreeMap::from([(key, Some(value))]),
            ..Self::default()
        }
    }

    /// Takes these labels away, if there are any.
    pub fn without_labels(labels: &[String]) -> Option<Self> {
        let labels = labels.to_vec();
        (!labels.is_empty()).then(|| Self {
            labels,
            ..Self::default()
        })
    }

    /// The metadata of a merge patch. It fails if the object is not this resourceVersion any more.
    pub fn metadata(&self, resource_version: &str) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), json!(resource_version));
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(self.annotations));
        }
        if !self.labels.is_empty() {
            let labels = self.labels.iter().map(|label| (label.clone(), Value::Null));
            let labels: Map<_, _> = labels.collect();
            metadata.insert("labels".to_owned(), labels.into());
        }
        metadata
    }
}

/// When the deadline of `gate` passes for an object that exists since then.
pub fn expires(deadline: Deadline, since: Timestamp) -> Timestamp {
    let after = SignedDuration::from_secs(i64::from(deadline.seconds));
    since.checked_add(after).unwrap_or(Timestamp::MAX)
}

/// What its gates ask for about an object, if anything: those that are open are lifted, and deadlines that have
/// passed act. Each acts once: the object keeps that it has.
pub fn act(
    gated: Gated<'_>,
    gate_now: &dyn Fn(&Gate) -> Option<GateNow>,
    now: Present,
) -> Option<GateAction> {
    let said = gated.gates.names();
    let said: Vec<_> = said
        .filter_map(|gate| Some((gate, gate_now(gate)?)))
        .collect();
    let opened = said.iter();
    let mut lifted: Vec<_> = opened
        .filter_map(|(gate, now)| Some((*gate, now.opened.clone()?)))
        .collect();
    let mut action = expire(gated, &said, &mut lifted, now);
    if !lifted.is_empty() {
        lift(action.get_or_insert_default(), gated, &lifted, now);
    }
    action
}

/// What the deadlines of those gates ask for that are not lifted anyway. Adds those to `lifted` that they lift.
fn expire<'a>(
    gated: Gated<'_>,
    said: &[(&'a Gate, GateNow)],
    lifted: &mut Vec<LiftedGate<'a>>,
    now: Present,
) -> Option<GateAction> {
    let since = gated.exists_since?;
    let due: Vec<_> = said
        .iter()
        .filter(|(gate, said)| said.opened.is_none() && !gated.kept.has_expired(gate, gated.uid))
        .filter_map(|(gate, said)| Some((*gate, said.deadline?, said)))
        .filter(|(_, deadline, said)| said.failed.is_some() || expires(*deadline, since) <= now)
        .collect();
    if due.is_empty() {
        return None;
    }
    let mut action = GateAction::default();
    let due_gates = due.iter().map(|(gate, ..)| *gate);
    let expired = expired_value(&gated.kept.expired, due_gates, gated.uid);
    action
        .annotations
        .insert(EXPIRED_GATES_ANNOTATION, Some(expired));
    for (gate, deadline, said) in &due {
        match deadline.on_expiry {
            OnExpiry::Notify => action.notes.push(overdue(gate, *deadline, said)),
            OnExpiry::Deactivate => {
                action
                    .annotations
                    .insert(DEACTIVATED_BY_ANNOTATION, Some(gate.to_string()));
                action.notes.push(deactivated(gate.as_str(), Some(said)));
            }
            OnExpiry::Lift => {
                let failed = said.failed.clone().map(Cow::Owned);
                let why = failed.unwrap_or("its deadline has passed".into());
                lifted.push((*gate, why));
            }
        }
    }
    Some(action)
}

/// Has these gates lifted, and keeps who lifted them, when and why.
fn lift(action: &mut GateAction, gated: Gated<'_>, gates: &[LiftedGate<'_>], now: Present) {
    let mut left = gated.kept.annotations().clone();
    for (gate, _) in gates {
        for (key, value) in without(&left, gate) {
            match &value {
                Some(value) => left.insert(key.to_owned(), value.clone()),
                None => left.remove(key),
            };
            action.annotations.insert(key, value);
        }
        action.labels.extend(gate.held_by_label());
    }
    let records = gates.iter().map(|(gate, reason)| Lifted {
        gate: gate.to_string(),
        by: SLUICE.to_owned(),
        at: Some(now),
        reason: Some(reason.to_string()),
        uid: Some(gated.uid.to_string()),
    });
    let value = lifted_value(&gated.kept.lifted, records);
    action
        .annotations
        .insert(LIFTED_GATES_ANNOTATION, Some(value));
}

/// That a gate was lifted, as the object keeps it.
pub fn lifted_note(lifted: &Lifted) -> Note {
    let Lifted {
        gate, by, reason, ..
    } = lifted;
    let why = reason.as_deref();
    let why = why.map_or_else(String::new, |reason| format!(", as {reason}"));
    Note::normal(
        event::GATE_LIFTED,
        format!("The gate {gate:?} was lifted by {by:?}{why}"),
    )
}

/// That an object is deactivated by a gate of which its Gate says this now.
pub fn deactivated(gate: &str, now: Option<&GateNow>) -> Note {
    let why = match now {
        Some(GateNow {
            failed: Some(failed),
            ..
        }) => format!("{failed}, and the gate {gate:?} waits for it"),
        Some(now) if now.spec.after.is_some() => {
            format!(
                "the gate {gate:?} was not lifted within its deadline, or what it waits for had failed"
            )
        }
        _ => format!("the gate {gate:?} was not lifted within its deadline"),
    };
    Note::warning(
        event::DEACTIVATED,
        format!(
            "Deactivated: {why}; to let the object go on when its gates are lifted, remove its annotation {DEACTIVATED_BY_ANNOTATION}"
        ),
    )
}

/// A gate, with what its Gate says about it for those who wait.
pub fn described(gate: &Gate, now: Option<&GateNow>) -> String {
    let told = now.map_or_else(Vec::new, |now| {
        let contact = now.spec.contact.as_ref();
        let contact = contact.map(|contact| format!("ask {contact}"));
        let told = [now.spec.description.clone(), now.closed.clone(), contact];
        // An event is one line, whatever the Gate says.
        let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        told.into_iter().flatten().map(one_line).collect()
    });
    if told.is_empty() {
        return gate.to_string();
    }
    format!("{gate} ({})", told.join("; "))
}

fn overdue(gate: &Gate, deadline: Deadline, said: &GateNow) -> Note {
    let seconds = deadline.seconds;
    let now = GateNow {
        spec: said.spec.clone(),
        ..GateNow::default()
    };
    let gate = described(gate, Some(&now));
    if let Some(failed) = &said.failed {
        let told = format!("Still held: {failed}, and the gate {gate} waits for it");
        return Note::warning(event::DEPENDENCY_FAILED, told);
    }
    Note::warning(
        event::GATE_EXPIRED,
        format!(
            "Still held {seconds} s after its creation, which is the deadline of the gate {gate}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use sluice_kinds::gates::ADMISSION_GATED_BY;
    use sluice_kinds::view::LabelledQueue;

    use super::*;
    use crate::cache::kept_gates::KeptGates;

    const CREATED: i64 = 1_800_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(CREATED + seconds).unwrap()
    }

    /// The annotations after what is asked for at `now` of an object with these, and the reasons of what is told.
    fn expired(
        annotations: &BTreeMap<String, String>,
        specs: &[(&str, i32, OnExpiry)],
        now: Timestamp,
    ) -> Option<(BTreeMap<String, String>, Vec<&'static str>)> {
        acted(annotations, specs, &[], &[], now)
    }

    /// The same where these gates are open, and what these wait for has failed.
    fn acted(
        annotations: &BTreeMap<String, String>,
        specs: &[(&str, i32, OnExpiry)],
        opened: &[&str],
        failed: &[&str],
        now: Timestamp,
    ) -> Option<(BTreeMap<String, String>, Vec<&'static str>)> {
        let gates = sluice_kinds::gates::read(annotations);
        let kept = KeptGates::read(annotations);
        let said = |gate: &Gate| {
            let (_, seconds, on_expiry) = specs.iter().find(|(name, ..)| *name == gate.as_str())?;
            let deadline = Deadline {
                seconds: *seconds,
                on_expiry: *on_expiry,
            };
            Some(GateNow {
                deadline: Some(deadline),
                opened: opened
                    .contains(&gate.as_str())
                    .then_some("it is open".into()),
                failed: failed
                    .contains(&gate.as_str())
                    .then(|| "Job.batch a has failed".to_owned()),
                ..GateNow::default()
            })
        };
        let gated = Gated {
            uid: &"u1".into(),
            created: Some(at(0)),
            exists_since: Some(at(0)),
            gates: &gates,
            kept: &kept,
            is_held: true,
            has_ended: false,
            queue: &LabelledQueue::None,
        };
        let action = act(gated, &said, now)?;
        let mut left = annotations.clone();
        for (key, value) in &action.annotations {
            match value {
                Some(value) => left.insert((*key).to_owned(), value.clone()),
                None => left.remove(*key),
            };
        }
        Some((left, action.notes.iter().map(|note| note.reason).collect()))
    }

    fn list(gates: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(ADMISSION_GATED_BY.to_owned(), gates.to_owned())])
    }

    #[test]
    fn what_a_gate_says_is_told_on_one_line() {
        let mut now = GateNow::default();
        Arc::make_mut(&mut now.spec).contact = Some("ann\n Forged: bob".to_owned());
        let told = described(&Gate::parse("acme.io/a", "").unwrap(), Some(&now));
        assert_eq!(told, "acme.io/a (ask ann Forged: bob)");
    }

    #[test]
    fn a_deadline_acts_at_its_time_and_once() {
        for (on_expiry, reasons) in [
            (OnExpiry::Notify, vec!["GateExpired"]),
            (OnExpiry::Deactivate, vec!["Deactivated"]),
            (OnExpiry::Lift, vec![]),
        ] {
            let specs = [("acme.io/a", 60, on_expiry)];
            let before = list("acme.io/a, acme.io/b");
            assert_eq!(expired(&before, &specs, at(59)), None, "{on_expiry:?}");
            let (after, told) = expired(&before, &specs, at(60)).unwrap();
            assert_eq!(told, reasons);
            assert_eq!(after[EXPIRED_GATES_ANNOTATION], "u1,acme.io/a");
            assert_eq!(expired(&after, &specs, at(600)), None, "{on_expiry:?}");
            let left = match on_expiry {
                OnExpiry::Lift => "acme.io/b",
                OnExpiry::Notify | OnExpiry::Deactivate => "acme.io/a, acme.io/b",
            };
            assert_eq!(after[ADMISSION_GATED_BY], left);
            let is_deactivated = KeptGates::read(&after).is_deactivated();
            assert_eq!(is_deactivated, on_expiry == OnExpiry::Deactivate);
        }
    }

    #[test]
    fn several_deadlines_act_together() {
        let specs = [
            ("acme.io/a", 10, OnExpiry::Lift),
            ("acme.io/b", 20, OnExpiry::Lift),
            ("acme.io/c", 30, OnExpiry::Notify),
        ];
        let (after, told) =
            expired(&list("acme.io/a,acme.io/b,acme.io/c"), &specs, at(25)).unwrap();
        assert_eq!(after[ADMISSION_GATED_BY], "acme.io/c");
        assert_eq!(after[EXPIRED_GATES_ANNOTATION], "u1,acme.io/a,acme.io/b");
        assert!(told.is_empty());
        let lifted = &KeptGates::read(&after).lifted;
        assert_eq!(lifted.len(), 2);
        assert_eq!(
            lifted_note(&lifted[0]).message,
            "The gate \"acme.io/a\" was lifted by \"sluice\", as its deadline has passed"
        );
        let (after, _) = expired(&after, &specs, at(30)).unwrap();
        assert_eq!(
            after[EXPIRED_GATES_ANNOTATION],
            "u1,acme.io/a,acme.io/b,acme.io/c"
        );
    }

    #[test]
    fn a_gate_that_is_open_is_lifted_whatever_its_deadline_says() {
        let specs = [("acme.io/a", 10, OnExpiry::Deactivate)];
        let before = list("acme.io/a,acme.io/b");
        for seconds in [5, 15] {
            let (after, told) = acted(&before, &specs, &["acme.io/a"], &[], at(seconds)).unwrap();
            assert_eq!(after[ADMISSION_GATED_BY], "acme.io/b");
            assert!(told.is_empty());
            let kept = KeptGates::read(&after);
            assert!(!kept.is_deactivated() && kept.expired.is_empty());
            assert_eq!(kept.lifted[0].reason.as_deref(), Some("it is open"));
        }
    }

    #[test]
    fn a_deadline_acts_at_once_and_once_where_what_a_gate_waits_for_has_failed() {
        for (on_expiry, reasons, left) in [
            (OnExpiry::Notify, vec!["DependencyFailed"], "acme.io/a"),
            (OnExpiry::Deactivate, vec!["Deactivated"], "acme.io/a"),
            (OnExpiry::Lift, vec![], ""),
        ] {
            let specs = [("acme.io/a", 60, on_expiry)];
            let failed = ["acme.io/a"];
            let (after, told) = acted(&list("acme.io/a"), &specs, &[], &failed, at(1)).unwrap();
            assert_eq!(told, reasons);
            assert_eq!(after[EXPIRED_GATES_ANNOTATION], "u1,acme.io/a");
            let gates = after.get(ADMISSION_GATED_BY).map_or("", String::as_str);
            assert_eq!(gates, left);
            if on_expiry == OnExpiry::Lift {
                let lifted = &KeptGates::read(&after).lifted[0];
                assert_eq!(lifted.reason.as_deref(), Some("Job.batch a has failed"));
                continue;
            }
            // Neither again, nor when its time comes; but what recovers lifts the gate.
            for seconds in [2, 600] {
                assert_eq!(acted(&after, &specs, &[], &failed, at(seconds)), None);
            }
            let (after, told) = acted(&after, &specs, &failed, &[], at(3)).unwrap();
            assert!(told.is_empty() && !after.contains_key(ADMISSION_GATED_BY));
        }
        // Without a deadline nothing is written.
        assert_eq!(
            acted(&list("acme.io/a"), &[], &[], &["acme.io/a"], at(1)),
            None
        );
    }

    #[test]
    fn a_gate_without_a_gate_object_has_no_deadline() {
        assert_eq!(expired(&list("acme.io/a"), &[], at(1_000_000)), None);
    }

    #[test]
    fn a_deadline_beyond_all_time_never_passes() {
        let deadline = Deadline {
            seconds: i32::MAX,
            on_expiry: OnExpiry::Lift,
        };
        assert_eq!(expires(deadline, Timestamp::MAX), Timestamp::MAX);
    }
}
