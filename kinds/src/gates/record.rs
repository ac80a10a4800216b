//! What an object keeps of its gates: which were lifted, by whom and when; which have expired; and whether it is
//! deactivated. Reading and writing of the annotations; who may write them lies in the webhooks.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sluice_crds::{
    DEACTIVATED_BY_ANNOTATION, EXPIRED_GATES_ANNOTATION, GATE_FAILURES_ANNOTATION, HELD_ANNOTATION,
    LIFTED_GATES_ANNOTATION, RELEASED_ANNOTATION,
};

use super::annotations::GATES_MAX;
use super::gate_name::Gate;

/// The annotations that keep it, and that say why it was given gates.
pub const OF_GATES: [&str; 4] = [
    LIFTED_GATES_ANNOTATION,
    EXPIRED_GATES_ANNOTATION,
    DEACTIVATED_BY_ANNOTATION,
    GATE_FAILURES_ANNOTATION,
];
/// The annotations that tell whether the object waits or was released.
pub const OF_RELEASE: [&str; 2] = [HELD_ANNOTATION, RELEASED_ANNOTATION];
/// Longest name of a user that is kept, in bytes.
const USER_BYTES_MAX: usize = 253;
/// What stands in the name of a user for what would need an escape.
const UNPLAIN: char = '?';
/// Most records that are kept: those of a full list and of one more gate.
const RECORDS_MAX: usize = GATES_MAX + 1;

/// That a gate was lifted from an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifted {
    /// The gate.
    pub gate: String,
    /// Who lifted it: the name of a user, or `sluice`, which then says a reason.
    pub by: String,
    /// When, where that is known: admission policies know no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Why Sluice lifted it, if Sluice did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The UID of the object that it was lifted from: annotations are copied, to children and to manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// What an object keeps of its gates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateRecord {
    /// The gates that were lifted from it, the first one first.
    pub lifted: Vec<Lifted>,
    /// The UID of the object that this is about, and the gates whose deadlines have passed.
    pub expired: BTreeSet<String>,
    /// The gate that has deactivated it. It stays held while this is there.
    pub deactivated_by: Option<String>,
}

impl GateRecord {
    /// Reads the annotations of an object. What can't be read of the history is left out; that it is
    /// deactivated needs no more than the annotation.
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| annotations.get(key).map(String::as_str);
        // Sluice writes nothing that needs an escape, and one would hide a UID from policies, which compare texts.
        let lifted = text(LIFTED_GATES_ANNOTATION).filter(|text| !text.contains('\\'));
        let lifted = lifted.map(serde_json::from_str::<Vec<Lifted>>);
        let expired = text(EXPIRED_GATES_ANNOTATION)
            .unwrap_or_default()
            .split(',');
        let expired = expired.map(str::trim).filter(|name| !name.is_empty());
        Self {
            lifted: lifted.and_then(Result::ok).unwrap_or_default(),
            expired: expired.take(RECORDS_MAX + 1).map(str::to_owned).collect(),
            deactivated_by: text(DEACTIVATED_BY_ANNOTATION).map(str::to_owned),
        }
    }

    /// What of the record is about the object with this UID, and not about one that it was copied from.
    pub fn lifted_from(&self, uid: &str) -> impl Iterator<Item = &Lifted> {
        let lifted = self.lifted.iter();
        lifted.filter(move |lifted| lifted.uid.as_deref() == Some(uid))
    }

    /// The gates that Sluice itself lifted from the object with this UID. Users can't say a reason.
    pub fn lifted_by_sluice(&self, uid: &str) -> impl Iterator<Item = &Lifted> {
        self.lifted_from(uid)
            .filter(|lifted| lifted.reason.is_some())
    }

    /// Whether the object is held for being deactivated.
    pub fn is_deactivated(&self) -> bool {
        self.deactivated_by.is_some()
    }

    /// Whether the deadline of `gate` of the object with this UID has passed. What names another UID was copied from
    /// that object, or made up: nobody knows the UID of an object before it is created.
    pub fn has_expired(&self, gate: &Gate, uid: &str) -> bool {
        self.expired.contains(uid) && self.expired.contains(gate.as_str())
    }
}

