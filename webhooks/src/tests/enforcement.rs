//! Namespaces where objects need a queue: what becomes of those that name none, and what their authors are told.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rstest::rstest;
use serde_json::{Value, json};
use sluice_gates::{Exception, ManagedNamespaces, ManagedNamespacesSpec, Unlabelled};
use sluice_kinds::aliases::{KeyAliases, MetadataKey};

use super::lift::judge_by;
use super::*;
use crate::review::{self, mutate};
use crate::{Permission, Surroundings};

const LABEL: &str = "sluice.dev/enforcement";
const REQUIRED: &str = "sluice.dev/queue-required";

/// A policy where the namespace of the tests has this value of the label.
fn labelled(value: &str) -> Policy {
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

fn excepting(exception: Exception) -> Policy {
    let spec = ManagedNamespacesSpec {
        selector: Some(LabelSelector::default()),
        unlabelled: Unlabelled::Refuse,
        exceptions: vec![exception],
        ..ManagedNamespacesSpec::default()
    };
    by(ManagedNamespaces::compile(&spec, "").unwrap(), &[])
}

fn plain_job() -> Value {
    mk_job(&[], &[], false)
}

fn maker(api_version: &str, kind: &str, outer: &[(&str, &str)], template: Value) -> Value {
    let mut object = mk_job(outer, &[], false);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["spec"] = template;
    object
}

fn cron_job(outer: &[(&str, &str)], inner: Value) -> Value {
    let template = json!({"jobTemplate": {"metadata": {"labels": inner}, "spec": {}}});
    maker("batch/v1", "CronJob", outer, template)
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

#[test]
fn who_names_an_owner_without_being_its_controller_needs_a_queue() {
    let forged = owned(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet");
    let (stored, _) = created_by(USER, &forged, &labelled("Hold"));
    assert_eq!(stored["metadata"]["annotations"][GATES], REQUIRED);
    assert!(
        !created_by(USER, &forged, &labelled("Refuse"))
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
        "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: the gate \"sluice.dev/queue-required\" is lifted by its owners: user \"ann\" may not \"lift\" gates.sluice.dev \"queue-required.sluice.dev\" in namespace \"n\"; set metadata.labels[sluice.dev/queue-name], and Sluice lifts it"
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
fn a_cron_job_is_judged_by_the_template_of_its_jobs() {
    let told = |value: &str, object: &Value| {
        let policy = labelled(value);
        let request = mk_request(USER, None, object);
        assert_eq!(mutate(&request, &policy), Verdict::allowed());
        review::validate(&request, &policy)
    };
    let outer = "metadata.labels[sluice.dev/queue-name]: has no effect, as the Jobs of a CronJob are queued, not the object itself; set spec.jobTemplate.metadata.labels[sluice.dev/queue-name]";
    let field = "spec.jobTemplate.metadata.labels[sluice.dev/queue-name]";
    let labelled_outside = cron_job(&[(QUEUE, "q")], json!({}));
    for (value, made) in [
        ("Default", "will be queued in LocalQueue \"default\""),
        ("Hold", "will be held"),
        ("DryRun", "would be held"),
    ] {
        let verdict = told(value, &labelled_outside);
        let made = format!("{field}: is not set, so the Jobs of this CronJob {made}");
        assert_eq!(verdict.warnings, [outer, &made], "{value}");
        assert!(verdict.is_allowed());
    }
    assert_eq!(
        told("Refuse", &labelled_outside).message(),
        format!(
            "{field}: Required value: namespace \"n\" requires a queue: must be the name of a LocalQueue of the namespace"
        )
    );
    let right = cron_job(&[], json!({QUEUE: "q"}));
    assert_eq!(told("Refuse", &right), Verdict::allowed());
    // One that is there already may be edited.
    let edited = with(labelled_outside.clone(), "/spec/suspend", json!(true));
    let verdict = review::validate(
        &mk_request(USER, Some(&labelled_outside), &edited),
        &labelled("Refuse"),
    );
    assert!(verdict.is_allowed());
    let verdict = review::validate(
        &mk_request(USER, Some(&right), &edited),
        &labelled("Refuse"),
    );
    assert!(!verdict.is_allowed());
}

#[test]
fn what_makes_pods_and_can_not_be_held_is_refused() {
    for (api_version, kind) in [("apps/v1", "ReplicaSet"), ("v1", "ReplicationController")] {
        let mk = |labels: Value| {
            maker(
                api_version,
                kind,
                &[],
                json!({"template": {"metadata": {"labels": labels}}}),
            )
        };
        for value in ["Default", "Hold", "Refuse"] {
            let verdict =
                review::validate(&mk_request(USER, None, &mk(json!({}))), &labelled(value));
            assert_eq!(
                verdict.message(),
                "spec.template.metadata.labels[sluice.dev/queue-name]: Required value: namespace \"n\" requires a queue: must be the name of a LocalQueue of the namespace"
            );
            let verdict = review::validate(
                &mk_request(USER, None, &mk(json!({QUEUE: "q"}))),
                &labelled(value),
            );
            assert!(verdict.is_allowed());
        }
        let of_deployment = owned(mk(json!({})), "apps/v1", "Deployment");
        let by = "system:serviceaccount:kube-system:deployment-controller";
        let verdict = review::validate(&mk_request(by, None, &of_deployment), &labelled("Refuse"));
        assert!(verdict.is_allowed());
        let verdict =
            review::validate(&mk_request(USER, None, &of_deployment), &labelled("Refuse"));
        assert!(!verdict.is_allowed());
    }
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

/// A queue that is named by a key of others is a queue.
#[rstest]
fn what_names_a_queue_by_an_annotation_of_others_keeps_it(
    #[values("Default", "Hold", "Refuse")] value: &str,
) {
    let label = MetadataKey::Label(QUEUE.to_owned());
    let annotation = MetadataKey::Annotation("scheduling.volcano.sh/queue-name".to_owned());
    let policy = labelled(value).with_key_aliases(KeyAliases::new([(label, vec![annotation])]));
    let job = mk_job(&[], &[("scheduling.volcano.sh/queue-name", "q")], false);
    let (stored, verdict) = created_by(USER, &job, &policy);
    assert_eq!(stored["metadata"]["labels"][QUEUE], "q");
    assert!(stored["metadata"]["annotations"][GATES].is_null());
    assert_eq!((verdict.warnings, verdict.enforced), (vec![], None));
}
