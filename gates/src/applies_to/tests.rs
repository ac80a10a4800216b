//! What is refused, and to which objects a gate applies.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::quantity::NANOS;
use sluice_crds::{AppliedKind, AppliesTo};

use super::applicant::{Applicant, Applies, NotKnown, Totals};
use super::compiled::CompiledAppliesTo;

const GPU: &str = "nvidia.com/gpu";

/// A batch Job of ann in a namespace with the label `team: a`.
struct Sample {
    kind: &'static str,
    labels: Option<BTreeMap<String, String>>,
    queue: Option<&'static str>,
    asks: bool,
    object: Value,
    totals: Result<Totals, NotKnown>,
    groups: Vec<String>,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            kind: "Job",
            labels: Some([("team".to_owned(), "a".to_owned())].into()),
            queue: Some("gpu"),
            asks: true,
            object: json!({"spec": {"parallelism": 2}}),
            totals: Ok(gpus(65)),
            groups: vec!["staff".to_owned()],
        }
    }
}

fn gpus(count: i128) -> Totals {
    Totals {
        pods: 13,
        requests: [
            (GPU.to_owned(), count * NANOS),
            ("cpu".to_owned(), NANOS / 2),
        ]
        .into(),
    }
}

impl Applicant for Sample {
    fn group(&self) -> &str {
        if self.kind == "Pod" { "" } else { "batch" }
    }
    fn kind(&self) -> &str {
        self.kind
    }
    fn namespace_labels(&self) -> Option<&BTreeMap<String, String>> {
        self.labels.as_ref()
    }
    fn queue(&self) -> Option<&str> {
        self.queue
    }
    fn asks_for_sluice(&self) -> bool {
        self.asks
    }
    fn object(&self) -> &Value {
        &self.object
    }
    fn totals(&self) -> Result<Totals, NotKnown> {
        self.totals.clone()
    }
    fn priority(&self) -> Result<i32, NotKnown> {
        Ok(100)
    }
    fn user(&self) -> &'static str {
        "ann"
    }
    fn groups(&self) -> &[String] {
        &self.groups
    }
}

fn when(source: &str) -> AppliesTo {
    AppliesTo {
        when: Some(source.to_owned()),
        ..AppliesTo::default()
    }
}

fn team(operator: &str, values: &[&str]) -> LabelSelector {
    let values: Vec<_> = values.iter().map(|&value| value.to_owned()).collect();
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "team".to_owned(),
            operator: operator.to_owned(),
            values: (!values.is_empty()).then_some(values),
        }]),
        ..LabelSelector::default()
    }
}

fn selecting(selector: LabelSelector) -> AppliesTo {
    AppliesTo {
        namespace_selector: Some(selector),
        ..AppliesTo::default()
    }
}

fn applies(spec: &AppliesTo, sample: &Sample) -> Applies {
    CompiledAppliesTo::compile(spec).unwrap().applies(sample)
}

#[rstest]
#[case::as_many_as_are_free("requests['nvidia.com/gpu'] > 64", 64, Applies::No)]
#[case::one_more("requests['nvidia.com/gpu'] > 64", 65, Applies::Yes)]
#[case::none("requests['nvidia.com/gpu'] > 64", 0, Applies::No)]
#[case::not_requested("requests['amd.com/gpu'] > 64", 65, Applies::No)]
#[case::sum(
    "requests['amd.com/gpu'] + requests['nvidia.com/gpu'] > 64.0",
    65,
    Applies::Yes
)]
#[case::whole_amounts_are_doubles_too("requests['nvidia.com/gpu'] * 2.0 >= 130", 65, Applies::Yes)]
#[case::cores("requests.cpu == 0.5", 1, Applies::Yes)]
#[case::pods("pods == 13", 1, Applies::Yes)]
#[case::priority("priority < 100", 1, Applies::No)]
#[case::user("user == 'ann' && 'staff' in groups", 1, Applies::Yes)]
#[case::group("!('staff' in groups)", 1, Applies::No)]
#[case::queue("queue == 'gpu'", 1, Applies::Yes)]
#[case::object("object.spec.parallelism > 1", 1, Applies::Yes)]
#[case::missing_field("object.spec.completions > 1", 1,
    Applies::Unclear("spec.appliesTo.when fails: No such key: completions".to_owned()))]
