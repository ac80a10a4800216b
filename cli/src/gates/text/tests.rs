use insta::assert_snapshot;
use kube::core::Status;
use serde_json::{Value, json};

use super::*;
use crate::cluster::ClusterError;

const NOW: &str = "2026-03-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn object(name: &str, spec: &Value, status: &Value) -> GateObject {
    let metadata = json!({"name": name, "creationTimestamp": "2026-02-01T00:00:00Z"});
    let object = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Gate",
        "metadata": metadata, "spec": spec, "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn budget() -> GateObject {
    let held = |kind: &str, name: &str, since: &str| json!({"kind": kind, "namespace": "team-blue", "name": name, "since": since});
    object(
        "budget.acme.io",
        &json!({
            "description": "Jobs wait for the approval of their budget by the finance department, which looks once a day",
            "contact": "#finops",
            "deadline": {"seconds": 259_200, "onExpiry": "Deactivate"},
        }),
        &json!({
            "held": 2,
            "oldestSince": "2026-02-28T09:30:00Z",
            "oldest": [
                held("Job.batch", "train", "2026-02-28T09:30:00Z"),
                held("JobSet.jobset.x-k8s.io", "tune", "2026-03-01T11:55:30Z"),
            ],
            "liftedTotal": 41,
            "expiredTotal": 3,
            "conditions": [{
                "type": "Active", "status": "True", "reason": "Followed", "message": "It is\u{1b}[31m followed",
                "lastTransitionTime": NOW,
            }],
        }),
    )
}

fn annotations(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_table_of_gates() {
    let gates = [
        budget(),
        object("data.acme.io", &json!({"lifting": "Anyone"}), &Value::Null),
        object(
            "odd",
            &json!({"description": "two\nlines"}),
            &json!({"held": 0}),
        ),
    ];
    assert_snapshot!(table(&gates, false, now()));
    assert_snapshot!(table(&gates, true, now()));
    assert_snapshot!(table(&[], true, now()));
}

#[test]
fn one_gate() {
    let gate = Gate::parse("acme.io/budget", "").unwrap();
    let no = MayLift::No(Some("no RBAC policy matched".to_owned()));
    assert_snapshot!(shown(
        &gate,
        &budget(),
        &MayLift::Yes,
        "namespace team-blue",
        now()
    ));
    let bare = object("budget.acme.io", &json!({}), &Value::Null);
    assert_snapshot!(shown(&gate, &bare, &no, "all namespaces", now()));
    let open = object(
        "budget.acme.io",
        &json!({"lifting": "Anyone"}),
        &Value::Null,
    );
    let shown = shown(
        &gate,
        &open,
        &MayLift::WhoeverMayEdit,
        "namespace team-blue",
        now(),
    );
    assert!(
        shown.contains("You May Lift:  what you may edit in namespace team-blue\n"),
        "{shown}"
    );
}

#[test]
fn a_gate_without_an_object() {
    for (gate, name) in [
        ("acme.io/budget", "with_a_name"),
        ("acme.io/a.b", "without_a_name"),
    ] {
        let gate = Gate::parse(gate, "").unwrap();
        assert_snapshot!(name, without_object(&gate));
    }
}

#[test]
fn what_became_of_gates() {
    let gate = Gate::parse("acme.io/budget", "").unwrap();
    let message = "admission webhook \"validate.jobs.sluice.dev\" denied the request: may not";
    let refused = || Box::new(Status::failure(message, "Forbidden").with_code(403));
    let outcomes = [
        LiftOutcome::Lifted(annotations(&[])),
        LiftOutcome::Lifted(annotations(&[(
            "kueue.x-k8s.io/admission-gated-by",
            "a.io/b,c.io/d",
        )])),
        LiftOutcome::NotThere(annotations(&[(
            "kueue.x-k8s.io/scheduling-gated-by",
            "a.io/b",
        )])),
        LiftOutcome::Changed,
        LiftOutcome::Gone(Box::new(Status::failure(
            "jobs.batch \"train\" not found",
            "NotFound",
        ))),
        LiftOutcome::Failed(ClusterError::Refused(refused())),
    ];
    let told = |told: Told| match told {
        Told::Result(text) => text,
        Told::Note(note) => format!("note: {note}\n"),
        Told::Error(error) => format!("error: {error}\n"),
    };
    let mut text = String::new();
    let mut counts = LiftCounts::default();
    let label = "gate.sluice.dev/budget.acme.io=true";
    for outcome in &outcomes {
        text += &told(lifted("job.batch/train", &gate, outcome, DryRun::No));
    }
    text += "\n";
    text += &counts.summary(&gate, label, DryRun::No);
    assert_eq!(counts.ended(), Ended::Done);
    for outcome in &outcomes {
        text += &told(lifted_of_many(
            "job.batch/train in team-blue",
            &gate,
            outcome,
            DryRun::Yes,
        ));
        counts.add(outcome);
    }
    text += &counts.summary(&gate, label, DryRun::Yes);
    assert_eq!(counts.ended(), Ended::NotDone);
    text += &LiftCounts {
        lifted: 1,
        refused: 0,
    }
    .summary(&gate, label, DryRun::No);
    assert_snapshot!(text);
}

#[test]
fn a_span_is_written_as_kubectl_writes_it() {
    let cases = [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (301, "5m1s"),
        (600, "10m"),
        (3_600, "60m"),
        (10_800, "3h"),
        (11_100, "3h5m"),
        (86_400, "24h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (315_360_000, "10y"),
    ];
    for (seconds, expected) in cases {
        assert_eq!(span(seconds), expected, "{seconds}");
    }
    assert_eq!(age("2026-03-01T12:00:05Z".parse().unwrap(), now()), "0s");
}
