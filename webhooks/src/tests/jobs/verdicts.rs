//! Verdicts about Jobs, row by row, with the whole message.

use rstest::rstest;
use serde_json::{Value, json};

use crate::tests::*;

type Pairs = &'static [(&'static str, &'static str)];

const Q: Pairs = &[(QUEUE, "a")];

#[rstest]
#[case::plain(&[], &[], "")]
#[case::queue(Q, &[], "")]
#[case::gate(&[], &[(GATED, "acme.io/foo")], "")]
#[case::queue_and_alias_agree(&[(QUEUE, "a"), (ALIAS, "a")], &[], "")]
#[case::alias_alone(&[(ALIAS, "a")], &[], "")]
#[case::bad_gate(&[], &[(GATED, "mygate")],
    "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]: Invalid value: \"mygate\": must be a \
     domain-prefixed path (such as \"acme.io/foo\")")]
#[case::aliases_disagree(&[(QUEUE, "a"), (ALIAS, "b")], &[],
    "metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: \"b\": must equal the label \
     sluice.dev/queue-name, which names \"a\"")]
#[case::released_by_hand(&[], &[(GATED, "acme.io/foo"), ("sluice.dev/released", "true")],
    "metadata.annotations[sluice.dev/released]: Forbidden: is set by Sluice alone")]
fn create(#[case] labels: Pairs, #[case] annotations: Pairs, #[case] expected: &str) {
    assert_eq!(
        validate(USER, None, &mk_job(labels, annotations, true)).message(),
        expected
    );
}

#[test]
fn what_cannot_be_counted_is_refused_at_once() {
    let requests = json!({"cpu": "-1", "memory": "1e400"});
    let pointer = "/spec/template/spec/containers/0/resources";
    let job = with(mk_job(Q, &[], true), pointer, json!({"requests": requests}));
    assert_eq!(
        validate(USER, None, &job).message(),
        "spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be \
         greater than or equal to 0; \
         spec.template.spec.containers[0].resources.requests[memory]: Invalid value: \"1e400\": is \
         too large to be counted: must be below 1e29"
    );
    let unqueued = with(
        mk_job(&[], &[], true),
        pointer,
        json!({"requests": {"cpu": "-1"}}),
    );
    assert_eq!(validate(USER, None, &unqueued).message(), "");
}

#[rstest]
#[case::empty("")]
#[case::upper("Team")]
#[case::underscore("a_b")]
#[case::path("../x")]
fn create_in_no_queue(#[case] queue: &str) {
    let message = validate(USER, None, &mk_job(&[(QUEUE, queue)], &[], true)).message();
    let start = format!("metadata.labels[sluice.dev/queue-name]: Invalid value: {queue:?}: ");
    assert!(message.starts_with(&start), "{message}");
    assert!(
        message.contains("a lowercase RFC 1123 subdomain must consist of"),
        "{message}"
    );
}

const START_GATED: &str = "spec.suspend: Forbidden: the job is held by acme.io/foo; it is queued, or started if it has no queue, once the last gate is removed from its annotations";
const START_QUEUED: &str = "spec.suspend: Forbidden: Sluice starts the job once it is admitted through LocalQueue \"a\"; to run it without a queue, remove the label sluice.dev/queue-name in the same update (refused where the namespace requires a queue)";
const START_INVALID: &str = "spec.suspend: Forbidden: the job is held by an invalid value of \
     metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]; remove the annotation";
const MOVED: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: is immutable while the job \
     is not suspended; delete the job and create it again in the other queue";
const LEFT: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: may not be removed while the \
     job is not suspended; delete the job and create it again without the label";
const JOINED: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: may not be added while the \
     job runs; suspend the job in the same update, and it is queued";
const REGATED: &str = "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]: Forbidden: may only \
     be set at creation and removed later";

/// Labels, annotations and the suspend field of a Job.
struct At(Pairs, Pairs, bool);

