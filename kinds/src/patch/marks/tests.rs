//! What nobody but Sluice writes into templates, case by case, with the whole message.

use rstest::rstest;
use serde_json::json;
use sluice_crds::QUEUE_GATE;

use super::*;
use crate::fixtures::{batch_job, deployment, deployment_kind, job_kind};

const GATED: &str = "kueue.x-k8s.io/scheduling-gated-by";
const LIST: &str = PROPAGATED_GATES_ANNOTATION;

type Pairs = &'static [(&'static str, &'static str)];

fn text(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect()
}

fn marked(mut object: Value, labels: Pairs, annotations: Pairs, gates: &[&str]) -> Value {
    let template = &mut object["spec"]["template"];
    let map = |pairs: Pairs| -> Value {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), json!(v)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    template["metadata"] = json!({"labels": map(labels), "annotations": map(annotations)});
    template["spec"]["schedulingGates"] = gates.iter().map(|name| json!({"name": name})).collect();
    object["metadata"]["annotations"] = json!({GATED: "own.io/g"});
    object
}

fn judge(
    kind: &sluice_crds::JobKind,
    old: Option<&Value>,
    new: &Value,
    hold: Option<Hold>,
) -> String {
    let kind = CompiledKind::compile(kind).unwrap();
    let mut problems = kind.check_no_record(old, new);
    problems.extend(kind.check_marks(Marking {
        old,
        new,
        hold,
        is_queued: false,
    }));
    text(&problems)
}

fn refused(field: &str) -> String {
    format!("spec.template.metadata.{field}: Forbidden: is set by Sluice alone")
}

const MANAGED: Pairs = &[(MANAGED_LABEL, "true")];
const SET: Pairs = &[(POD_SET_ANNOTATION, "main")];
const OWN: Pairs = &[(LIST, "own.io/g")];
const FOREIGN: Pairs = &[(LIST, "own.io/g,acme.io/x")];
const RECORD: Pairs = &[(ADMITTED_ANNOTATION, "{}")];
const IN_GROUP: Pairs = &[(POD_GROUP_LABEL, "g")];
const OF_GROUP: Pairs = &[(POD_GROUP_TOTAL_ANNOTATION, "1")];

#[rstest]
#[case::plain(&[], &[], "")]
#[case::own(&[], OWN, "")]
#[case::foreign(&[], FOREIGN, &refused("annotations[sluice.dev/propagated-gates]"))]
#[case::record(&[], RECORD, &refused("annotations[sluice.dev/admitted]"))]
#[case::copied_marks(MANAGED, SET, "")]
#[case::group(
    IN_GROUP,
    OF_GROUP,
    "spec.template.metadata.labels[sluice.dev/pod-group-name]: \
    Forbidden: the pods of this object are admitted with the object, not with a group"
)]
#[case::group_label_alone(IN_GROUP, &[], "")]
fn at_creation(#[case] labels: Pairs, #[case] annotations: Pairs, #[case] expected: &str) {
    let job = marked(batch_job(), labels, annotations, &["acme.io/x"]);
    assert_eq!(judge(&job_kind(), None, &job, Some(Hold::Pods)), expected);
    assert_eq!(
        judge(&job_kind(), Some(&job), &job, Some(Hold::Pods)),
        "",
        "what is stored may stay"
    );
}

#[rstest]
#[case::list(&[], &[], &[], FOREIGN, &refused("annotations[sluice.dev/propagated-gates]"))]
#[case::list_grown(&[], OWN, &[], FOREIGN, &refused("annotations[sluice.dev/propagated-gates]"))]
#[case::list_shrunk(&[], FOREIGN, &[], &[], "")]
#[case::record(&[], &[], &[], RECORD, &refused("annotations[sluice.dev/admitted]"))]
#[case::record_removed(&[], RECORD, &[], &[], "")]
#[case::pod_set(&[], &[], &[], SET, &refused("annotations[sluice.dev/pod-set]"))]
#[case::pod_set_removed(&[], SET, &[], &[], &refused("annotations[sluice.dev/pod-set]"))]
#[case::managed(&[], &[], MANAGED, &[], &refused("labels[sluice.dev/managed]"))]
#[case::unmanaged(MANAGED, &[], &[], &[], &refused("labels[sluice.dev/managed]"))]
fn edits_of_a_job(
    #[case] old_labels: Pairs,
    #[case] old_annotations: Pairs,
    #[case] labels: Pairs,
    #[case] annotations: Pairs,
    #[case] expected: &str,
) {
    let old = marked(batch_job(), old_labels, old_annotations, &["acme.io/x"]);
    let new = marked(batch_job(), labels, annotations, &["acme.io/x"]);
    for hold in [Hold::Suspend, Hold::EachPod, Hold::Pods] {
        assert_eq!(judge(&job_kind(), Some(&old), &new, Some(hold)), expected);
    }
}

