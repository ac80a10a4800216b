//! How objects are held, case by case, and what goes into their templates.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use sluice_crds::{ADMISSION_ANNOTATION, AdmissionMode, QUEUE_GATE};

use super::*;
use crate::fixtures::{
    ALIAS, GATED, QUEUE, batch_job, deployment, deployment_kind, job_kind, queue_gates,
};
use crate::jobkind::hold::admission_mode;

const LIST: &str = "kueue.x-k8s.io/admission-gated-by";

type Pairs = &'static [(&'static str, &'static str)];

fn job() -> CompiledKind {
    compile(&job_kind())
}

fn deploy() -> CompiledKind {
    compile(&deployment_kind())
}

fn compile(kind: &sluice_crds::JobKind) -> CompiledKind {
    CompiledKind::compile(kind)
        .unwrap()
        .with_queue_gates(queue_gates())
}

/// What the annotation says that asks for a mode.
fn asked(annotations: &BTreeMap<String, String>) -> Option<&str> {
    annotations.get(ADMISSION_ANNOTATION).map(String::as_str)
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

/// `object` with these annotations and gates in its template.
fn with_template(mut object: Value, annotations: &[(&str, &str)], gates: &[&str]) -> Value {
    let template = &mut object["spec"]["template"];
    template["metadata"]["annotations"] = json!(map(annotations));
    template["spec"]["schedulingGates"] = gates.iter().map(|name| json!({"name": name})).collect();
    object
}

const PER_POD: Pairs = &[("sluice.dev/admission", "PerPod")];
const WHOLE: Pairs = &[("sluice.dev/admission", "Whole")];
const OPT_IN: Pairs = &[(QUEUE_GATE, "true")];
const LISTED: Pairs = &[("sluice.dev/propagated-gates", "a.io/x")];

#[rstest]
#[case::plain(&[], &[], &[], Hold::Suspend, Hold::EachPod)]
#[case::per_pod(PER_POD, &[], &[], Hold::EachPod, Hold::EachPod)]
#[case::whole(WHOLE, &[], &[], Hold::Suspend, Hold::Pods)]
#[case::opt_in(&[], OPT_IN, &[], Hold::EachPod, Hold::EachPod)]
#[case::opt_in_by_alias(&[], &[(ALIAS, "true")], &[], Hold::EachPod, Hold::EachPod)]
#[case::opted_out(&[], &[(QUEUE_GATE, "false")], &[], Hold::Suspend, Hold::EachPod)]
#[case::annotation_before_opt_in(WHOLE, OPT_IN, &[], Hold::Suspend, Hold::Pods)]
#[case::external(&[], &[], &["a.io/x"], Hold::Pods, Hold::EachPod)]
#[case::external_and_per_pod(PER_POD, &[], &["a.io/x"], Hold::EachPod, Hold::EachPod)]
#[case::external_and_whole(WHOLE, &[], &["a.io/x"], Hold::Pods, Hold::Pods)]
#[case::queue_gate_there(&[], &[], &[QUEUE_GATE], Hold::Pods, Hold::EachPod)]
#[case::bad_value_counts_as_none(&[("sluice.dev/admission", "x")], &[], &[], Hold::Suspend, Hold::EachPod)]
fn at_creation(
    #[case] annotations: Pairs,
    #[case] template: Pairs,
    #[case] gates: &[&str],
    #[case] of_job: Hold,
    #[case] of_deployment: Hold,
) {
    let annotations = map(annotations);
    let object = with_template(batch_job(), template, gates);
    assert_eq!(job().hold_at_creation(&object, asked(&annotations)), of_job);
    let object = with_template(deployment(), template, gates);
    assert_eq!(
        deploy().hold_at_creation(&object, asked(&annotations)),
        of_deployment
    );
}

#[rstest]
#[case::plain(&[], &[], &[], Hold::Suspend, Hold::EachPod)]
#[case::per_pod_without_gates(PER_POD, &[], &[], Hold::Suspend, Hold::EachPod)]
#[case::external_alone(&[], &[], &["a.io/x"], Hold::Suspend, Hold::EachPod)]
#[case::queue_gate(&[], &[], &[QUEUE_GATE], Hold::Pods, Hold::EachPod)]
#[case::queue_gate_whole(WHOLE, &[], &[QUEUE_GATE], Hold::Pods, Hold::Pods)]
#[case::queue_gate_opt_in(&[], OPT_IN, &[QUEUE_GATE], Hold::EachPod, Hold::EachPod)]
#[case::queue_gate_alias(&[], &[(ALIAS, "true")], &[ALIAS], Hold::EachPod, Hold::EachPod)]
#[case::propagated(&[], LISTED, &["a.io/x"], Hold::Pods, Hold::EachPod)]
#[case::propagated_per_pod(PER_POD, LISTED, &["a.io/x"], Hold::EachPod, Hold::EachPod)]
#[case::listed_without_the_gate(&[], LISTED, &[], Hold::Suspend, Hold::EachPod)]
#[case::listed_beside_another_gate(&[], LISTED, &["b.io/y"], Hold::Suspend, Hold::EachPod)]
fn stored(
    #[case] annotations: Pairs,
    #[case] template: Pairs,
    #[case] gates: &[&str],
    #[case] of_job: Hold,
    #[case] of_deployment: Hold,
) {
    let annotations = map(annotations);
    let object = with_template(batch_job(), template, gates);
    assert_eq!(job().hold(&object, asked(&annotations)), of_job);
    assert_eq!(job().gates_pods(&object), of_job != Hold::Suspend);
    let object = with_template(deployment(), template, gates);
    assert_eq!(deploy().hold(&object, asked(&annotations)), of_deployment);
}

#[rstest]
#[case::own(&[QUEUE_GATE], true)]
#[case::alias(&["a.io/x", ALIAS], true)]
#[case::external(&["a.io/x"], false)]
#[case::none(&[], false)]
fn gated(#[case] gates: &[&str], #[case] expected: bool) {
    let object = with_template(deployment(), &[], gates);
    assert_eq!(deploy().is_gated(&object), expected);
    assert!(!deploy().is_gated(&json!({})), "no template, no gate");
}

/// A Deployment with these labels and annotations, and what becomes of its template.
fn template(
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
    object: Value,
    hold: Hold,
) -> Value {
    template_after(None, labels, annotations, object, hold)
}

/// The same of an edit, if there is an `old` object.
fn template_after(
    old: Option<&Value>,
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
    object: Value,
    hold: Hold,
) -> Value {
    let mut object = object;
    object["metadata"]["labels"] = json!(map(labels));
    object["metadata"]["annotations"] = json!(map(annotations));
    let queue_labels = QueueLabels::default();
    let aliases = KeyAliases::default();
    let queue = label(&object, QUEUE).map(|queue| (QUEUE.to_owned(), queue.to_owned()));
    let waiting = Waiting {
        hold,
        old,
        queue: queue.as_ref().map(|(k, v)| (k.as_str(), v.as_str())),
        queue_labels: &queue_labels,
        key_aliases: &aliases,
    };
    let patch = deploy().gate_patch(&object, waiting);
    json_patch::patch(&mut object, &patch).unwrap();
    assert!(
        deploy().gate_patch(&object, waiting).is_empty(),
        "twice is once"
    );
    object["spec"]["template"].take()
}

#[test]
fn each_pod_in_a_queue() {
    let object = with_template(deployment(), &[("a", "b")], &["acme.io/x"]);
    let labels = [(QUEUE, "team"), ("sluice.dev/priority-class", "high")];
    let template = template(&labels, &[(GATED, "a.io/y")], object, Hold::EachPod);
    assert_eq!(
        template["metadata"],
        json!({
            "labels": {"app": "d", QUEUE: "team", "sluice.dev/priority-class": "high",
                "sluice.dev/managed": "true"},
            "annotations": {"a": "b", QUEUE_GATE: "true", "sluice.dev/propagated-gates": "a.io/y"},
        })
    );
    assert_eq!(
        template["spec"]["schedulingGates"],
        json!([{"name": "acme.io/x"}, {"name": QUEUE_GATE}, {"name": "a.io/y"}])
    );
}

#[test]
fn what_the_template_says_of_its_pods_itself_counts() {
    let mut object = with_template(deployment(), &[(ALIAS, "true")], &[]);
    object["spec"]["template"]["metadata"]["labels"] =
        json!({QUEUE: "own", "sluice.dev/priority-class": "low"});
    let labels = [(QUEUE, "team"), ("sluice.dev/priority-class", "high")];
    let template = template(&labels, &[], object, Hold::EachPod);
    assert_eq!(
        template["metadata"]["labels"],
        json!({QUEUE: "own", "sluice.dev/priority-class": "low", "sluice.dev/managed": "true"})
    );
    assert_eq!(template["metadata"]["annotations"], json!({ALIAS: "true"}));
    assert_eq!(
        template["spec"]["schedulingGates"],
        json!([{"name": ALIAS}])
    );
}

#[test]
fn all_pods_in_a_queue() {
    let template = template(&[(QUEUE, "team")], &[], deployment(), Hold::Pods);
    assert_eq!(
        template["metadata"],
        json!({
            "labels": {"app": "d", "sluice.dev/managed": "true"},
            "annotations": {"sluice.dev/pod-set": "main"},
        })
    );
    assert_eq!(
        template["spec"]["schedulingGates"],
        json!([{"name": QUEUE_GATE}])
    );
}

#[rstest]
#[case::each_pod(Hold::EachPod, json!({"sluice.dev/propagated-gates": "a.io/x,b.io/y"}))]
#[case::pods(Hold::Pods, json!({"sluice.dev/propagated-gates": "a.io/x,b.io/y",
    "sluice.dev/pod-set": "main"}))]
