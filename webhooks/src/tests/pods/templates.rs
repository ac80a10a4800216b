//! Objects that wait by gates on their pods: what goes into their templates, and how they may be
//! edited.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::review::mutate;
use crate::tests::*;

type Pairs = &'static [(&'static str, &'static str)];

const Q: Pairs = &[(QUEUE, "a")];
const PER_POD: Pairs = &[("sluice.dev/admission", "PerPod")];
const WHOLE: Pairs = &[("sluice.dev/admission", "Whole")];

/// `object` as it is stored when `user` creates it, or edits it from `old`.
fn stored(old: Option<&Value>, object: Value) -> Value {
    let verdict = mutate(&mk_request(USER, old, &object), &mk_policy());
    assert!(verdict.is_allowed());
    let mut object = object;
    json_patch::patch(&mut object, &verdict.patch).unwrap();
    let again = mutate(&mk_request(USER, old, &object), &mk_policy());
    assert_eq!(again.patch, vec![], "twice is once");
    object
}

fn gates(object: &Value) -> Vec<&str> {
    object["spec"]["template"]["spec"]["schedulingGates"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|gate| gate["name"].as_str().unwrap())
        .collect()
}

fn with_gate(object: Value, name: &str) -> Value {
    with(
        object,
        "/spec/template/spec/schedulingGates",
        json!([{"name": name}]),
    )
}

fn opted_in(object: Value) -> Value {
    with(
        object,
        "/spec/template/metadata",
        json!({"annotations": {GATE: "true"}}),
    )
}

#[rstest]
#[case::suspended(mk_job(Q, &[], false), true, &[])]
#[case::per_pod(mk_job(Q, PER_POD, false), false, &[GATE])]
#[case::opted_in(opted_in(mk_job(Q, &[], false)), false, &[GATE])]
#[case::external(with_gate(mk_job(Q, &[], false), "acme.io/x"), false, &["acme.io/x", GATE])]
#[case::external_whole(with_gate(mk_job(Q, WHOLE, false), "acme.io/x"), false, &["acme.io/x", GATE])]
#[case::queue_gate_there(with_gate(mk_job(Q, &[], false), GATE), false, &[GATE])]
#[case::alias_there(with_gate(mk_job(Q, PER_POD, false), GATE_ALIAS), false, &[GATE_ALIAS])]
#[case::gate_per_pod(
    mk_job(&[], &[(GATED, "acme.io/foo"), PER_POD[0]], false), false, &["acme.io/foo"])]
#[case::gates_and_queue_per_pod(
    mk_job(Q, &[(GATES, "b.io/y,a.io/x"), PER_POD[0]], false), false, &[GATE, "a.io/x", "b.io/y"])]
#[case::deployment(mk_deployment(Q, &[]), false, &[GATE])]
#[case::deployment_whole(mk_deployment(Q, WHOLE), false, &[GATE])]
#[case::deployment_gated(mk_deployment(&[], &[(GATED, "acme.io/foo")]), false, &["acme.io/foo"])]
#[case::plain_deployment(mk_deployment(&[], &[]), false, &[])]
#[case::child(owned(mk_job(Q, PER_POD, false), "jobset.x-k8s.io/v1alpha2", "JobSet"), false, &[])]
#[case::gated_child_joins_no_queue(
    owned(mk_job(Q, &[(GATED, "acme.io/foo"), PER_POD[0]], false), "jobset.x-k8s.io/v1alpha2", "JobSet"),
    false, &["acme.io/foo"])]
fn creation(#[case] object: Value, #[case] is_suspended: bool, #[case] expected: &[&str]) {
    let object = stored(None, object);
    assert_eq!(gates(&object), expected);
    assert_eq!(object["spec"]["suspend"] == true, is_suspended);
    let held = object["metadata"]["annotations"].get("sluice.dev/held");
    let expected_mark = is_suspended.then(|| json!("true"));
    assert_eq!(held, expected_mark.as_ref(), "gates on pods need no mark");
    let is_managed =
        object["spec"]["template"]["metadata"]["labels"]["sluice.dev/managed"] == "true";
    assert_eq!(is_managed, !expected.is_empty());
}

