//! Gates that are set by policy: on which new objects, what their authors are told, and which edits need the right to
//! lift the gate.

use std::collections::BTreeMap;

use arc_swap::ArcSwap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::{AppliedKind, AppliesTo, GateSpec, LIFTED_GATES_ANNOTATION, Lifting};
use sluice_gates::CompiledAppliesTo;
use sluice_kinds::gates::Gate;
use sluice_kinds::priority_classes::PriorityClasses;

use crate::review::{self, mutate};
use crate::tests::gates::lift::judge_by;
use crate::tests::*;
use crate::{LocalQueueState, Permission, QueueStates, Surroundings};

const FAILURES: &str = "sluice.dev/gate-failures";
/// An account of another namespace that may edit in many.
const DEPLOYER: &str = "system:serviceaccount:argocd:application-controller";
const PRIORITY: &str = "sluice.dev/priority-class";

fn when(source: &str) -> AppliesTo {
    AppliesTo {
        when: Some(source.to_owned()),
        ..AppliesTo::default()
    }
}

/// What asks for more than 4 cores, wherever it asks to be queued.
fn big() -> AppliesTo {
    when("requests.cpu > 4")
}

/// All in namespaces of team a, as the namespace of the tests is.
fn of_team_a() -> AppliesTo {
    let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    AppliesTo {
        namespace_selector: Some(LabelSelector {
            match_labels: Some(labels),
            ..LabelSelector::default()
        }),
        ..AppliesTo::default()
    }
}

fn surroundings() -> Surroundings {
    let team = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    let mut priority_classes = PriorityClasses::default();
    priority_classes.put("high", Some(&json!({"value": 1000})));
    Surroundings {
        namespaces: [("n".to_owned(), Arc::new(team))].into(),
        workload_priorities: [("low".to_owned(), -10)].into(),
        priority_classes,
    }
}

/// A policy where each of these is a Gate.
pub(in crate::tests) fn policy_of(gates: &[(&str, Lifting, AppliesTo)]) -> Policy {
    let named = |name: &str| Gate::parse(name, "").unwrap();
    let specs = gates.iter().map(|(name, lifting, applies_to)| {
        let spec = GateSpec {
            lifting: *lifting,
            description: Some("needs\nan approval".to_owned()),
            contact: Some("budget@acme.io".to_owned()),
            applies_to: Some(applies_to.clone()),
            ..GateSpec::default()
        };
        (named(name), Arc::new(spec))
    });
    let applied = gates.iter().map(|(name, _, applies_to)| {
        let compiled = CompiledAppliesTo::or_wider(applies_to);
        (named(name), Arc::new(compiled))
    });
    let mut states = QueueStates::default();
    let queue = LocalQueueState {
        cluster_queue: "of-a".to_owned(),
        is_stopped: false,
    };
    states.set_local_queue("n", "a", Some(queue));
    states.set_complete(true);
    mk_policy()
        .with_gates(specs)
        .with_applied(applied, Arc::new(surroundings()))
        .with_queue_states(Arc::new(ArcSwap::from_pointee(states)))
}

pub(in crate::tests) fn budget(applies_to: AppliesTo) -> Policy {
    policy_of(&[("acme.io/budget", Lifting::Owners, applies_to)])
}

pub(in crate::tests) fn gates_of(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][GATES].as_str()
}

/// A Job with pods of 1 cpu.
pub(in crate::tests) fn of_pods(queue: Option<&str>, pods: u32) -> Value {
    let labels: Vec<_> = queue.map(|queue| (QUEUE, queue)).into_iter().collect();
    let job = with(
        mk_job(&labels, &[], false),
        "/spec/parallelism",
        json!(pods),
    );
    with(job, "/spec/completions", json!(pods))
}

#[rstest]
#[case::as_large_as_is_free(of_pods(Some("a"), 4), None)]
#[case::larger(of_pods(Some("a"), 5), Some("acme.io/budget"))]
#[case::without_a_queue(of_pods(None, 5), None)]
#[case::of_another_gate(with(of_pods(Some("a"), 5), "/metadata/annotations", json!({GATES: "acme.io/data"})),
    Some("acme.io/data,acme.io/budget"))]
#[case::with_the_gate_in_the_list(with(of_pods(Some("a"), 5), "/metadata/annotations", json!({GATES: "acme.io/budget"})),
    Some("acme.io/budget"))]
#[case::with_the_one_gate(with(of_pods(Some("a"), 5), "/metadata/annotations", json!({GATED: "acme.io/budget"})), None)]
#[case::gated_without_a_queue(with(of_pods(None, 5), "/metadata/annotations", json!({GATED: "acme.io/data"})),
    Some("acme.io/budget"))]
