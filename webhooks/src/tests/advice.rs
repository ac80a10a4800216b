//! What the author of an object is warned of that is taken.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::{GateSpec, QueuePriorityClasses};
use sluice_kinds::gates::Gate;

use super::*;
use crate::{ClusterQueueState, GroupLimits, LocalQueueState, QueueStates, QuotaLimits, Uncovered};

/// Of 4 and 6 CPUs, and 8 GiB of memory in the first flavor alone.
fn limited() -> ClusterQueueState {
    let flavor = |name: &str, cpu: i128, memory: i128| {
        let amounts = [
            ("cpu", cpu * 1_000_000_000),
            ("memory", (memory << 30) * 1_000_000_000),
        ];
        let amounts = amounts.map(|(name, amount)| (name.to_owned(), amount));
        (name.to_owned(), amounts.into())
    };
    let ignored = ["ephemeral-storage".to_owned()];
    ClusterQueueState {
        priority_classes: Some(QueuePriorityClasses {
            allowed: Some(vec!["mid".to_owned(), "low".to_owned()]),
            default: None,
        }),
        limits: Some(Arc::new(QuotaLimits {
            groups: vec![GroupLimits {
                flavors: vec![flavor("one", 4, 8), flavor("two", 6, 1)],
            }],
            uncovered: Uncovered::InadmissibleBut(Arc::new(ignored.into())),
        })),
        ..ClusterQueueState::default()
    }
}

fn policy(are_listed: bool) -> Policy {
    with_queues(mk_policy(), are_listed)
}

fn with_queues(policy: Policy, are_listed: bool) -> Policy {
    let state = |cluster_queue: &str, is_stopped| {
        Some(LocalQueueState {
            cluster_queue: cluster_queue.to_owned(),
            is_stopped,
        })
    };
    let mut states = QueueStates::default();
    states.set_local_queue("n", "q", state("a", false));
    states.set_local_queue("n", "stopped", state("a", true));
    states.set_local_queue("n", "of-stopped", state("b", false));
    states.set_local_queue("n", "of-none", state("c", false));
    states.set_local_queue("n", "of-counted", state("counted", false));
    let state = |is_stopped, counts_pods| ClusterQueueState {
        is_stopped,
        counts_pods,
        ..ClusterQueueState::default()
    };
    states.set_cluster_queue("a", limited());
    states.set_cluster_queue("b", state(true, false));
    states.set_cluster_queue("counted", state(false, true));
    states.set_complete(are_listed);
    let budget = Gate::parse("acme.io/budget", "").unwrap();
    let spec = |spec: Value| Arc::new(serde_json::from_value(spec).unwrap());
    let night = json!({"schedule": {"notBefore": {}}});
    let data =
        json!({"after": {"kinds": [{"group": "batch", "kind": "Job", "condition": "true"}]}});
    policy
        .with_gates([
            (budget, Arc::new(GateSpec::default())),
            (Gate::parse("acme.io/night", "").unwrap(), spec(night)),
            (Gate::parse("acme.io/data", "").unwrap(), spec(data)),
        ])
        .with_queue_states(Arc::new(arc_swap::ArcSwap::from_pointee(states)))
}

fn warnings(object: &Value, policy: &Policy) -> Vec<String> {
    let verdict = validate_held(USER, None, object, policy);
    assert_eq!(verdict.problems, []);
    verdict.warnings
}

fn job(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Value {
    mk_job(labels, annotations, true)
}

fn of_group(is_fast: &str) -> Value {
    let labels = [(QUEUE, "q"), ("sluice.dev/pod-group-name", "g")];
    let annotations = [
        ("sluice.dev/pod-group-total-count", "2"),
        ("kueue.x-k8s.io/pod-group-fast-admission", is_fast),
    ];
    mk_pod(&labels, &annotations, &[])
}

fn idle_pod(queue: &str) -> Value {
    with(
        mk_pod(&[(QUEUE, queue)], &[], &[]),
        "/spec/containers",
        json!([{"name": "c"}]),
    )
}

fn asking(pods: i64, cpu: &str, memory: &str) -> Value {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}});
    let job = with(job(&[(QUEUE, "q")], &[]), "/spec/parallelism", json!(pods));
    let job = with(job, "/spec/completions", json!(pods));
    with(job, "/spec/template/spec/containers", json!([container]))
}