#[test]
fn what_is_taken_out_of_a_template_is_put_in_again() {
    let mut whole = mk_deployment(Q, &[(GATED, "acme.io/foo"), WHOLE[0]]);
    let old = stored(None, whole.clone());
    whole["spec"]["replicas"] = json!(9);
    let new = stored(Some(&old), whole);
    assert_eq!(gates(&new), [GATE, "acme.io/foo"]);
    assert_eq!(
        new["spec"]["template"]["metadata"],
        json!({"labels": {"sluice.dev/managed": "true"}, "annotations": {
            "sluice.dev/pod-set": "main", "sluice.dev/propagated-gates": "acme.io/foo"}})
    );
}

#[test]
fn a_deployment_that_opted_in_stays_so() {
    let mut kind = mk_job_kind("acme.io", "Sparkle");
    kind.spec.suspend = None;
    kind.spec.clear_start_time = None;
    kind.spec.pod_sets[0].partial_admission = None;
    let kind = Arc::new(CompiledKind::compile(&kind).unwrap());
    let policy = Policy::new([kind], QueueLabels::default(), SLUICE);
    let sparkle = |object| {
        with(
            with(object, "/apiVersion", json!("acme.io/v1")),
            "/kind",
            json!("Sparkle"),
        )
    };
    let store = |old: Option<&Value>, mut object: Value| {
        let patch = mutate(&mk_request(USER, old, &object), &policy).patch;
        json_patch::patch(&mut object, &patch).unwrap();
        object
    };
    let old = store(None, sparkle(opted_in(mk_job(Q, &[], false))));
    let new = store(Some(&old), sparkle(mk_job(Q, &[], false)));
    assert_eq!(new["spec"]["template"], old["spec"]["template"]);
}

#[test]
fn a_deployment_may_join_a_queue_later() {
    let old = mk_deployment(&[], &[]);
    let new = stored(Some(&old), mk_deployment(Q, WHOLE));
    assert_eq!(gates(&new), [GATE]);
    assert_eq!(validate(USER, Some(&old), &new).message(), "");
}

#[test]
fn edits_of_a_job_are_left_alone() {
    let old = stored(None, mk_job(Q, PER_POD, false));
    let new = stored(Some(&old), mk_job(Q, PER_POD, false));
    assert_eq!(gates(&new), [""; 0]);
    // Nor do its subresources reach a template.
    let deployment = mk_deployment(Q, &[]);
    let mut review = mk_review(USER, Some(&deployment), &deployment);
    review["request"]["subResource"] = json!("status");
    let request = Request::parse(review.to_string().as_bytes()).unwrap();
    assert_eq!(mutate(&request, &mk_policy()), Verdict::allowed());
}

const UNSUPPORTED: &str = "metadata.annotations[sluice.dev/admission]: Unsupported value: \"x\": \
     supported values: \"PerPod\", \"Whole\"";
const SETTLED: &str = "metadata.annotations[sluice.dev/admission]: Forbidden: may only be set at creation: it determines how the object is held";

#[rstest]
#[case::per_pod(PER_POD, "")]
#[case::whole(WHOLE, "")]
#[case::other(&[("sluice.dev/admission", "x")], UNSUPPORTED)]
fn admission_at_creation(#[case] annotations: Pairs, #[case] expected: &str) {
    let object = mk_job(Q, annotations, true);
    assert_eq!(
        validate_held(USER, None, &object, &mk_policy()).message(),
        expected
    );
    let object = mk_deployment(Q, annotations);
    assert_eq!(
        validate_held(USER, None, &object, &mk_policy()).message(),
        expected
    );
    // So when a Deployment joins a queue.
    let plain = mk_deployment(&[], &[]);
    assert_eq!(
        validate_held(USER, Some(&plain), &object, &mk_policy()).message(),
        expected
    );
}

