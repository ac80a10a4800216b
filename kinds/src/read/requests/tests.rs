//! Pods and what is counted for them.

use serde_json::json;

use super::*;
use crate::fixtures::{batch_job, job_kind};
use crate::jobkind::kind::CompiledKind;
use crate::read::view::missing_runtime_classes;

fn defaults() -> PodDefaults {
    PodDefaults {
        container_requests: [("memory".to_owned(), 64 * NANOS)].into(),
        runtime_classes: Some([("kata".to_owned(), kata())].into()),
    }
}

fn kata() -> ClassAdditions {
    let class = json!({
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"pool": "kata"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    });
    ClassAdditions::of(&serde_json::from_value(class).unwrap())
}

fn shown(pod: &Value, defaults: &PodDefaults) -> Vec<String> {
    pod_requests(pod, "spec", defaults)
        .unwrap()
        .into_iter()
        .map(|(name, nanos)| format!("{name}={}", Quantity::of(&name, nanos)))
        .collect()
}

#[test]
fn counts_what_the_scheduler_counts() {
    let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let sidecar =
        |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    let cases = [
        ("nothing", json!({"containers": [{}]}), vec![]),
        (
            "sum",
            json!({"containers": [container("1"), container("500m")]}),
            vec!["cpu=1500m"],
        ),
        (
            "limit where the request is missing",
            json!({"containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "9", "memory": "1Gi"}}}]}),
            vec!["cpu=1", "memory=1Gi"],
        ),
        (
            "a larger init container",
            json!({"initContainers": [container("4")], "containers": [container("1")]}),
            vec!["cpu=4"],
        ),
        (
            "a sidecar runs beside the containers and the init containers after it",
            json!({"initContainers": [container("5"), sidecar("2"), container("4")], "containers": [container("1")]}),
            vec!["cpu=6"],
        ),
        (
            "pod-level request stands for the sum",
            json!({"resources": {"requests": {"cpu": "3"}}, "containers": [container("1")]}),
            vec!["cpu=3"],
        ),
        (
            "a pod-level request that is less than the sum",
            json!({"resources": {"requests": {"cpu": "1m", "memory": "2Gi"}}, "containers": [
                {"resources": {"requests": {"cpu": "64", "memory": "1Gi"}}}]}),
            vec!["cpu=64", "memory=2Gi"],
        ),
        (
            "a pod-level request that is less than an init container",
            json!({"resources": {"requests": {"cpu": "2"}}, "initContainers": [container("4")], "containers": [container("1")]}),
            vec!["cpu=4"],
        ),
        (
            "pod-level limit counts where nobody requests",
            json!({"resources": {"limits": {"cpu": "3", "memory": "1Gi"}}, "containers": [container("1")]}),
            vec!["cpu=1", "memory=1Gi"],
        ),
        (
            "overhead in the spec",
            json!({"overhead": {"cpu": "1"}, "containers": [container("1")]}),
            vec!["cpu=2"],
        ),
    ];
    for (name, pod, expected) in cases {
        assert_eq!(shown(&pod, &PodDefaults::default()), expected, "{name}");
    }
}

/// Only pods get that: a template stays as it is.
#[test]
fn what_a_runtime_class_says_of_nodes_stands_beside_the_pods_own() {
    let mut job = batch_job();
    job["spec"]["template"]["spec"]["runtimeClassName"] = json!("kata");
    let kind = CompiledKind::compile(&job_kind()).unwrap();
    let with_class = kind.pod_sets(&job, &defaults()).unwrap().remove(0);
    assert_eq!(with_class.class_placement, kata().placement);
    assert_eq!(kata().placement.node_selector["pool"], "kata");
    assert_eq!(kata().placement.tolerations.len(), 1);
    assert!(with_class.placement.is_empty());
    let unknown = kind.pod_sets(&job, &PodDefaults::default()).unwrap();
    assert!(unknown[0].class_placement.is_empty());
}

#[test]
fn a_runtime_class_is_missing_only_where_all_are_known() {
    let kind = CompiledKind::compile(&job_kind()).unwrap();
    let missing = |class: &str, defaults: &PodDefaults| {
        let mut job = batch_job();
        job["spec"]["template"]["spec"]["runtimeClassName"] = json!(class);
        let sets = kind.pod_sets(&job, defaults).unwrap();
        let problems = missing_runtime_classes(&sets).into_iter();
        let told: Vec<_> = problems.map(|problem| problem.to_string()).collect();
        told.join(", ")
    };
    let rule = "spec.template.spec.runtimeClassName: Invalid value: \"gvisor\": there is no RuntimeClass \"gvisor\": create it, and the job is queued";
    assert_eq!(missing("gvisor", &defaults()), rule);
    for (class, defaults) in [
        ("kata", defaults()),
        ("", defaults()),
        ("gvisor", PodDefaults::default()),
    ] {
        assert_eq!(missing(class, &defaults), "", "{class}");
    }
}

#[test]
fn adds_what_the_api_server_will_add() {
    let pod = json!({"runtimeClassName": "kata", "containers": [{}, {"resources": {"requests": {"memory": "1"}}}]});
    assert_eq!(shown(&pod, &defaults()), vec!["cpu=250m", "memory=65"]);
}

/// The API server fills in pod-level requests before LimitRanger fills in those of containers.
#[test]
fn pod_level_requests_come_before_the_defaults_of_containers() {
    let small = json!({"resources": {"requests": {"memory": "16"}}});
    let cases = [
        (
            "a pod-level limit where no container requests",
            json!({"resources": {"limits": {"memory": "4Ki"}}, "containers": [{}, {}]}),
            vec!["memory=4Ki"],
        ),
        (
            "what one container requests, with the default of the other, which is more",
            json!({"resources": {"limits": {"memory": "4Ki"}}, "containers": [small, {}]}),
            vec!["memory=80"],
        ),
        (
            "a limit of another resource",
            json!({"resources": {"limits": {"cpu": "4"}}, "containers": [small, {}]}),
            vec!["cpu=4", "memory=80"],
        ),
        (
            "no limit at all",
            json!({"resources": {"requests": {"cpu": "4"}}, "containers": [small, {}]}),
            vec!["cpu=4", "memory=80"],
        ),
        (
            "a device is requested by containers alone",
            json!({"resources": {"limits": {"memory": "1"}}, "containers": [
                {"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}),
            vec!["memory=64", "nvidia.com/gpu=2"],
        ),
    ];
    for (name, pod, expected) in cases {
        assert_eq!(shown(&pod, &defaults()), expected, "{name}");
    }
}

/// They can't be overcommitted: a pod-level limit is what the pod requests (`defaultPodRequests`).
#[test]
fn pod_level_hugepages_are_requested_as_they_are_limited() {
    let pages = |amount: &str| json!({"hugepages-2Mi": amount});
    let container = json!({"resources": {"limits": pages("256Mi")}});
    let cases = [
        (json!({"limits": pages("512Mi")}), "512Mi"),
        (json!({"limits": {"cpu": "1"}}), "256Mi"),
        (json!({"requests": {"cpu": "1"}}), "256Mi"),
        (
            json!({"limits": pages("512Mi"), "requests": pages("512Mi")}),
            "512Mi",
        ),
    ];
    for (resources, expected) in cases {
        let pod = json!({"resources": resources, "containers": [container]});
        let requests = pod_requests(&pod, "spec", &PodDefaults::default()).unwrap();
        let pages = Quantity::of("hugepages-2Mi", requests["hugepages-2Mi"]);
        assert_eq!(pages.to_string(), expected, "{pod}");
    }
}

/// The API server takes any of them first.
#[test]
fn the_most_that_a_limit_range_gives_counts() {
    let amounts = |given: &[(&str, i128)]| -> Amounts {
        let given = given.iter();
        given
            .map(|(name, amount)| ((*name).to_owned(), *amount))
            .collect()
    };
    let ranges = [
        amounts(&[("cpu", 1), ("memory", 4)]),
        amounts(&[("cpu", 2), ("memory", 3), ("example.com/gpu", 1)]),
    ];
    for order in [[0, 1], [1, 0]] {
        let mut defaults = PodDefaults::default();
        for index in order {
            defaults.add_limit_range(&ranges[index]);
        }
        let most = amounts(&[("cpu", 2), ("memory", 4), ("example.com/gpu", 1)]);
        assert_eq!(defaults.container_requests, most);
    }
}

/// The operators of some kinds store an empty one, which the pod that they make does not have.
#[test]
fn an_empty_overhead_is_none() {
    for overhead in [json!({}), Value::Null] {
        let pod = json!({"runtimeClassName": "kata", "overhead": overhead, "containers": [{}]});
        assert_eq!(shown(&pod, &defaults()), ["cpu=250m", "memory=64"], "{pod}");
    }
}

#[test]
fn counts_all_containers_however_many() {
    let one = json!({"resources": {"requests": {"cpu": "1m"}}});
    let last = json!({"resources": {"requests": {"cpu": "64"}}});
    let mut containers = vec![one; 2000];
    containers.push(last.clone());
    let pod = json!({"containers": containers});
    assert_eq!(shown(&pod, &PodDefaults::default()), vec!["cpu=66"]);
    let mut starting = vec![json!({}); 2000];
    starting.push(last);
    let pod = json!({"containers": [{}], "initContainers": starting});
    assert_eq!(shown(&pod, &PodDefaults::default()), vec!["cpu=64"]);
}

#[test]
fn what_cannot_be_counted_is_told_once() {
    let bad = json!({"resources": {"requests": {"cpu": "lots"}}});
    let pod = json!({"resources": {"limits": {"cpu": "4"}}, "containers": [bad]});
    for defaults in [PodDefaults::default(), defaults()] {
        assert_eq!(pod_requests(&pod, "spec", &defaults).unwrap_err().len(), 1);
    }
}

#[test]
fn names_what_cannot_be_counted() {
    let pod = json!({"containers": [{"resources": {
        "requests": {"cpu": "-1", "memory": "lots", "example.com/gpu": "1e400"}}}]});
    let problems = pod_requests(&pod, "spec.template.spec", &PodDefaults::default()).unwrap_err();
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "spec.template.spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"1e400\": is too large to be counted: must be below 1e29",
            "spec.template.spec.containers[0].resources.requests[memory]: Invalid value: \"lots\": must be a quantity: a number with an optional suffix (such as \"500m\", \"2\", \"1.5Gi\" or \"1e3\")",
        ]
    );
}

/// Done in the square of what is written, this would take many minutes.
#[test]
fn many_containers_and_many_resources_cost_no_more_than_their_text() {
    let many: serde_json::Map<_, _> = (0..8000)
        .map(|number| (format!("example.com/{number}"), json!("1")))
        .collect();
    let mut init = vec![json!({"restartPolicy": "Always"}); 4000];
    init.insert(
        0,
        json!({"restartPolicy": "Always", "resources": {"limits": many}}),
    );
    init.extend(vec![json!({}); 4000]);
    let pod = json!({"containers": vec![json!({}); 4000], "initContainers": init});
    let limit_range = (0..8000).map(|number| (format!("example.org/{number}"), 1));
    for defaults in [Amounts::new(), limit_range.collect()] {
        let defaults = PodDefaults {
            container_requests: defaults,
            ..PodDefaults::default()
        };
        let requests = pod_requests(&pod, "spec", &defaults).unwrap();
        let expected = 8000 + defaults.container_requests.len();
        assert_eq!(requests.len(), expected);
    }
}

/// So it stores a pod of a template that it stores as it is.
#[test]
fn fractions_are_rounded_up_to_thousandths_as_the_api_server_does() {
    let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let cases = [
        (
            json!({"containers": [container("0.3333"), container("0.3333")]}),
            vec!["cpu=668m"],
        ),
        (json!({"containers": [container("1n")]}), vec!["cpu=1m"]),
        (json!({"containers": [container("334m")]}), vec!["cpu=334m"]),
        (
            json!({"containers": [{"resources": {"limits": {"memory": "1.0001Gi"}}}]}),
            vec!["memory=1073849198183m"],
        ),
        (
            json!({"resources": {"requests": {"cpu": "0.0001"}}, "overhead": {"cpu": "0.0001"}}),
            vec!["cpu=2m"],
        ),
    ];
    for (pod, expected) in cases {
        assert_eq!(shown(&pod, &PodDefaults::default()), expected, "{pod}");
    }
}