fn asking_for(resource: &str, amount: &str) -> Value {
    with(
        asking(1, "1", "1Mi"),
        "/spec/template/spec/containers/0/resources/requests",
        json!({resource: amount}),
    )
}

/// A Job with a deadline whose template has these scheduling gates.
fn with_deadline(annotations: &[(&str, &str)], gates: &[&str]) -> Value {
    let gates: Vec<Value> = gates.iter().map(|name| json!({"name": name})).collect();
    let job = with(
        job(&[(QUEUE, "q")], annotations),
        "/spec/activeDeadlineSeconds",
        json!(3600),
    );
    with(job, "/spec/template/spec/schedulingGates", json!(gates))
}

const DEADLINE: &str = "spec.activeDeadlineSeconds: counts while pods of the Job wait behind gates, as it is not suspended meanwhile; it may fail before any of them has run";

fn of_pod_class(class: &str) -> Value {
    with(
        asking(1, "1", "1Mi"),
        "/spec/template/spec/priorityClassName",
        json!(class),
    )
}

/// Each set of pods may name a class.
#[test]
fn the_classes_of_all_pods_are_looked_at() {
    let mut kind = mk_job_kind("batch", "Job");
    let mut second = kind.spec.pod_sets[0].clone();
    second.name = "second".to_owned();
    second.template = Some(".spec.second".to_owned());
    second.partial_admission = None;
    kind.spec.pod_sets.push(second);
    let kind = Arc::new(CompiledKind::compile(&kind).unwrap());
    let policy = Policy::new([kind], QueueLabels::default(), SLUICE);
    let mut job = of_pod_class("low");
    job["spec"]["second"] = of_pod_class("gold")["spec"]["template"].clone();
    let told = warnings(&job, &with_queues(policy, true));
    let of_gold = "supported values: \"low\", \"mid\"; the object can't be queued";
    assert!(
        told.iter()
            .any(|told| told.contains("\"gold\"") && told.ends_with(of_gold)),
        "{told:?}"
    );
}

fn idle(queue: &str) -> Value {
    with(
        job(&[(QUEUE, queue)], &[]),
        "/spec/template/spec/containers",
        json!([{"name": "c"}]),
    )
}

#[rstest]
#[case::well(job(&[(QUEUE, "q")], &[(GATES, "acme.io/budget")]), &[])]
#[case::no_queue(job(&[(QUEUE, "none")], &[]), &[
    "metadata.labels[sluice.dev/queue-name]: there is no LocalQueue \"none\" in namespace \"n\"; the object waits until there is"])]
#[case::stopped(job(&[(QUEUE, "stopped")], &[]), &[
    "metadata.labels[sluice.dev/queue-name]: LocalQueue \"stopped\" is stopped (stopPolicy); the object waits until it is not"])]
#[case::of_a_stopped_one(job(&[(QUEUE, "of-stopped")], &[]), &[
    "metadata.labels[sluice.dev/queue-name]: ClusterQueue \"b\" is stopped (stopPolicy); the object waits until it is not"])]
#[case::of_none(job(&[(QUEUE, "of-none")], &[]), &[
    "metadata.labels[sluice.dev/queue-name]: there is no ClusterQueue \"c\", which LocalQueue \"of-none\" names; the object waits until there is"])]
#[case::no_class(job(&[(QUEUE, "q"), ("sluice.dev/priority-class", "high")], &[]), &[
    "metadata.labels[sluice.dev/priority-class]: there is no WorkloadPriorityClass \"high\"; the object can't be queued until there is",
    "ClusterQueue \"a\" does not allow this priority class: metadata.labels[sluice.dev/priority-class]: Unsupported value: \"high\": supported values: \"low\", \"mid\"; the object can't be queued"])]