#[rstest]
#[case::same(PER_POD, PER_POD, "")]
#[case::changed(PER_POD, WHOLE, SETTLED)]
#[case::added(&[], WHOLE, SETTLED)]
#[case::removed(WHOLE, &[], SETTLED)]
#[case::stored_nonsense_kept(&[("sluice.dev/admission", "x")], &[("sluice.dev/admission", "x")], "")]
fn admission_later(#[case] old: Pairs, #[case] new: Pairs, #[case] expected: &str) {
    let verdict = validate_held(
        USER,
        Some(&mk_job(Q, old, true)),
        &mk_job(Q, new, true),
        &mk_policy(),
    );
    assert_eq!(verdict.message(), expected);
    let (old, new) = (mk_deployment(Q, old), mk_deployment(Q, new));
    assert_eq!(
        validate_held(USER, Some(&old), &new, &mk_policy()).message(),
        expected
    );
}

const BY_ITSELF: &str = "spec.template.metadata.annotations[sluice.dev/queue-allocation-gate]: \
     Forbidden: requires that each pod is admitted by itself, but this object is admitted as a whole; to change that, create the object with the annotation sluice.dev/admission: \"PerPod\"";

#[test]
fn pods_of_a_whole_object_do_not_ask_for_themselves() {
    let judge =
        |old: Option<&Value>, new: Value| validate_held(USER, old, &new, &mk_policy()).message();
    assert_eq!(judge(None, opted_in(mk_job(Q, WHOLE, true))), BY_ITSELF);
    assert_eq!(judge(None, opted_in(mk_job(Q, PER_POD, true))), "");
    assert_eq!(judge(None, opted_in(mk_job(Q, &[], true))), "");
    assert_eq!(judge(None, opted_in(mk_job(&[], WHOLE, true))), "");
    assert_eq!(judge(None, opted_in(mk_deployment(Q, WHOLE))), BY_ITSELF);
    let old = stored(None, mk_deployment(Q, WHOLE));
    let mut new = old.clone();
    new["spec"]["template"]["metadata"]["annotations"][GATE] = json!("true");
    assert_eq!(judge(Some(&old), new.clone()), BY_ITSELF);
    assert_eq!(
        judge(Some(&new), new.clone()),
        "",
        "what was stored blocks no edit"
    );
}

const FOO_PER_POD: Pairs = &[(GATED, "acme.io/foo"), ("sluice.dev/admission", "PerPod")];
const LIST: &str = "sluice.dev/propagated-gates";
const FORGED: &str = "spec.template.metadata.annotations[sluice.dev/propagated-gates]: Forbidden: is \
     set by Sluice alone";

/// `object` with `acme.io/x` in the list of propagated gates of its template.
fn listing(object: Value) -> Value {
    with(
        object,
        "/spec/template/metadata",
        json!({"annotations": {LIST: "acme.io/x"}}),
    )
}

fn list_of(object: &Value) -> Option<&str> {
    object["spec"]["template"]["metadata"]["annotations"][LIST].as_str()
}

#[rstest]
#[case::queued(Q, &[], None)]
#[case::gated(&[], &[(GATED, "acme.io/foo")], None)]
#[case::queued_per_pod(Q, PER_POD, None)]
#[case::gated_per_pod(&[], FOO_PER_POD, Some("acme.io/foo"))]
fn a_forged_list_is_not_stored(
    #[case] labels: Pairs,
    #[case] annotations: Pairs,
    #[case] expected: Option<&str>,
) {
    let forged = [
        listing(mk_job(labels, annotations, false)),
        listing(with_gate(mk_job(labels, annotations, false), "acme.io/x")),
    ];
    for (object, is_gated) in forged.into_iter().zip([false, true]) {
        assert_eq!(validate(USER, None, &object).message(), FORGED);
        let job = stored(None, object);
        let own = Some("acme.io/foo").filter(|_| is_gated && !annotations.is_empty());
        let own = own.filter(|_| annotations[0].0 == GATED);
        assert_eq!(list_of(&job), expected.or(own));
        assert_eq!(validate(USER, None, &job).message(), "");
    }
}

