//! Namespaces where objects need a queue: what becomes of those that name none, and what their authors are told.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rstest::rstest;
use serde_json::{Value, json};
use sluice_gates::{Exception, ManagedNamespaces, ManagedNamespacesSpec, Unlabelled};
use sluice_kinds::aliases::{KeyAliases, MetadataKey};

use crate::review::{self, mutate};
use crate::tests::gates::lift::judge_by;
use crate::tests::*;
use crate::{Permission, Surroundings};

const LABEL: &str = "sluice.dev/enforcement";
pub(in crate::tests) const REQUIRED: &str = "sluice.dev/queue-required";

/// A policy where the namespace of the tests has this value of the label.
pub(in crate::tests) fn labelled(value: &str) -> Policy {
    by(ManagedNamespaces::default(), &[(LABEL, value)])
}

/// A policy with this configuration, where the namespace of the tests has these labels.
fn by(managed: ManagedNamespaces, labels: &[(&str, &str)]) -> Policy {
    let labels = labels.iter();
    let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let surroundings = Surroundings {
        namespaces: [("n".to_owned(), Arc::new(labels.collect()))].into(),
        ..Surroundings::default()
    };
    mk_policy()
        .with_applied([], Arc::new(surroundings))
        .with_managed_namespaces(Arc::new(managed))
}

pub(in crate::tests) fn excepting(exception: Exception) -> Policy {
    let spec = ManagedNamespacesSpec {
        selector: Some(LabelSelector::default()),
        unlabelled: Unlabelled::Refuse,
        exceptions: vec![exception],
        ..ManagedNamespacesSpec::default()
    };
    by(ManagedNamespaces::compile(&spec, "").unwrap(), &[])
}

pub(in crate::tests) fn plain_job() -> Value {
    mk_job(&[], &[], false)
}

#[rstest]
#[case::job(plain_job())]
#[case::deployment(mk_deployment(&[], &[]))]
#[case::pod(mk_pod(&[], &[], &[]))]
#[case::gated_job(mk_job(&[], &[(GATES, "acme.io/x")], false))]
#[case::owned_by_a_stranger(owned(plain_job(), "acme.io/v1", "Train"))]
fn what_names_no_queue(#[case] object: Value) {
    let (stored, verdict) = created_by(USER, &object, &labelled("Default"));
    assert_eq!(stored["metadata"]["labels"][QUEUE], "default");
    assert_eq!(
        verdict.warnings,
        [
            "metadata.labels[sluice.dev/queue-name]: set to \"default\", as namespace \"n\" requires a queue"
        ]
    );

    for value in ["Hold", "hold", "Anything", ""] {
        let (stored, verdict) = created_by(USER, &object, &labelled(value));
        let gates = stored["metadata"]["annotations"][GATES].as_str().unwrap();
        assert!(gates.split(',').any(|gate| gate == REQUIRED), "{stored}");
        assert_eq!(
            verdict.warnings,
            [
                "held, as namespace \"n\" requires a queue; set metadata.labels[sluice.dev/queue-name] to the name of a LocalQueue of the namespace"
            ]
        );
    }

    let (_, verdict) = created_by(USER, &object, &labelled("Refuse"));
    let refused = "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"n\" requires a queue: must be the name of a LocalQueue of the namespace";
    assert_eq!(verdict.message(), refused);
    let validated = review::validate(&mk_request(USER, None, &object), &labelled("Refuse"));
    assert_eq!(validated.message(), refused);

    let (stored, verdict) = created_by(USER, &object, &labelled("DryRun"));
    assert_eq!(
        verdict.warnings,
        [
            "namespace \"n\" will require a queue: this object would be held; set metadata.labels[sluice.dev/queue-name] to the name of a LocalQueue of the namespace"
        ]
    );
    let (untouched, verdict) = created_by(USER, &object, &labelled("Ignore"));
    assert_eq!(stored, untouched);
    assert!(verdict.warnings.is_empty());
    assert_eq!(verdict.enforced, None);
}