fn a_job_is_born_with_the_gate(#[case] job: Value, #[case] expected: Option<&str>) {
    let (stored, _) = created_by(USER, &job, &budget(big()));
    assert_eq!(gates_of(&stored), expected);
    if expected.is_some() {
        assert_eq!(stored["spec"]["suspend"], json!(true));
    }
}

#[test]
fn its_author_is_told_whose_gate_it_is_and_whom_to_ask() {
    let policy = budget(big());
    let (_, verdict) = created_by(USER, &of_pods(Some("a"), 5), &policy);
    assert_eq!(
        verdict.warnings,
        [
            "held by gate acme.io/budget, which Gate \"budget.acme.io\" sets: needs an approval; ask budget@acme.io"
        ]
    );
    let named = with(
        of_pods(Some("a"), 5),
        "/metadata/annotations",
        json!({GATES: "acme.io/budget"}),
    );
    assert_eq!(created_by(USER, &named, &policy).1.warnings, [""; 0]);
}

#[test]
fn what_fails_holds_and_says_so() {
    let policy = budget(when("object.spec.missing == 'x'"));
    let (stored, verdict) = created_by(USER, &of_pods(Some("a"), 1), &policy);
    assert_eq!(gates_of(&stored), Some("acme.io/budget"));
    let why = "spec.appliesTo.when fails: No such key: missing";
    assert_eq!(
        stored["metadata"]["annotations"][FAILURES],
        json!(format!("acme.io/budget: {why}"))
    );
    assert_eq!(
        verdict.warnings,
        [format!(
            "held by gate acme.io/budget, which Gate \"budget.acme.io\" sets, as it can't be determined whether it applies ({why}): needs an approval; ask budget@acme.io"
        )]
    );
    // A user says nothing of the kind.
    let claimed = with(
        of_pods(Some("a"), 1),
        "/metadata/annotations",
        json!({FAILURES: "x"}),
    );
    let (stored, _) = created_by(USER, &claimed, &budget(big()));
    assert_eq!(
        stored["metadata"]["annotations"],
        json!({"sluice.dev/held": "true"})
    );
}

#[test]
fn a_full_list_of_gates_is_refused() {
    let list: Vec<_> = (0..16).map(|n| format!("a.io/{n}")).collect();
    let job = with(
        of_pods(Some("a"), 5),
        "/metadata/annotations",
        json!({GATES: list.join(",")}),
    );
    assert_eq!(
        created_by(USER, &job, &budget(big())).1.message(),
        "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Too many: 17: must have at most 16 items, with those that Gates add: acme.io/budget"
    );
}

#[rstest]
#[case::job(of_pods(None, 1))]
#[case::deployment(mk_deployment(&[], &[]))]
#[case::each_pod_of_a_deployment(mk_deployment(&[], &[("sluice.dev/admission", "PerPod")]))]
#[case::pod(mk_pod(&[], &[], &[]))]
#[case::child_that_its_user_makes(owned(of_pods(None, 1), "jobset.x-k8s.io/v1alpha2", "JobSet"))]
#[case::made_for_a_cron_job(owned(of_pods(None, 1), "batch/v1", "CronJob"))]
fn in_a_selected_namespace_no_queue_is_needed(#[case] object: Value) {
    let (stored, verdict) = created_by(USER, &object, &budget(of_team_a()));
    assert!(verdict.is_allowed(), "{}", verdict.message());
    assert_eq!(gates_of(&stored), Some("acme.io/budget"));
    let pod = stored.pointer("/spec/template").unwrap_or(&stored);
    let is_held = stored["spec"]["suspend"] == json!(true)
        || pod["spec"]["schedulingGates"] == json!([{"name": "acme.io/budget"}]);
    assert!(is_held, "{stored}");
}

#[rstest]
#[case::by_its_controller(
    JOBSET_CONTROLLER,
    owned(of_pods(None, 1), "jobset.x-k8s.io/v1alpha2", "JobSet")
)]
#[case::for_a_pod_of_its_own(JOBSET_CONTROLLER, owned(of_pods(None, 1), "v1", "Pod"))]
#[case::pod_of_a_controller(JOB_CONTROLLER, owned(mk_pod(&[], &[], &[]), "batch/v1", "Job"))]
#[case::by_sluice(SLUICE, of_pods(None, 1))]
fn what_controllers_make_is_not_gated_again(#[case] user: &str, #[case] object: Value) {
    let (stored, verdict) = created_by(user, &object, &budget(of_team_a()));
    assert_eq!(stored, object);
    assert_eq!(verdict.warnings, [""; 0]);
}

