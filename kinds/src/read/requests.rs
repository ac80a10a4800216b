//! What the scheduler will count for one pod of a template: the rule of kube-scheduler's
//! `PodRequests` (KEP-753 sidecars, KEP-2837 pod-level resources, KEP-688 overhead), after the
//! defaults that the API server gives a pod (limits where requests are missing, LimitRange).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;
use sluice_crds::Quantity;

use crate::field::problem::Problem;

/// Amounts in nano-units by resource.
pub type Amounts = BTreeMap<String, i128>;

/// What the API server adds to pods of one namespace when they are created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDefaults {
    /// A container's requests where it has none, from the namespace's LimitRanges.
    pub container_requests: Amounts,
    /// The overhead of each RuntimeClass.
    pub overheads: BTreeMap<String, Amounts>,
}

impl PodDefaults {
    /// Adds what a LimitRange gives. LimitRanges come in the order of their names: the first that gives a resource counts.
    pub fn add_limit_range(&mut self, amounts: &Amounts) {
        for (name, amount) in amounts {
            let given = self.container_requests.entry(name.clone());
            given.or_insert(*amount);
        }
    }
}

/// What the scheduler will count for one pod with the spec `pod`, which lies at `field`.
pub fn pod_requests(
    pod: &Value,
    field: &str,
    defaults: &PodDefaults,
) -> Result<Amounts, Vec<Problem>> {
    let mut reader = Reader {
        defaults,
        problems: Vec::new(),
    };
    let total = reader.pod(pod, field);
    if reader.problems.is_empty() {
        Ok(total)
    } else {
        Err(reader.problems)
    }
}

/// What `asked` asks for beyond what is given: each resource, with the amount that is given, if any, and the one that is
/// asked for. What is admitted may ask for less, and not for more.
pub fn beyond(
    asked: &Amounts,
    given: impl Fn(&str) -> Option<i128>,
) -> impl Iterator<Item = (&str, Option<i128>, i128)> {
    let asked = asked.iter();
    asked.filter_map(move |(name, asked)| {
        let given = given(name);
        (given.unwrap_or_default() < *asked).then_some((name.as_str(), given, *asked))
    })
}

/// The requests that a LimitRange gives to containers which have none.
pub fn container_requests(range: &LimitRange) -> Amounts {
    let items = range.spec.iter().flat_map(|spec| &spec.limits);
    let defaults = items
        .filter(|item| item.type_ == "Container")
        .flat_map(|item| {
            item.default_request
                .iter()
                .flatten()
                .chain(item.default.iter().flatten())
        });
    let mut requests = Amounts::new();
    for (name, amount) in countable(defaults.map(|(name, quantity)| (name, &quantity.0))) {
        requests.entry(name).or_insert(amount);
    }
    requests
}

/// The overhead of a RuntimeClass, if it has one.
pub fn overhead(class: &RuntimeClass) -> Option<Amounts> {
    let overhead = class.overhead.as_ref()?.pod_fixed.as_ref()?;
    Some(countable(overhead.iter().map(|(name, q)| (name, &q.0))))
}

/// Amounts that can be counted; the API server lets no others into these objects. The first of
/// two with the same name counts.
fn countable<'a>(quantities: impl Iterator<Item = (&'a String, &'a String)>) -> Amounts {
    let mut amounts = Amounts::new();
    for (name, text) in quantities {
        if let Ok(nanos) = Quantity(text.clone()).nanos() {
            amounts.entry(name.clone()).or_insert(nanos);
        }
    }
    amounts
}

