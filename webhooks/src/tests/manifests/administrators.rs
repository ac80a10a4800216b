//! What an administrator has changed in a shipped webhook configuration counts in those of Sluice's own, and no more than that.

use serde_json::{Value, json};

use crate::tests::ALIAS;
use crate::tests::manifests::applied::of_team;
use crate::tests::manifests::own::{Bench, GATE, names, with, written_by_an_earlier_version};
use crate::tests::manifests::stored::resource;

/// What an administrator has narrowed stays narrow, also where an alias has to be asked about.
#[test]
fn a_rule_for_the_same_resource_covers_it() {
    let mut options = with(&[]);
    let mut bench = Bench::new(&options, true);
    let narrow = json!({"apiGroups": ["batch", "acme.io"], "apiVersions": ["*"], "operations": ["CREATE", "DELETE"],
        "resources": ["jobs", "*"]});
    bench.shipped["webhooks"][0]["rules"][0] = narrow;
    assert_eq!(
        bench.made(&Value::Null, &[]).unwrap()["webhooks"],
        json!([])
    );
    options.queue_labels.push(ALIAS.to_owned());
    let bench = Bench {
        shipped: bench.shipped,
        ..Bench::new(&options, true)
    };
    let made = bench.made(&Value::Null, &[]).unwrap();
    let rules = &made["webhooks"][0]["rules"];
    assert_eq!(
        rules[0],
        json!({"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"],
            "scope": "Namespaced"})
    );
    assert_eq!(rules[1]["operations"], json!(["CREATE", "UPDATE"]));
}

/// Nor does a rule come along that an administrator has added while it is not known which kinds are managed.
#[test]
fn the_rules_of_an_administrator_are_not_copied() {
    let mut bench = Bench::new(&with(&[]), true);
    let written = written_by_an_earlier_version(&bench.shipped);
    bench.shipped = written.clone();
    bench.shipped["metadata"]["managedFields"] = written["metadata"]["managedFields"][0].clone();
    let made = bench.made(&Value::Null, &["acme.io"]).unwrap();
    assert_eq!(made["webhooks"], json!([]));
}

/// Who is never asked is what the administrator has applied, word for word: the jail compares it.
#[test]
fn who_is_never_asked_is_as_shipped() {
    let mut options = of_team("a");
    options.declared.push(resource("acme.io", "widgets"));
    let mut bench = Bench::new(&options, true);
    let by_another =
        json!({"name": "not-by-sluice", "expression": "request.userInfo.username != 'other'"});
    let ours = json!({"name": "ours", "expression": "true"});
    let conditions = bench.shipped["webhooks"][0]["matchConditions"]
        .as_array_mut()
        .unwrap();
    conditions[0] = by_another.clone();
    conditions.push(ours.clone());
    let made = bench.made(&Value::Null, &[]).unwrap();
    let conditions = |webhook: usize| {
        made["webhooks"][webhook]["matchConditions"]
            .as_array()
            .unwrap()
    };
    assert_eq!(names(&made), ["mutate.jobkinds.sluice.dev", GATE]);
    assert_eq!(conditions(0)[0], by_another);
    assert!(conditions(0).contains(&ours));
    assert_eq!(conditions(1)[0], by_another);
    assert!(conditions(1).contains(&ours));
    assert_eq!(conditions(1).len(), 4, "not that of the webhook for jobs");
    assert_eq!(conditions(1).last().unwrap()["name"], "asks-for-nothing");
}
