//! What makes jobs or pods and is no job, where objects need a queue: it is judged by the template of what it makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};
use sluice_gates::Exception;
use sluice_kinds::CompiledKind;
use sluice_kinds::view::QueueLabels;

use crate::review::{self, mutate};
use crate::tests::enforcement::jobs::{VOLCANO, excepting, labelled, volcano};
use crate::tests::*;

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
fn a_cron_job_is_let_through_where_no_job_kind_reads_its_jobs() {
    let namespace = BTreeMap::from([("sluice.dev/enforcement".to_owned(), "Refuse".to_owned())]);
    let surroundings = Surroundings {
        namespaces: [("n".to_owned(), Arc::new(namespace))].into(),
        ..Surroundings::default()
    };
    let read = ["JobSet", "Job"].map(|kind| {
        let group = if kind == "Job" {
            "batch"
        } else {
            "jobset.x-k8s.io"
        };
        Arc::new(CompiledKind::compile(&mk_job_kind(group, kind)).unwrap())
    });
    let surroundings = Arc::new(surroundings);
    let request = mk_request(USER, None, &cron_job(&[], json!({})));
    for (read, is_allowed) in [(&read[..1], true), (&read[..], false)] {
        let policy = Policy::new(read.iter().cloned(), QueueLabels::default(), SLUICE)
            .with_applied([], Arc::clone(&surroundings));
        let verdict = review::validate(&request, &policy);
        assert_eq!(verdict.is_allowed(), is_allowed, "{}", read.len());
    }
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

const REQUIRED: &str = "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"n\" requires a queue: must be the name of a LocalQueue of the namespace";

fn replica_set(replicas: u32, metadata: Value) -> Value {
    let mut template = mk_deployment(&[], &[])["spec"]["template"].take();
    template["metadata"] = metadata;
    maker(
        "apps/v1",
        "ReplicaSet",
        &[],
        json!({"replicas": replicas, "template": template}),
    )
}

/// A CronJob whose Jobs have so many pods.
fn cron_job_of(pods: u32, metadata: Value) -> Value {
    let mut job = mk_job(&[], &[], false);
    job["spec"]["parallelism"] = json!(pods);
    let template = json!({"metadata": metadata, "spec": job["spec"]});
    maker("batch/v1", "CronJob", &[], json!({"jobTemplate": template}))
}

#[rstest]
fn a_queue_that_a_template_names_by_an_annotation_of_others_is_seen(
    #[values("Default", "Hold", "Refuse", "DryRun")] value: &str,
) {
    let metadata = json!({"annotations": {VOLCANO: "q"}});
    for object in [cron_job_of(2, metadata.clone()), replica_set(2, metadata)] {
        let request = mk_request(USER, None, &object);
        let policy = labelled(value).with_key_aliases(volcano());
        assert_eq!(review::validate(&request, &policy), Verdict::allowed());
        // Without the alias it names none.
        let verdict = review::validate(&request, &labelled(value));
        assert!(!verdict.is_allowed() || verdict.warnings.len() == 1);
    }
}

fn when(expression: &str) -> Exception {
    Exception {
        when: Some(expression.to_owned()),
        ..Exception::default()
    }
}

fn of_users(users: &[&str]) -> Exception {
    Exception {
        users: users.iter().map(|user| (*user).to_owned()).collect(),
        ..Exception::default()
    }
}

const CRON_JOBS: &str = "system:serviceaccount:kube-system:cronjob-controller";

/// An exception counts for the Jobs that a CronJob makes if it would when they are made.
#[rstest]
#[case::small_enough(when("pods == 1"), true)]
#[case::too_large(when("requests.cpu > 1.0"), false)]
#[case::by_name(when("object.metadata.name.startsWith('j-')"), true)]
#[case::by_another_name(when("object.metadata.name == 'x'"), false)]
#[case::by_owner(
    when("object.metadata.ownerReferences.exists(o, o.kind == 'CronJob')"),
    true
)]
#[case::of_its_controller(of_users(&[CRON_JOBS]), true)]
#[case::of_another(of_users(&["bob"]), false)]
#[case::of_its_group(
    Exception { groups: vec!["system:serviceaccounts:kube-system".to_owned()], ..Exception::default() }, true)]
fn the_jobs_of_a_cron_job_may_be_exceptions(
    #[case] exception: Exception,
    #[case] is_excepted: bool,
) {
    let object = cron_job_of(1, json!({}));
    let verdict = review::validate(&mk_request(USER, None, &object), &excepting(exception));
    if is_excepted {
        assert_eq!(verdict, Verdict::allowed());
    } else {
        assert_eq!(verdict.message(), format!("spec.jobTemplate.{REQUIRED}"));
    }
}

#[rstest]
#[case::a_user(of_users(&[USER]))]
#[case::by_the_cron_job_itself(when("object.kind == 'CronJob'"))]
fn who_is_an_exception_is_told_that_the_jobs_of_a_cron_job_are_not(#[case] exception: Exception) {
    let object = cron_job_of(1, json!({}));
    let verdict = review::validate(&mk_request(USER, None, &object), &excepting(exception));
    assert!(verdict.is_allowed());
    assert_eq!(
        verdict.warnings,
        [
            "spec.jobTemplate.metadata.labels[sluice.dev/queue-name]: is not set, so the Jobs of this CronJob will be refused; its exception does not cover them, as the controller of CronJobs makes them"
        ]
    );
}

/// The pods of a ReplicaSet are not judged when they are made: who makes it counts, and all its pods.
#[test]
fn an_exception_counts_for_all_pods_of_a_replica_set() {
    let policy = || excepting(when("pods == 1"));
    let refused = format!("spec.template.{REQUIRED}");
    let told = |old: Option<&Value>, new: &Value, policy: &Policy| {
        review::validate(&mk_request(USER, old, new), policy).message()
    };
    let (one, two) = (replica_set(1, json!({})), replica_set(2, json!({})));
    assert_eq!(told(None, &one, &policy()), "");
    assert_eq!(told(None, &two, &policy()), refused);
    assert_eq!(told(Some(&one), &two, &policy()), refused);
    assert_eq!(told(Some(&two), &one, &policy()), "");
    // One that was there before may be edited.
    assert_eq!(told(Some(&two), &replica_set(3, json!({})), &policy()), "");
    assert_eq!(told(None, &two, &excepting(of_users(&[USER]))), "");
}
