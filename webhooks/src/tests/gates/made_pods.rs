//! Gates that apply to a queue which only a pod template names: on objects of managed kinds, and for those that make pods
//! and are not managed.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::{AppliedKind, AppliesTo, Lifting};
use sluice_gates::CompiledAppliesTo;
use sluice_kinds::aliases::{KeyAliases, MetadataKey};
use sluice_kinds::gates::Gate;

use crate::Permission;
use crate::tests::gates::applies::{budget, gates_of, policy_of};
use crate::tests::gates::lift::judge_by;
use crate::tests::*;

const VOLCANO: &str = "scheduling.volcano.sh/queue-name";
const DEPLOYMENT_CONTROLLER: &str = "system:serviceaccount:kube-system:deployment-controller";
const BUDGET: &str = "ann n budget.acme.io";

fn of_gold() -> AppliesTo {
    AppliesTo {
        queues: vec!["gold".to_owned()],
        ..AppliesTo::default()
    }
}

fn when(source: &str) -> AppliesTo {
    AppliesTo {
        when: Some(source.to_owned()),
        ..AppliesTo::default()
    }
}

/// A policy with an annotation that names a queue besides the label.
fn by(applies_to: AppliesTo) -> Policy {
    let own = MetadataKey::Label(QUEUE.to_owned());
    let other = MetadataKey::Annotation(VOLCANO.to_owned());
    budget(applies_to).with_key_aliases(KeyAliases::new([(own, vec![other])]))
}

/// `object` with this metadata in its template.
fn template(object: Value, metadata: Value) -> Value {
    with(object, "/spec/template/metadata", metadata)
}

fn labelled(object: Value, queue: &str) -> Value {
    template(object, json!({"labels": {QUEUE: queue}}))
}

fn job() -> Value {
    mk_job(&[], &[], false)
}

#[rstest]
#[case::job(labelled(job(), "gold"), true)]
#[case::deployment(labelled(mk_deployment(&[], &[]), "gold"), true)]
#[case::deployment_of_single_pods(labelled(mk_deployment(&[], &[("sluice.dev/admission", "PerPod")]), "gold"), true)]
#[case::by_an_alias(template(job(), json!({"labels": {ALIAS: "gold"}})), true)]
#[case::by_an_annotation(template(job(), json!({"annotations": {VOLCANO: "gold"}})), true)]
#[case::another_queue(labelled(job(), "silver"), false)]
#[case::no_queue(job(), false)]
#[case::of_an_object_in_another_queue(labelled(mk_deployment(&[(QUEUE, "silver")], &[]), "gold"), true)]
#[case::in_the_queue_of_the_object(labelled(mk_deployment(&[(QUEUE, "gold")], &[]), "silver"), true)]
fn an_object_is_in_the_queues_of_its_templates_too(#[case] object: Value, #[case] gated: bool) {
    for applies_to in [
        of_gold(),
        when("queue == 'gold'"),
        when("queue.startsWith('g')"),
    ] {
        let stored = created_by(USER, &object, &by(applies_to)).0;
        assert_eq!(gates_of(&stored).is_some(), gated, "{stored}");
    }
}

#[test]
fn each_queue_of_its_templates_counts() {
    let job_kind = json!({"metadata": {"name": "train"}, "spec": {"group": "acme.io", "version": "v1",
        "kind": "Train", "suspend": ".spec.suspend", "active": "false",
        "podSets": [{"name": "a", "forEach": ".spec.roles", "template": ".template", "count": "1"}]}});
    let kind = CompiledKind::compile(&serde_json::from_value(job_kind).unwrap()).unwrap();
    let pod = |queue: &str| {
        json!({"template": {"metadata": {"labels": {QUEUE: queue}},
            "spec": {"containers": [{"name": "c"}]}}})
    };
    let train = |queues: &[&str]| {
        let roles: Vec<_> = queues.iter().map(|queue| pod(queue)).collect();
        json!({"apiVersion": "acme.io/v1", "kind": "Train", "metadata": {"name": "t", "namespace": "n"},
            "spec": {"suspend": false, "roles": roles}})
    };
    let gate = Gate::parse("acme.io/budget", "").unwrap();
    let applies_to = Arc::new(CompiledAppliesTo::or_wider(&of_gold()));
    let policy = Policy::new([Arc::new(kind)], QueueLabels::default(), SLUICE)
        .with_applied([(gate, applies_to)], Arc::new(surroundings()));
    for (queues, gated) in [
        (&["silver", "gold"][..], true),
        (&["gold"], true),
        (&["silver", "bronze"], false),
        (&[], false),
    ] {
        let request = mk_request(USER, None, &train(queues));
        let verdict = crate::review::mutate(&request, &policy);
        assert!(verdict.is_allowed(), "{}", verdict.message());
        assert_eq!(!verdict.patch.is_empty(), gated, "{queues:?}");
    }
}