/// The value of [`LIFTED_GATES_ANNOTATION`] after `lifted` was added to `before`.
pub fn lifted_value(before: &[Lifted], lifted: impl IntoIterator<Item = Lifted>) -> String {
    let mut records: Vec<_> = before.iter().cloned().chain(lifted).collect();
    let over = records.len().saturating_sub(RECORDS_MAX);
    records.drain(..over);
    for record in &mut records {
        record.by = plain(&record.by);
    }
    serde_json::to_string(&records).unwrap_or_default()
}

/// The records of `gates` that the user `by` lifted from the object with this UID, as admission writes them.
pub fn lifted_by_hand<'a>(
    gates: impl IntoIterator<Item = &'a Gate>,
    by: &str,
    at: Option<Timestamp>,
    uid: &str,
) -> Vec<Lifted> {
    let gates = gates.into_iter();
    let records = gates.map(|gate| Lifted {
        gate: gate.to_string(),
        by: plain(by),
        at,
        reason: None,
        uid: Some(uid.to_owned()),
    });
    records.collect()
}

/// Whether `after` is the value `before` with the records `lifted` added, whatever times these say; and if so, which
/// times.
pub fn times_added(before: &str, after: &str, mut lifted: Vec<Lifted>) -> Option<Vec<Timestamp>> {
    let read = |text: &str| {
        let annotation = (LIFTED_GATES_ANNOTATION.to_owned(), text.to_owned());
        GateRecord::read(&BTreeMap::from([annotation])).lifted
    };
    let said = read(after);
    let first = said.len().checked_sub(lifted.len())?;
    for (record, said) in lifted.iter_mut().zip(said.iter().skip(first)) {
        record.at = said.at;
    }
    let times = lifted.iter().filter_map(|record| record.at).collect();
    (lifted_value(&read(before), lifted) == after).then_some(times)
}

/// The name of a user as it is kept: without what would need an escape, so that what is kept can be compared as text.
fn plain(name: &str) -> String {
    let plain = |c: char| match c {
        '"' | '\\' => UNPLAIN,
        c if c.is_control() => UNPLAIN,
        c => c,
    };
    let mut kept = String::new();
    for c in name.chars().map(plain) {
        if USER_BYTES_MAX < kept.len() + c.len_utf8() {
            break;
        }
        kept.push(c);
    }
    kept
}

