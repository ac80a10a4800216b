//! Which requests about pods reach the webhooks at all.

use rstest::rstest;
use serde_json::{Value, json};

use crate::manifests::{Options, mutating, validating};
use crate::tests::manifests::conditions::{self, is_asked};
use crate::tests::*;

const MANAGED: (&str, &str) = ("sluice.dev/managed", "true");
const HIDDEN: (&str, &str) = ("sluice.dev/managed", "false");
const GROUP: (&str, &str) = ("sluice.dev/pod-group-name", "g");
const TOTAL: (&str, &str) = ("sluice.dev/pod-group-total-count", "2");
const ADMITTED: (&str, &str) = ("sluice.dev/admitted", "{}");
const LISTED: (&str, &str) = ("sluice.dev/propagated-gates", "acme.io/x");
const OPT_IN: (&str, &str) = (GATE, "true");
const Q: (&str, &str) = (QUEUE, "a");
const BY_LABELS: (&str, &str) = ("sluice.dev/pod-group-labels", "acme.io/gang");
const BY_TOTAL: (&str, &str) = ("sluice.dev/pod-group-total-from", "acme.io/size");

fn options() -> Options {
    Options {
        queue_gates: vec![GATE.to_owned(), GATE_ALIAS.to_owned()],
        queue_labels: vec![QUEUE.to_owned(), ALIAS.to_owned()],
        ..Options::default()
    }
}

/// The place of `name` in `configuration`, whose webhooks are told apart by it.
fn index(configuration: &Value, name: &str) -> usize {
    let webhooks = configuration["webhooks"].as_array().unwrap();
    webhooks.iter().position(|w| w["name"] == name).unwrap()
}

fn held(user: &str, pod: &Value) -> bool {
    let configuration = serde_json::to_value(mutating(&options())).unwrap();
    let index = index(&configuration, "mutate.pods.sluice.dev");
    is_asked(&configuration, index, user, None, pod)
}

fn judged(user: &str, old: Option<&Value>, pod: &Value) -> bool {
    let configuration = serde_json::to_value(validating(&options())).unwrap();
    let index = index(&configuration, "validate.pods.sluice.dev");
    is_asked(&configuration, index, user, old, pod)
}

fn bare() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}})
}

#[rstest]
#[case::bare(bare(), false)]
#[case::plain(mk_pod(&[("a", "b")], &[("c", "d")], &["acme.io/x"]), false)]
#[case::child_of_a_job(owned(mk_pod(&[("a", "b")], &[], &[]), "batch/v1", "Job"), false)]
#[case::managed_alone(mk_pod(&[MANAGED], &[("sluice.dev/pod-set", "main")], &[]), false)]
#[case::child_of_an_admitted_job(
    owned(mk_pod(&[MANAGED], &[("sluice.dev/pod-set", "main")], &[]), "batch/v1", "Job"), false)]
#[case::hidden(mk_pod(&[HIDDEN], &[], &[]), true)]
#[case::hidden_by_its_controller(
    owned(mk_pod(&[HIDDEN], &[("sluice.dev/pod-set", "head")], &[]), "ray.io/v1", "RayCluster"), true)]
#[case::hidden_mirror(mk_pod(&[HIDDEN], &[("kubernetes.io/config.mirror", "x")], &[]), false)]
#[case::opt_in(mk_pod(&[], &[OPT_IN], &[]), true)]
#[case::opt_in_bad(mk_pod(&[], &[(GATE, "x")], &[]), true)]
#[case::opt_in_alias(mk_pod(&[], &[(GATE_ALIAS, "true")], &[]), true)]
#[case::opt_in_of_a_job(owned(mk_pod(&[], &[OPT_IN], &[]), "batch/v1", "Job"), true)]
#[case::queue(mk_pod(&[Q], &[], &[]), true)]
#[case::queue_alias(mk_pod(&[(ALIAS, "a")], &[], &[]), true)]
#[case::queue_of_a_replicaset(owned(mk_pod(&[Q], &[], &[]), "apps/v1", "ReplicaSet"), true)]
#[case::queue_of_a_statefulset(owned(mk_pod(&[Q], &[], &[]), "apps/v1", "StatefulSet"), true)]
#[case::queue_of_a_daemonset(owned(mk_pod(&[Q], &[], &[]), "apps/v1", "DaemonSet"), true)]
#[case::queue_of_a_job_that_somebody_makes(owned(mk_pod(&[Q], &[], &[]), "batch/v1", "Job"), true)]
#[case::gated_alone(mk_pod(&[], &[], &[GATE]), true)]
#[case::gated_by_a_job(owned(mk_pod(&[], &[], &[GATE]), "batch/v1", "Job"), true)]
#[case::held_template_of_nobody(
    owned(mk_pod(&[Q, MANAGED], &[OPT_IN], &["acme.io/x", GATE]), "apps/v1", "ReplicaSet"), true)]