#[rstest]
#[case::in_a_queue(USER, mk_job(&[(QUEUE, "q")], &[], false))]
#[case::in_a_queue_by_an_alias(USER, mk_job(&[(ALIAS, "q")], &[], false))]
#[case::pod_of_a_job(JOB_CONTROLLER, owned(mk_pod(&[], &[], &[]), "batch/v1", "Job"))]
#[case::pod_of_a_daemonset(
    "system:serviceaccount:kube-system:daemon-set-controller",
    owned(mk_pod(&[], &[], &[]), "apps/v1", "DaemonSet")
)]
#[case::pod_of_a_node("system:node:n1", mk_pod(&[], &[("kubernetes.io/config.mirror", "x")], &[]))]
#[case::job_of_a_jobset(
    JOBSET_CONTROLLER,
    owned(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet")
)]
#[case::made_by_a_controller_for_a_pod_of_its_own(
    JOBSET_CONTROLLER,
    owned(plain_job(), "v1", "Pod")
)]
#[case::by_sluice(SLUICE, plain_job())]
fn what_is_left_alone(#[case] user: &str, #[case] object: Value) {
    let expected = created_by(user, &object, &mk_policy()).0;
    for value in ["Default", "Hold", "Refuse"] {
        let (stored, verdict) = created_by(user, &object, &labelled(value));
        assert_eq!(stored, expected, "{value}");
        assert!(
            verdict.is_allowed() && verdict.warnings.is_empty(),
            "{value}"
        );
    }
}

#[rstest]
#[case::a_child(USER, owned(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet"))]
#[case::for_a_pod(USER, owned(plain_job(), "v1", "Pod"))]
#[case::for_a_pod_by_an_account_of_the_namespace(TENANT_ACCOUNT, owned(plain_job(), "v1", "Pod"))]
#[case::for_a_pod_by_another_controller(JOB_CONTROLLER, owned(plain_job(), "v1", "Pod"))]
#[case::for_a_pod_of_a_kind_that_it_does_not_make(
    JOBSET_CONTROLLER,
    owned(mk_deployment(&[], &[]), "v1", "Pod")
)]
fn who_names_an_owner_without_being_its_controller_needs_a_queue(
    #[case] user: &str,
    #[case] forged: Value,
) {
    let (stored, _) = created_by(user, &forged, &labelled("Hold"));
    assert_eq!(stored["metadata"]["annotations"][GATES], REQUIRED);
    assert!(
        !created_by(user, &forged, &labelled("Refuse"))
            .1
            .is_allowed()
    );
}

#[test]
fn a_held_job_waits_suspended_and_takes_a_queue_later() {
    let policy = labelled("Hold");
    let (stored, _) = created_by(USER, &plain_job(), &policy);
    assert_eq!(stored["spec"]["suspend"], true);
    let queued = with(stored.clone(), "/metadata/labels", json!({QUEUE: "q"}));
    let verdict = review::validate(&mk_request(USER, Some(&stored), &queued), &policy);
    assert_eq!(verdict.problems, []);
    let started = with(stored.clone(), "/spec/suspend", json!(false));
    let verdict = review::validate(&mk_request(USER, Some(&stored), &started), &policy);
    assert!(
        verdict
            .message()
            .starts_with("spec.suspend: Forbidden: the job is held by sluice.dev/queue-required;")
    );
}

