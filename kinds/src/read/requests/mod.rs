//! What the scheduler will count for one pod of a template: the rule of kube-scheduler's
//! `PodRequests` (KEP-753 sidecars, KEP-2837 pod-level resources, KEP-688 overhead), after the
//! defaults that the API server gives a pod (limits where requests are missing, LimitRange).
//!
//! Must not know where a pod or a template lies in an object.

mod containers;
mod renamed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;
use sluice_crds::Quantity;
use sluice_crds::quantity::NANOS;

use crate::field::problem::Problem;
use crate::read::template::Placement;
pub use containers::Amounts;
use containers::Containers;
pub use renamed::RequestedDevices;

/// What the API server adds to pods of one namespace when they are created.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodDefaults {
    /// A container's requests where it has none, from the namespace's LimitRanges.
    pub container_requests: Amounts,
    /// What each RuntimeClass adds, which may be nothing. None where it is not known which there are.
    pub runtime_classes: Option<BTreeMap<String, ClassAdditions>>,
}

/// What a RuntimeClass adds to its pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassAdditions {
    /// To their requests.
    pub overhead: Amounts,
    /// To where they may go.
    pub placement: Placement,
}

impl ClassAdditions {
    /// What `class` adds, which may be nothing.
    pub fn of(class: &RuntimeClass) -> Self {
        let overhead = class.overhead.as_ref();
        let overhead = overhead.and_then(|overhead| overhead.pod_fixed.as_ref());
        let overhead = overhead.into_iter().flatten();
        let scheduling = class.scheduling.clone().unwrap_or_default();
        Self {
            overhead: countable(overhead.map(|(name, quantity)| (name, &quantity.0))),
            placement: Placement {
                node_selector: scheduling.node_selector.unwrap_or_default(),
                tolerations: scheduling.tolerations.unwrap_or_default(),
            },
        }
    }
}

impl PodDefaults {
    /// Adds what a LimitRange gives. Of a namespace with several, the API server takes any first: the most that one gives
    /// of a resource counts.
    pub fn add_limit_range(&mut self, amounts: &Amounts) {
        raise(&mut self.container_requests, amounts.clone());
    }

    /// What the RuntimeClass of the pod spec `pod` adds to it, if it is known.
    pub fn of_class(&self, pod: &Value) -> Option<&ClassAdditions> {
        self.runtime_classes.as_ref()?.get(runtime_class(pod)?)
    }

    /// Whether there is no RuntimeClass of this name.
    pub(crate) fn lack_class(&self, name: &str) -> bool {
        let classes = self.runtime_classes.as_ref();
        classes.is_some_and(|classes| !classes.contains_key(name))
    }

    /// Whether the requests of the pod spec `pod` are the same without this.
    pub(crate) fn add_nothing_to(&self, pod: &Value) -> bool {
        let class = self.of_class(pod);
        self.container_requests.is_empty() && class.is_none_or(|class| class.overhead.is_empty())
    }
}

/// The name of the RuntimeClass of the pod spec `pod`, if it names one.
pub(crate) fn runtime_class(pod: &Value) -> Option<&str> {
    let name = pod.get("runtimeClassName").and_then(Value::as_str);
    name.filter(|name| !name.is_empty())
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

/// Amounts that can be counted; the API server lets no others into these objects. The first of
/// two with the same name counts.
fn countable<'a>(quantities: impl Iterator<Item = (&'a String, &'a String)>) -> Amounts {
    let mut amounts = Amounts::new();
    for (name, text) in quantities {
        if let Ok(nanos) = Quantity(text.clone()).nanos() {
            amounts.entry(name.clone()).or_insert(in_thousandths(nanos));
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
        // Templates of custom resources may say less than their containers. Where a cluster knows pod-level resources, it
        // refuses such pods; where it does not, it drops what they say.
        raise(&mut total, self.pod_level(pod, field));
        let overhead = self.overhead(pod, field);
        self.add(&mut total, &overhead, field);
        total.retain(|_, amount| *amount != 0);
        total
    }

    /// What the containers request together, those with `defaults` that request nothing of a resource.
    fn containers(&mut self, pod: &Value, field: &str, defaults: &Amounts) -> Amounts {
        let mut all = Containers::default();
        for (index, container) in list(pod, "containers").iter().enumerate() {
            all.add(self.container(container, &format!("{field}.containers[{index}]")));
        }
        for (index, container) in list(pod, "initContainers").iter().enumerate() {
            let requests = self.container(container, &format!("{field}.initContainers[{index}]"));
            if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
                all.add_sidecar(requests);
            } else {
                all.add_init(requests);
            }
        }
        let mut amounts = Amounts::new();
        for (name, amount) in all.together(defaults) {
            match amount {
                Some(amount) => _ = amounts.insert(name, amount),
                None => self.too_large(field, name),
            }
        }
        amounts
    }

    /// What one container declares.
    fn container(&mut self, container: &Value, field: &str) -> Amounts {
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
        requests
    }

    /// The pod-level requests, which stand for the sum of the containers where they are more. Limits stand for those that
    /// are missing; for resources that may be overcommitted only where no container declares any
    /// (`defaultPodRequests` in pkg/apis/core/v1/defaults.go).
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
            for (name, limit) in limits {
                if name.starts_with("hugepages-") || !declared.contains_key(&name) {
                    requests.entry(name).or_insert(limit);
                }
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
        let class = self.defaults.of_class(pod);
        class
            .map(|class| class.overhead.clone())
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
                None => self.too_large(field, name.clone()),
            }
        }
    }

    fn too_large(&mut self, field: &str, resource: String) {
        let rule = "the sum of the requests is too large to be counted";
        self.problems.push(Problem::invalid(field, resource, rule));
    }
}

/// Raises each amount to that of `other`, where that is more.
fn raise(amounts: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        let current = amounts.entry(name).or_default();
        *current = amount.max(*current);
    }
}

/// An amount that counts: a quantity that is not negative.
fn parse(value: &Value) -> Result<i128, (String, String)> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match Quantity(text.clone()).nanos() {
        Ok(amount) if amount >= 0 => Ok(in_thousandths(amount)),
        Ok(_) => Err((text, "must be greater than or equal to 0".to_owned())),
        Err(error) => Err((text, error.to_string())),
    }
}

/// The amount that the API server stores in a pod for this one: it rounds requests, limits and overhead up to thousandths,
/// but not those in the templates of custom resources (`SetDefaults_ResourceList` in pkg/apis/core/v1/defaults.go).
fn in_thousandths(nanos: i128) -> i128 {
    const THOUSANDTH: i128 = NANOS / 1000;
    match nanos.rem_euclid(THOUSANDTH) {
        0 => nanos,
        rest => nanos.saturating_add(THOUSANDTH - rest),
    }
}

/// All of them: one that is left out would run without quota, and the API server bounds an object as a whole.
fn list<'a>(pod: &'a Value, key: &str) -> &'a [Value] {
    let list = pod.get(key).and_then(Value::as_array);
    list.map_or(&[][..], Vec::as_slice)
}
