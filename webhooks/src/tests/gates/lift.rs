//! Who may lift a gate: by what edit of what object whose right is asked for, and what is told.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use k8s_openapi::jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::{GateSpec, HELD_ANNOTATION, Lifting, RELEASED_ANNOTATION};
use sluice_gates::Enforced;
use sluice_kinds::gates::Gate;

use crate::review::has_rights;
use crate::tests::*;
use crate::{Access, Answered, Observer, Outside, Permission, Report, Right, Unanswered, UserInfo};

/// An authorizer that says this of everybody, and keeps what it was asked.
struct Fixed(Permission, Mutex<Vec<String>>);

impl Fixed {
    fn new(permission: Permission) -> Self {
        Self(permission, Mutex::default())
    }
}

impl Access for Fixed {
    fn has<'a>(
        &'a self,
        user: &'a UserInfo,
        right: Right,
    ) -> Pin<Box<dyn Future<Output = Permission> + Send + 'a>> {
        assert_eq!((right.verb, &*right.resource), ("lift", "gates"));
        let asked = format!("{} {} {}", user.username, right.namespace, right.name);
        self.1.lock().unwrap().push(asked);
        Box::pin(async { self.0.clone() })
    }

    fn resource<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, Unanswered>> + Send + 'a>> {
        Box::pin(async { Ok(None) })
    }
}

/// An observer that counts nothing.
struct Nobody;

impl Observer for Nobody {
    fn answered(&self, _: Answered) {}

    fn enforced(&self, _: Enforced) {}

    fn reported(&self, _: Report) {}
}

/// An API server that serves nothing and allows nothing.
pub(crate) fn outside() -> Outside {
    Outside {
        schemas: schemas::none(),
        access: Arc::new(Fixed::new(Permission::Denied)),
        observer: Arc::new(Nobody),
        clock: Timestamp::now,
    }
}

/// A policy with three Gates: `acme.io/budget` and `acme.io/data` have owners, `acme.io/open` has none.
pub(crate) fn mk_gated_policy() -> Policy {
    let gate = |name: &str, lifting, contact: Option<&str>| {
        let spec = GateSpec {
            lifting,
            contact: contact.map(str::to_owned),
            ..GateSpec::default()
        };
        (Gate::parse(name, "").unwrap(), Arc::new(spec))
    };
    mk_policy().with_gates([
        gate("acme.io/budget", Lifting::Owners, Some("budget@acme.io")),
        gate("acme.io/data", Lifting::Owners, None),
        gate("acme.io/open", Lifting::Anyone, None),
    ])
}

/// What is told to `user`, and what was asked.
fn judge(
    user: &str,
    permission: Permission,
    old: Option<&Value>,
    new: &Value,
) -> (Verdict, Vec<String>) {
    judge_by(&mk_gated_policy(), user, permission, old, new)
}

/// The same by this policy.
pub(in crate::tests) fn judge_by(
    policy: &Policy,
    user: &str,
    permission: Permission,
    old: Option<&Value>,
    new: &Value,
) -> (Verdict, Vec<String>) {
    judge_request(policy, &mk_request(user, old, new), permission)
}

pub(in crate::tests) fn judge_request(
    policy: &Policy,
    request: &Request,
    permission: Permission,
) -> (Verdict, Vec<String>) {
    let access = Fixed::new(permission);
    let verdict = futures::executor::block_on(has_rights(request, policy, &access));
    (verdict, access.1.into_inner().unwrap())
}

fn asked(old: &Value, new: &Value) -> Vec<String> {
    judge(USER, Permission::Allowed, Some(old), new).1
}

type Pairs = &'static [(&'static str, &'static str)];

const BUDGET: &str = "ann n budget.acme.io";
const DATA: &str = "ann n data.acme.io";

