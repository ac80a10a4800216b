//! Whose pods are believed to belong to what they name as their owner.

use rstest::rstest;
use serde_json::{Value, json};

use crate::review::mutate;
use crate::tests::*;

const Q: &[(&str, &str)] = &[(QUEUE, "a")];
const MANAGED: (&str, &str) = ("sluice.dev/managed", "true");
const OTHER: &str = "system:serviceaccount:elsewhere:operator";
const MANAGER: &str = "system:kube-controller-manager";

/// Whether the pod, made by `user`, is held by a gate that it did not bring, or marked to wait alone.
fn waits_alone(user: &str, groups: &[&str], pod: &Value) -> bool {
    let mut review = mk_review(user, None, pod);
    review["request"]["userInfo"]["groups"] = json!(groups);
    let request = Request::parse(review.to_string().as_bytes()).unwrap();
    let verdict = mutate(&request, &mk_policy());
    assert_eq!(verdict.message(), "");
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &verdict.patch).unwrap();
    let gates = pod["spec"]["schedulingGates"].to_string();
    let is_marked = pod["metadata"]["annotations"][GATE] == "true";
    assert!(!is_marked || gates.contains(GATE), "{pod}");
    is_marked
}

fn of(api_version: &str, kind: &str) -> Value {
    owned(mk_pod(Q, &[], &[]), api_version, kind)
}

#[rstest]
#[case::job(of("batch/v1", "Job"), JOB_CONTROLLER, false)]
#[case::job_by_one_credential(of("batch/v1", "Job"), MANAGER, false)]
#[case::job_by_a_user(of("batch/v1", "Job"), USER, true)]
#[case::job_by_a_tenants_account(of("batch/v1", "Job"), TENANT_ACCOUNT, true)]
#[case::job_by_another_controller(of("batch/v1", "Job"), OTHER, true)]
#[case::config_map(of("v1", "ConfigMap"), USER, true)]
#[case::config_map_by_a_controller(of("v1", "ConfigMap"), OTHER, true)]
#[case::no_such_kind(of("no.example.com/v1", "Nothing"), USER, true)]
#[case::daemon_set(
    of("apps/v1", "DaemonSet"),
    "system:serviceaccount:kube-system:daemon-set-controller",
    true
)]
#[case::replica_set(
    of("apps/v1", "ReplicaSet"),
    "system:serviceaccount:kube-system:replicaset-controller",
    true
)]
#[case::job_of_another_group(of("batch.example.com/v1", "Job"), JOB_CONTROLLER, true)]
#[case::declared_kind(of("jobset.x-k8s.io/v1alpha2", "JobSet"), OTHER, false)]
#[case::declared_kind_by_a_user(of("jobset.x-k8s.io/v1alpha2", "JobSet"), USER, true)]
#[case::declared_kind_by_a_tenants_account(
    of("jobset.x-k8s.io/v1alpha2", "JobSet"),
    TENANT_ACCOUNT,
    true
)]
fn labelled_pods(#[case] pod: Value, #[case] user: &str, #[case] expected: bool) {
    assert_eq!(waits_alone(user, &[], &pod), expected);
}

/// An administrator may do what operators do. What Kubernetes itself does it does by accounts that are
/// known.
#[test]
fn administrators_are_operators_and_not_kubernetes() {
    let groups = ["system:masters"];
    assert!(!waits_alone(
        "admin",
        &groups,
        &of("jobset.x-k8s.io/v1alpha2", "JobSet")
    ));
    assert!(waits_alone("admin", &groups, &of("batch/v1", "Job")));
    assert!(waits_alone(
        TENANT_ACCOUNT,
        &groups,
        &of("jobset.x-k8s.io/v1alpha2", "JobSet")
    ));
}

/// What says that a held template made it: it would be released as a pod of its owner.
#[test]
fn a_pod_that_is_gated_like_those_of_a_template() {
    let pod = owned(mk_pod(&[Q[0], MANAGED], &[], &[GATE]), "batch/v1", "Job");
    for (user, expected) in [
        (JOB_CONTROLLER, false),
        (OTHER, false),
        (USER, true),
        (TENANT_ACCOUNT, true),
    ] {
        assert_eq!(waits_alone(user, &[], &pod), expected, "{user}");
    }
}

#[test]
fn before_the_job_kinds_are_known_nothing_is_refused_for_good() {
    for object in [mk_job(Q, &[], false), mk_pod(Q, &[], &[])] {
        let request = mk_request(USER, None, &object);
        for verdict in [
            mutate(&request, &Policy::default()),
            crate::review::validate(&request, &Policy::default()),
        ] {
            let answer = verdict.into_answer("r1".to_owned()).unwrap();
            let status = &serde_json::to_value(&answer).unwrap()["response"]["status"];
            assert_eq!(status["code"], 503);
            assert_eq!(status["reason"], "ServiceUnavailable");
            assert_eq!(status["details"]["retryAfterSeconds"], 1);
        }
    }
}