#[case::group(mk_pod(&[GROUP], &[], &[]), true)]
#[case::group_total(mk_pod(&[], &[TOTAL], &[]), true)]
#[case::group_of_a_job(owned(mk_pod(&[GROUP], &[TOTAL], &[]), "batch/v1", "Job"), false)]
#[case::gate(mk_pod(&[], &[(GATED, "x")], &[]), true)]
#[case::gate_of_a_job(owned(mk_pod(&[], &[(GATED, "x")], &[]), "batch/v1", "Job"), false)]
#[case::admitted(mk_pod(&[], &[ADMITTED], &[]), true)]
#[case::listed(mk_pod(&[MANAGED], &[LISTED], &["acme.io/x"]), true)]
#[case::listed_from_a_template(
    owned(mk_pod(&[MANAGED], &[LISTED], &["acme.io/x"]), "batch/v1", "Job"), false)]
#[case::listed_in_metadata_alone(
    owned(mk_pod(&[MANAGED], &[LISTED], &[]), "sparkoperator.k8s.io/v1beta2", "SparkApplication"), true)]
#[case::listed_by_an_executor(owned(mk_pod(&[MANAGED], &[LISTED], &[]), "v1", "Pod"), false)]
#[case::mirror(mk_pod(&[Q], &[OPT_IN, ("kubernetes.io/config.mirror", "x")], &[]), false)]
#[case::of_a_template_without_the_gate(
    owned(mk_pod(&[Q, MANAGED], &[OPT_IN], &["acme.io/x"]), "apps/v1", "ReplicaSet"), true)]
#[case::admitted_from_a_template(
    owned(mk_pod(&[Q, MANAGED], &[OPT_IN, ADMITTED], &[GATE]), "apps/v1", "ReplicaSet"), true)]
#[case::gated_without_a_controller(mk_pod(&[Q, MANAGED], &[OPT_IN], &[GATE]), true)]
fn creation(#[case] pod: Value, #[case] expected: bool) {
    assert_eq!(held(USER, &pod), expected);
    assert_eq!(judged(USER, None, &pod), expected);
    assert!(!held(SLUICE, &pod));
}

/// What a template made that is held says so itself, if a controller makes it; and of the pods of Jobs
/// the Job controller is believed.
#[test]
fn what_controllers_make_is_not_asked_about() {
    let replica = |pod| owned(pod, "apps/v1", "ReplicaSet");
    let held_by_template = [
        replica(mk_pod(&[Q, MANAGED], &[OPT_IN], &["acme.io/x", GATE])),
        replica(mk_pod(
            &[Q, MANAGED],
            &[(GATE_ALIAS, "true")],
            &[GATE_ALIAS],
        )),
    ];
    for pod in &held_by_template {
        for (user, expected) in [
            (
                "system:serviceaccount:kube-system:replicaset-controller",
                false,
            ),
            ("system:kube-controller-manager", false),
            ("system:serviceaccount:n:default", true),
            (USER, true),
        ] {
            assert_eq!(held(user, pod), expected, "{user}");
        }
    }
    let of_job = owned(mk_pod(&[Q], &[], &[]), "batch/v1", "Job");
    for (user, expected) in [
        ("system:serviceaccount:kube-system:job-controller", false),
        ("system:kube-controller-manager", false),
        (
            "system:serviceaccount:kube-system:daemon-set-controller",
            true,
        ),
        ("system:serviceaccount:n:job-controller", true),
    ] {
        assert_eq!(held(user, &of_job), expected, "{user}");
        assert_eq!(judged(user, None, &of_job), expected, "{user}");
    }
}

fn managed() -> Value {
    mk_pod(&[Q, MANAGED], &[OPT_IN], &[GATE])
}