#[rstest]
#[case::of_a_user(USER, "batch/v1", "Job")]
#[case::of_an_account_of_its_namespace(TENANT_ACCOUNT, "batch/v1", "Job")]
#[case::of_who_deploys_from_elsewhere(DEPLOYER, "v1", "ConfigMap")]
#[case::of_a_stranger_for_a_kind_that_names_its_makers(
    DEPLOYER,
    "jobset.x-k8s.io/v1alpha2",
    "JobSet"
)]
fn a_pod_with_a_forged_controller_is_refused(
    #[case] user: &str,
    #[case] version: &str,
    #[case] kind: &str,
) {
    // Its gates would hold nothing: they are those of its owner. So it makes no difference which it names.
    let names: [&[(&str, &str)]; 5] = [
        &[],
        &[(GATED, "acme.io/budget")],
        &[(GATES, "acme.io/budget")],
        &[(GATES, "acme.io/data, acme.io/budget")],
        &[(GATED, ","), (GATES, "")],
    ];
    for (gates, queue) in names
        .iter()
        .flat_map(|gates| [(gates, false), (gates, true)])
    {
        let labels: &[(&str, &str)] = if queue { &[(QUEUE, "a")] } else { &[] };
        let pod = owned(mk_pod(labels, gates, &[]), version, kind);
        let request = mk_request(user, None, &pod);
        let policy = budget(of_team_a());
        for verdict in [
            mutate(&request, &policy),
            review::validate(&request, &policy),
        ] {
            assert!(!verdict.is_early);
            check_forged(&verdict);
        }
    }
}

fn check_forged(verdict: &Verdict) {
    assert_eq!(
        verdict.message(),
        "metadata.ownerReferences: Forbidden: gate \"acme.io/budget\" is set by Gate \"budget.acme.io\", and would not hold a pod with a controller, which only its controller may name; create the pod without the owner reference, or declare the kind of the owner in a JobKind"
    );
}

#[rstest]
#[case::class_of_sluice(&[(QUEUE, "a"), (PRIORITY, "low")], "priority < 0", true)]
#[case::no_class(&[(QUEUE, "a")], "priority < 0", false)]
#[case::unknown_class(&[(QUEUE, "a"), (PRIORITY, "none")], "priority > 0", true)]
#[case::user(&[(QUEUE, "a")], "user == 'ann'", true)]
#[case::group(&[(QUEUE, "a")], "'system:masters' in groups", false)]
#[case::queue(&[(QUEUE, "a")], "queue == 'a'", true)]
#[case::alias_of_the_label(&[(ALIAS, "a")], "queue == 'a'", true)]
fn an_expression_knows(#[case] labels: &[(&str, &str)], #[case] source: &str, #[case] gated: bool) {
    let (stored, _) = created_by(USER, &mk_job(labels, &[], false), &budget(when(source)));
    assert_eq!(gates_of(&stored).is_some(), gated);
}

#[test]
fn kinds_narrow_a_gate_down() {
    let kinds = vec![AppliedKind {
        group: "batch".to_owned(),
        kind: "Job".to_owned(),
    }];
    let policy = budget(AppliesTo {
        kinds,
        ..of_team_a()
    });
    assert!(gates_of(&created_by(USER, &of_pods(None, 1), &policy).0).is_some());
    assert!(gates_of(&created_by(USER, &mk_pod(&[], &[], &[]), &policy).0).is_none());
}

#[test]
fn a_namespace_that_is_not_known_yet_is_asked_about_again() {
    let policy = budget(of_team_a());
    let mut request = mk_request(USER, None, &of_pods(Some("a"), 1));
    request.namespace = "new".to_owned();
    for verdict in [
        mutate(&request, &policy),
        review::validate(&request, &policy),
    ] {
        assert!(verdict.is_early);
        assert_eq!(
            verdict.message(),
            "metadata.namespace: Forbidden: this replica of Sluice has not seen namespace \"new\" yet; try again"
        );
    }
}

#[test]
fn what_lost_its_gate_on_the_way_is_asked_about_again() {
    let request = mk_request(USER, None, &of_pods(Some("a"), 5));
    let verdict = review::validate(&request, &budget(big()));
    assert!(verdict.is_early);
    assert_eq!(
        verdict.message(),
        "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: gate \"acme.io/budget\" is missing, which Gate \"budget.acme.io\" sets: the object or the Gate was changed meanwhile; try again"
    );
}

const BUDGET: &str = "ann n budget.acme.io";

fn lifted(job: Value) -> Value {
    let record = r#"[{"gate":"acme.io/budget","by":"bob","uid":"u1"}]"#;
    with(
        job,
        "/metadata/annotations",
        json!({LIFTED_GATES_ANNOTATION: record}),
    )
}