fn gates_without_a_queue(#[case] hold: Hold, #[case] annotations: Value) {
    let template = template(&[], &[(LIST, "b.io/y, a.io/x")], deployment(), hold);
    assert_eq!(template["metadata"]["annotations"], annotations);
    assert_eq!(
        template["spec"]["schedulingGates"],
        json!([{"name": "a.io/x"}, {"name": "b.io/y"}])
    );
}

#[test]
fn gates_that_went_stay_listed_while_the_template_has_them() {
    let object = with_template(
        deployment(),
        &[("sluice.dev/propagated-gates", "a.io/x,gone.io/z")],
        &["a.io/x"],
    );
    let template = |old: Option<&Value>| {
        let object = object.clone();
        template_after(old, &[], &[(GATED, "b.io/y")], object, Hold::EachPod)
    };
    assert_eq!(
        template(Some(&object))["metadata"]["annotations"],
        json!({"sluice.dev/propagated-gates": "a.io/x,b.io/y"})
    );
    // Not what its user writes, at creation or later.
    for old in [None, Some(&deployment())] {
        assert_eq!(
            template(old)["metadata"]["annotations"],
            json!({"sluice.dev/propagated-gates": "b.io/y"})
        );
    }
}

#[test]
fn a_list_that_a_user_wrote_goes() {
    for hold in [Hold::Suspend, Hold::Pods, Hold::EachPod] {
        let object = with_template(deployment(), LISTED, &["a.io/x"]);
        let template = template(&[(QUEUE, "team")], &[], object, hold);
        let list = template["metadata"]["annotations"].get("sluice.dev/propagated-gates");
        assert_eq!(list, None, "{hold:?}");
        assert_eq!(
            template["spec"]["schedulingGates"][0],
            json!({"name": "a.io/x"}),
            "the gate stays"
        );
    }
}