#[case::no_pod_class(of_pod_class("gold"), &[
    "spec.priorityClassName of its pods: there is no PriorityClass \"gold\"; no pod can be made until there is",
    "ClusterQueue \"a\" does not allow this priority class: spec.priorityClassName of its pods: Unsupported value: \"gold\": supported values: \"low\", \"mid\"; the object can't be queued"])]
#[case::largest(asking(3, "2", "256Mi"), &[])]
#[case::too_many_cpus(asking(4, "2", "1Mi"), &[
    "pod set \"main\": requests 8 of cpu, and ClusterQueue \"a\" can provide at most 6 in one flavor (\"two\"); the object can't be admitted"])]
#[case::too_much_in_one_flavor(asking(5, "1", "1Gi"), &[
    "pod set \"main\": no flavor of ClusterQueue \"a\" can provide all that it requests of cpu, memory; the object can't be admitted"])]
#[case::without_quota(asking_for("nvidia.com/gpu", "1"), &[
    "pod set \"main\": requests nvidia.com/gpu, for which ClusterQueue \"a\" has no quota; the object can't be admitted"])]
#[case::ignored(asking_for("ephemeral-storage", "1Ti"), &[])]
#[case::devices_by_the_name_of_their_class(asking_for("deviceclass.resource.kubernetes.io/gpu.example.com", "1"), &[])]
#[case::no_requests_where_pods_count(idle("of-counted"), &[])]
#[case::no_requests_in_a_queue_that_is_missing(idle("none"), &[
    "metadata.labels[sluice.dev/queue-name]: there is no LocalQueue \"none\" in namespace \"n\"; the object waits until there is"])]
#[case::no_requests(idle("q"), &[
    "pod set \"main\": its pods request nothing, so they use no quota, unless a LimitRange adds requests"])]
#[case::a_letter_off(job(&[("sluice.dev/queue-nam", "q")], &[]), &[
    "metadata.labels[sluice.dev/queue-nam]: is not a key that Sluice knows; did you mean sluice.dev/queue-name?"])]
#[case::a_letter_off_the_domain(job(&[("sluce.dev/queue-name", "q")], &[]), &[
    "metadata.labels[sluce.dev/queue-name]: is not a key that Sluice knows; did you mean sluice.dev/queue-name?"])]
#[case::an_annotation(job(&[], &[("sluice.dev/not-befor", "x")]), &[
    "metadata.annotations[sluice.dev/not-befor]: is not a key that Sluice knows; did you mean sluice.dev/not-before?"])]
#[case::a_gate_annotation(job(&[(QUEUE, "q")], &[("kueue.x-k8s.io/scheduling-gate-by", "acme.io/x"), ("kueue.x-k8s.io/admission-gated-bi", "acme.io/x")]), &[
    "metadata.annotations[kueue.x-k8s.io/admission-gated-bi]: is not a key that Sluice knows; did you mean kueue.x-k8s.io/admission-gated-by?",
    "metadata.annotations[kueue.x-k8s.io/scheduling-gate-by]: is not a key that Sluice knows; did you mean kueue.x-k8s.io/scheduling-gated-by?"])]
#[case::a_label_as_annotation(job(&[(QUEUE, "q")], &[("sluice.dev/priority-class", "high")]), &[
    "metadata.annotations[sluice.dev/priority-class]: has no effect there; set metadata.labels[sluice.dev/priority-class]"])]
#[case::an_annotation_as_label(job(&[(QUEUE, "q"), ("sluice.dev/min-parallelism", "1")], &[]), &[
    "metadata.labels[sluice.dev/min-parallelism]: has no effect there; set metadata.annotations[sluice.dev/min-parallelism]"])]
#[case::in_both(job(&[(QUEUE, "q")], &[(QUEUE, "q")]), &[])]
#[case::of_kueue(job(&[(QUEUE, "q")], &[("kueue.x-k8s.io/retriable-in-group", "false")]), &[
    "metadata.annotations[kueue.x-k8s.io/retriable-in-group]: has no effect, as retriableInGroupAnnotationAliases of Sluice's configuration does not list it; use sluice.dev/retriable-in-group"])]