#[test]
fn a_kind_that_this_replica_has_not_heard_of_may_come_again() {
    let sparkle = with(mk_job(Q, &[], false), "/kind", json!("Sparkle"));
    let verdict = mutate(&mk_request(USER, None, &sparkle), &mk_policy());
    assert!(verdict.is_early);
}

/// A gate that stands for a gate annotation is lifted where that is.
#[rstest]
#[case::of_an_owner(true, &[], "the object that the pod belongs to")]
#[case::of_a_bare_pod(false, &[(GATED, "a.io/x")], "the pod itself")]
fn propagated_gates_are_taken_off_by_sluice(
    #[case] is_owned: bool,
    #[case] left: &[(&str, &str)],
    #[case] holder: &str,
) {
    let mk = |annotations: &[(&str, &str)], gates: &[&str]| {
        let list = [("sluice.dev/propagated-gates", "a.io/x")];
        let annotations: Vec<_> = list.iter().chain(annotations).copied().collect();
        let pod = mk_pod(&[MANAGED], &annotations, gates);
        if is_owned {
            owned(pod, "apps/v1", "ReplicaSet")
        } else {
            pod
        }
    };
    let old = mk(&[(GATED, "a.io/x")], &["a.io/x", "b.io/y"]);
    let removed = validate(USER, Some(&old), &mk(&[(GATED, "a.io/x")], &["b.io/y"])).message();
    let expected = format!(
        "spec.schedulingGates: Forbidden: the gate \"a.io/x\" stands for a gate annotation on {holder}; remove it from that annotation, and Sluice removes it here"
    );
    assert_eq!(removed, expected);
    let own = validate(USER, Some(&old), &mk(&[(GATED, "a.io/x")], &["a.io/x"])).message();
    assert_eq!(own, "", "a gate of somebody else");
    let by_sluice = validate(SLUICE, Some(&old), &mk(left, &["b.io/y"])).message();
    assert_eq!(by_sluice, "");
    let released = with(mk(&[], &["b.io/y"]), "/metadata/name", json!("j"));
    let lifted = validate(USER, Some(&old), &released).message();
    assert_eq!(
        lifted.is_empty(),
        !is_owned,
        "with its own annotation: {lifted}"
    );
}

/// A pod that runs has usage in the queue that its label names, whoever owns it: nobody but a controller may give it
/// one, move it or take it out.
#[rstest]
#[case::of_a_replica_set("apps/v1", "ReplicaSet")]
#[case::of_a_job("batch/v1", "Job")]
#[case::of_what_nobody_knows("acme.io/v1", "Anything")]
fn the_queue_of_an_owned_pod(#[case] api_version: &str, #[case] kind: &str) {
    let mk = |labels: &[(&str, &str)], gates: &[&str]| {
        owned(mk_pod(labels, &[], gates), api_version, kind)
    };
    let of_owner = "metadata.labels[sluice.dev/queue-name]: Forbidden: comes from the pod template of the controller that made the pod, and only a controller may change it; set the label on that object when it is created";
    let (runs, queued) = (mk(&[], &[]), mk(&[MANAGED, (QUEUE, "a")], &[]));
    let moved = mk(&[MANAGED, (QUEUE, "b")], &[]);
    let left = mk(&[MANAGED], &[]);
    for (old, new) in [(&runs, &mk(Q, &[])), (&queued, &moved), (&queued, &left)] {
        for user in [USER, TENANT_ACCOUNT] {
            assert_eq!(validate(user, Some(old), new).message(), of_owner);
        }
        assert_eq!(validate(OTHER, Some(old), new).message(), "");
    }
    let ended = with(mk(&[], &[]), "/status", json!({"phase": "Succeeded"}));
    let labelled = with(mk(Q, &[]), "/status", json!({"phase": "Succeeded"}));
    assert_eq!(validate(USER, Some(&ended), &labelled).message(), "");
}

/// What a pod can only be born with, by every road on which its metadata can be written.
#[rstest]
#[case::gate(&[], &[(GATED, "a.io/x")],
    "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]: Forbidden: may only be set at creation and removed later")]
#[case::queue(Q, &[],
    "metadata.labels[sluice.dev/queue-name]: Forbidden: may only be set at creation, when a pod gets its scheduling gates; delete the pod and create it again with the label")]
fn late(
    #[case] labels: &[(&str, &str)],
    #[case] annotations: &[(&str, &str)],
    #[case] expected: &str,
) {
    let (old, new) = (mk_pod(&[], &[], &[]), mk_pod(labels, annotations, &[]));
    for subresource in ["", "status"] {
        let mut review = mk_review(USER, Some(&old), &new);
        review["request"]["subResource"] = json!(subresource);
        let request = Request::parse(review.to_string().as_bytes()).unwrap();
        let verdict = crate::review::validate(&request, &mk_policy());
        assert_eq!(verdict.message(), expected, "{subresource:?}");
    }
    assert_eq!(validate(USER, Some(&new), &old).message(), "");
}