#[rstest]
#[case::start_plain(At(&[], &[], true), At(&[], &[], false), "")]
#[case::start_gated(At(&[], &[(GATED, "acme.io/foo")], true), At(&[], &[(GATED, "acme.io/foo")], false), START_GATED)]
#[case::start_ungated(At(&[], &[(GATED, "acme.io/foo")], true), At(&[], &[], false), "")]
#[case::start_queued(At(Q, &[], true), At(Q, &[], false), START_QUEUED)]
#[case::start_gated_and_queued(At(Q, &[(GATED, "acme.io/foo")], true), At(Q, &[(GATED, "acme.io/foo")], false), START_GATED)]
#[case::start_ungated_but_queued(At(Q, &[(GATED, "acme.io/foo")], true), At(Q, &[], false), START_QUEUED)]
#[case::start_invalid(At(Q, &[(GATED, "x")], true), At(Q, &[(GATED, "x")], false), START_INVALID)]
#[case::leave_queue_and_start(At(Q, &[], true), At(&[], &[], false), "")]
#[case::join_and_start(At(&[], &[], true), At(Q, &[], false), START_QUEUED)]
#[case::change_queue_while_suspended(At(Q, &[], true), At(&[(QUEUE, "b")], &[], true), "")]
#[case::leave_queue_while_suspended(At(Q, &[], true), At(&[], &[], true), "")]
#[case::join_queue_while_suspended(At(&[], &[], true), At(Q, &[], true), "")]
#[case::move_running(At(Q, &[], false), At(&[(QUEUE, "b")], &[], false), MOVED)]
#[case::move_and_suspend(At(Q, &[], false), At(&[(QUEUE, "b")], &[], true), MOVED)]
#[case::leave_running(At(Q, &[], false), At(&[], &[], false), LEFT)]
#[case::join_running(At(&[], &[], false), At(Q, &[], false), JOINED)]
#[case::join_and_suspend(At(&[], &[], false), At(Q, &[], true), "")]
#[case::respell_running(At(Q, &[], false), At(&[(ALIAS, "a")], &[], false), "")]
#[case::gate_after_creation(At(&[], &[], true), At(&[], &[(GATED, "acme.io/foo")], true), REGATED)]
#[case::gate_on_running(At(&[], &[], false), At(&[], &[(GATED, "acme.io/foo")], false), REGATED)]
#[case::shrink(At(&[], &[(GATES, "a.io/x,b.io/y")], true), At(&[], &[(GATES, "b.io/y")], true), "")]
#[case::stored_bad_label_tolerated(At(&[(QUEUE, "A")], &[], true), At(&[(QUEUE, "A")], &[], true), "")]
#[case::stored_disagreement_tolerated(
    At(&[(QUEUE, "a"), (ALIAS, "b")], &[], true), At(&[(QUEUE, "a"), (ALIAS, "b")], &[], true), "")]
#[case::suspend_by_hand(At(Q, &[], false), At(Q, &[], true), "")]
fn update(#[case] old: At, #[case] new: At, #[case] expected: &str) {
    let (old, new) = (mk_job(old.0, old.1, old.2), mk_job(new.0, new.1, new.2));
    assert_eq!(validate(USER, Some(&old), &new).message(), expected);
}

#[test]
fn sluice_itself_starts_a_job() {
    let (old, new) = (mk_job(Q, &[], true), mk_job(Q, &[], false));
    assert_eq!(validate(SLUICE, Some(&old), &new).message(), "");
    // The full name counts, not its end.
    let other = "system:serviceaccount:tenant:sluice";
    assert_eq!(validate(other, Some(&old), &new).message(), START_QUEUED);
}

#[test]
fn a_child_is_started_by_its_controller() {
    let owner = json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s",
        "uid": "u0", "controller": true}]);
    let child = |suspend| {
        with(
            mk_job(Q, &[], suspend),
            "/metadata/ownerReferences",
            owner.clone(),
        )
    };
    assert_eq!(
        validate(USER, Some(&child(true)), &child(false)).message(),
        ""
    );
    let other = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u0",
        "controller": true}]);
    let root = |suspend| {
        with(
            mk_job(Q, &[], suspend),
            "/metadata/ownerReferences",
            other.clone(),
        )
    };
    assert_eq!(
        validate(USER, Some(&root(true)), &root(false)).message(),
        START_QUEUED
    );
}

const ADVICE: &str = "while the job is admitted; suspend the job in the same update, and it is queued with the new value";

#[rstest]
#[case::grow("/spec/parallelism", json!(3), "pod set \"main\": Forbidden: may not grow from 2 to 3 pods")]
#[case::request("/spec/template/spec/containers",
    json!([{"name": "c", "resources": {"requests": {"cpu": "2"}}}]),
    "spec.template.spec: Forbidden: the cpu that each pod requests may not grow from 1 to 2")]
#[case::other_request("/spec/template/spec/containers",
    json!([{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}]),
    "spec.template.spec: Forbidden: the memory that each pod requests may not grow from 0 to 1Gi")]
