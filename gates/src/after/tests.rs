//! What `spec.after` refuses, which object an annotation names, and what is told of one.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::GateSpec;

use crate::{CompiledGate, NamedBy, Outcome};

const COMPLETE: &str = "has(object.status) && object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')";

fn compile(after: &Value) -> Result<CompiledGate, String> {
    let spec: GateSpec = serde_json::from_value(json!({"after": after})).unwrap();
    let compiled = CompiledGate::compile("data.acme.io", &spec);
    compiled.map_err(|problems| {
        let texts = problems.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>().join("; ")
    })
}

fn job() -> Value {
    json!({"group": "batch", "kind": "Job", "condition": COMPLETE, "failed": "object.status.failed > 3"})
}

fn claim() -> Value {
    json!({"group": "", "kind": "PersistentVolumeClaim", "condition": "object.status.phase == 'Bound'"})
}

fn of(kind: &Value, more: &Value) -> Value {
    let mut all = kind.clone();
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

fn named(after: &Value, annotation: &str, value: &str) -> Result<String, String> {
    let gate = compile(after).unwrap();
    let annotations = BTreeMap::from([(annotation.to_owned(), value.to_owned())]);
    let found = gate.after().unwrap().dependency(&annotations);
    let text = found.as_ref().map(ToString::to_string);
    text.map_err(ToString::to_string)
}

#[rstest]
#[case::nothing(json!({}),
    "spec.after: Required value: exactly one of object and kinds must be set: object is named here; with kinds, the held job names an object of one of them in its annotation")]
#[case::both(json!({"object": of(&job(), &json!({"name": "a"})), "kinds": [job()]}),
    "spec.after: Required value: exactly one of object and kinds must be set: object is named here; with kinds, the held job names an object of one of them in its annotation")]
#[case::secret(json!({"kinds": [{"group": "", "kind": "Secret", "condition": "has(object.data)"}]}),
    "spec.after.kinds[0].kind: Invalid value: \"Secret\": is not read by Sluice, whatever its roles say")]
#[case::lease(json!({"object": {"group": "coordination.k8s.io", "kind": "Lease", "name": "a", "condition": "has(object.spec)"}}),
    "spec.after.object.kind: Invalid value: \"Lease\": is not read by Sluice, whatever its roles say")]
#[case::kind(json!({"kinds": [{"group": "batch", "kind": "jobs/../x", "condition": "true"}]}),
    "spec.after.kinds[0].kind: Invalid value: \"jobs/../x\": must be the name of a kind (such as \"Job\")")]
#[case::twice(json!({"kinds": [job(), claim(), job()]}),
    "spec.after.kinds[2]: Duplicate value: \"Job.batch\"")]
#[case::annotation(json!({"kinds": [job()], "annotation": "a b"}),
    "spec.after.annotation: Invalid value: \"a b\": must be the key of an annotation (such as \"sluice.dev/min-parallelism\")")]
#[case::no_bool(json!({"kinds": [of(&job(), &json!({"condition": "1 + 1"}))]}), "")]
#[case::a_number(json!({"kinds": [of(&job(), &json!({"condition": "1"}))]}),
    "spec.after.kinds[0].condition: Invalid value: \"1\": must give a bool, not a int")]
#[case::another_object(json!({"kinds": [of(&job(), &json!({"failed": "secrets.data == 'x'"}))]}),
    "spec.after.kinds[0].failed: Invalid value: \"secrets.data == 'x'\": undeclared reference to \"secrets\" at 1:1: only \"object\" is declared")]
#[case::syntax(json!({"kinds": [of(&job(), &json!({"condition": "object.a = 1"}))]}),
    "spec.after.kinds[0].condition: Invalid value: \"object.a = 1\": must be a CEL expression")]
#[case::namespace(json!({"object": of(&job(), &json!({"name": "a", "namespace": "B/c"}))}),
    "spec.after.object.namespace: Invalid value: \"B/c\": a lowercase RFC 1123 label")]
fn what_can_not_be_followed_is_refused(#[case] after: Value, #[case] expected: &str) {
    let told = compile(&after).err().unwrap_or_default();
    assert!(told.starts_with(expected), "{told}");
    assert_eq!(told.is_empty(), expected.is_empty(), "{told}");
}