#[case::without_counterpart(job(&[(QUEUE, "q")], &[("kueue.x-k8s.io/job-completions-equal-parallelism", "true"), ("sluice.dev/min-parallelism", "1")]), &[
    "metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]: has no effect: spec.completions stays as it is if fewer pods than that are admitted; a Job whose pods wait for each other must not have sluice.dev/min-parallelism"])]
#[case::whole(job(&[(QUEUE, "q")], &[("kueue.x-k8s.io/job-completions-equal-parallelism", "true")]), &[])]
#[case::without_a_time_limit(job(&[(QUEUE, "q"), ("kueue.x-k8s.io/max-exec-time-seconds", "3600")], &[]), &[
    "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: has no effect: Sluice ends no job after a time; set a deadline that its own controller knows, such as spec.activeDeadlineSeconds of a Job"])]
#[case::far_off(job(&[("sluice.dev/team", "q"), ("acme.io/queue-nam", "q")], &[]), &[])]
#[case::a_deadline_of_a_suspended_job(with_deadline(&[], &[]), &[])]
#[case::a_deadline_behind_gates(with_deadline(&[("sluice.dev/admission", "PerPod")], &[]), &[DEADLINE])]
#[case::a_deadline_behind_gates_of_others(with_deadline(&[], &["acme.io/other"]), &[DEADLINE])]
#[case::no_gate(job(&[(QUEUE, "q")], &[(GATES, "acme.io/budgt,other.io/x")]), &[
    "gate \"acme.io/budgt\" has no Gate, as other gates of acme.io have; whoever may edit the object may lift it"])]
#[case::no_time(job(&[], &[(GATES, "acme.io/night")]), &[
    "metadata.annotations[sluice.dev/not-before]: Required value: a time such as 2026-12-01T08:00:00Z; until then gate acme.io/night holds the object"])]
#[case::a_bad_time(job(&[], &[(GATES, "acme.io/night"), ("sluice.dev/not-before", "tomorrow")]), &[
    "metadata.annotations[sluice.dev/not-before]: Invalid value: \"tomorrow\": must be a time in the form of RFC 3339, such as 2026-12-01T08:00:00Z or 2026-12-01T09:00:00+01:00; until then gate acme.io/night holds the object"])]
#[case::a_time(job(&[], &[(GATES, "acme.io/night"), ("sluice.dev/not-before", "2026-12-01T08:00:00Z")]), &[])]
#[case::no_object(job(&[], &[(GATES, "acme.io/data")]), &[
    "metadata.annotations[sluice.dev/after]: Required value: the name of a Job.batch in the namespace of this object; until then gate acme.io/data holds the object"])]
#[case::an_object(job(&[], &[(GATES, "acme.io/data"), ("sluice.dev/after", "prepare")]), &[])]
fn what_is_warned_of(#[case] object: Value, #[case] expected: &[&str]) {
    assert_eq!(warnings(&object, &policy(true)), expected);
}

#[rstest]
#[case::that_requests(mk_pod(&[(QUEUE, "q")], &[], &[]), &[])]
#[case::without_requests(idle_pod("q"), &["spec.containers: request nothing, so the pod uses no quota"])]
#[case::where_pods_count(idle_pod("of-counted"), &[])]
#[case::without_a_queue(with(idle_pod("q"), "/metadata/labels", json!({})), &[])]
#[case::of_a_group_that_is_not_all_there(of_group("true"), &["metadata.annotations[kueue.x-k8s.io/pod-group-fast-admission]: has no effect: the group waits until all its pods exist; create all of them without waiting until the first one runs"])]
#[case::of_a_group(of_group("false"), &[])]
fn of_a_pod_the_same_is_told(#[case] pod: Value, #[case] expected: &[&str]) {
    let policy = policy(true);
    let (stored, _) = created_by(USER, &pod, &policy);
    assert_eq!(warnings(&stored, &policy), expected);
}