#[case::claims("/spec/template/spec/resourceClaims",
    json!([{"name": "gpu", "resourceClaimTemplateName": "eight"}]),
    "pod set \"main\": Forbidden: the resourceClaims of its pods may not change")]
#[case::tolerations("/spec/template/spec/tolerations", json!([{"operator": "Exists"}]),
    "pod set \"main\": Forbidden: the nodeSelector and the required node affinity of its pods may not change, nor may tolerations be added")]
#[case::no_request("/spec/template/spec/containers", json!([{"name": "c"}]),
    "spec.template.spec: Forbidden: may not leave out more requests for cpu than before, as a LimitRange may add them")]
#[case::one_more_container("/spec/template/spec/containers",
    json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}, {"name": "d", "resources": {"requests": {"cpu": "0"}}}]),
    "spec.template.spec: Forbidden: may not leave out more requests for ephemeral-storage, memory than before, as a LimitRange may add them")]
#[case::runtime_class("/spec/template/spec/runtimeClassName", json!("kata"),
    "spec.template.spec.runtimeClassName: Forbidden: may not change")]
#[case::overhead("/spec/template/spec/overhead", json!({"cpu": "0"}),
    "spec.template.spec.overhead: Forbidden: may not change")]
fn grow_while_admitted(#[case] pointer: &str, #[case] value: Value, #[case] what: &str) {
    let old = with(mk_job(Q, &[], false), "/spec/completions", json!(9));
    let new = with(old.clone(), pointer, value);
    let expected = format!("{what} {ADVICE}");
    assert_eq!(validate(USER, Some(&old), &new).message(), expected);
    assert_eq!(validate(SLUICE, Some(&old), &new).message(), "");
    // The same update suspends it.
    let suspended = with(new.clone(), "/spec/suspend", json!(true));
    assert_eq!(validate(USER, Some(&old), &suspended).message(), "");
    // Not admitted by Sluice: none of its business.
    let plain = |job: &Value| with(job.clone(), "/metadata/labels", json!({}));
    assert_eq!(
        validate(USER, Some(&plain(&old)), &plain(&new)).message(),
        ""
    );
}

/// Those of its flavor, whose quota it uses. It may be made to run on fewer.
#[test]
fn an_admitted_job_stays_on_the_nodes_of_its_flavor() {
    let placed = |selector: Value, tolerations: Value| {
        let spec = json!({"nodeSelector": selector, "tolerations": tolerations, "containers": []});
        with(mk_job(Q, &[], false), "/spec/template/spec", spec)
    };
    let spot = json!([{"key": "spot", "operator": "Exists"}]);
    let old = placed(json!({"pool": "spot"}), spot.clone());
    let other = json!([{"key": "other", "operator": "Exists"}]);
    let refusal = format!(
        "pod set \"main\": Forbidden: the nodeSelector and the required node affinity of its pods may not change, nor may tolerations be added {ADVICE}"
    );
    for (case, new, is_refused) in [
        (
            "others",
            placed(json!({"pool": "on-demand"}), spot.clone()),
            true,
        ),
        ("any", placed(json!({}), spot.clone()), true),
        ("tainted ones", placed(json!({"pool": "spot"}), other), true),
        (
            "fewer",
            placed(json!({"pool": "spot", "zone": "a"}), spot),
            false,
        ),
        (
            "untainted ones",
            placed(json!({"pool": "spot"}), json!([])),
            false,
        ),
    ] {
        let expected = if is_refused { &*refusal } else { "" };
        assert_eq!(
            validate(USER, Some(&old), &new).message(),
            expected,
            "{case}"
        );
    }
}