#[test]
fn nothing_goes_into_the_template_of_what_is_suspended() {
    let before = deployment()["spec"]["template"].clone();
    let template = template(
        &[(QUEUE, "team")],
        &[(GATED, "a.io/x")],
        deployment(),
        Hold::Suspend,
    );
    assert_eq!(template, before);
}

#[test]
fn a_template_that_asks_for_each_pod_does_not_go_with_a_whole_object() {
    let object = with_template(deployment(), OPT_IN, &[]);
    let problems = deploy().check_whole(&object);
    assert_eq!(
        problems[0].to_string(),
        "spec.template.metadata.annotations[sluice.dev/queue-allocation-gate]: Forbidden: requires that each pod is admitted by itself, but this object is admitted as a whole; to change that, create the object with the annotation sluice.dev/admission: \"PerPod\""
    );
    assert_eq!(deploy().check_whole(&deployment()), vec![]);
}

#[test]
fn modes() {
    assert_eq!(admission_mode("Whole"), Ok(AdmissionMode::Whole));
    assert_eq!(admission_mode("PerPod"), Ok(AdmissionMode::PerPod));
    assert_eq!(
        admission_mode("x").unwrap_err().to_string(),
        "metadata.annotations[sluice.dev/admission]: Unsupported value: \"x\": supported values: \
         \"PerPod\", \"Whole\""
    );
}