#[test]
fn nothing_is_said_of_queues_that_are_not_listed() {
    assert_eq!(
        warnings(&job(&[(QUEUE, "none")], &[]), &policy(false)),
        [""; 0]
    );
}

#[test]
fn a_label_of_kueue_that_is_no_alias_is_told() {
    let object = job(&[(QUEUE, "q"), (ALIAS, "q")], &[]);
    assert_eq!(warnings(&object, &policy(true)), [""; 0]);
    let kind: JobKind = mk_job_kind("batch", "Job");
    let policy = Policy::new(
        [Arc::new(CompiledKind::compile(&kind).unwrap())],
        QueueLabels::default(),
        SLUICE,
    )
    .with_applied([], Arc::new(surroundings()));
    assert_eq!(
        warnings(&object, &policy),
        [
            "metadata.labels[kueue.x-k8s.io/queue-name]: has no effect, as queueLabelAliases of Sluice's configuration does not list it; sluice.dev/queue-name counts"
        ]
    );
}

/// `object`, whose pods have this label or annotation.
fn of_pods(object: Value, map: &str, key: &str, value: &str) -> Value {
    let metadata = json!({map: {key: value}});
    with(object, "/spec/template/metadata", metadata)
}

const GATE_OF_PODS: &str = "spec.template.metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]: has no effect, as gates do not hold pods that a controller makes; set metadata.annotations[kueue.x-k8s.io/scheduling-gated-by] of the ";
const QUEUE_OF_PODS: &str = "spec.template.metadata.labels[sluice.dev/queue-name]: queues no pod, as the Job is admitted as a whole in LocalQueue \"q\", which metadata.labels[sluice.dev/queue-name] names";
const Q: (&str, &str) = (QUEUE, "q");
const PER_POD: (&str, &str) = ("sluice.dev/admission", "PerPod");

#[rstest]
#[case::of_a_job(job(&[Q], &[]), "acme.io/budget", Some("Job"))]
#[case::that_names_no_gate(job(&[Q], &[]), "mygate", Some("Job"))]
#[case::of_a_deployment(mk_deployment(&[Q], &[]), "acme.io/budget", Some("Deployment"))]
#[case::by_the_pod(job(&[Q], &[PER_POD]), "acme.io/budget", Some("Job"))]
#[case::without_a_queue(job(&[], &[]), "acme.io/budget", Some("Job"))]
#[case::beside_another(job(&[Q], &[(GATED, "acme.io/data")]), "acme.io/budget", Some("Job"))]
#[case::of_the_object_too(job(&[Q], &[(GATED, "acme.io/budget")]), "acme.io/budget", None)]
#[case::in_a_list(job(&[Q], &[(GATES, "b.io/x,acme.io/budget")]), "acme.io/budget", None)]
fn a_gate_that_only_a_template_names_is_told(
    #[case] object: Value,
    #[case] gate: &str,
    #[case] expected: Option<&str>,
) {
    let policy = policy(false).with_gates([]);
    let object = of_pods(object, "annotations", GATED, gate);
    let stored = created_by(USER, &object, &policy).0;
    let expected = expected.map(|kind| format!("{GATE_OF_PODS}{kind}"));
    let expected: Vec<_> = expected.into_iter().collect();
    assert_eq!(warnings(&stored, &policy), expected);
}

#[test]
fn the_controller_of_an_owner_is_told_nothing_of_its_templates() {
    let object = of_pods(job(&[Q], &[]), "annotations", GATED, "acme.io/budget");
    let child = owned(object, "jobset.x-k8s.io/v1alpha2", "JobSet");
    let request = mk_request(JOBSET_CONTROLLER, None, &child);
    let verdict = crate::review::validate(&request, &policy(true));
    assert_eq!(verdict, Verdict::allowed());
}