#[test]
fn held_pods_are_born_behind_the_queue_gate_too() {
    let policy = labelled("Hold");
    let names = |spec: &Value| -> Vec<String> {
        let gates = spec["schedulingGates"].as_array().unwrap().iter();
        gates
            .map(|gate| gate["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let (pod, _) = created_by(USER, &mk_pod(&[], &[], &[]), &policy);
    assert_eq!(names(&pod["spec"]), [GATE, REQUIRED]);
    let queued = with(
        pod.clone(),
        "/metadata/labels",
        json!({QUEUE: "q", "sluice.dev/managed": "true"}),
    );
    let verdict = review::validate(&mk_request(USER, Some(&pod), &queued), &policy);
    // The labels that tell of gates are corrected by the mutating webhook.
    assert_eq!(verdict.problems, []);

    let (deployment, _) = created_by(USER, &mk_deployment(&[], &[]), &policy);
    assert_eq!(
        names(&deployment["spec"]["template"]["spec"]),
        [GATE, REQUIRED]
    );

    let gated = with(
        plain_job(),
        "/spec/template/spec/schedulingGates",
        json!([{"name": "acme.io/y"}]),
    );
    let (job, _) = created_by(USER, &gated, &policy);
    assert_eq!(
        names(&job["spec"]["template"]["spec"]),
        ["acme.io/y", GATE, REQUIRED]
    );
    let mut queued = job.clone();
    queued["metadata"]["labels"][QUEUE] = json!("q");
    let verdict = review::validate(&mk_request(USER, Some(&job), &queued), &policy);
    assert_eq!(verdict.problems, []);
}

#[test]
fn a_queue_may_not_be_left() {
    let queued = mk_job(&[(QUEUE, "q")], &[], true);
    let left = mk_job(&[], &[], true);
    for value in ["Default", "Hold", "Refuse"] {
        let verdict = review::validate(&mk_request(USER, Some(&queued), &left), &labelled(value));
        assert_eq!(
            verdict.message(),
            "metadata.labels[sluice.dev/queue-name]: Forbidden: may not be removed, as namespace \"n\" requires a queue; name another LocalQueue"
        );
    }
    let other = mk_job(&[(QUEUE, "other")], &[], true);
    let verdict = review::validate(&mk_request(USER, Some(&queued), &other), &labelled("Hold"));
    assert_eq!(verdict.problems, []);
    for value in ["Ignore", "DryRun"] {
        let verdict = review::validate(&mk_request(USER, Some(&queued), &left), &labelled(value));
        assert_eq!(verdict.problems, []);
    }
}

/// Sluice starts what is marked as suspended by it, once neither a queue nor a gate holds it.
#[test]
fn the_mark_by_which_sluice_starts_it_begins_it() {
    let marked = |value: &str| mk_job(&[], &[("sluice.dev/held", value)], true);
    let before = mk_job(&[], &[], true);
    let table = [
        ("marked", &before, marked("true"), false),
        ("with another value", &before, marked("yes"), false),
        ("after its release", &marked("false"), marked("true"), false),
        ("as left to its user", &before, marked("false"), true),
        ("as it was marked", &marked("true"), marked("true"), true),
        ("not any more", &marked("true"), before.clone(), true),
    ];
    for (name, old, new, is_allowed) in table {
        for value in ["Default", "Hold", "Refuse"] {
            let request = mk_request(USER, Some(old), &new);
            let verdict = review::validate(&request, &labelled(value));
            assert_eq!(verdict.is_allowed(), is_allowed, "{name}, {value}");
        }
        let verdict = review::validate(&mk_request(USER, Some(old), &new), &labelled("DryRun"));
        assert_eq!(verdict.problems, [], "{name}");
    }
}

#[test]
fn the_gate_is_lifted_by_a_queue_or_by_its_owners() {
    let policy = labelled("Hold");
    let held = mk_job(&[], &[(GATES, REQUIRED)], true);
    let (verdict, asked) = judge_by(
        &policy,
        USER,
        Permission::Denied,
        Some(&held),
        &mk_job(&[], &[], true),
    );
    assert_eq!(asked, ["ann n queue-required.sluice.dev"]);
    assert_eq!(
        verdict.message(),
        "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: only its owners may lift the gate \"sluice.dev/queue-required\": user \"ann\" cannot lift gates.sluice.dev \"queue-required.sluice.dev\" in namespace \"n\"; set metadata.labels[sluice.dev/queue-name], and Sluice lifts it, or create the object anew with that label"
    );
    let queued = mk_job(&[(QUEUE, "q")], &[], true);
    let (verdict, asked) = judge_by(&policy, USER, Permission::Denied, Some(&held), &queued);
    assert!(verdict.is_allowed());
    assert_eq!(asked, [""; 0]);
}

#[rstest]
#[case::of_a_user(Exception { users: vec![USER.to_owned()], ..Exception::default() }, true)]
#[case::of_another(Exception { users: vec!["bob".to_owned()], ..Exception::default() }, false)]
#[case::of_a_group(Exception { groups: vec!["system:authenticated".to_owned()], ..Exception::default() }, true)]
#[case::of_an_object(Exception { when: Some("object.metadata.name == 'j'".to_owned()), ..Exception::default() }, true)]
#[case::of_small_ones(Exception { when: Some("requests.cpu < 1.0".to_owned()), ..Exception::default() }, false)]
#[case::all_must_match(
    Exception { users: vec![USER.to_owned()], when: Some("pods > 2".to_owned()), ..Exception::default() }, false)]
#[case::one_that_fails(Exception { when: Some("object.spec.none == 1".to_owned()), ..Exception::default() }, false)]
fn exceptions_need_no_queue(#[case] exception: Exception, #[case] is_excepted: bool) {
    let verdict = mutate(&mk_request(USER, None, &plain_job()), &excepting(exception));
    assert_eq!(verdict.is_allowed(), is_excepted, "{}", verdict.message());
}

#[test]
fn a_namespace_that_is_not_known_is_judged_in_a_moment() {
    let request = mk_request(USER, None, &plain_job());
    let policy = mk_policy().with_applied([], Arc::default());
    let verdict = mutate(&request, &policy);
    assert!(verdict.is_early);
    assert_eq!(
        verdict.message(),
        "metadata.namespace: Forbidden: this replica of Sluice has not seen namespace \"n\" yet; try again"
    );
}

/// Volcano's annotation names a queue.
pub(in crate::tests) fn volcano() -> KeyAliases {
    let label = MetadataKey::Label(QUEUE.to_owned());
    let annotation = MetadataKey::Annotation(VOLCANO.to_owned());
    KeyAliases::new([(label, vec![annotation])])
}

pub(in crate::tests) const VOLCANO: &str = "scheduling.volcano.sh/queue-name";

/// A queue that is named by a key of others is a queue.
#[rstest]
fn what_names_a_queue_by_an_annotation_of_others_keeps_it(
    #[values("Default", "Hold", "Refuse")] value: &str,
) {
    let policy = labelled(value).with_key_aliases(volcano());
    let job = mk_job(&[], &[(VOLCANO, "q")], false);
    let (stored, verdict) = created_by(USER, &job, &policy);
    assert_eq!(stored["metadata"]["labels"][QUEUE], "q");
    assert!(stored["metadata"]["annotations"][GATES].is_null());
    assert_eq!((verdict.warnings, verdict.enforced), (vec![], None));
}

fn lifted_by_owners() -> Value {
    let record = json!([{"gate": REQUIRED, "by": "admin", "uid": "u1"}]).to_string();
    mk_job(
        &[],
        &[(GATES, "acme.io/x"), ("sluice.dev/lifted-gates", &record)],
        true,
    )
}

/// An object that was there before the namespace required a queue starts when its last gate is lifted.
#[rstest]
#[case::the_last_gate(mk_job(&[], &[(GATES, "acme.io/x")], true), json!({}), true)]
#[case::the_only_gate(mk_job(&[], &[(GATED, "acme.io/x")], true), json!({}), true)]
#[case::a_bad_one(mk_job(&[], &[(GATES, "x")], true), json!({}), true)]
#[case::of_a_deployment(mk_deployment(&[], &[(GATES, "acme.io/x")]), json!({}), true)]
#[case::one_of_two(mk_job(&[], &[(GATES, "acme.io/x,acme.io/y")], true), json!({GATES: "acme.io/y"}), false)]
#[case::in_a_queue(mk_job(&[(QUEUE, "q")], &[(GATES, "acme.io/x")], true), json!({}), false)]
#[case::left_to_owners(mk_job(&[], &[(GATES, REQUIRED)], true), json!({}), false)]
#[case::left_to_owners_with_another(
    mk_job(&[], &[(GATES, "acme.io/x,sluice.dev/queue-required")], true), json!({}), false)]