struct Reader<'a> {
    defaults: &'a PodDefaults,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn pod(&mut self, pod: &Value, field: &str) -> Amounts {
        let defaults = self.defaults;
        let mut total = self.containers(pod, field, &defaults.container_requests);
        total.extend(self.pod_level(pod, field));
        let overhead = self.overhead(pod, field);
        self.add(&mut total, &overhead, field);
        total.retain(|_, amount| *amount != 0);
        total
    }

    /// What the containers request together, those with `defaults` that request nothing of a resource.
    fn containers(&mut self, pod: &Value, field: &str, defaults: &Amounts) -> Amounts {
        let mut running = Amounts::new();
        for (index, container) in list(pod, "containers").iter().enumerate() {
            let at = format!("{field}.containers[{index}]");
            let requests = self.container(container, &at, defaults);
            self.add(&mut running, &requests, field);
        }
        let mut sidecars = Amounts::new();
        let mut starting = Amounts::new();
        for (index, container) in list(pod, "initContainers").iter().enumerate() {
            let at = format!("{field}.initContainers[{index}]");
            let requests = self.container(container, &at, defaults);
            if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
                self.add(&mut running, &requests, field);
                self.add(&mut sidecars, &requests, field);
                raise(&mut starting, &sidecars);
            } else {
                let mut with_sidecars = sidecars.clone();
                self.add(&mut with_sidecars, &requests, field);
                raise(&mut starting, &with_sidecars);
            }
        }
        raise(&mut running, &starting);
        running
    }

    fn container(&mut self, container: &Value, field: &str, defaults: &Amounts) -> Amounts {
        let resources = container.get("resources").unwrap_or(&Value::Null);
        let mut requests = self.amounts(
            resources.get("requests"),
            &format!("{field}.resources.requests"),
        );
        for (name, limit) in self.amounts(
            resources.get("limits"),
            &format!("{field}.resources.limits"),
        ) {
            requests.entry(name).or_insert(limit);
        }
        for (name, amount) in defaults {
            requests.entry(name.clone()).or_insert(*amount);
        }
        requests
    }

    /// The pod-level requests, which stand for the sum of the containers. With pod-level limits the API server adds to
    /// them what the containers declare, and else the limits (`defaultPodRequests` in pkg/apis/core/v1/defaults.go).
    fn pod_level(&mut self, pod: &Value, field: &str) -> Amounts {
        let Some(resources) = pod.get("resources") else {
            return Amounts::new();
        };
        let mut requests = self.amounts(
            resources.get("requests"),
            &format!("{field}.resources.requests"),
        );
        let limits = self.amounts(
            resources.get("limits"),
            &format!("{field}.resources.limits"),
        );
        // What can't be counted is told once.
        if !limits.is_empty() && self.problems.is_empty() {
            // The API server does so before LimitRanger gives any container its defaults.
            let no_defaults = Amounts::new();
            let declared = self.containers(pod, field, &no_defaults);
            let of_containers = declared.iter().filter(|(name, _)| is_pod_level(name));
            for (name, amount) in of_containers.chain(&limits) {
                requests.entry(name.clone()).or_insert(*amount);
            }
        }
        requests
    }

    fn overhead(&mut self, pod: &Value, field: &str) -> Amounts {
        // An empty one is none: the RuntimeClass gives the pod its own then.
        let declared = pod.get("overhead").and_then(Value::as_object);
        if declared.is_some_and(|overhead| !overhead.is_empty()) {
            return self.amounts(pod.get("overhead"), &format!("{field}.overhead"));
        }
        pod.get("runtimeClassName")
            .and_then(Value::as_str)
            .and_then(|name| self.defaults.overheads.get(name))
            .cloned()
            .unwrap_or_default()
    }

    fn amounts(&mut self, map: Option<&Value>, field: &str) -> Amounts {
        let mut amounts = Amounts::new();
        for (name, value) in map.and_then(Value::as_object).into_iter().flatten() {
            match parse(value) {
                Ok(amount) => {
                    amounts.insert(name.clone(), amount);
                }
                Err((text, rule)) => {
                    self.problems
                        .push(Problem::invalid(format!("{field}[{name}]"), text, rule));
                }
            }
        }
        amounts
    }

    fn add(&mut self, total: &mut Amounts, more: &Amounts, field: &str) {
        for (name, amount) in more {
            let sum = total.entry(name.clone()).or_default();
            match sum.checked_add(*amount) {
                Some(added) => *sum = added,
                None => self.problems.push(Problem::invalid(
                    field,
                    name.clone(),
                    "the sum of the requests is too large to be counted",
                )),
            }
        }
    }
}

/// An amount that counts: a quantity that is not negative.
fn parse(value: &Value) -> Result<i128, (String, String)> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match Quantity(text.clone()).nanos() {
        Ok(amount) if amount >= 0 => Ok(amount),
        Ok(_) => Err((text, "must be greater than or equal to 0".to_owned())),
        Err(error) => Err((text, error.to_string())),
    }
}

/// Whether a pod-level request may stand for the containers' (`IsSupportedPodLevelResource`).
fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Each amount of `total` becomes the larger of the two.
fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let current = total.entry(name.clone()).or_default();
        *current = (*current).max(*amount);
    }
}

/// All of them: one that is left out would run without quota, and the API server bounds an object as a whole.
fn list<'a>(pod: &'a Value, key: &str) -> &'a [Value] {
    let list = pod.get(key).and_then(Value::as_array);
    list.map_or(&[][..], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defaults() -> PodDefaults {
        PodDefaults {
            container_requests: [("memory".to_owned(), 64 * sluice_crds::quantity::NANOS)].into(),
            overheads: [(
                "kata".to_owned(),
                [("cpu".to_owned(), sluice_crds::quantity::NANOS / 4)].into(),
            )]
            .into(),
        }
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
                "what one container requests, and not the default of the other",
                json!({"resources": {"limits": {"memory": "4Ki"}}, "containers": [small, {}]}),
                vec!["memory=16"],
            ),
            (
                "a limit of another resource",
                json!({"resources": {"limits": {"cpu": "4"}}, "containers": [small, {}]}),
                vec!["cpu=4", "memory=16"],
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
                vec!["memory=1", "nvidia.com/gpu=2"],
            ),
        ];
        for (name, pod, expected) in cases {
            assert_eq!(shown(&pod, &defaults()), expected, "{name}");
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
        let problems =
            pod_requests(&pod, "spec.template.spec", &PodDefaults::default()).unwrap_err();
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
}