/// The value of [`EXPIRED_GATES_ANNOTATION`] of the object with this UID after `gates` were added to `before`: the UID,
/// and then the gates.
pub fn expired_value<'a>(
    before: &'a BTreeSet<String>,
    gates: impl IntoIterator<Item = &'a Gate>,
    uid: &'a str,
) -> String {
    let before = before.iter().filter(|_| before.contains(uid));
    let before = before.map(String::as_str).filter(|gate| *gate != uid);
    let gates: BTreeSet<&str> = before.chain(gates.into_iter().map(Gate::as_str)).collect();
    std::iter::once(uid)
        .chain(gates)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(gate: &str) -> Lifted {
        Lifted {
            gate: gate.to_owned(),
            by: "alice".to_owned(),
            at: Some(Timestamp::from_second(1_800_000_000).unwrap()),
            reason: None,
            uid: Some("u1".to_owned()),
        }
    }

    fn read(key: &str, value: &str) -> GateRecord {
        GateRecord::read(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn what_is_written_is_read() {
        let value = lifted_value(&[lifted("acme.io/a")], [lifted("acme.io/b")]);
        let record = read(LIFTED_GATES_ANNOTATION, &value);
        assert_eq!(record.lifted, [lifted("acme.io/a"), lifted("acme.io/b")]);
        let gate = Gate::parse("acme.io/b", "").unwrap();
        let before = ["u1", "acme.io/a"].map(str::to_owned).into();
        let value = expired_value(&before, [&gate], "u1");
        assert_eq!(value, "u1,acme.io/a,acme.io/b");
        let record = read(EXPIRED_GATES_ANNOTATION, &value);
        assert!(record.has_expired(&gate, "u1"));
        assert!(!record.has_expired(&gate, "u2"), "a copy");
        assert_eq!(expired_value(&before, [&gate], "u2"), "u2,acme.io/b");
        assert!(!read(EXPIRED_GATES_ANNOTATION, "acme.io/b").has_expired(&gate, "u1"));
        assert!(read(DEACTIVATED_BY_ANNOTATION, "").is_deactivated());
    }

    #[test]
    fn a_copy_is_about_another_object() {
        let copied = Lifted {
            uid: None,
            ..lifted("acme.io/c")
        };
        let value = lifted_value(&[lifted("acme.io/a")], [copied]);
        let record = read(LIFTED_GATES_ANNOTATION, &value);
        let of = |uid| record.lifted_from(uid).map(|lifted| lifted.gate.as_str());
        assert_eq!(of("u1").collect::<Vec<_>>(), ["acme.io/a"]);
        assert_eq!(of("u2").count(), 0);
        assert_eq!(of("").count(), 0);
    }

    #[test]
    fn what_a_user_lifted_is_kept_as_plain_text() {
        let gate = Gate::parse("acme.io/b", "").unwrap();
        let at = Timestamp::from_second(1_800_000_060).unwrap();
        let before = lifted_value(&[], [lifted("acme.io/a")]);
        for (by, kept) in [
            (
                "system:serviceaccount:n:budget",
                "system:serviceaccount:n:budget",
            ),
            (r#"ACME\ann "the boss""#, "ACME?ann ?the boss?"),
            ("a\u{7}b\n", "a?b?"),
            ("äöü", "äöü"),
        ] {
            let by_hand = |at, uid: &str| lifted_by_hand([&gate], by, at, uid);
            let read_before = read(LIFTED_GATES_ANNOTATION, &before).lifted;
            let after = lifted_value(&read_before, by_hand(Some(at), "u1"));
            let record = read(LIFTED_GATES_ANNOTATION, &after);
            assert_eq!(record.lifted.len(), 2, "{after}");
            assert_eq!(record.lifted[1].by, kept);
            assert_eq!(record.lifted_by_sluice("u1").count(), 0);
            let times = |before: &str, after: &str, uid: &str| {
                times_added(before, after, by_hand(None, uid))
            };
            assert_eq!(times(&before, &after, "u1"), Some(vec![at]));
            assert_eq!(times("", &after, "u1"), None, "a record more");
            assert_eq!(times(&before, &after, "u2"), None, "another object");
            assert_eq!(times(&before, &before, "u1"), None, "nothing added");
            assert_eq!(times(&before, "", "u1"), None);
            let timeless = lifted_value(&read_before, by_hand(None, "u1"));
            assert_eq!(times(&before, &timeless, "u1"), Some(vec![]));
            let reasoned = after.replace(r#","uid":"u1"}]"#, r#","reason":"x","uid":"u1"}]"#);
            assert_eq!(times(&before, &reasoned, "u1"), None, "a reason");
        }
    }

    #[test]
    fn the_history_is_bounded() {
        let mut value = String::new();
        for round in 0..40 {
            let before = read(LIFTED_GATES_ANNOTATION, &value).lifted;
            let by = "ü".repeat(1000);
            let next = Lifted {
                by,
                ..lifted(&format!("acme.io/{round}"))
            };
            value = lifted_value(&before, [next]);
        }
        let record = read(LIFTED_GATES_ANNOTATION, &value);
        assert_eq!(record.lifted.len(), RECORDS_MAX);
        assert_eq!(record.lifted[RECORDS_MAX - 1].gate, "acme.io/39");
        assert!(value.len() < RECORDS_MAX * 400);
    }

    #[test]
    fn what_cannot_be_read_is_no_record() {
        let escaped = r#"[{"gate":"acme.io/a","by":"sluice","uid":"\u0075\u0031"}]"#;
        for value in ["", "[", "{}", r#"[{"gate": 1}]"#, escaped] {
            assert!(read(LIFTED_GATES_ANNOTATION, value).lifted.is_empty());
        }
    }
}