#[rstest]
#[case::removed(&[(GATED, "acme.io/budget")], &[], &[BUDGET])]
#[case::shrunk(&[(GATES, "acme.io/budget,acme.io/data")], &[(GATES, "acme.io/data")], &[BUDGET])]
#[case::all(&[(GATES, "acme.io/budget,acme.io/data")], &[], &[BUDGET, DATA])]
#[case::in_both(&[(GATED, "acme.io/budget"), (GATES, "acme.io/data")], &[], &[BUDGET, DATA])]
#[case::still_in_the_other(&[(GATED, "acme.io/budget"), (GATES, "acme.io/budget")], &[(GATES, "acme.io/budget")], &[])]
#[case::reordered(&[(GATES, "acme.io/budget,acme.io/data")], &[(GATES, " acme.io/data ,acme.io/budget")], &[])]
#[case::the_same(&[(GATED, "acme.io/budget")], &[(GATED, "acme.io/budget")], &[])]
#[case::by_anyone(&[(GATED, "acme.io/open")], &[], &[])]
#[case::without_a_gate_object(&[(GATED, "acme.io/other")], &[], &[])]
#[case::one_of_three(&[(GATES, "acme.io/open,acme.io/other,acme.io/data")], &[], &[DATA])]
#[case::beside_a_bad_one(&[(GATES, "acme.io/budget, BAD")], &[], &[BUDGET])]
#[case::a_bad_one_goes(&[(GATES, "acme.io/budget, BAD")], &[(GATES, "acme.io/budget")], &[])]
#[case::from_a_bad_one(&[(GATES, "acme.io/budget,BAD")], &[(GATES, "BAD")], &[BUDGET])]
#[case::a_list_where_one_belongs(&[(GATED, "acme.io/data,acme.io/budget")], &[], &[BUDGET, DATA])]
#[case::spaced_where_one_belongs(&[(GATED, " acme.io/data")], &[], &[DATA])]
#[case::of_another_name(&[(GATED, "acme.io/budget2")], &[], &[])]
fn the_right_is_asked_for(#[case] before: Pairs, #[case] after: Pairs, #[case] expected: &[&str]) {
    for make in [
        |notes: Pairs| mk_job(&[(QUEUE, "q")], notes, true),
        |notes: Pairs| mk_deployment(&[(QUEUE, "q")], notes),
        |notes: Pairs| mk_pod(&[], notes, &[]),
        // Of a kind whose JobKind has just gone.
        |notes: Pairs| with(mk_job(&[], notes, true), "/apiVersion", json!("acme.io/v1")),
    ] {
        assert_eq!(asked(&make(before), &make(after)), expected);
    }
}

#[test]
fn the_refusal_says_whose_the_gate_is_and_whom_to_ask() {
    let old = mk_job(&[], &[(GATES, "acme.io/budget,acme.io/data")], true);
    let (verdict, _) = judge(
        USER,
        Permission::Denied,
        Some(&old),
        &mk_job(&[], &[], true),
    );
    let at = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden";
    assert_eq!(
        verdict.message(),
        format!(
            "{at}: only its owners may lift the gate \"acme.io/budget\": user \"ann\" cannot lift gates.sluice.dev \"budget.acme.io\" in namespace \"n\"; ask budget@acme.io; \
             {at}: only its owners may lift the gate \"acme.io/data\": user \"ann\" cannot lift gates.sluice.dev \"data.acme.io\" in namespace \"n\""
        )
    );
    assert!(!verdict.is_early);
}

#[test]
fn what_is_not_known_is_refused_for_now() {
    let unknown = Permission::Unknown("no reply within 1 s".to_owned());
    let old = mk_job(&[], &[(GATED, "acme.io/budget")], true);
    let (verdict, _) = judge(USER, unknown, Some(&old), &mk_job(&[], &[], true));
    assert_eq!(
        verdict.message(),
        "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]: Forbidden: can't find out whether user \
         \"ann\" may \"lift\" gates.sluice.dev \"budget.acme.io\" in namespace \"n\": no reply within 1 s; try again"
    );
    assert!(verdict.is_early);
}

#[test]
fn so_many_rights_are_asked_for_and_no_more() {
    let names: Vec<String> = (0..33).map(|n| format!("acme.io/g{n}")).collect();
    let gates = names.iter().map(|name| {
        let spec = Arc::new(GateSpec::default());
        (Gate::parse(name, "").unwrap(), spec)
    });
    let policy = mk_policy().with_gates(gates);
    let judge = |count: usize| {
        let access = Fixed::new(Permission::Allowed);
        let old = mk_job(&[], &[(GATES, &names[..count].join(","))], true);
        let request = mk_request(USER, Some(&old), &mk_job(&[], &[], true));
        let verdict = futures::executor::block_on(has_rights(&request, &policy, &access));
        (verdict.message(), access.1.into_inner().unwrap().len())
    };
    assert_eq!(judge(32), (String::new(), 32));
    let told = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: needs the right to lift 33 gates that are \
                lifted by their owners; lift at most 32 at a time";
    assert_eq!(judge(33), (told.to_owned(), 0));
}