proptest! {
    #[test]
    fn creating_and_storing_agree(
        mode in prop_oneof![Just(None), Just(Some("Whole")), Just(Some("PerPod"))],
        is_queued: bool,
        is_gated: bool,
        is_opted_in: bool,
        carried in proptest::collection::vec(
            prop_oneof![Just("a.io/x"), Just("b.io/x"), Just(QUEUE_GATE), Just(ALIAS)], 0..3),
        is_job: bool,
    ) {
        prop_assume!(is_queued || is_gated);
        // Refused by check_whole.
        prop_assume!(!(is_opted_in && mode == Some("Whole")));
        let (kind, object) = if is_job { (job(), batch_job()) } else { (deploy(), deployment()) };
        let opt_in: &[(&str, &str)] = if is_opted_in { OPT_IN } else { &[] };
        let mut object = with_template(object, opt_in, &carried);
        let mut annotations = BTreeMap::new();
        if let Some(mode) = mode {
            annotations.insert("sluice.dev/admission".to_owned(), mode.to_owned());
        }
        if is_gated {
            annotations.insert(GATED.to_owned(), "c.io/z".to_owned());
        }
        object["metadata"]["annotations"] = json!(annotations);
        let hold = kind.hold_at_creation(&object, asked(&annotations));
        let queue_labels = QueueLabels::default();
        let aliases = KeyAliases::default();
        let waiting = Waiting {
            hold,
            old: None,
            queue: is_queued.then_some((QUEUE, "q")),
            queue_labels: &queue_labels,
            key_aliases: &aliases,
        };
        let patch = kind.gate_patch(&object, waiting);
        json_patch::patch(&mut object, &patch).unwrap();
        prop_assert!(kind.gate_patch(&object, waiting).is_empty());
        prop_assert_eq!(kind.hold_at_creation(&object, asked(&annotations)), hold);
        let stored = kind.hold(&object, asked(&annotations));
        // Without a queue and held as a whole or by each pod, the two are one.
        if is_queued || hold == Hold::Suspend {
            prop_assert_eq!(stored, hold);
        } else {
            prop_assert!(stored != Hold::Suspend || !is_gated);
        }
    }
}

/// A kind whose pods get their metadata from the object, and which can be suspended.
fn workflow() -> CompiledKind {
    let kind = json!({
        "metadata": {"name": "workflow"},
        "spec": {"group": "acme.io", "version": "v1", "kind": "Workflow", "suspend": ".spec.suspend",
            "active": "false", "admission": "PerPod",
            "podSets": [{"name": "steps", "podMetadata": ".spec.podMetadata"}]},
    });
    compile(&serde_json::from_value(kind).unwrap())
}