#[case::guarded_field(
    "has(object.spec.completions) && object.spec.completions > 1",
    1,
    Applies::No
)]
#[case::computed_key("requests[object.spec.resource] > 1", 1,
    Applies::Unclear("spec.appliesTo.when fails: No such key: resource".to_owned()))]
fn an_expression(#[case] source: &str, #[case] count: i128, #[case] expected: Applies) {
    let totals = Ok(gpus(count));
    let sample = Sample {
        totals,
        ..Sample::default()
    };
    assert_eq!(applies(&when(source), &sample), expected);
}

#[test]
fn what_cannot_be_counted_gets_the_gate_if_the_expression_reads_it() {
    let sample = Sample {
        totals: Err(NotKnown::NoJobKind),
        ..Sample::default()
    };
    let unclear =
        Applies::Unclear("spec.appliesTo.when fails: no JobKind declares its kind".to_owned());
    assert_eq!(applies(&when("pods > 1000"), &sample), unclear);
    assert_eq!(applies(&when("priority > 1000"), &sample), Applies::No);
}

#[rstest]
#[case::everything_that_asks(AppliesTo::default(), true, Applies::Yes)]
#[case::nothing_else(AppliesTo::default(), false, Applies::No)]
#[case::all_of_all_namespaces(selecting(LabelSelector::default()), false, Applies::Yes)]
#[case::its_label(selecting(team("In", &["a", "b"])), false, Applies::Yes)]
#[case::another_label(selecting(team("NotIn", &["a"])), true, Applies::No)]
#[case::any_label(selecting(team("Exists", &[])), true, Applies::Yes)]
#[case::no_label(selecting(team("DoesNotExist", &[])), true, Applies::No)]
fn a_namespace(#[case] spec: AppliesTo, #[case] asks: bool, #[case] expected: Applies) {
    let sample = Sample {
        asks,
        ..Sample::default()
    };
    assert_eq!(applies(&spec, &sample), expected);
}

#[test]
fn a_namespace_that_is_not_known_yet_is_no_other() {
    let sample = Sample {
        labels: None,
        ..Sample::default()
    };
    let selecting = selecting(team("DoesNotExist", &[]));
    assert_eq!(applies(&selecting, &sample), Applies::Early);
    // What does not depend on it is judged.
    assert_eq!(applies(&AppliesTo::default(), &sample), Applies::Yes);
    let elsewhere = AppliesTo {
        queues: vec!["other".to_owned()],
        ..selecting
    };
    assert_eq!(applies(&elsewhere, &sample), Applies::No);
}

#[rstest]
#[case::of_the_queue(Some("gpu"), Applies::Yes)]
#[case::of_another(Some("cpu"), Applies::No)]
#[case::of_none(None, Applies::No)]
fn a_queue(#[case] queue: Option<&'static str>, #[case] expected: Applies) {
    let spec = AppliesTo {
        queues: vec!["gpu".to_owned()],
        ..AppliesTo::default()
    };
    let sample = Sample {
        queue,
        ..Sample::default()
    };
    assert_eq!(applies(&spec, &sample), expected);
    let everywhere = AppliesTo {
        namespace_selector: Some(LabelSelector::default()),
        ..spec
    };
    assert_eq!(applies(&everywhere, &sample), expected);
    let compiled = CompiledAppliesTo::compile(&everywhere).unwrap();
    assert!(!compiled.reaches_others());
}