#[test]
fn a_forged_list_releases_no_job() {
    // Stored before Sluice looked, or while no webhook ran.
    for (annotations, expected) in [(&[][..], START_QUEUED), (&[(GATED, "a.io/x")], START_HELD)] {
        let labels = if annotations.is_empty() { Q } else { &[] };
        let old = listing(mk_job(labels, annotations, true));
        let new = with(old.clone(), "/spec/suspend", json!(false));
        assert_eq!(validate(USER, Some(&old), &new).message(), expected);
        assert_eq!(validate(SLUICE, Some(&old), &new).message(), "");
    }
}

const START_QUEUED: &str = "spec.suspend: Forbidden: Sluice starts the job once it is admitted through LocalQueue \"a\"; to run it without a queue, remove the label sluice.dev/queue-name in the same update (refused where the namespace requires a queue)";
const START_HELD: &str = "spec.suspend: Forbidden: the job is held by a.io/x; it is queued, or started if it has no queue, once the last gate is removed from its annotations";

#[test]
fn who_releases_an_object_whose_templates_do_not_hold_it() {
    let suspended = |job: Value| with(job, "/spec/suspend", json!(true));
    let unsuspend = |job: &Value| with(job.clone(), "/spec/suspend", json!(false));
    let ungated = |job: &Value| {
        with(
            job.clone(),
            "/spec/template/spec/schedulingGates",
            json!([]),
        )
    };
    // Its gates stand for gate annotations alone.
    let both = [(GATED, "a.io/x"), PER_POD[0]];
    let old = suspended(stored(None, mk_job(Q, &both, false)));
    let no_queue_gate = with(
        old.clone(),
        "/spec/template/spec/schedulingGates",
        json!([{"name": "a.io/x"}]),
    );
    let judge = |old: &Value, new: &Value| validate(USER, Some(old), new).message();
    assert_eq!(
        judge(&no_queue_gate, &unsuspend(&no_queue_gate)),
        START_HELD
    );
    assert_eq!(judge(&old, &unsuspend(&no_queue_gate)), START_HELD);
    assert_eq!(judge(&old, &unsuspend(&old)), "");
    let mut opened = no_queue_gate.clone();
    opened["metadata"]["annotations"] = json!({PER_POD[0].0: PER_POD[0].1});
    assert_eq!(judge(&opened, &unsuspend(&opened)), START_QUEUED);
    assert_eq!(
        validate(SLUICE, Some(&opened), &unsuspend(&opened)).message(),
        ""
    );
    // The gate goes in the same update.
    let old = suspended(stored(None, mk_job(Q, PER_POD, false)));
    assert_eq!(judge(&old, &unsuspend(&ungated(&old))), START_QUEUED);
    assert_eq!(judge(&old, &ungated(&old)), "");
    // It never was in a queue.
    let old = suspended(stored(None, mk_job(&[], &both, false)));
    assert_eq!(judge(&old, &unsuspend(&old)), "");
    let told = judge(&old, &unsuspend(&ungated(&old)));
    let kept = "spec.template.spec.schedulingGates: Forbidden: the gate \"a.io/x\" stands for a gate \
                annotation on the object that the pod belongs to; remove it from that annotation, and Sluice removes it here; ";
    assert_eq!(told, format!("{kept}{START_HELD}"));
    // It goes with its annotation.
    let mut lifted = ungated(&old);
    lifted["metadata"]["annotations"] = json!({PER_POD[0].0: PER_POD[0].1});
    assert_eq!(judge(&old, &lifted), "");
}

#[test]
fn the_queue_gate_is_not_put_into_what_is_suspended() {
    let old = mk_job(Q, &[], true);
    let new = with_gate(old.clone(), GATE);
    assert_eq!(
        validate(USER, Some(&old), &new).message(),
        "spec.template.spec.schedulingGates: Forbidden: the gate \"sluice.dev/queue-allocation-gate\" \
         may only be set at creation: it determines how the object is held"
    );
    // Nor does what had it without a queue join one.
    let old = with_gate(mk_job(&[], &[], true), GATE);
    let new = with_gate(mk_job(Q, &[], true), GATE);
    assert_eq!(validate(USER, Some(&old), &new).message(), LATE);
}