fn lifting_the_last_gate_begins_it(
    #[case] old: Value,
    #[case] left: Value,
    #[case] is_refused: bool,
) {
    let new = with(old.clone(), "/metadata/annotations", left);
    for value in ["Default", "Hold", "Refuse"] {
        let verdict = validate_held(USER, Some(&old), &new, &labelled(value));
        assert_eq!(verdict.problems, []);
        let judged = |permission| judge_by(&labelled(value), USER, permission, Some(&old), &new);
        let (verdict, asked) = judged(Permission::Denied);
        let told = verdict.message();
        if is_refused {
            assert_eq!(
                told,
                "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"n\" requires a queue: must be the name of a LocalQueue of the namespace",
                "{value}"
            );
            assert_eq!(asked, [format!("{USER} n queue-required.sluice.dev")]);
        } else {
            assert!(!told.contains("requires a queue"), "{value}: {told}");
        }
        // Whoever may lift the gate that requires a queue lets it run without one.
        assert_eq!(judged(Permission::Allowed).0.problems, []);
        // With a queue in the same update.
        let queued = with(new.clone(), "/metadata/labels", json!({QUEUE: "q"}));
        let verdict = validate_held(USER, Some(&old), &queued, &labelled(value));
        assert_eq!(verdict.problems, []);
        let policy = &labelled(value);
        let (verdict, _) = judge_by(policy, USER, Permission::Denied, Some(&old), &queued);
        assert_eq!(verdict.problems, []);
    }
    for (user, value) in [(USER, "DryRun"), (USER, "Ignore"), (SLUICE, "Hold")] {
        let policy = labelled(value);
        let verdict = review::validate(&mk_request(user, Some(&old), &new), &policy);
        assert_eq!(verdict.problems, [], "{value}");
        let (verdict, _) = judge_by(&policy, user, Permission::Denied, Some(&old), &new);
        let told = verdict.message();
        assert!(!told.contains("requires a queue"), "{value}: {told}");
    }
}