#[rstest]
#[case::joins(labelled(mk_deployment(&[], &[]), "silver"), labelled(mk_deployment(&[], &[]), "gold"), &[BUDGET])]
#[case::had_none(mk_deployment(&[], &[]), labelled(mk_deployment(&[], &[]), "gold"), &[BUDGET])]
#[case::was_there(labelled(mk_deployment(&[], &[]), "gold"),
    with(labelled(mk_deployment(&[], &[]), "gold"), "/spec/replicas", json!(9)), &[])]
#[case::joins_besides_its_own(labelled(mk_deployment(&[(QUEUE, "silver")], &[]), "silver"),
    labelled(mk_deployment(&[(QUEUE, "silver")], &[]), "gold"), &[BUDGET])]
#[case::loses_its_own_label(labelled(mk_deployment(&[(QUEUE, "silver")], &[]), "gold"),
    labelled(mk_deployment(&[], &[]), "gold"), &[])]
fn an_edit_of_the_template_needs_the_right_to_lift(
    #[case] old: Value,
    #[case] new: Value,
    #[case] expected: &[&str],
) {
    let (_, asked) = judge_by(&by(of_gold()), USER, Permission::Allowed, Some(&old), &new);
    assert_eq!(asked, expected);
}

/// Pods have the priority of the class that their template names, in whichever way.
#[test]
fn an_object_has_the_priority_of_its_pods() {
    let policy = by(when("priority >= 1000"));
    let classed = |object: Value, class: &str| {
        with(
            object,
            "/spec/template/spec/priorityClassName",
            json!(class),
        )
    };
    let deployment = || labelled(mk_deployment(&[], &[]), "gold");
    let low = json!({"labels": {QUEUE: "gold", "sluice.dev/priority-class": "low"}});
    for (object, expected) in [
        (labelled(replicas(), "gold"), &[][..]),
        (classed(labelled(replicas(), "gold"), "high"), &[BUDGET]),
        (classed(deployment(), "high"), &[BUDGET]),
        // A WorkloadPriorityClass counts before it.
        (classed(template(mk_deployment(&[], &[]), low), "high"), &[]),
    ] {
        let request = mk_request(USER, None, &object);
        let gated = crate::review::mutate(&request, &policy);
        let (_, asked) = judge_by(&policy, USER, Permission::Allowed, None, &object);
        let is_gated = gated
            .patch
            .iter()
            .any(|operation| operation.path().to_string().contains("annotations"));
        assert_eq!(
            is_gated || !asked.is_empty(),
            !expected.is_empty(),
            "{object}"
        );
    }
}

/// What makes pods and is not managed.
fn maker(api_version: &str, kind: &str) -> Value {
    let deployment = with(mk_deployment(&[], &[]), "/kind", json!(kind));
    with(deployment, "/apiVersion", json!(api_version))
}

fn replicas() -> Value {
    maker("apps/v1", "ReplicaSet")
}