#[test]
fn so_is_one_that_an_edit_gives_to_a_template() {
    let old = mk_deployment(&[Q], &[]);
    let new = of_pods(old.clone(), "annotations", GATED, "acme.io/budget");
    let told =
        |old: &Value, new: &Value| validate_held(USER, Some(old), new, &policy(true)).warnings;
    assert_eq!(told(&old, &new), [format!("{GATE_OF_PODS}Deployment")]);
    let scaled = with(new.clone(), "/spec/replicas", json!(9));
    assert_eq!(told(&new, &scaled), [""; 0], "it was there before");
}

#[rstest]
#[case::other(job(&[Q], &[]), "other", &[QUEUE_OF_PODS])]
#[case::same(job(&[Q], &[]), "q", &[])]
#[case::by_the_pod(job(&[Q], &[PER_POD]), "other", &[])]
#[case::without_a_queue(job(&[], &[(GATED, "acme.io/budget")]), "other", &[])]
#[case::of_a_deployment(mk_deployment(&[Q], &[]), "other", &[])]
fn a_queue_that_only_a_template_names_is_told(
    #[case] object: Value,
    #[case] queue: &str,
    #[case] expected: &[&str],
) {
    let policy = policy(true);
    let object = of_pods(object, "labels", QUEUE, queue);
    let (stored, _) = created_by(USER, &object, &policy);
    assert_eq!(warnings(&stored, &policy), expected);
}

#[rstest]
#[case::to_one_that_is_not_allowed(Some("mid"), Some("gold"), 2)]
#[case::to_one_that_is_missing(Some("gold"), Some("mid"), 1)]
#[case::of_nothing(Some("gold"), Some("gold"), 0)]
#[case::that_takes_it_away(Some("gold"), None, 0)]
fn an_edit_of_the_priority_class_is_warned_of(
    #[case] old: Option<&str>,
    #[case] new: Option<&str>,
    #[case] expected: usize,
) {
    let of_class = |class: Option<&str>| {
        let class = class.map(|class| ("sluice.dev/priority-class", class));
        let labels: Vec<_> = class.into_iter().chain([(QUEUE, "q")]).collect();
        job(&labels, &[])
    };
    let (old, new) = (of_class(old), of_class(new));
    let verdict = crate::review::validate(&mk_request(USER, Some(&old), &new), &policy(true));
    assert_eq!(verdict.warnings.len(), expected, "{verdict:?}");
}

const GONE: &str = "metadata.labels[sluice.dev/queue-name]: there is no LocalQueue \"gone\" in namespace \"n\"; the object waits until there is";
const STOPPED: &str = "metadata.labels[sluice.dev/queue-name]: LocalQueue \"stopped\" is stopped (stopPolicy); the object waits until it is not";
const NINE: &str = "pod set \"main\": requests 9 of cpu, and ClusterQueue \"a\" can provide at most 6 in one flavor (\"two\"); the object can't be admitted";
const OFF: &str = "metadata.labels[sluice.dev/queue-nam]: is not a key that Sluice knows; did you mean sluice.dev/queue-name?";
const NOTHING: &str = "pod set \"main\": its pods request nothing, so they use no quota, unless a LimitRange adds requests";

#[rstest]
#[case::that_names_no_queue_that_is_there(job(&[], &[]), job(&[(QUEUE, "gone")], &[]), &[GONE])]
#[case::from_one_queue_to_another(job(&[Q], &[]), job(&[(QUEUE, "gone")], &[]), &[GONE])]
#[case::to_one_that_is_stopped(job(&[Q], &[]), job(&[(QUEUE, "stopped")], &[]), &[STOPPED])]
#[case::to_one_that_is_there(job(&[(QUEUE, "gone")], &[]), job(&[Q], &[]), &[])]
#[case::of_requests(asking(1, "1", "1Mi"), asking(1, "9", "1Mi"), &[NINE])]
#[case::of_what_was_too_large(asking(1, "8", "1Mi"), asking(1, "9", "1Mi"), &[NINE])]
#[case::to_no_requests(asking(1, "1", "1Mi"), idle("q"), &[NOTHING])]
#[case::of_a_key(job(&[Q], &[]), job(&[Q, ("sluice.dev/queue-nam", "q")], &[]), &[OFF])]
#[case::of_something_else(
    job(&[(QUEUE, "gone")], &[]), with(job(&[(QUEUE, "gone")], &[]), "/metadata/finalizers", json!(["a.io/b"])), &[])]