/// It was created as an exception, and its gate is lifted by somebody who is none.
#[test]
fn the_last_gate_of_an_exception_is_lifted_by_who_may_let_it_run() {
    let policy = excepting(Exception {
        users: vec!["ci".to_owned()],
        ..Exception::default()
    });
    let gated = mk_job(&[], &[(GATES, "acme.io/x")], false);
    let (old, verdict) = created_by("ci", &gated, &policy);
    assert_eq!(verdict.problems, []);
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({});
    let judged = |user, permission| judge_by(&policy, user, permission, Some(&old), &new).0;
    let told = judged(USER, Permission::Denied).message();
    assert!(told.contains("requires a queue"), "{told}");
    assert_eq!(judged(USER, Permission::Allowed).problems, []);
    assert_eq!(judged("ci", Permission::Denied).problems, []);
}

#[test]
fn what_its_owners_let_run_without_a_queue_may_lose_other_gates() {
    let old = lifted_by_owners();
    let mut new = old.clone();
    new["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(GATES);
    let added = json!({"gate": "acme.io/x", "by": USER, "uid": "u1"});
    let record = old["metadata"]["annotations"]["sluice.dev/lifted-gates"].as_str();
    let mut records: Value = serde_json::from_str(record.unwrap()).unwrap();
    records.as_array_mut().unwrap().push(added);
    new["metadata"]["annotations"]["sluice.dev/lifted-gates"] = json!(records.to_string());
    let verdict = review::validate(&mk_request(USER, Some(&old), &new), &labelled("Hold"));
    assert!(
        !verdict.message().contains("requires a queue"),
        "{}",
        verdict.message()
    );
}

#[test]
fn a_pod_that_loses_its_last_gate_is_to_be_created_again() {
    let old = mk_pod(&[], &[(GATES, "acme.io/x")], &["acme.io/x"]);
    let new = with(old.clone(), "/metadata/annotations", json!({}));
    let policy = labelled("Hold");
    let (verdict, _) = judge_by(&policy, USER, Permission::Denied, Some(&old), &new);
    assert_eq!(
        verdict.message(),
        "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"n\" requires a queue: must be the name of a LocalQueue of the namespace; delete the pod and create it again with the label"
    );
    let part = owned(old, "batch/v1", "Job");
    let new = with(part.clone(), "/metadata/annotations", json!({}));
    let (verdict, _) = judge_by(&policy, USER, Permission::Denied, Some(&part), &new);
    assert_eq!(verdict.problems, []);
}

/// What a manifest drops that never named it is put back; what somebody takes out is lifted, by whoever may.
#[rstest]
#[case::replaced("kubectl-replace", &[], true, true)]
#[case::applied("argo", &["Apply"], true, true)]
#[case::edited("kubectl-edit", &["Apply"], true, false)]
#[case::patched_by_who_applied("argo", &["Apply", "Update"], true, false)]
#[case::nothing_is_required("kubectl-replace", &[], false, false)]
fn a_manifest_drops_no_gate(
    #[case] manager: &str,
    #[case] owned: &[&str],
    #[case] is_required: bool,
    #[case] expected: bool,
) {
    let fields = json!({"f:metadata": {"f:annotations": {format!("f:{GATES}"): {}}}});
    let entry =
        |operation: &&str| json!({"manager": "argo", "operation": operation, "fieldsV1": fields});
    let mut old = mk_job(&[], &[(GATES, REQUIRED)], true);
    old["metadata"]["managedFields"] = owned.iter().take(1).map(entry).collect();
    let mut new = mk_job(&[], &[], true);
    new["metadata"]["managedFields"] = owned.iter().skip(1).map(entry).collect();
    let mut request = mk_request(USER, Some(&old), &new);
    request.options.field_manager = manager.to_owned();
    let policy = if is_required {
        labelled("Hold")
    } else {
        mk_policy()
    };
    let verdict = mutate(&request, &policy);
    let mut stored = new;
    json_patch::patch(&mut stored, &verdict.patch).unwrap();
    let is_gated = stored["metadata"]["annotations"][GATES] == REQUIRED;
    assert_eq!(is_gated, expected, "{stored}");
    let held = verdict
        .warnings
        .iter()
        .any(|told| told.starts_with("held, as"));
    assert_eq!(held, expected, "{verdict:?}");
}