#[test]
fn creation_deletion_and_sluice_need_no_right() {
    const FINALIZED: &str = "/metadata/finalizers";
    let gated = mk_job(&[], &[(GATED, "acme.io/budget")], true);
    let free = mk_job(&[], &[], true);
    assert!(judge(USER, Permission::Denied, None, &free).1.is_empty());
    assert!(
        judge(SLUICE, Permission::Denied, Some(&gated), &free)
            .1
            .is_empty()
    );
    let deleted = |object: Value| {
        with(
            object,
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        )
    };
    // Pods of a job run on for as long as a finalizer keeps it.
    assert_eq!(
        asked(&deleted(gated.clone()), &deleted(free.clone())),
        [BUDGET]
    );
    let kept = with(deleted(gated.clone()), FINALIZED, json!(["acme.io/keep"]));
    assert!(asked(&kept, &deleted(gated)).is_empty());
    let pod = |notes: Pairs| deleted(mk_pod(&[], notes, &[]));
    assert!(asked(&pod(&[(GATED, "acme.io/budget")]), &pod(&[])).is_empty());
    let mut review = mk_review(USER, None, &mk_job(&[], &[], true));
    review["request"]["operation"] = json!("DELETE");
    review["request"]["oldObject"] = mk_job(&[], &[(GATED, "acme.io/budget")], true);
    let request = Request::parse(review.to_string().as_bytes()).unwrap();
    let access = Fixed::new(Permission::Denied);
    let verdict = futures::executor::block_on(has_rights(&request, &mk_gated_policy(), &access));
    assert!(verdict.is_allowed());
}

/// Whoever gives an object to a controller would have that one's gates count, and not its own.
#[rstest]
#[case::job(mk_job(&[], &[(GATED, "acme.io/budget")], true))]
#[case::deployment(mk_deployment(&[], &[(GATED, "acme.io/budget")]))]
#[case::pod(mk_pod(&[], &[(GATED, "acme.io/budget")], &["acme.io/budget"]))]
fn an_object_that_gets_another_controller_loses_its_gates(#[case] object: Value) {
    let adopted = owned(object.clone(), "apps/v1", "ReplicaSet");
    for (user, username) in [(USER, USER), (JOBSET_CONTROLLER, JOBSET_CONTROLLER)] {
        let (verdict, asked) = judge(user, Permission::Denied, Some(&object), &adopted);
        assert_eq!(asked, [format!("{username} n budget.acme.io")]);
        let told = verdict.message();
        assert!(
            told.starts_with(
                "metadata.ownerReferences: Forbidden: only its owners may lift the gate"
            ),
            "{told}"
        );
    }
    // The garbage collector takes the reference away.
    assert!(asked(&adopted, &object).is_empty());
}

#[test]
fn what_came_down_from_an_owner_is_its_makers() {
    let child = |notes: Pairs| {
        owned(
            mk_job(&[], notes, true),
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
        )
    };
    let (gated, free) = (child(&[(GATED, "acme.io/budget")]), child(&[]));
    let asked_as = |user| {
        judge(user, Permission::Allowed, Some(&gated), &free)
            .1
            .len()
    };
    assert_eq!(asked_as(JOBSET_CONTROLLER), 0);
    assert_eq!(asked_as(USER), 1);
    assert_eq!(asked_as(TENANT_ACCOUNT), 1);
    assert_eq!(asked_as("system:serviceaccount:elsewhere:any"), 1);
    // The gates of a pod with a controller hold nothing.
    let pod = |notes: Pairs| owned(mk_pod(&[], notes, &[]), "batch/v1", "Job");
    assert!(asked(&pod(&[(GATED, "acme.io/budget")]), &pod(&[])).is_empty());
}

#[test]
fn a_gate_goes_from_the_pod_with_its_annotation_and_not_before() {
    let labels: Pairs = &[("sluice.dev/managed", "true")];
    let listed = ("sluice.dev/propagated-gates", "acme.io/budget");
    let gate: &[&str] = &["acme.io/budget"];
    let told = |old: &Value, new: &Value| validate(USER, Some(old), new).message();
    for value in ["acme.io/budget", "acme.io/budget,BAD"] {
        let old = mk_pod(labels, &[(GATES, value), listed], gate);
        let ungated = mk_pod(labels, &[(GATES, value), listed], &[]);
        assert_eq!(
            told(&old, &ungated),
            "spec.schedulingGates: Forbidden: the gate \"acme.io/budget\" stands for a gate annotation on the \
             pod itself; remove it from that annotation, and Sluice removes it here"
        );
        let both = mk_pod(labels, &[listed], &[]);
        assert_eq!(told(&old, &both), "");
        assert_eq!(asked(&old, &both), [BUDGET]);
    }
}

