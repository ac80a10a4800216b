//! What is watched when Gates come, change and go, and what is known of objects meanwhile.

use serde_json::json;
use sluice_crds::GateSpec;
use sluice_gates::CompiledGate;

use super::*;

fn start() -> Moment {
    Moment::from_millis(5000)
}

/// A Gate that waits for objects of kind `A` with this condition.
fn gate(condition: &str) -> CompiledGate {
    let kinds = json!([{"group": "acme.io", "kind": "A", "condition": condition}]);
    let spec: GateSpec = serde_json::from_value(json!({"after": {"kinds": kinds}})).unwrap();
    CompiledGate::compile("a.acme.io", &spec).unwrap()
}

fn kind() -> GroupKind {
    GroupKind {
        group: "acme.io".into(),
        kind: "A".into(),
    }
}

fn want(known: &mut Dependencies, gates: &[&CompiledGate]) -> Vec<DependencyOrder> {
    let afters = gates.iter().filter_map(|gate| gate.after());
    known.want(afters.flat_map(|after| after.rules().to_vec()), start());
    known.take_orders()
}

/// Why an object of namespace `blue` waits for `name`; empty, if it does not.
fn waits(known: &Dependencies, gate: &CompiledGate, name: &str) -> String {
    let annotations = BTreeMap::from([("sluice.dev/after".to_owned(), name.to_owned())]);
    let dependency = gate.after().unwrap().dependency(&annotations).unwrap();
    let checked = known.check(&dependency, "blue");
    checked.map_or_else(|waiting| waiting.to_string(), |()| String::new())
}

fn put(known: &mut Dependencies, namespace: &str, name: &str, outcomes: &[Outcome]) {
    known.put(&kind(), (namespace.into(), name.into()), outcomes.to_vec());
}

fn refused(known: &mut Dependencies, life: u64, is_passing: bool) {
    let trouble = Trouble {
        reason: if is_passing {
            TroubleReason::Unreachable
        } else {
            TroubleReason::Forbidden
        },
        message: "it may not be read".to_owned(),
    };
    let news = DependencyNews::Refused(trouble);
    let kind = kind();
    known.report(DependencyReport { kind, life, news });
}

fn places(known: &mut Dependencies) -> Option<Vec<String>> {
    let changed = known.take_changed().remove(&kind());
    let places = match changed.unwrap_or_default().objects {
        ChangedObjects::Any => return None,
        ChangedObjects::Some(places) => places,
    };
    let names = places
        .iter()
        .map(|(namespace, name)| format!("{namespace}/{name}"));
    let mut names: Vec<_> = names.collect();
    names.sort();
    Some(names)
}

#[test]
fn a_kind_is_watched_once_while_a_gate_names_it() {
    let mut known = Dependencies::default();
    let (one, other) = (gate("object.a == 1"), gate("object.a == 2"));
    let orders = want(&mut known, &[&one, &one]);
    let [DependencyOrder::Start { life: 1, rules, .. }] = &orders[..] else {
        panic!("{orders:?}");
    };
    assert_eq!(rules.len(), 1);
    assert_eq!(want(&mut known, &[&one]), []);
    // Another condition begins the watch again, with both.
    let orders = want(&mut known, &[&one, &other]);
    let [
        DependencyOrder::Stop { life: 1 },
        DependencyOrder::Start { life: 2, rules, .. },
    ] = &orders[..]
    else {
        panic!("{orders:?}");
    };
    assert_eq!(rules.len(), 2);
    assert!(known.is_current(&kind(), 2) && !known.is_current(&kind(), 1));
    assert_eq!(want(&mut known, &[]), [DependencyOrder::Stop { life: 2 }]);
    assert!(!known.is_current(&kind(), 2));
}

#[test]
fn what_is_known_stays_when_other_rules_come() {
    let mut known = Dependencies::default();
    let (one, other) = (gate("object.a == 1"), gate("object.a == 0"));
    want(&mut known, &[&one]);
    let not_read = "waits for A.acme.io \"x\", which has not been read yet";
    assert_eq!(waits(&known, &one, "x"), not_read);
    put(&mut known, "blue", "x", &[Outcome::Done]);
    assert_eq!(waits(&known, &one, "x"), not_read);
    known.listed(&kind());
    assert_eq!(waits(&known, &one, "x"), "");
    let missing = "waits for A.acme.io \"y\", which does not exist";
    assert_eq!(waits(&known, &one, "y"), missing);
    // `other` sorts before `one`.
    want(&mut known, &[&one, &other]);
    assert_eq!(waits(&known, &one, "x"), "");
    assert_eq!(waits(&known, &other, "x"), not_read);
    assert_eq!(waits(&known, &other, "y"), missing);
    put(&mut known, "blue", "x", &[Outcome::NotYet, Outcome::Done]);
    let not_yet = "waits for A.acme.io \"x\": its condition is not true yet";
    assert_eq!(waits(&known, &other, "x"), not_yet);
    want(&mut known, &[&other]);
    assert_eq!(waits(&known, &other, "x"), not_yet);
    assert_eq!(waits(&known, &one, "x"), not_read);
}