#[test]
fn pods_of_which_only_the_metadata_is_written_ask_to_be_queued() {
    let kind = workflow();
    let labels = QueueLabels::default();
    let aliases = KeyAliases::default();
    let waiting = |hold| Waiting {
        hold,
        old: None,
        queue: Some((QUEUE, "a")),
        queue_labels: &labels,
        key_aliases: &aliases,
    };
    for (name, metadata) in [
        ("none", Value::Null),
        ("empty", json!({})),
        (
            "others",
            json!({"labels": {"a": "b"}, "annotations": {"c": "d"}}),
        ),
    ] {
        let mut object = json!({"metadata": {"annotations": {LIST: "acme.io/x"}}, "spec": {}});
        if !metadata.is_null() {
            object["spec"]["podMetadata"] = metadata;
        }
        assert!(!kind.is_gated(&object), "{name}");
        assert_eq!(
            kind.hold_at_creation(&object, asked(&map(WHOLE))),
            Hold::EachPod,
            "{name}"
        );
        let patch = kind.gate_patch(&object, waiting(Hold::EachPod));
        json_patch::patch(&mut object, &patch).unwrap();
        let got = &object["spec"]["podMetadata"];
        assert_eq!(got["labels"][QUEUE], "a", "{name}");
        assert_eq!(got["annotations"][QUEUE_GATE], "true", "{name}");
        assert!(
            got["annotations"]
                .get("sluice.dev/propagated-gates")
                .is_none(),
            "{name}"
        );
        assert!(object["spec"].get("schedulingGates").is_none(), "{name}");
        assert!(kind.is_gated(&object), "{name}");
        assert_eq!(
            kind.hold(&object, asked(&map(&[]))),
            Hold::EachPod,
            "{name}"
        );
        assert!(
            kind.gate_patch(&object, waiting(Hold::EachPod)).is_empty(),
            "{name}"
        );
    }
    assert!(kind.is_suspended_by_gates());
    assert_eq!(
        kind.check_mode(AdmissionMode::Whole).unwrap().to_string(),
        "metadata.annotations[sluice.dev/admission]: Invalid value: \"Whole\": must be \"PerPod\": the requests of a Workflow are known only from its pods"
    );
}

#[test]
fn a_template_that_is_not_there_is_made_to_hold_its_pods() {
    let kind = json!({
        "metadata": {"name": "app"},
        "spec": {"group": "acme.io", "version": "v1", "kind": "App", "admission": "PerPod",
            "podSets": [{"name": "driver", "template": ".spec.driver.template", "whenAbsent": "Create"}]},
    });
    let kind = compile(&serde_json::from_value(kind).unwrap());
    let mut object =
        json!({"metadata": {"annotations": {LIST: "acme.io/x"}}, "spec": {"driver": {"cores": 1}}});
    let labels = QueueLabels::default();
    let aliases = KeyAliases::default();
    let waiting = Waiting {
        hold: Hold::EachPod,
        old: None,
        queue: Some((QUEUE, "a")),
        queue_labels: &labels,
        key_aliases: &aliases,
    };
    let patch = kind.gate_patch(&object, waiting);
    json_patch::patch(&mut object, &patch).unwrap();
    let template = &object["spec"]["driver"]["template"];
    assert_eq!(
        template["spec"],
        json!({"schedulingGates": [{"name": QUEUE_GATE}, {"name": "acme.io/x"}]})
    );
    assert_eq!(template["metadata"]["labels"]["sluice.dev/managed"], "true");
    assert_eq!(object["spec"]["driver"]["cores"], 1);
    assert!(kind.gate_patch(&object, waiting).is_empty());
}