#[rstest]
#[case::grows_past_the_limit(of_pods(Some("a"), 4), of_pods(Some("a"), 5), &[BUDGET])]
#[case::grows_below_the_limit(of_pods(Some("a"), 3), of_pods(Some("a"), 4), &[])]
#[case::was_as_large_before(of_pods(Some("a"), 5), of_pods(Some("a"), 50), &[])]
#[case::joins_a_queue(of_pods(None, 5), of_pods(Some("a"), 5), &[BUDGET])]
#[case::was_lifted_once(lifted(of_pods(Some("a"), 4)), lifted(of_pods(Some("a"), 5)), &[])]
#[case::has_the_gate(
    with(of_pods(Some("a"), 4), "/metadata/annotations", json!({GATES: "acme.io/budget"})),
    with(of_pods(Some("a"), 5), "/metadata/annotations", json!({GATES: "acme.io/budget"})), &[])]
#[case::pretends_to_be_a_child(of_pods(Some("a"), 4),
    owned(of_pods(Some("a"), 5), "jobset.x-k8s.io/v1alpha2", "JobSet"), &[BUDGET])]
fn an_edit_needs_the_right_to_lift(
    #[case] old: Value,
    #[case] new: Value,
    #[case] expected: &[&str],
) {
    let (verdict, asked) = judge_by(&budget(big()), USER, Permission::Allowed, Some(&old), &new);
    assert!(verdict.is_allowed(), "{}", verdict.message());
    assert_eq!(asked, expected);
}

#[rstest]
#[case::spec(of_pods(Some("a"), 4), of_pods(Some("a"), 5), "spec")]
#[case::queue(
    of_pods(None, 5),
    of_pods(Some("a"), 5),
    "metadata.labels[sluice.dev/queue-name]"
)]
fn who_may_not_lift_is_told_to_create_the_object_anew(
    #[case] old: Value,
    #[case] new: Value,
    #[case] field: &str,
) {
    let policy = budget(big());
    let verdict = judge_by(&policy, USER, Permission::Denied, Some(&old), &new).0;
    assert_eq!(
        verdict.message(),
        format!(
            "{field}: Forbidden: Gate \"budget.acme.io\" applies to the object after this edit, and its gate \"acme.io/budget\" can be set only at creation; user \"ann\" cannot lift gates.sluice.dev \"budget.acme.io\" in namespace \"n\": delete the object and create it again; ask budget@acme.io"
        )
    );
}

#[test]
fn nobody_is_asked_about_gates_that_anyone_lifts() {
    let policy = policy_of(&[("acme.io/budget", Lifting::Anyone, big())]);
    let (old, new) = (of_pods(Some("a"), 4), of_pods(Some("a"), 5));
    let (verdict, asked) = judge_by(&policy, USER, Permission::Denied, Some(&old), &new);
    assert!(verdict.is_allowed());
    assert_eq!(asked, [""; 0]);
}

#[rstest]
#[case::grows(
    "object.spec.missing == 1 || pods > 4",
    of_pods(Some("a"), 4),
    of_pods(Some("a"), 5),
    &[BUDGET]
)]
#[case::moves("object.spec.missing == 1", of_pods(Some("a"), 4), of_pods(Some("b"), 4), &[BUDGET])]
#[case::of_a_class_that_is_gone("priority < 0",
    mk_job(&[(QUEUE, "a"), (PRIORITY, "gone")], &[], false),
    mk_job(&[(QUEUE, "a"), (PRIORITY, "low")], &[], false), &[BUDGET])]
#[case::becomes_clear("object.spec.missing == 1", of_pods(Some("a"), 4),
    with(of_pods(Some("a"), 4), "/spec/missing", json!(2)), &[])]
#[case::stays_as_it_is(
    "object.spec.missing == 1",
    mk_job(&[(QUEUE, "a")], &[(GATES, "acme.io/data")], false),
    mk_job(&[(QUEUE, "a")], &[], false),
    &[]
)]
fn what_was_not_clear_before_frees_no_edit(
    #[case] source: &str,
    #[case] old: Value,
    #[case] new: Value,
    #[case] expected: &[&str],
) {
    let policy = budget(when(source));
    let (_, asked) = judge_by(&policy, USER, Permission::Allowed, Some(&old), &new);
    assert_eq!(asked, expected);
}

/// The gates that a pod with a controller names are its owner's.
#[test]
fn an_edit_of_an_owned_pod_is_not_free_for_a_gate_that_it_names() {
    let pod = |queue| {
        let pod = mk_pod(&[(QUEUE, queue)], &[(GATES, "acme.io/budget")], &[]);
        owned(pod, "apps/v1", "ReplicaSet")
    };
    let policy = budget(AppliesTo {
        queues: vec!["gold".to_owned()],
        ..AppliesTo::default()
    });
    let (old, new) = (pod("silver"), pod("gold"));
    let (_, asked) = judge_by(&policy, USER, Permission::Allowed, Some(&old), &new);
    assert_eq!(asked, [BUDGET]);
}
