//! Which pod sets are found in objects of made-up kinds, and what is said of those that do not fit.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::jobkind::hold::Hold;
use crate::jobkind::kind::CompiledKind;
use crate::patch::{Placing, Target, Waiting};
use crate::read::aliases::KeyAliases;
use crate::read::requests::PodDefaults;
use crate::read::suspension::MarkAt;
use crate::read::template::Placement;
use crate::read::view::QueueLabels;

fn kind(rules: &Value) -> CompiledKind {
    let kind = serde_json::from_value(json!({
        "metadata": {"name": "fleet"},
        "spec": {"group": "acme.io", "version": "v1", "kind": "Fleet", "suspend": ".spec.suspend",
            "active": "false", "podSets": rules},
    }));
    CompiledKind::compile(&kind.unwrap()).unwrap()
}

fn template(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// The sets as `name ×count`, or what is wrong.
fn sets(rules: &Value, spec: &Value) -> Vec<String> {
    match kind(rules).pod_sets(&json!({"spec": spec}), &PodDefaults::default()) {
        Ok(sets) => {
            let sets = sets.iter();
            sets.map(|set| format!("{} x{}", set.name, set.count))
                .collect()
        }
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

fn of_map() -> Value {
    json!([{"name": "role", "forEach": ".spec.roles", "template": ".template",
        "count": "has(item.replicas) ? int(item.replicas) : 1"}])
}

fn of_list() -> Value {
    json!([
        {"name": "head", "template": ".spec.head", "whenAbsent": "Skip"},
        {"name": "group", "forEach": ".spec.groups", "nameFrom": ".groupName", "template": ".template",
            "whenAbsent": "Skip", "count": "item.replicas * object.spec.factor", "reclaimable": "key"},
    ])
}

#[rstest]
#[case::a_map(of_map(), json!({"roles": {
    "Worker": {"replicas": "3", "template": template("1")},
    "Master": {"template": template("1")}}}), &["master x1", "worker x3"])]
#[case::an_empty_map(of_map(), json!({"roles": {}}),
    &["spec.roles: Required value: must have at least one element: its JobKind reads the pod sets from here"])]
#[case::no_map(of_map(), json!({}),
    &["spec.roles: Required value: its JobKind reads the pod sets from here"])]
#[case::no_map_but_a_text(of_map(), json!({"roles": "x"}),
    &["spec.roles: Invalid value: \"\\\"x\\\"\": must be a list or a map, as its JobKind says"])]
#[case::no_template(of_map(), json!({"roles": {"Worker": {}}}),
    &["spec.roles[Worker].template: Required value: its JobKind reads a pod template from here"])]
#[case::a_text_for_a_template(of_map(), json!({"roles": {"Worker": {"template": "x"}}}),
    &["spec.roles[Worker].template: Required value: its JobKind reads a pod template from here"])]
#[case::no_number(of_map(), json!({"roles": {"W": {"replicas": "many", "template": template("1")}}}),
    &["the count of pod set \"w\": Forbidden: the expression does not fit this object: Error executing function 'int': string parse error: invalid digit found in string"])]
#[case::a_negative_number(of_map(), json!({"roles": {"W": {"replicas": -1, "template": template("1")}}}),
    &["the count of pod set \"w\": Invalid value: \"-1\": must be between 0 and 2147483647"])]
#[case::a_list(of_list(), json!({"factor": 2, "head": template("1"), "groups": [
    {"groupName": "Small", "replicas": 1, "template": template("1")},
    {"groupName": "big", "replicas": 2, "template": template("8")}]}),
    &["head x1", "small x2", "big x4"])]
#[case::nothing_at_all(of_list(), json!({}), &[])]
#[case::the_same_name_twice(of_list(), json!({"factor": 1, "head": template("1"), "groups": [
    {"groupName": "head", "replicas": 1, "template": template("1")}]}),
    &["the name of the pod set at spec.groups[0].template: Duplicate value: \"head\""])]
#[case::no_name(of_list(), json!({"factor": 1, "groups": [{"replicas": 1, "template": template("1")}]}),
    &["spec.groups[0].groupName: Required value: its JobKind reads the name of a pod set from here"])]
fn sets_are_found(#[case] rules: Value, #[case] spec: Value, #[case] expected: &[&str]) {
    assert_eq!(sets(&rules, &spec), expected);
}

#[test]
fn a_name_must_be_a_label() {
    for name in ["a_b", "-a", "a.b", "ä", &"x".repeat(64), ""] {
        let groups = json!([{"groupName": name, "replicas": 1, "template": template("1")}]);
        let told = sets(&of_list(), &json!({"factor": 1, "groups": groups})).join("; ");
        assert!(
            told.starts_with("spec.groups[0].groupName: Invalid value:"),
            "{name}: {told}"
        );
    }
}