/// A child of an admitted JobSet says by its marks that it runs with that.
#[test]
fn nobody_but_its_maker_changes_what_a_child_was_made_with() {
    let mk = |pod: Value, metadata: Value| {
        let job = mk_job(Q, &[], false);
        let job = with(job, "/spec/template/spec", pod);
        let job = with(job, "/spec/template/metadata", metadata);
        owned(job, "jobset.x-k8s.io/v1alpha2", "JobSet")
    };
    let pod = |cpu: Value| json!({"nodeSelector": {"pool": "spot"}, "containers": [{"name": "c", "resources": {"requests": cpu}}]});
    let marks = json!({"labels": {"sluice.dev/managed": "true"}, "annotations": {"sluice.dev/pod-set": "main"}});
    let asked = pod(json!({"cpu": "1"}));
    let old = mk(asked.clone(), marks.clone());
    let nodes = "pod set \"main\": Forbidden: the nodeSelector and the required node affinity of its pods may not change, nor may tolerations be added while the job that it belongs to is admitted";
    let unrequested = "spec.template.spec: Forbidden: may not leave out more requests for cpu than before, as a LimitRange may add them while the job that it belongs to is admitted";
    for (new, expected) in [
        (
            mk(
                asked.clone(),
                json!({"annotations": {"sluice.dev/pod-set": "main"}}),
            ),
            "spec.template.metadata.labels[sluice.dev/managed]: Forbidden: is set by Sluice alone",
        ),
        (
            mk(
                asked.clone(),
                json!({"labels": {"sluice.dev/managed": "true"}}),
            ),
            "spec.template.metadata.annotations[sluice.dev/pod-set]: Forbidden: is set by Sluice alone",
        ),
        (
            mk(
                with(asked.clone(), "/nodeSelector", json!({})),
                marks.clone(),
            ),
            nodes,
        ),
        (mk(pod(json!({})), marks.clone()), unrequested),
        // Its owner's share is compared by the controller.
        (mk(pod(json!({"cpu": "2"})), marks.clone()), ""),
    ] {
        assert_eq!(validate(USER, Some(&old), &new).message(), expected);
        assert_eq!(
            validate(TENANT_ACCOUNT, Some(&old), &new).message(),
            expected
        );
        assert_eq!(validate(JOBSET_CONTROLLER, Some(&old), &new).message(), "");
    }
    // Nobody queues a child again, so suspending it first makes no difference.
    let suspended = |job: &Value| with(job.clone(), "/spec/suspend", json!(true));
    let moved = mk(
        with(asked.clone(), "/nodeSelector", json!({})),
        marks.clone(),
    );
    let left = with(suspended(&old), "/metadata/labels", json!({}));
    let removed = "metadata.labels[sluice.dev/queue-name]: Forbidden: may not be removed while the job that it belongs to is admitted";
    for (old, new, expected) in [
        (&old, &suspended(&moved), nodes),
        (&suspended(&old), &suspended(&moved), nodes),
        (&suspended(&old), &moved, nodes),
        (&suspended(&old), &left, removed),
        (&suspended(&old), &old, ""),
    ] {
        assert_eq!(validate(USER, Some(old), new).message(), expected);
        assert_eq!(validate(JOBSET_CONTROLLER, Some(old), new).message(), "");
    }
    // Of an owner in no queue.
    let plain = mk(asked.clone(), json!({}));
    let moved = mk(with(asked, "/nodeSelector", json!({})), json!({}));
    assert_eq!(validate(USER, Some(&plain), &moved).message(), "");
}

/// What they come to is not known here: the controller holds and tells.
#[test]
fn claims_for_devices_are_passed_over() {
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "none"}]);
    let at = "/spec/template/spec/resourceClaims";
    let job = with(mk_job(Q, &[], true), at, claims);
    assert_eq!(validate(USER, None, &job).message(), "");
}

#[rstest]
#[case::pods("/spec/parallelism", json!(1))]
#[case::request("/spec/template/spec/containers",
    json!([{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]))]
#[case::limit_for_request("/spec/template/spec/containers",
    json!([{"name": "c", "resources": {"limits": {"cpu": "1"}}}]))]
#[case::no_container("/spec/template/spec/containers", json!([]))]
#[case::empty_overhead("/spec/template/spec/overhead", json!({}))]
#[case::nothing_of_another("/spec/template/spec/containers",
    json!([{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "0"}}}]))]
fn shrink_while_admitted(#[case] pointer: &str, #[case] value: Value) {
    let old = mk_job(Q, &[], false);
    let new = with(old.clone(), pointer, value);
    assert_eq!(validate(USER, Some(&old), &new).message(), "");
}

#[test]
fn unreadable_while_admitted() {
    let old = mk_job(Q, &[], false);
    let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]);
    let new = with(old.clone(), "/spec/template/spec/containers", containers);
    let message = validate(USER, Some(&old), &new).message();
    assert!(
        message.contains("spec.template.spec.containers[0].resources.requests[cpu]"),
        "{message}"
    );
    assert_eq!(
        validate(USER, Some(&new), &old).message(),
        "",
        "it can be mended"
    );
}