#[rstest]
#[case::of_the_kind("Job", Applies::Yes)]
#[case::a_pod("Pod", Applies::Yes)]
#[case::of_another("CronJob", Applies::No)]
fn a_kind(#[case] kind: &'static str, #[case] expected: Applies) {
    let of = |group: &str, kind: &str| AppliedKind {
        group: group.to_owned(),
        kind: kind.to_owned(),
    };
    let spec = AppliesTo {
        kinds: vec![of("batch", "Job"), of("", "Pod"), of("apps", "CronJob")],
        ..AppliesTo::default()
    };
    let sample = Sample {
        kind,
        ..Sample::default()
    };
    assert_eq!(applies(&spec, &sample), expected);
}

#[rstest]
#[case::syntax(
    when("requests["),
    "spec.appliesTo.when: Invalid value: \"requests[\": must be a CEL expression: "
)]
#[case::undeclared(
    when("size > 1"),
    "spec.appliesTo.when: Invalid value: \"size > 1\": undeclared reference to \"size\" at 1:1: only \"object\", \"queue\", \"priority\", \"requests\", \"pods\", \"user\", \"groups\" are declared"
)]
#[case::type_of_result(
    when("'yes'"),
    "spec.appliesTo.when: Invalid value: \"'yes'\": must give a bool, not a string"
)]
#[case::types(
    when("requests.cpu > '64'"),
    "spec.appliesTo.when: Invalid value: \"requests.cpu > '64'\": requests.cpu is a double and \"64\" is a string: > can't compare them; requests are doubles, "
)]
#[case::int_times_double(
    when("requests.cpu * 2 > 64"),
    "spec.appliesTo.when: Invalid value: \"requests.cpu * 2 > 64\": requests.cpu is a double and 2 is an int: * needs two of one type; "
)]
#[case::no_bool(
    when("requests.cpu"),
    "spec.appliesTo.when: Invalid value: \"requests.cpu\": fails for every object: gave "
)]
#[case::operator(selecting(team("Is", &["a"])), "spec.appliesTo.namespaceSelector.matchExpressions[0].operator: Unsupported value: \"Is\"")]
#[case::no_values(selecting(team("In", &[])), "spec.appliesTo.namespaceSelector.matchExpressions[0].values: Required value")]
#[case::queue_name(AppliesTo { queues: vec!["a/b".to_owned()], ..AppliesTo::default() }, "spec.appliesTo.queues[0]: Invalid value: \"a/b\"")]
#[case::queue_twice(AppliesTo { queues: vec!["a".to_owned(), "a".to_owned()], ..AppliesTo::default() }, "spec.appliesTo.queues[1]: Duplicate value: \"a\"")]
fn what_is_wrong_is_told(#[case] spec: AppliesTo, #[case] expected: &str) {
    let problems = CompiledAppliesTo::compile(&spec).unwrap_err();
    let told = problems[0].to_string();
    assert!(told.starts_with(expected), "{told}");
}