#[test]
fn there_are_not_more_sets_than_a_workload_holds() {
    let group = |index: usize| json!({"groupName": format!("g{index}"), "replicas": 1, "template": template("1")});
    let groups = |count: usize| -> Value { (0..count).map(group).collect() };
    let of = |count: usize| {
        let spec = json!({"factor": 1, "head": template("1"), "groups": groups(count)});
        sets(&of_list(), &spec)
    };
    assert_eq!(of(63).len(), 64);
    assert_eq!(
        of(64),
        ["its pod sets: Too many: 65: an object must have at most 64 pod sets"]
    );
    assert_eq!(
        of(65),
        ["spec.groups: Too many: 65: must have at most 64 elements"]
    );
}

#[test]
fn no_more_can_be_reclaimed_than_there_is() {
    let group = json!({"replicas": 1, "template": template("1")});
    let mut groups = vec![group; 3];
    for (index, group) in groups.iter_mut().enumerate() {
        group["groupName"] = json!(format!("g{index}"));
    }
    let object = json!({"spec": {"factor": 1, "groups": groups}});
    let sets = kind(&of_list())
        .pod_sets(&object, &PodDefaults::default())
        .unwrap();
    let reclaimable: Vec<_> = sets.iter().map(|set| set.reclaimable).collect();
    assert_eq!(reclaimable, [0, 1, 1]);
}

fn wrapper() -> (CompiledKind, Value) {
    let rules = json!([{"name": "c", "forEach": ".spec.components[].podSets", "templateFrom": ".path",
        "podInfos": ".podSetInfos", "count": "has(item.replicas) ? item.replicas : 1"}]);
    let object = json!({
        "metadata": {"uid": "u1", "generation": 1, "annotations": {}},
        "spec": {"suspend": true, "components": [
            {"podSets": [{"path": "template.spec.template", "replicas": 2}],
                "template": {"spec": {"template": template("1")}}},
            {"podSets": [{"path": "template.a"}, {"path": "template.b"}],
                "podSetInfos": [{"labels": {"own": "x"}}, {}],
                "template": {"a": template("1"), "b": template("2")}},
        ]},
    });
    (kind(&rules), object)
}