/// Pods with the list would be taken for those of an object that gates alone held, and could grow.
#[test]
fn what_is_suspended_gets_no_list() {
    let old = marked(batch_job(), &[], &[], &[]);
    let new = marked(batch_job(), &[], OWN, &[]);
    let judge = |old, new| judge(&job_kind(), old, new, Some(Hold::Suspend));
    let expected = refused("annotations[sluice.dev/propagated-gates]");
    assert_eq!(judge(Some(&old), &new), expected);
    assert_eq!(judge(Some(&new), &new), "", "what is stored may stay");
    assert_eq!(judge(None, &new), "", "the mutating webhook removes it");
}

#[rstest]
#[case::pod_set(Some(Hold::Pods), &[], SET, "")]
#[case::pod_set_of_each(Some(Hold::EachPod), &[], SET, &refused("annotations[sluice.dev/pod-set]"))]
#[case::other_set(Some(Hold::Pods), &[], &[(POD_SET_ANNOTATION, "x")], &refused("annotations[sluice.dev/pod-set]"))]
#[case::managed(Some(Hold::EachPod), MANAGED, &[], "")]
#[case::managed_unheld(None, MANAGED, &[], &refused("labels[sluice.dev/managed]"))]
#[case::managed_badly(Some(Hold::EachPod), &[(MANAGED_LABEL, "x")], &[], &refused("labels[sluice.dev/managed]"))]
#[case::own_list(Some(Hold::EachPod), &[], OWN, "")]
#[case::listed(Some(Hold::EachPod), &[], FOREIGN, &refused("annotations[sluice.dev/propagated-gates]"))]
fn the_webhook_writes_into_a_deployment(
    #[case] hold: Option<Hold>,
    #[case] labels: Pairs,
    #[case] annotations: Pairs,
    #[case] expected: &str,
) {
    let old = marked(deployment(), &[], &[], &[]);
    let new = marked(deployment(), labels, annotations, &["acme.io/x"]);
    assert_eq!(judge(&deployment_kind(), Some(&old), &new, hold), expected);
}

#[test]
fn marks_go_with_what_held_the_object() {
    let old = marked(deployment(), MANAGED, SET, &[]);
    let new = marked(deployment(), &[], &[], &[]);
    assert_eq!(judge(&deployment_kind(), Some(&old), &new, None), "");
}

#[test]
fn the_queue_gate_comes_at_creation() {
    let old = marked(batch_job(), &[], &[], &[]);
    let new = marked(batch_job(), &[], &[], &[QUEUE_GATE]);
    let expected = "spec.template.spec.schedulingGates: Forbidden: the gate \
         \"sluice.dev/queue-allocation-gate\" may only be set at creation: it determines how the object is held";
    assert_eq!(
        judge(&job_kind(), Some(&old), &new, Some(Hold::Suspend)),
        expected
    );
    assert_eq!(judge(&job_kind(), Some(&new), &new, Some(Hold::Pods)), "");
    assert_eq!(judge(&job_kind(), None, &new, Some(Hold::Pods)), "");
    let (old, new) = (
        marked(deployment(), &[], &[], &[]),
        marked(deployment(), &[], &[], &[QUEUE_GATE]),
    );
    assert_eq!(
        judge(&deployment_kind(), Some(&old), &new, Some(Hold::EachPod)),
        ""
    );
}

/// Its pods would wait for that gate once it is admitted, and hold its quota.
#[test]
fn what_is_suspended_gets_no_gate_of_others() {
    let of = |gates: &[&str]| marked(batch_job(), &[], &[], gates);
    let judge =
        |old: &[&str], new: &[&str], hold| judge(&job_kind(), Some(&of(old)), &of(new), Some(hold));
    let refused = "spec.template.spec.schedulingGates: Forbidden: the gate \"acme.io/x\" may only be set at creation: it determines how the object is held";
    assert_eq!(judge(&[], &["acme.io/x"], Hold::Suspend), refused);
    let swapped = judge(&["acme.io/y"], &["acme.io/x"], Hold::Suspend);
    assert_eq!(swapped, refused);
    for (old, new, hold) in [
        (
            &["acme.io/x", "acme.io/y"][..],
            &["acme.io/y"][..],
            Hold::Suspend,
        ),
        (&["acme.io/x"], &["acme.io/x"], Hold::Suspend),
        (&[], &["acme.io/x"], Hold::Pods),
        (&[], &["acme.io/x"], Hold::EachPod),
    ] {
        assert_eq!(judge(old, new, hold), "", "{old:?} {new:?} {hold:?}");
    }
}