#[rstest]
#[case::list("annotations", LIST, json!("acme.io/x"))]
#[case::pod_set("annotations", "sluice.dev/pod-set", json!("x"))]
#[case::record("annotations", "sluice.dev/admitted", json!("{}"))]
#[case::managed("labels", "sluice.dev/managed", json!("no"))]
fn what_sluice_alone_writes_into_a_template(
    #[case] map: &str,
    #[case] key: &str,
    #[case] value: Value,
) {
    let expected =
        format!("spec.template.metadata.{map}[{key}]: Forbidden: is set by Sluice alone");
    let deployment = stored(None, mk_deployment(Q, WHOLE));
    for old in [mk_job(Q, &[], true), deployment] {
        let mut new = old.clone();
        new["spec"]["template"]["metadata"][map][key] = value.clone();
        assert_eq!(validate(USER, Some(&old), &new).message(), expected);
        assert_eq!(validate(SLUICE, Some(&old), &new).message(), "");
        assert_eq!(validate(USER, Some(&new), &new).message(), "");
    }
}

#[test]
fn a_record_is_refused_at_creation() {
    let mut object = mk_deployment(Q, &[]);
    object["spec"]["template"]["metadata"] = json!({"annotations": {"sluice.dev/admitted": "{}"}});
    assert_eq!(
        validate(USER, None, &stored(None, object)).message(),
        "spec.template.metadata.annotations[sluice.dev/admitted]: Forbidden: is set by Sluice alone"
    );
}

#[test]
fn the_template_of_a_child_may_say_what_its_owner_says() {
    let child = |job| owned(job, "jobset.x-k8s.io/v1alpha2", "JobSet");
    let old = child(mk_job(Q, &[], true));
    let mut new = listing(with_gate(old.clone(), "acme.io/x"));
    new["spec"]["template"]["metadata"]["annotations"]["sluice.dev/pod-set"] = json!("main");
    let controller = "system:serviceaccount:jobset-system:jobset-controller-manager";
    assert_eq!(validate(controller, None, &new).message(), "");
    assert_eq!(validate(controller, Some(&old), &new).message(), "");
    assert_eq!(
        validate(USER, Some(&old), &new).message(),
        "spec.template.metadata.annotations[sluice.dev/pod-set]: Forbidden: is set by Sluice alone"
    );
}

#[test]
fn a_list_grows_in_no_edit_of_a_deployment() {
    let old = stored(None, mk_deployment(Q, &[(GATED, "acme.io/foo")]));
    let mut new = old.clone();
    new["spec"]["template"]["metadata"]["annotations"][LIST] = json!("acme.io/foo,acme.io/x");
    new["spec"]["template"]["spec"]["schedulingGates"] =
        json!([{"name": GATE}, {"name": "acme.io/foo"}, {"name": "acme.io/x"}]);
    assert_eq!(validate(USER, Some(&old), &new).message(), FORGED);
    assert_eq!(list_of(&stored(Some(&old), new)), Some("acme.io/foo"));
    // What stood for a gate that went stays.
    let open = with(old.clone(), "/metadata/annotations", json!({}));
    let new = stored(Some(&old), open);
    assert_eq!(list_of(&new), Some("acme.io/foo"));
    assert_eq!(validate(USER, Some(&old), &new).message(), "");
}

const MOVED: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: is immutable while the pods have the queue gate; delete the object and create it again in the other queue";
const LEFT: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: may not be removed while the pods have the queue gate; delete the object and create it again without the label";
const LATE: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: may only be set at creation, when the pod templates of this object get scheduling gates; delete the object and create it again with the label";