#[test]
fn templates_that_cannot_be_changed_are_placed_beside() {
    let (kind, mut object) = wrapper();
    object["spec"]["components"][1]["template"]["b"]["spec"]["nodeSelector"] =
        json!({"disk": "ssd"});
    let before = object.clone();
    let target = Target {
        uid: "u1",
        generation: Some(1),
    };
    let spot = Placement::read(&json!({"nodeSelector": {"spot": "true"}}), "spec").unwrap();
    let read = |object: &Value| kind.pod_sets(object, &PodDefaults::default()).unwrap();
    let clean = read(&object);
    let names: Vec<_> = clean.iter().map(|set| (&*set.name, set.count)).collect();
    assert_eq!(names, [("c-0-0", 2), ("c-1-0", 1), ("c-1-1", 1)]);

    let placings: Vec<_> = clean
        .iter()
        .map(|set| Placing {
            set,
            to: set.placement.with(&spot),
            count: set.count,
        })
        .collect();
    json_patch::patch(
        &mut object,
        &kind.release_patch(target, &placings, MarkAt::Annotations),
    )
    .unwrap();
    let of = |name: &str| {
        json!({"labels": {"sluice.dev/managed": "true"},
            "annotations": {"sluice.dev/pod-set": name}, "nodeSelector": {"spot": "true"}})
    };
    let mut expected = before.clone();
    expected["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
    expected["spec"]["suspend"] = json!(false);
    expected["spec"]["components"][0]["podSetInfos"] = json!([of("c-0-0")]);
    expected["spec"]["components"][1]["podSetInfos"] = json!([of("c-1-0"), of("c-1-1")]);
    expected["spec"]["components"][1]["podSetInfos"][0]["labels"]["own"] = json!("x");
    assert_eq!(object, expected);

    object["spec"]["suspend"] = json!(true);
    let placed = read(&object);
    let placings: Vec<_> = placed
        .iter()
        .zip(&clean)
        .map(|(set, clean)| Placing {
            set,
            to: clean.placement.clone(),
            count: set.count,
        })
        .collect();
    json_patch::patch(&mut object, &kind.place_patch(target, &placings)).unwrap();
    for info in object["spec"]["components"][1]["podSetInfos"]
        .as_array()
        .unwrap()
    {
        assert!(info.get("nodeSelector").is_none(), "{info}");
    }
}

#[test]
fn what_is_taken_out_beside_a_template_is_there() {
    let (kind, mut object) = wrapper();
    let listed = json!({"sluice.dev/propagated-gates": "acme.io/x"});
    for spec in [json!({}), json!("x"), Value::Null] {
        let template = json!({"metadata": {"annotations": listed}, "spec": spec});
        object["spec"]["components"][1]["template"]["a"] = template;
        object["spec"]["components"][1]["podSetInfos"][1]["annotations"] = listed.clone();
        let waiting = Waiting {
            hold: Hold::Suspend,
            old: None,
            queue: None,
            queue_labels: &QueueLabels::default(),
            key_aliases: &KeyAliases::default(),
        };
        let mut patched = object.clone();
        json_patch::patch(&mut patched, &kind.gate_patch(&object, waiting)).unwrap();
        let mut expected = object.clone();
        expected["spec"]["components"][1]["podSetInfos"][1]["annotations"] = json!({});
        assert_eq!(patched, expected, "{spec}");
    }
}

#[test]
fn the_path_in_an_object_is_a_path() {
    let (kind, object) = wrapper();
    let cases = [
        (
            json!("template.nowhere"),
            "spec.components[0].template.nowhere: Required value: its JobKind reads a pod template from here",
        ),
        (
            json!("template[*].x"),
            "spec.components[0].podSets[0].path: Invalid value: \"template[*].x\": must be field names with dots between them, with the places in lists in brackets (such as \"template.spec.jobs[0].template\")",
        ),
        (
            json!(7),
            "spec.components[0].podSets[0].path: Required value: its JobKind reads the path of a pod template from here",
        ),
    ];
    for (path, expected) in cases {
        let mut object = object.clone();
        object["spec"]["components"][0]["podSets"][0]["path"] = path;
        let problems = kind.pod_sets(&object, &PodDefaults::default()).unwrap_err();
        assert_eq!(problems[0].to_string(), expected);
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z.]{0,12}".prop_map(Value::from),
        Just(template("1")),
    ];
    let names = prop_oneof![
        Just("spec"),
        Just("roles"),
        Just("groups"),
        Just("head"),
        Just("components"),
        Just("podSets"),
        Just("podSetInfos"),
        Just("path"),
        Just("template"),
        Just("replicas"),
        Just("groupName"),
        Just("metadata"),
        Just("labels"),
        Just("containers"),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    /// Whatever an object holds, reading it ends with sets or with problems, and a patch for what was
    /// read applies.
    #[test]
    fn any_object_is_read_or_refused(spec in value()) {
        let object = json!({"metadata": {"uid": "u1", "annotations": {}}, "spec": spec});
        for kind in [kind(&of_map()), kind(&of_list()), wrapper().0] {
            match kind.pod_sets(&object, &PodDefaults::default()) {
                Err(problems) => prop_assert!(!problems.is_empty()),
                Ok(sets) if object["spec"].is_object() => {
                    let mut object = object.clone();
                    object["spec"]["suspend"] = json!(true);
                    let target = Target { uid: "u1", generation: None };
                    let placings: Vec<_> = sets
                        .iter()
                        .map(|set| Placing { set, to: set.placement.clone(), count: set.count })
                        .collect();
                    let patch = kind.release_patch(target, &placings, MarkAt::Annotations);
                    let applied = json_patch::patch(&mut object, &patch);
                    prop_assert!(applied.is_ok(), "{applied:?} of {patch}");
                }
                Ok(_) => {}
            }
        }
    }
}

#[rstest]
#[case::no_field(
    &json!({"name": "main", "template": ".spec.template", "partialAdmission":
        {"annotation": "acme.io/least", "field": "spec.size"}}),
    "spec.podSets[0].partialAdmission.field: Invalid value: \"spec.size\": must start with a dot (such as \".spec.suspend\")"
)]
#[case::no_annotation(
    &json!({"name": "main", "template": ".spec.template", "partialAdmission":
        {"annotation": "acme.io/a/b", "field": ".spec.size"}}),
    "spec.podSets[0].partialAdmission.annotation: Invalid value: \"acme.io/a/b\": must be the key of an annotation (such as \"sluice.dev/min-parallelism\")"
)]
#[case::many_sets(
    &json!({"name": "main", "forEach": ".spec.roles", "template": ".template", "partialAdmission":
        {"annotation": "acme.io/least", "field": ".spec.size"}}),
    "spec.podSets[0].partialAdmission: Forbidden: requires template and forbids forEach: one annotation can't give a number for each of many pod sets"
)]
fn who_says_that_fewer_pods_will_do(#[case] rule: &Value, #[case] expected: &str) {
    let kind = serde_json::from_value(json!({
        "metadata": {"name": "fleet"},
        "spec": {"group": "acme.io", "version": "v1", "kind": "Fleet", "suspend": ".spec.suspend",
            "active": "false", "podSets": [rule]},
    }));
    let problems = CompiledKind::compile(&kind.unwrap()).unwrap_err();
    let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(told, [expected]);
}