#[rstest]
#[case::own(json!({GATED: "own.io/g", LIST: "own.io/g"}), false)]
#[case::foreign(json!({GATED: "own.io/g", LIST: "own.io/g,acme.io/x"}), true)]
#[case::alone(json!({LIST: "acme.io/x"}), true)]
fn the_list_of_a_pod(#[case] annotations: Value, #[case] is_refused: bool) {
    let mut pod = json!({"metadata": {"annotations": annotations}});
    let expected =
        "metadata.annotations[sluice.dev/propagated-gates]: Forbidden: is set by Sluice alone";
    let problem = check_list_of_pod(&pod).map(|problem| problem.to_string());
    assert_eq!(problem.as_deref(), is_refused.then_some(expected));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true}]);
    assert_eq!(check_list_of_pod(&pod), None, "it came down");
}

#[test]
fn no_template_of_an_object_whose_pods_wait_may_let_them_run() {
    let kind = serde_json::from_value(json!({
        "metadata": {"name": "fleet"},
        "spec": {"group": "acme.io", "version": "v1", "kind": "Fleet", "suspend": ".spec.suspend",
            "active": "false",
            "podSets": [{"name": "role", "forEach": ".spec.roles", "template": ".template"}]},
    }));
    let kind = CompiledKind::compile(&kind.unwrap()).unwrap();
    let gated = json!({"template": {"spec": {"schedulingGates": [{"name": QUEUE_GATE}]}}});
    let open = json!({"template": {"spec": {}}});
    let old = json!({"spec": {"roles": {"a": gated, "b": gated}}});
    let cases = [
        ("as it was", json!({"a": gated, "b": gated}), vec![]),
        ("one less", json!({"a": gated}), vec![]),
        (
            "one more that waits",
            json!({"a": gated, "b": gated, "c": gated}),
            vec![],
        ),
        (
            "one more that does not",
            json!({"a": gated, "b": gated, "c": open}),
            vec!["spec.roles[c].template.spec.schedulingGates"],
        ),
        (
            "one that lost its gate",
            json!({"a": gated, "b": open}),
            vec!["spec.roles[b].template.spec.schedulingGates"],
        ),
    ];
    for (name, roles, expected) in cases {
        let new = json!({"spec": {"roles": roles}});
        let problems = kind.check_marks(Marking {
            old: Some(&old),
            new: &new,
            hold: Some(Hold::EachPod),
            is_queued: true,
        });
        let fields: Vec<_> = problems.iter().map(|p| p.field.as_str()).collect();
        assert_eq!(fields, expected, "{name}");
        for problem in problems {
            let text = problem.to_string();
            let rule = "Required value: must contain the gate \"sluice.dev/queue-allocation-gate\": the pods of this object wait in a queue";
            assert!(text.ends_with(rule), "{text}");
        }
    }
}

/// Nothing else makes its pods wait, so that it can't be suspended for the edit either.
#[test]
fn pods_that_are_always_queued_by_themselves_go_on_asking_for_it() {
    let kind = serde_json::from_value(json!({
        "metadata": {"name": "flow"},
        "spec": {"group": "acme.io", "version": "v1", "kind": "Flow", "suspend": ".spec.suspend",
            "active": "false",
            "admission": "PerPod", "podSets": [{"name": "steps", "podMetadata": ".spec.podMetadata"}]},
    }));
    let kind = CompiledKind::compile(&kind.unwrap()).unwrap();
    let flow = |suspend: bool, metadata: Value| json!({"spec": {"suspend": suspend, "podMetadata": metadata}});
    let asking = || json!({"annotations": {QUEUE_GATE: "true"}});
    let expected = "spec.podMetadata.annotations[sluice.dev/queue-allocation-gate]: Required value: must be \"true\": the pods of this object wait in a queue";
    for (was_suspended, is_suspended) in
        [(false, false), (false, true), (true, true), (true, false)]
    {
        let judge = |metadata, is_queued| {
            text(&kind.check_marks(Marking {
                old: Some(&flow(was_suspended, asking())),
                new: &flow(is_suspended, metadata),
                hold: Some(Hold::EachPod),
                is_queued,
            }))
        };
        assert_eq!(judge(Value::Null, true), expected);
        assert_eq!(
            judge(json!({"annotations": {QUEUE_GATE: "false"}}), true),
            expected
        );
        assert_eq!(judge(asking(), true), "");
        if was_suspended {
            assert_eq!(judge(Value::Null, false), "", "only gates hold it");
        }
    }
}