/// The gates of a pod that has lost its controller came down, and nobody can lift them any more.
#[rstest]
#[case::of_a_controller_that_is_gone(None, false)]
#[case::lifted_from_the_pod(Some(("acme.io/budget", "u1")), true)]
#[case::copied_from_its_template(Some(("acme.io/budget", "u9")), false)]
#[case::another_gate_was_lifted(Some(("acme.io/data", "u1")), false)]
fn a_gate_that_came_down_stays(#[case] record: Option<(&str, &str)>, #[case] may_go: bool) {
    let labels: Pairs = &[("sluice.dev/managed", "true")];
    let record =
        record.map(|(gate, uid)| json!([{"gate": gate, "by": "ann", "uid": uid}]).to_string());
    let mut notes = vec![("sluice.dev/propagated-gates", "acme.io/budget")];
    notes.extend(
        record
            .as_deref()
            .map(|record| ("sluice.dev/lifted-gates", record)),
    );
    let old = mk_pod(labels, &notes, &["acme.io/budget"]);
    let told = validate(USER, Some(&old), &mk_pod(labels, &notes, &[])).message();
    let refused = "spec.schedulingGates: Forbidden: the gate \"acme.io/budget\" stands for a gate annotation on the object that the pod belongs to";
    assert_eq!(told.is_empty(), may_go, "{told}");
    assert!(may_go || told.starts_with(refused), "{told}");
}

/// The mark that switches gates off is Sluice's.
#[test]
fn nobody_else_releases_an_object_past_its_gates() {
    let old = mk_job(&[], &[(GATED, "acme.io/budget")], true);
    let notes: &[(&str, &str)] = &[(GATED, "acme.io/budget"), (RELEASED_ANNOTATION, "true")];
    let told = validate(USER, Some(&old), &mk_job(&[], notes, true)).message();
    assert!(told.contains("is set by Sluice alone"), "{told}");
    // Nor by naming an owner: only the controller of that one copies what stands there.
    let child = |object| {
        with(
            object,
            "/metadata/ownerReferences",
            json!([{
                "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u9", "controller": true,
            }]),
        )
    };
    let copy = child(mk_job(&[], notes, true));
    let told = validate(USER, None, &copy).message();
    assert!(told.contains("is set by Sluice alone"), "{told}");
    let told = validate(JOBSET_CONTROLLER, None, &copy).message();
    assert_eq!(told, "");
}

/// A job that is being deleted may be got rid of, and what it keeps of its gates stays meanwhile.
#[test]
fn what_is_being_deleted_keeps_its_record() {
    let record =
        json!([{"gate": "acme.io/licences", "by": "sluice", "reason": "one is free", "uid": "u1"}]);
    let record = record.to_string();
    let notes = [("sluice.dev/lifted-gates", record.as_str())];
    let deleted = |object| {
        with(
            object,
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        )
    };
    let old = deleted(mk_job(&[], &notes, false));
    let told = validate(USER, Some(&old), &deleted(mk_job(&[], &[], false))).message();
    assert!(told.contains("is set by Sluice alone"), "{told}");
    let held = deleted(mk_job(&[(QUEUE, "a")], &[(HELD_ANNOTATION, "true")], true));
    let started = deleted(mk_job(&[], &[(RELEASED_ANNOTATION, "u1")], false));
    let told = validate(USER, Some(&held), &started).message();
    assert!(told.contains("is set by Sluice alone"), "{told}");
    let freed = with(old.clone(), "/metadata/finalizers", json!([]));
    assert_eq!(validate(USER, Some(&old), &freed).message(), "");
}

#[test]
fn who_asks_is_told_in_full() {
    let mut review = mk_review(USER, None, &mk_job(&[], &[], true));
    review["request"]["userInfo"] = json!({
        "username": "ann", "uid": "u7", "groups": ["staff"], "extra": {"scopes": ["a", "b"]},
    });
    let user = Request::parse(review.to_string().as_bytes())
        .unwrap()
        .user_info;
    assert_eq!(
        (user.uid.as_str(), user.groups.as_slice()),
        ("u7", &["staff".to_owned()][..])
    );
    assert_eq!(user.extra["scopes"], ["a", "b"]);
}