#[rstest]
#[case::replica_set(USER, labelled(replicas(), "gold"), &[BUDGET])]
#[case::replication_controller(USER, labelled(maker("v1", "ReplicationController"), "gold"), &[BUDGET])]
#[case::daemon_set(USER, labelled(maker("apps/v1", "DaemonSet"), "gold"), &[BUDGET])]
#[case::by_an_annotation(USER, template(replicas(), json!({"annotations": {VOLCANO: "gold"}})), &[BUDGET])]
#[case::another_queue(USER, labelled(replicas(), "silver"), &[])]
#[case::no_queue(USER, replicas(), &[])]
#[case::its_own_label_says_nothing(USER, with(replicas(), "/metadata/labels", json!({QUEUE: "gold"})), &[])]
#[case::made_by_a_controller(DEPLOYMENT_CONTROLLER,
    owned(labelled(replicas(), "gold"), "apps/v1", "Deployment"), &[])]
#[case::with_a_forged_controller(USER,
    owned(labelled(replicas(), "gold"), "apps/v1", "Deployment"), &[BUDGET])]
#[case::by_sluice(SLUICE, labelled(replicas(), "gold"), &[])]
fn who_makes_pods_in_a_queue_needs_the_right_to_lift(
    #[case] user: &str,
    #[case] object: Value,
    #[case] expected: &[&str],
) {
    for applies_to in [of_gold(), when("queue == 'gold' && pods == 1")] {
        let (verdict, asked) = judge_by(&by(applies_to), user, Permission::Allowed, None, &object);
        assert!(verdict.is_allowed(), "{}", verdict.message());
        assert_eq!(asked, expected);
    }
}

#[rstest]
#[case::joins(labelled(replicas(), "silver"), labelled(replicas(), "gold"), &[BUDGET])]
#[case::had_none(replicas(), labelled(replicas(), "gold"), &[BUDGET])]
#[case::is_scaled(labelled(replicas(), "gold"),
    with(labelled(replicas(), "gold"), "/spec/replicas", json!(9)), &[])]
#[case::was_there(labelled(replicas(), "gold"),
    with(labelled(replicas(), "gold"), "/spec/template/spec/nodeName", json!("x")), &[])]
#[case::leaves(labelled(replicas(), "gold"), labelled(replicas(), "silver"), &[])]
fn so_does_who_edits_their_template(
    #[case] old: Value,
    #[case] new: Value,
    #[case] expected: &[&str],
) {
    let (_, asked) = judge_by(&by(of_gold()), USER, Permission::Allowed, Some(&old), &new);
    assert_eq!(asked, expected);
}

#[test]
fn its_pods_are_judged_as_pods() {
    let of = |kind: &str, group: &str| AppliesTo {
        kinds: vec![AppliedKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        }],
        ..of_gold()
    };
    let object = labelled(replicas(), "gold");
    for (applies_to, expected) in [(of("Pod", ""), true), (of("Job", "batch"), false)] {
        let (_, asked) = judge_by(&by(applies_to), USER, Permission::Allowed, None, &object);
        assert_eq!(!asked.is_empty(), expected);
    }
    let anyone = policy_of(&[("acme.io/budget", Lifting::Anyone, of_gold())]);
    let (verdict, asked) = judge_by(&anyone, USER, Permission::Denied, None, &object);
    assert!(verdict.is_allowed() && asked.is_empty(), "{asked:?}");
}

#[rstest]
#[case::clear(of_gold(), "")]
#[case::unclear(
    when("object.spec.missing == 1"),
    " (it can't be determined whether it applies: spec.appliesTo.when fails: No such key: missing)"
)]
fn who_may_not_lift_is_told_what_to_do(#[case] applies_to: AppliesTo, #[case] why: &str) {
    let object = labelled(replicas(), "gold");
    let verdict = judge_by(&by(applies_to), USER, Permission::Denied, None, &object).0;
    assert_eq!(
        verdict.message(),
        format!(
            "spec.template.metadata.labels[sluice.dev/queue-name]: Forbidden: names a queue for pods of a ReplicaSet, to which Gate \"budget.acme.io\" applies: the gate \"acme.io/budget\" can't hold these pods, and user \"ann\" cannot lift gates.sluice.dev \"budget.acme.io\" in namespace \"n\"; create the pods with an object of a kind that Sluice manages, such as a Deployment{why}; ask budget@acme.io"
        )
    );
}