#[rstest]
#[case::unchanged(managed(), managed(), false)]
#[case::label(managed(), mk_pod(&[Q, MANAGED, ("x", "y")], &[OPT_IN], &[GATE]), false)]
#[case::finalizers(managed(), with(managed(), "/metadata/finalizers", json!(["x"])), false)]
#[case::status(managed(), with(managed(), "/status", json!({"phase": "Running"})), false)]
#[case::image(managed(), with(managed(), "/spec/containers/0/image", json!("x")), false)]
#[case::gate_removed(managed(), mk_pod(&[Q, MANAGED], &[OPT_IN], &[]), true)]
#[case::queue(managed(), mk_pod(&[(QUEUE, "b"), MANAGED], &[OPT_IN], &[GATE]), true)]
#[case::unmanaged_by_edit(managed(), mk_pod(&[Q], &[OPT_IN], &[GATE]), true)]
#[case::opted_out(managed(), mk_pod(&[Q, MANAGED], &[], &[GATE]), true)]
#[case::admitted(managed(), mk_pod(&[Q, MANAGED], &[OPT_IN, ADMITTED], &[GATE]), true)]
#[case::gated(managed(), mk_pod(&[Q, MANAGED], &[OPT_IN, (GATED, "x")], &[GATE]), true)]
#[case::group(managed(), mk_pod(&[Q, MANAGED, GROUP], &[OPT_IN], &[GATE]), true)]
#[case::of_no_owner_any_more(owned(managed(), "batch/v1", "Job"), managed(), false)]
#[case::of_another_owner(managed(), owned(managed(), "batch/v1", "Job"), true)]
#[case::out_of_its_gang(
    mk_pod(&[Q, MANAGED, ("acme.io/gang", "a")], &[OPT_IN, BY_LABELS], &[]),
    mk_pod(&[Q, MANAGED, ("acme.io/gang", "b")], &[OPT_IN, BY_LABELS], &[]), true)]
#[case::of_a_gang_by_others(
    mk_pod(&[Q, MANAGED, ("acme.io/gang", "a")], &[OPT_IN, BY_LABELS, BY_TOTAL], &[]),
    mk_pod(&[Q, MANAGED, ("acme.io/gang", "a"), ("x", "y")], &[OPT_IN, BY_LABELS, BY_TOTAL, ("cni.example/ip", "10.0.0.1")], &[]),
    false)]
#[case::into_a_larger_gang(
    mk_pod(&[Q, MANAGED], &[OPT_IN, BY_TOTAL, ("acme.io/size", "2")], &[]),
    mk_pod(&[Q, MANAGED], &[OPT_IN, BY_TOTAL, ("acme.io/size", "3")], &[]), true)]
#[case::into_a_gang(managed(), mk_pod(&[Q, MANAGED], &[OPT_IN, BY_LABELS], &[GATE]), true)]
#[case::hidden_by_edit(managed(), mk_pod(&[Q, HIDDEN], &[OPT_IN], &[GATE]), true)]
#[case::managed_by_edit(bare(), with(bare(), "/metadata/labels", json!({"sluice.dev/managed": "true"})), true)]
#[case::queue_on_a_plain_pod(bare(), mk_pod(&[Q], &[], &[]), true)]
#[case::queue_off_a_plain_pod(mk_pod(&[Q], &[], &[]), bare(), false)]
#[case::gate_on_a_plain_pod(bare(), mk_pod(&[], &[(GATED, "a.io/x")], &[]), true)]
#[case::gate_annotation_off_a_plain_pod(mk_pod(&[], &[(GATED, "a.io/x")], &[]), bare(), false)]
#[case::gate_off_a_plain_pod(mk_pod(&[], &[], &["acme.io/x"]), mk_pod(&[], &[], &[]), false)]
fn update(#[case] old: Value, #[case] new: Value, #[case] expected: bool) {
    assert_eq!(judged(USER, Some(&old), &new), expected);
    assert!(!judged(SLUICE, Some(&old), &new));
    // It runs on for as long as its grace period is.
    let at = json!("2026-01-01T00:00:00Z");
    let deleted = |pod| with(pod, "/metadata/deletionTimestamp", at.clone());
    assert_eq!(judged(USER, Some(&deleted(old)), &deleted(new)), expected);
}

/// What names more labels than a list may is not compared label by label: with each status of the pod, that would cost
/// more than the API server spends.
#[test]
fn of_a_list_of_labels_that_is_too_long_all_labels_count() {
    let long = vec!["acme.io/gang"; 200].join(",");
    let pod = |labels: &[(&str, &str)]| mk_pod(labels, &[OPT_IN, (BY_LABELS.0, &long)], &[]);
    let old = pod(&[Q, MANAGED]);
    assert!(judged(USER, Some(&old), &pod(&[Q, MANAGED, ("x", "y")])));
    let ended = with(old.clone(), "/status", json!({"phase": "Succeeded"}));
    assert!(!judged(USER, Some(&old), &ended));
}

#[test]
fn resizing_is_asked_about_for_managed_pods() {
    let configuration = serde_json::to_value(validating(&options())).unwrap();
    let index = index(&configuration, "validate.pods.sluice.dev");
    let asked = |pod: &Value| {
        let mut review = mk_review(USER, Some(pod), pod);
        review["request"]["subResource"] = json!("resize");
        conditions::matches(&configuration, index, &review)
    };
    assert!(asked(&managed()));
    assert!(!asked(&bare()));
}