#[case::of_a_waiting_pod(waiting_pod("q"), waiting_pod("gone"), &[GONE])]
#[case::of_a_template(
    mk_deployment(&[], &[]), of_pods(mk_deployment(&[], &[]), "labels", QUEUE, "gone"),
    &["spec.template.metadata.labels[sluice.dev/queue-name]: there is no LocalQueue \"gone\" in namespace \"n\"; the object waits until there is"])]
#[case::of_the_template_of_a_cron_job(
    mk_cron_job(&json!({(QUEUE): "q"})), mk_cron_job(&json!({(QUEUE): "gone"})),
    &["spec.jobTemplate.metadata.labels[sluice.dev/queue-name]: there is no LocalQueue \"gone\" in namespace \"n\"; the object waits until there is"])]
fn an_edit_is_warned_of_what_it_brings_in(
    #[case] old: Value,
    #[case] new: Value,
    #[case] expected: &[&str],
) {
    let policy = policy(true);
    assert_eq!(edited(&old, &new, "", &policy), expected);
    assert_eq!(
        edited(&new, &new, "", &policy),
        [""; 0],
        "it was there before"
    );
    assert_eq!(edited(&old, &new, "status", &policy), [""; 0]);
}

fn waiting_pod(queue: &str) -> Value {
    let labels = [(QUEUE, queue), ("sluice.dev/managed", "true")];
    mk_pod(&labels, &[(GATE, "true")], &[GATE])
}

/// What is warned of in an edit of a subresource.
fn edited(old: &Value, new: &Value, sub_resource: &str, policy: &Policy) -> Vec<String> {
    let mut review = mk_review(USER, Some(old), new);
    review["request"]["subResource"] = json!(sub_resource);
    let request = Request::parse(review.to_string().as_bytes()).unwrap();
    let verdict = crate::review::validate(&request, policy);
    assert_eq!(verdict.problems, []);
    verdict.warnings
}

const NO_QUEUE: &str =
    "there is no LocalQueue \"gone\" in namespace \"n\"; the object waits until there is";
const NO_CLASS: &str =
    "there is no WorkloadPriorityClass \"high\"; the object can't be queued until there is";

fn mk_cron_job(labels: &Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "n"},
        "spec": {"jobTemplate": {"metadata": {"labels": labels}, "spec": {}}}})
}

#[rstest]
#[case::of_a_deployment(of_pods(mk_deployment(&[], &[]), "labels", QUEUE, "gone"), &[("spec.template", QUEUE, NO_QUEUE)])]
#[case::that_is_there(of_pods(mk_deployment(&[], &[]), "labels", QUEUE, "q"), &[])]
#[case::class_of_its_pods(of_pods(mk_deployment(&[Q], &[]), "labels", "sluice.dev/priority-class", "high"),
    &[("spec.template", "sluice.dev/priority-class", NO_CLASS)])]
#[case::class_without_a_queue(of_pods(mk_deployment(&[], &[]), "labels", "sluice.dev/priority-class", "high"), &[])]
#[case::of_a_cron_job(mk_cron_job(&json!({(QUEUE): "gone", "sluice.dev/priority-class": "high"})), &[
    ("spec.jobTemplate", QUEUE, NO_QUEUE), ("spec.jobTemplate", "sluice.dev/priority-class", NO_CLASS)])]
#[case::of_a_cron_job_that_is_there(mk_cron_job(&json!({(QUEUE): "q"})), &[])]
fn what_is_missing_for_what_a_template_makes_is_told(
    #[case] object: Value,
    #[case] expected: &[(&str, &str, &str)],
) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(template, key, told)| format!("{template}.metadata.labels[{key}]: {told}"))
        .collect();
    assert_eq!(warnings(&object, &policy(true)), expected);
}