#[rstest]
#[case::enough(Q, "2", "")]
#[case::none(Q, "0", "must be an integer between 1 and 2, the number of pods")]
#[case::too_many(Q, "3", "must be an integer between 1 and 2, the number of pods")]
#[case::no_number(Q, "one", "must be an integer between 1 and 2, the number of pods")]
#[case::not_queued(&[], "one", "")]
fn how_many_pods_will_do(#[case] labels: &[(&str, &str)], #[case] value: &str, #[case] rule: &str) {
    const MIN: &str = "sluice.dev/min-parallelism";
    let expected = match rule {
        "" => String::new(),
        rule => format!("metadata.annotations[{MIN}]: Invalid value: {value:?}: {rule}"),
    };
    let job = mk_job(labels, &[(MIN, value)], true);
    assert_eq!(validate(USER, None, &job).message(), expected);
}

#[test]
fn deletion_is_never_blocked() {
    // But for what tells of its gates, which nobody has to write who gets rid of an object.
    let old = mk_job(Q, &[(GATED, "acme.io/foo")], true);
    let new = with(
        mk_job(&[(QUEUE, "B!")], &[(GATED, "acme.io/foo")], false),
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    assert_eq!(validate(USER, Some(&old), &new), Verdict::allowed());
    let mut review = mk_review(USER, Some(&old), &new);
    review["request"]["operation"] = json!("DELETE");
    review["request"]["object"] = Value::Null;
    let request = Request::parse(review.to_string().as_bytes()).unwrap();
    assert_eq!(
        crate::review::validate(&request, &mk_policy()),
        Verdict::allowed()
    );
}

#[test]
fn the_status_road_meets_the_same_rules() {
    let (old, new) = (
        mk_job(&[], &[], true),
        mk_job(&[], &[(GATED, "acme.io/foo")], true),
    );
    let mut review = mk_review(USER, Some(&old), &new);
    review["request"]["subResource"] = json!("status");
    let request = Request::parse(review.to_string().as_bytes()).unwrap();
    assert_eq!(
        crate::review::validate(&request, &mk_policy()).message(),
        REGATED
    );
}

#[test]
fn what_cannot_be_held_does_not_start_in_silence() {
    let pod = |labels| {
        let job = with(mk_job(labels, &[], false), "/kind", json!("Sparkle"));
        with(job, "/apiVersion", json!("acme.io/v1"))
    };
    assert_eq!(
        validate(USER, None, &pod(Q)).message(),
        "metadata.labels[sluice.dev/queue-name]: Forbidden: no JobKind declares Sparkle of API group \
         \"acme.io\", so Sluice can't hold it"
    );
    assert_eq!(validate(USER, None, &pod(&[])).message(), "");
    assert_eq!(validate(USER, Some(&pod(&[])), &pod(Q)).message(), "");
}

#[test]
fn all_problems_are_told_at_once() {
    let (old, new) = (
        mk_job(Q, &[], false),
        mk_job(&[(QUEUE, "b")], &[(GATED, "acme.io/foo")], false),
    );
    assert_eq!(
        validate(USER, Some(&old), &new).message(),
        format!("{REGATED}; {MOVED}")
    );
}

#[test]
fn a_refusal_reads_like_one_of_the_api_server() {
    let answer =
        |verdict: Verdict| serde_json::to_value(verdict.into_answer("r1".into()).unwrap()).unwrap();
    let forbidden = answer(validate(
        USER,
        Some(&mk_job(Q, &[], true)),
        &mk_job(Q, &[], false),
    ));
    assert_eq!(
        forbidden,
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {
                "uid": "r1",
                "allowed": false,
                "status": {
                    "apiVersion": "v1",
                    "kind": "Status",
                    "metadata": {},
                    "status": "Failure",
                    "code": 403,
                    "reason": "Forbidden",
                    "message": START_QUEUED,
                },
            },
        })
    );
    let invalid = answer(validate(USER, None, &mk_job(&[], &[(GATED, "x")], true)));
    assert_eq!(invalid["response"]["status"]["code"], 422);
    assert_eq!(invalid["response"]["status"]["reason"], "Invalid");
    let allowed = answer(Verdict::allowed());
    assert_eq!(allowed["response"], json!({"uid": "r1", "allowed": true}));
}