#[test]
fn only_objects_of_the_own_namespace_count() {
    let mut known = Dependencies::default();
    let one = gate("object.a == 1");
    want(&mut known, &[&one]);
    known.listed(&kind());
    put(&mut known, "red", "x", &[Outcome::Done]);
    put(&mut known, "", "x", &[Outcome::Done]);
    assert!(waits(&known, &one, "x").ends_with("does not exist"));
    // A kind without namespaces is none that an object may name.
    let news = DependencyNews::Found {
        is_namespaced: false,
    };
    let (kind, life) = (kind(), 1);
    known.report(DependencyReport { kind, life, news });
    assert!(waits(&known, &one, "x").contains("can't be watched"));
    let trouble = known.trouble(one.after().unwrap());
    assert_eq!(
        trouble.unwrap().unwrap_err().reason,
        TroubleReason::WrongScope
    );
}

#[test]
fn what_may_not_be_read_any_more_does_not_count() {
    let mut known = Dependencies::default();
    let one = gate("object.a == 1");
    let after = one.after().unwrap();
    want(&mut known, &[&one]);
    assert_eq!(known.trouble(after), None);
    put(&mut known, "blue", "x", &[Outcome::Done]);
    known.listed(&kind());
    assert_eq!(known.trouble(after), Some(Ok(())));
    // A moment without an answer changes nothing, but it is told.
    refused(&mut known, 1, true);
    assert_eq!(waits(&known, &one, "x"), "");
    assert!(matches!(known.trouble(after), Some(Err(_))));
    // An ended watch is not believed.
    refused(&mut known, 0, false);
    assert_eq!(waits(&known, &one, "x"), "");
    refused(&mut known, 1, false);
    assert_eq!(
        waits(&known, &one, "x"),
        "waits for A.acme.io \"x\", and such objects can't be watched; ask whoever looks after the Gate, whose conditions say why"
    );
    known.listed(&kind());
    assert_eq!(waits(&known, &one, "x"), "");
}

#[test]
fn only_what_says_something_else_has_changed() {
    let mut known = Dependencies::default();
    let one = gate("object.a == 1");
    want(&mut known, &[&one]);
    known.listed(&kind());
    assert_eq!(places(&mut known), None, "all, after the first list");
    assert_eq!(places(&mut known), Some(vec![]));
    put(&mut known, "blue", "x", &[Outcome::NotYet]);
    put(&mut known, "blue", "y", &[Outcome::NotYet]);
    assert_eq!(places(&mut known).unwrap(), ["blue/x", "blue/y"]);
    put(&mut known, "blue", "x", &[Outcome::NotYet]);
    assert_eq!(places(&mut known), Some(vec![]));
    put(&mut known, "blue", "x", &[Outcome::Failed]);
    known.remove(&kind(), &"blue".into(), &"y".into());
    known.remove(&kind(), &"blue".into(), &"z".into());
    assert_eq!(places(&mut known).unwrap(), ["blue/x", "blue/y"]);
    for number in 0..=CHANGED_MAX {
        put(&mut known, "blue", &number.to_string(), &[Outcome::NotYet]);
    }
    assert_eq!(places(&mut known), None, "too many to be told apart");
}

#[test]
fn the_start_waits_for_a_list_but_not_for_ever() {
    let mut known = Dependencies::default();
    assert!(known.all_settled(start()));
    known.gates_changed();
    assert!(!known.all_settled(start()) && known.take_outdated());
    want(&mut known, &[&gate("object.a == 1")]);
    assert!(!known.all_settled(start().after(PATIENCE)));
    assert!(known.all_settled(start().after(PATIENCE * 2)));
    refused(&mut known, 1, false);
    assert!(known.all_settled(start()));
}

#[test]
fn who_still_waits_is_told_in_turn() {
    let mut known = Dependencies::default();
    for number in [3, 1, 2, 1] {
        known.tell_later(Subject::Job(format!("u{number}").as_str().into()));
    }
    let mut take = |count| known.take_untold(count).len();
    assert_eq!([take(2), take(2), take(2)], [2, 1, 0]);
}