#[rstest]
#[case(
    "priority == \"high\"",
    "priority is an int and \"high\" is a string: == can't compare them"
)]
#[case(
    "groups == \"admins\"",
    "groups is a list and \"admins\" is a string: == can't compare them"
)]
#[case(
    "queue != 5",
    "queue is a string and 5 is an int: != can't compare them"
)]
#[case(
    "requests.cpu == \"5\"",
    "requests.cpu is a double and \"5\" is a string: == can't compare them"
)]
#[case(
    "user == groups",
    "user is a string and groups is a list: == can't compare them"
)]
#[case(
    "priority in [1, \"high\"]",
    "\"high\" is a string, so it never equals priority, which is an int"
)]
#[case(
    "pods in groups",
    "groups is a list of string, so it never contains pods, which is an int"
)]
#[case("'a' in queue", "queue is a string, and in looks in lists and maps")]
#[case(
    "5 in requests",
    "requests is a map with string keys, so it never contains 5, which is an int"
)]
#[case(
    "requests[\"cpu\"] == null",
    "requests[\"cpu\"] is a double and null is null: == can't compare them"
)]
#[case(
    "size(queue) == \"a\"",
    "size(queue) is an int and \"a\" is a string: == can't compare them"
)]
#[case(
    "queue.size() == \"a\"",
    "queue.size() is an int and \"a\" is a string: == can't compare them"
)]
#[case(
    "object.a == 1 && priority == \"high\"",
    "priority is an int and \"high\" is a string: == can't compare them"
)]
#[case(
    "groups.exists(g, g == 1)",
    "g is a string and 1 is an int: == can't compare them"
)]
#[case("object.a && groups < groups", "groups is a list and has no order")]
#[case(
    "(pods > 1 ? user : queue) == 1",
    "pods > 1 ? user : queue is a string and 1 is an int: == can't compare them"
)]
#[case(
    "groups[0] == 1",
    "groups[0] is a string and 1 is an int: == can't compare them"
)]
#[case(
    "groups['a'] == 'b'",
    "groups is indexed by an int, and \"a\" is a string"
)]
#[case("requests.cpu.cores > 1", "requests.cpu is a double and has no fields")]
#[case("pods && object.a", "pods is an int, not a bool")]
#[case(
    "-priority == 'a'",
    "-priority is an int and \"a\" is a string: == can't compare them"
)]
#[case(
    "groups == [1]",
    "groups is a list and [1] is a list: == can't compare them"
)]
fn types_that_do_not_fit_are_told(#[case] source: &str, #[case] expected: &str) {
    let problems = CompiledAppliesTo::compile(&when(source)).unwrap_err();
    let told = problems[0].to_string();
    let begin = format!("spec.appliesTo.when: Invalid value: {source:?}: {expected}; ");
    assert!(told.starts_with(&begin), "{told}");
}

#[rstest]
#[case::another_number("priority == 5.0 && requests.cpu == 5 && pods in [1, 2.0]")]
#[case::later_elements("groups[1] == 'a' || groups[31] == 'a'")]
#[case::keys_of_requests("'cpu' in requests && has(requests.memory)")]
#[case::any_key("requests[queue] > 1")]
#[case::divided("64 / pods > 1 || 5 % priority == 1")]
#[case::converted("int(queue) > 5 || double(user) > 1.0")]
#[case::pattern("queue.matches(user + '[')")]
#[case::of_object("object.spec.a == 'a' || object.spec.a == null || priority == object.spec.a")]
#[case::in_object("queue in object.metadata.labels || pods in object.spec.list")]
#[case::macros("groups.all(g, g != 'a') && groups.filter(g, g == 'a').size() == 1")]
#[case::mapped("requests.map(name, requests[name]).exists(amount, amount > 5)")]
#[case::one("groups.exists_one(g, g.startsWith('a'))")]
#[case::hidden("[1].exists(queue, queue == 1) && queue == 'a'")]
#[case::added("user + queue == 'ab' && [user] + groups == ['a']")]
#[case::chosen("(pods > 1 ? user : queue) == 'a'")]
#[case::as_any("dyn(priority) == 'high'")]
fn types_that_fit_are_taken(#[case] source: &str) {
    let compiled = CompiledAppliesTo::compile(&when(source));
    assert!(compiled.is_ok(), "{compiled:?}");
}

#[test]
fn what_is_stored_and_wrong_holds_what_the_rest_matches() {
    let spec = AppliesTo {
        queues: vec!["gpu".to_owned()],
        ..when("requests[")
    };
    let compiled = CompiledAppliesTo::or_wider(&spec);
    let Applies::Unclear(why) = compiled.applies(&Sample::default()) else {
        panic!("it is clear");
    };
    assert!(
        why.starts_with("spec.appliesTo.when: Invalid value"),
        "{why}"
    );
    let elsewhere = Sample {
        queue: Some("cpu"),
        ..Sample::default()
    };
    assert_eq!(compiled.applies(&elsewhere), Applies::No);
}