#[test]
fn only_a_controller_names_an_owner_that_is_queued() {
    const REFUSED: &str = "metadata.ownerReferences: Forbidden: children of a JobSet are queued with it, and only its controller may name it as the owner; remove the owner reference, or the label sluice.dev/queue-name";
    let free = |labels| mk_job(labels, &[], true);
    let child = |labels| owned(free(labels), "jobset.x-k8s.io/v1alpha2", "JobSet");
    let other = with(child(Q), "/metadata/ownerReferences/0/uid", json!("u9"));
    let stranger = "system:serviceaccount:jobset-system:default";
    let cases = [
        ("a user", USER, None, child(Q), REFUSED),
        ("a controller", JOBSET_CONTROLLER, None, child(Q), ""),
        (
            "a tenant's account",
            TENANT_ACCOUNT,
            None,
            child(Q),
            REFUSED,
        ),
        (
            "an account that is not named",
            stranger,
            None,
            child(Q),
            REFUSED,
        ),
        (
            "another owner later on",
            USER,
            Some(child(Q)),
            other,
            REFUSED,
        ),
        ("without a queue", USER, None, child(&[]), ""),
        (
            "with another owner",
            USER,
            None,
            owned(free(Q), "batch/v1", "CronJob"),
            "",
        ),
        ("an owner later on", USER, Some(free(Q)), child(Q), REFUSED),
        ("an edit of a child", USER, Some(child(Q)), child(Q), ""),
    ];
    for (name, user, old, new, expected) in cases {
        assert_eq!(
            validate(user, old.as_ref(), &new).message(),
            expected,
            "{name}"
        );
    }
}

#[test]
fn nobody_but_sluice_writes_what_a_job_keeps_of_its_gates() {
    let lifted = |uid: &str| json!([{"gate": "acme.io/x", "by": "sluice", "uid": uid}]).to_string();
    let mk = |key: &str, value: &str| {
        let annotations: Vec<_> = [(key, value)]
            .into_iter()
            .filter(|(key, _)| !key.is_empty())
            .collect();
        with(mk_job(Q, &annotations, true), "/metadata/uid", json!("u1"))
    };
    let child = |job: Value| owned(job, "jobset.x-k8s.io/v1alpha2", "JobSet");
    let plain = || mk("", "");
    let (own, copied) = (lifted("u1"), lifted("u0"));
    let (own, copied) = (
        mk("sluice.dev/lifted-gates", &own),
        mk("sluice.dev/lifted-gates", &copied),
    );
    let expired = mk("sluice.dev/expired-gates", "acme.io/x");
    let deactivated = mk("sluice.dev/deactivated-by", "acme.io/x");
    let refused = |name: &str| {
        format!("metadata.annotations[sluice.dev/{name}]: Forbidden: is set by Sluice alone")
    };
    let reasoned = mk("sluice.dev/gate-failures", "acme.io/x: why");
    let of_reasoned = refused("gate-failures");
    let (of_lifted, of_expired, of_deactivated) = (
        refused("lifted-gates"),
        refused("expired-gates"),
        refused("deactivated-by"),
    );
    let cases = [
        ("born with a record", None, own.clone(), &*of_lifted),
        ("written", Some(plain()), own.clone(), &*of_lifted),
        ("of another one", Some(plain()), copied.clone(), &*of_lifted),
        ("removed", Some(own.clone()), plain(), &*of_lifted),
        ("kept", Some(own.clone()), own.clone(), ""),
        ("expired", Some(plain()), expired.clone(), &*of_expired),
        ("not expired", Some(expired), plain(), &*of_expired),
        ("reasoned", Some(plain()), reasoned, &*of_reasoned),
        (
            "deactivated",
            Some(plain()),
            deactivated.clone(),
            &*of_deactivated,
        ),
        ("reactivated", Some(deactivated), plain(), ""),
        (
            "a copy on a child by a user",
            Some(child(plain())),
            child(copied.clone()),
            &*of_lifted,
        ),
        (
            "taken off a child",
            Some(child(copied.clone())),
            child(plain()),
            &*of_lifted,
        ),
        (
            "a child about itself",
            Some(child(plain())),
            child(own.clone()),
            &*of_lifted,
        ),
        (
            "a child of its own",
            Some(child(own.clone())),
            child(plain()),
            &*of_lifted,
        ),
    ];
    for (name, old, new, expected) in cases {
        assert_eq!(
            validate(USER, old.as_ref(), &new).message(),
            expected,
            "{name}"
        );
    }
    // The controller of the owner copies what stands there.
    let told = |old: &Value, new: &Value| validate(JOBSET_CONTROLLER, Some(old), new).message();
    let (plain, copied, own) = (child(plain()), child(copied), child(own));
    assert_eq!(told(&plain, &copied), "");
    assert_eq!(told(&copied, &plain), "");
    assert_eq!(told(&plain, &own), of_lifted);
}