#[rstest]
#[case::per_pod(stored(None, mk_job(Q, PER_POD, false)))]
#[case::whole(stored(None, with_gate(mk_job(Q, &[], false), "acme.io/x")))]
#[case::deployment(stored(None, mk_deployment(Q, &[])))]
#[case::deployment_whole(stored(None, mk_deployment(Q, WHOLE)))]
fn held_by_its_pods(#[case] old: Value) {
    let judge = |new: &Value| validate(USER, Some(&old), new).message();
    let labelled = |labels: Value| with(old.clone(), "/metadata/labels", labels);
    assert_eq!(judge(&labelled(json!({QUEUE: "b"}))), MOVED);
    assert_eq!(judge(&labelled(json!({}))), LEFT);
    assert_eq!(judge(&labelled(json!({ALIAS: "a"}))), "");
    // Its user may stop it, release it and make it grow.
    for suspend in [true, false] {
        assert_eq!(
            judge(&with(old.clone(), "/spec/suspend", json!(suspend))),
            ""
        );
    }
    assert_eq!(
        judge(&with(old.clone(), "/spec/parallelism", json!(99))),
        ""
    );
    assert_eq!(judge(&with(old.clone(), "/spec/replicas", json!(99))), "");
    let suspended = with(old.clone(), "/spec/suspend", json!(true));
    assert_eq!(validate(USER, Some(&suspended), &old).message(), "");
}

/// So it is moved to another queue: its controller makes the pods anew.
#[test]
fn the_template_of_a_deployment_may_name_another_queue() {
    let old = stored(None, mk_deployment(Q, &[]));
    let mut new = old.clone();
    new["spec"]["template"]["metadata"]["labels"][QUEUE] = json!("b");
    assert_eq!(validate(USER, Some(&old), &new).message(), "");
    assert_eq!(stored(Some(&old), new.clone()), new);
}

#[test]
fn what_gates_alone_hold_joins_no_queue_unless_its_template_can() {
    let pairs = [(GATED, "acme.io/foo"), PER_POD[0]];
    let old = stored(None, mk_job(&[], &pairs, false));
    let new = with(old.clone(), "/metadata/labels", json!({QUEUE: "a"}));
    assert_eq!(
        validate_held(USER, Some(&old), &new, &mk_policy()).message(),
        LATE
    );
    let old = stored(None, mk_deployment(&[], &pairs));
    let new = with(old.clone(), "/metadata/labels", json!({QUEUE: "a"}));
    assert_eq!(
        validate_held(USER, Some(&old), &new, &mk_policy()).message(),
        ""
    );
    assert_eq!(gates(&stored(Some(&old), new)), ["acme.io/foo", GATE]);
}

#[test]
fn gate_rules_hold_for_every_kind() {
    let old = stored(None, mk_deployment(Q, &[]));
    let new = with(
        old.clone(),
        "/metadata/annotations",
        json!({GATED: "acme.io/foo"}),
    );
    assert_eq!(
        validate(USER, Some(&old), &new).message(),
        "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]: Forbidden: may only be set at \
         creation and removed later"
    );
}

proptest! {
    #[test]
    fn creating_twice_is_creating_once(
        queue in proptest::option::of("[a-c]"),
        gate in proptest::option::of("[a-c~]{1,2}\\.io/[a-c~]{1,2}"),
        mode in prop_oneof![Just(None), Just(Some("Whole")), Just(Some("PerPod")), Just(Some("x"))],
        carried in proptest::option::of(
            prop_oneof![Just("acme.io/x"), Just(GATE), Just(GATE_ALIAS)]),
        opts_in: bool,
        is_job: bool,
    ) {
        let labels: Vec<_> = queue.iter().map(|q| (QUEUE, q.as_str())).collect();
        let mut annotations: Vec<_> = gate.iter().map(|g| (GATED, g.as_str())).collect();
        annotations.extend(mode.map(|mode| ("sluice.dev/admission", mode)));
        let mut object = if is_job {
            mk_job(&labels, &annotations, false)
        } else {
            mk_deployment(&labels, &annotations)
        };
        if let Some(name) = carried {
            object = with_gate(object, name);
        }
        if opts_in {
            object = opted_in(object);
        }
        stored(None, object);
    }
}