#[rstest]
#[case::name("prepare", Ok("Job.batch \"prepare\""))]
#[case::kind("Job/prepare", Ok("Job.batch \"prepare\""))]
#[case::kind_and_group("Job.batch/prepare", Ok("Job.batch \"prepare\""))]
#[case::other_namespace("blue/prepare", Err("blue/prepare"))]
#[case::namespace_too("Job/blue/prepare", Err("Job/blue/prepare"))]
#[case::other_kind("Secret/prepare", Err("Secret/prepare"))]
#[case::other_case("job/prepare", Err("job/prepare"))]
#[case::no_name("Job/", Err("Job/"))]
#[case::empty("", Err(""))]
#[case::path("../prepare", Err("../prepare"))]
fn one_kind_is_named_by_name(#[case] value: &str, #[case] expected: Result<&str, &str>) {
    let rule = "must be the name of a Job.batch in the namespace of this object";
    let expected = expected.map(str::to_owned).map_err(|value| {
        format!("metadata.annotations[sluice.dev/after]: Invalid value: {value:?}: {rule}")
    });
    let after = json!({"kinds": [job()]});
    assert_eq!(named(&after, "sluice.dev/after", value), expected);
}

#[test]
fn of_several_kinds_one_is_named() {
    let after = json!({"kinds": [job(), claim()], "annotation": "acme.io/needs"});
    let read = |value| named(&after, "acme.io/needs", value);
    assert_eq!(read("Job/a").unwrap(), "Job.batch \"a\"");
    let claim = "PersistentVolumeClaim \"b\"";
    assert_eq!(read("PersistentVolumeClaim/b").unwrap(), claim);
    let form = "KIND/NAME of an object in the namespace of this object, where KIND is one of Job.batch, \
         PersistentVolumeClaim";
    let refused =
        format!("metadata.annotations[acme.io/needs]: Invalid value: \"a\": must be {form}");
    assert_eq!(read("a").unwrap_err(), refused);
    let missing = format!("metadata.annotations[acme.io/needs]: Required value: {form}");
    assert_eq!(named(&after, "acme.io/other", "a").unwrap_err(), missing);
}

#[test]
fn kinds_of_one_name_are_told_apart_by_group() {
    let other = of(&job(), &json!({"group": "acme.io"}));
    let after = json!({"kinds": [job(), other]});
    let read = |value| named(&after, "sluice.dev/after", value);
    assert_eq!(read("Job.acme.io/a").unwrap(), "Job.acme.io \"a\"");
    assert!(read("Job/a").is_err());
}

#[test]
fn only_a_gate_names_other_namespaces_and_objects_without_one() {
    let scopes = |after: &Value| {
        let gate = compile(after).unwrap();
        let sample = gate.after().unwrap().samples().next().unwrap();
        let namespace = |is_namespaced| {
            let found = sample.namespace("own", is_namespaced);
            found.map(str::to_owned).map_err(|error| error.to_string())
        };
        (namespace(true), namespace(false))
    };
    let ok = |text: &str| Ok(text.to_owned());
    let by_held = json!({"kinds": [job()]});
    let refused = "spec.after.kinds: Job.batch has no namespaces: only spec.after.object can name such an object";
    assert_eq!(scopes(&by_held), (ok("own"), Err(refused.to_owned())));
    let by_gate = json!({"object": of(&job(), &json!({"name": "a"}))});
    assert_eq!(scopes(&by_gate), (ok("own"), ok("")));
    let elsewhere = json!({"object": of(&job(), &json!({"name": "a", "namespace": "data"}))});
    let refused = "spec.after.object.namespace: must not be set, as Job.batch has no namespaces";
    assert_eq!(scopes(&elsewhere), (ok("data"), Err(refused.to_owned())));
    let gate = compile(&elsewhere).unwrap();
    let none = BTreeMap::new();
    let dependency = gate.after().unwrap().dependency(&none).unwrap();
    assert_eq!(
        dependency.to_string(),
        "Job.batch \"a\" in namespace \"data\""
    );
    assert_eq!(
        dependency.named_by,
        NamedBy::Gate {
            namespace: Some("data")
        }
    );
}

#[rstest]
#[case::done(json!({"conditions": [{"type": "Complete", "status": "True"}], "failed": 9}), Outcome::Done)]
#[case::failed(json!({"conditions": [], "failed": 4}), Outcome::Failed)]
#[case::not_yet(json!({"conditions": [], "failed": 1}), Outcome::NotYet)]
#[case::failed_without_conditions(json!({"failed": 4}), Outcome::Failed)]
#[case::no_conditions(json!({"failed": 1}), Outcome::Unknown("condition: No such key: conditions".into()))]
#[case::no_failed(json!({"conditions": []}), Outcome::Unknown("failed: No such key: failed".into()))]
fn an_object_is_judged(#[case] status: Value, #[case] expected: Outcome) {
    let gate = compile(&json!({"kinds": [job()]})).unwrap();
    let rule = &gate.after().unwrap().rules()[0];
    assert_eq!(rule.judge(&json!({"status": status})), expected);
}
