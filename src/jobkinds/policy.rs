//! Keeps the webhooks' policy in step with the JobKinds and Gates, and with what Gates ask about: namespaces and
//! priority classes. Runs on every replica, as webhooks are served by all of them, whoever leads. Of two JobKinds for
//! one kind the one counts that the controller reads, by the statuses that it has written; where these do not tell, the
//! older one, as for a controller that starts (`controller/kinds/changes.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use sluice_crds::conditions::find;
use sluice_crds::{ConditionType, GateSpec, JobKind, WorkloadPriorityClass};
use sluice_gates::{CompiledAppliesTo, ManagedNamespaces};
use sluice_kinds::CompiledKind;
use sluice_kinds::aliases::KeyAliases;
use sluice_kinds::gates::Gate;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::priority_classes::PriorityClasses;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::QueueLabels;
use sluice_webhooks::{Policy, QueueStates, Surroundings};
use tracing::warn;

use crate::api::client::Clients;
use crate::api::watch::{Observation, watch_all};
use crate::cache::Source;
use crate::jobkinds::followed::Followed;
use crate::process::invariants::violated;
use crate::process::metrics::Metrics;

/// The reason of a JobKind whose kind another one reads already. The webhooks find it in statuses that the
/// controller has written.
pub const TAKEN: &str = "AlreadyManaged";
/// Observations that may wait.
const OBSERVATIONS_MAX: usize = 64;

/// What the policy is made of besides JobKinds.
pub struct PolicyBasis {
    /// The labels that name a queue.
    pub queue_labels: QueueLabels,
    /// The names of the queue gate.
    pub queue_gates: QueueGates,
    /// The other keys for keys of Sluice's own.
    pub key_aliases: KeyAliases,
    /// Sluice's own user name.
    pub username: String,
    /// The namespaces where objects need a queue.
    pub managed_namespaces: Arc<ManagedNamespaces>,
    /// What is known of queues.
    pub queue_states: Arc<ArcSwap<QueueStates>>,
}

/// The JobKinds that compile, by name.
type Kinds = BTreeMap<String, (Precedence, Arc<CompiledKind>)>;
/// What the Gates say, by the gate that each is named for.
type Gates = BTreeMap<Gate, KnownGate>;
/// The labels of namespaces, by their names.
type Namespaces = BTreeMap<String, Arc<BTreeMap<String, String>>>;
/// The values of priority classes, by their names.
type Priorities = BTreeMap<String, i32>;

/// What a Gate says.
#[derive(Debug, Clone)]
struct KnownGate {
    spec: Arc<GateSpec>,
    applies_to: Option<Arc<CompiledAppliesTo>>,
}

/// Follows the JobKinds and Gates until the process ends. `is_listed` becomes true when all are known.
pub async fn follow(
    clients: Clients,
    metrics: Arc<Metrics>,
    basis: PolicyBasis,
    policy: Arc<ArcSwap<Policy>>,
    is_listed: Arc<AtomicBool>,
) {
    let sources = [
        (Source::JobKind, ApiResource::erase::<JobKind>(&())),
        (Source::Gate, ApiResource::erase::<sluice_crds::Gate>(&())),
        (Source::Namespace, ApiResource::erase::<Namespace>(&())),
        (
            Source::WorkloadPriorityClass,
            ApiResource::erase::<WorkloadPriorityClass>(&()),
        ),
        (
            Source::PriorityClass,
            ApiResource::erase::<PriorityClass>(&()),
        ),
    ];
    let mut receiver = watch_all(&clients.read, sources, OBSERVATIONS_MAX, &metrics);
    let mut watched = WatchedPolicy::new(basis);
    while let Some(observation) = receiver.recv().await {
        if watched.take_in(observation)
            && let Some(next) = watched.policy()
        {
            policy.store(Arc::new(next));
            is_listed.store(true, Ordering::Release);
        }
    }
}

/// What the watches have shown of all that the policy is made of.
struct WatchedPolicy {
    basis: PolicyBasis,
    kinds: Followed<Kinds>,
    gates: Followed<Gates>,
    namespaces: Followed<Namespaces>,
    workload_priorities: Followed<Priorities>,
    priority_classes: Followed<PriorityClasses>,
    /// Made of the last three. None if one of them has changed since.
    surroundings: Option<Arc<Surroundings>>,
}

impl WatchedPolicy {
    fn new(basis: PolicyBasis) -> Self {
        Self {
            basis,
            kinds: Followed::default(),
            gates: Followed::default(),
            namespaces: Followed::default(),
            workload_priorities: Followed::default(),
            priority_classes: Followed::default(),
            surroundings: None,
        }
    }

    /// Takes in what a watch has seen. Returns whether the policy may be another one now: while a list is under way, it
    /// stays as it is.
    fn take_in(&mut self, Observation { source, change }: Observation<DynamicObject>) -> bool {
        let is_complete = match source {
            Source::JobKind => {
                let queue_gates = &self.basis.queue_gates;
                let put = |kinds: &mut Kinds, before: Option<&Kinds>, object: &DynamicObject| {
                    put(kinds, before, object, queue_gates);
                };
                return self.kinds.take_in(change, put, remove_kind);
            }
            Source::Gate => {
                let put = |gates: &mut Gates, _: Option<&Gates>, object: &DynamicObject| {
                    put_gate(gates, object);
                };
                return self.gates.take_in(change, put, remove_gate);
            }
            Source::Namespace => self.namespaces.take_in(
                change,
                |namespaces, _, object| put_namespace(namespaces, object),
                |namespaces, name| {
                    namespaces.remove(name);
                },
            ),
            Source::WorkloadPriorityClass => self.workload_priorities.take_in(
                change,
                |priorities, _, object| put_priority(priorities, object),
                remove_priority,
            ),
            Source::PriorityClass => self.priority_classes.take_in(
                change,
                |classes, _, object| put_priority_class(classes, object),
                |classes, name| {
                    classes.put(name, None);
                },
            ),
            _ => {
                violated("the policy watches nothing but what it is made of");
                return false;
            }
        };
        if is_complete {
            self.surroundings = None;
        }
        is_complete
    }

    /// The policy by what is known. None until all is known.
    fn policy(&mut self) -> Option<Policy> {
        let kinds = self.kinds.known.as_ref()?;
        let gates = self.gates.known.as_ref()?;
        let surroundings = match &self.surroundings {
            Some(surroundings) => surroundings,
            None => self.surroundings.insert(Arc::new(Surroundings {
                namespaces: self.namespaces.known.clone()?,
                workload_priorities: self.workload_priorities.known.clone()?,
                priority_classes: self.priority_classes.known.clone()?,
            })),
        };
        let specs = gates.iter();
        let specs = specs.map(|(gate, known)| (gate.clone(), known.spec.clone()));
        let applied = gates.iter().filter_map(|(gate, known)| {
            let applies_to = known.applies_to.clone()?;
            Some((gate.clone(), applies_to))
        });
        let basis = &self.basis;
        let compiled = last_counts(kinds);
        let policy = Policy::new(compiled, basis.queue_labels.clone(), basis.username.clone())
            .with_queue_gates(basis.queue_gates.clone())
            .with_key_aliases(basis.key_aliases.clone())
            .with_gates(specs)
            .with_applied(applied, surroundings.clone())
            .with_managed_namespaces(basis.managed_namespaces.clone())
            .with_queue_states(basis.queue_states.clone());
        Some(policy)
    }
}

/// Which of two JobKinds for one kind counts: the lesser.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Precedence {
    /// The controller reads another one: an older JobKind that was corrected does not count before the next start.
    is_taken: bool,
    /// The controller does not read it now.
    is_unread: bool,
    created: Option<Timestamp>,
}

impl Precedence {
    fn of(object: &JobKind) -> Self {
        let status = object.status.as_ref();
        let ready = status.and_then(|status| find(&status.conditions, ConditionType::Ready));
        Self {
            is_taken: ready.is_some_and(|ready| ready.reason == TAKEN),
            is_unread: ready.is_none_or(|ready| ready.status != "True"),
            created: object.metadata.creation_timestamp.as_ref().map(|at| at.0),
        }
    }
}

/// All JobKinds. Of two for one kind the one that counts comes last.
fn last_counts(kinds: &Kinds) -> impl Iterator<Item = Arc<CompiledKind>> {
    let mut all: Vec<_> = kinds.iter().collect();
    all.sort_by_key(|(name, (precedence, _))| (precedence, *name));
    all.into_iter().rev().map(|(_, (_, kind))| kind.clone())
}

/// A Gate that can't be read has owners, as one that says nothing has: nobody else may lift its gate.
fn put_gate(gates: &mut Gates, object: &DynamicObject) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let Some(gate) = Gate::of_object(name) else {
        return warn!(
            gate = name,
            "the Gate is ignored: its name must be <path>.<domain>"
        );
    };
    let parsed = serde_json::to_value(object).and_then(serde_json::from_value::<sluice_crds::Gate>);
    let spec = parsed.map_or_else(
        |error| {
            warn!(gate = name, %error, "the Gate can't be read: only its owners may lift it");
            GateSpec::default()
        },
        |gate| gate.spec,
    );
    let applies_to = spec.applies_to.as_ref().map(CompiledAppliesTo::or_wider);
    let known = KnownGate {
        applies_to: applies_to.map(Arc::new),
        spec: Arc::new(spec),
    };
    gates.insert(gate, known);
}

fn remove_gate(gates: &mut Gates, name: &str) {
    if let Some(gate) = Gate::of_object(name) {
        gates.remove(&gate);
    }
}

fn put_namespace(namespaces: &mut Namespaces, object: &DynamicObject) {
    let name = object.metadata.name.clone().unwrap_or_default();
    let labels = object.metadata.labels.clone().unwrap_or_default();
    namespaces.insert(name, Arc::new(labels));
}

/// A class without a value that can be read is as good as none.
fn put_priority(priorities: &mut Priorities, object: &DynamicObject) {
    let name = object.metadata.name.clone().unwrap_or_default();
    let value = object.data.get("value").and_then(serde_json::Value::as_i64);
    match value.and_then(|value| value.try_into().ok()) {
        Some(value) => {
            priorities.insert(name, value);
        }
        None => remove_priority(priorities, &name),
    }
}

fn put_priority_class(classes: &mut PriorityClasses, object: &DynamicObject) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    classes.put(name, Some(&object.data));
}

fn remove_priority(priorities: &mut Priorities, name: &str) {
    priorities.remove(name);
}

fn remove_kind(kinds: &mut Kinds, name: &str) {
    kinds.remove(name);
}

/// `before`: what was known before the list that `object` is in.
fn put(
    kinds: &mut Kinds,
    before: Option<&Kinds>,
    object: &DynamicObject,
    queue_gates: &QueueGates,
) {
    let name = object.metadata.name.clone().unwrap_or_default();
    let parsed = serde_json::to_value(object).and_then(serde_json::from_value::<JobKind>);
    let compiled = match parsed
        .as_ref()
        .map(|kind| (kind, CompiledKind::compile(kind)))
    {
        Ok((kind, Ok(compiled))) => {
            let compiled = compiled.with_queue_gates(queue_gates.clone());
            Some((Precedence::of(kind), Arc::new(compiled)))
        }
        Ok((_, Err(problems))) => {
            warn!(jobkind = %name, problems = summarize(&problems), "JobKind is ignored");
            None
        }
        Err(error) => {
            // What it said before stays in force, as for the controller. Of one that was not known, objects wait until it
            // can be read.
            if let Some(known) = before.and_then(|before| before.get(&name)) {
                kinds.insert(name.clone(), known.clone());
            }
            return warn!(jobkind = %name, %error, "JobKind can't be read");
        }
    };
    match compiled {
        Some(known) => kinds.insert(name, known),
        None => kinds.remove(&name),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::watch::Change;

    /// Puts JobKinds for one kind, each of another minute and with the Ready condition of its status, and says
    /// which one counts.
    fn counts(all: &[(&str, Option<(&str, &str)>)]) -> String {
        let mut kinds = Kinds::new();
        for (minute, (suspend, ready)) in all.iter().enumerate() {
            let conditions = ready.map(|(status, reason)| {
                let at = "2026-01-01T00:00:00Z";
                json!([{"type": "Ready", "status": status, "reason": reason, "message": "", "lastTransitionTime": at}])
            });
            let mut object: Value =
                serde_saphyr::from_str(include_str!("../../config/jobkinds/job.yaml")).unwrap();
            object["metadata"] = json!({
                "name": suspend, "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
            });
            object["spec"]["suspend"] = json!(format!(".spec.{suspend}"));
            object["status"] = json!({"conditions": conditions.unwrap_or(json!([]))});
            let object = serde_json::from_value(object).unwrap();
            put(&mut kinds, None, &object, &QueueGates::default());
        }
        let last = last_counts(&kinds).last().unwrap();
        last.suspend_path().unwrap().field()
    }

    #[test]
    fn a_jobkind_that_can_not_be_read_says_what_it_said_before_also_in_a_list() {
        let readable: Value =
            serde_saphyr::from_str(include_str!("../../config/jobkinds/job.yaml")).unwrap();
        let mut unreadable = readable.clone();
        unreadable["spec"]["podSets"] = json!(1);
        let mut never_read = unreadable.clone();
        never_read["metadata"]["name"] = json!("never-read");
        let object =
            |value: &Value| serde_json::from_value::<DynamicObject>(value.clone()).unwrap();
        let mut kinds = Followed::<Kinds>::default();
        let mut take_in = |change| {
            let queue_gates = QueueGates::default();
            let put = |kinds: &mut Kinds, before: Option<&Kinds>, object: &DynamicObject| {
                put(kinds, before, object, &queue_gates);
            };
            kinds.take_in(change, put, remove_kind);
            let known = kinds.known.iter().flat_map(BTreeMap::keys);
            known.cloned().collect::<Vec<_>>()
        };
        let name = readable["metadata"]["name"].as_str().unwrap().to_owned();
        take_in(Change::Listing(tokio::sync::oneshot::channel().0));
        take_in(Change::InList(object(&readable)));
        assert_eq!(take_in(Change::Listed), std::slice::from_ref(&name));
        let applied = take_in(Change::Applied(object(&unreadable)));
        assert_eq!(applied, std::slice::from_ref(&name));
        take_in(Change::Listing(tokio::sync::oneshot::channel().0));
        take_in(Change::InList(object(&unreadable)));
        take_in(Change::InList(object(&never_read)));
        assert_eq!(take_in(Change::Listed), [name]);
        take_in(Change::Listing(tokio::sync::oneshot::channel().0));
        assert_eq!(take_in(Change::Listed), Vec::<String>::new());
    }

    #[test]
    fn of_two_for_one_kind_the_one_counts_that_the_controller_reads() {
        let read = Some(("True", "Watched"));
        let taken = Some(("False", TAKEN));
        let corrected = Some(("False", "Invalid"));
        let unreachable = Some(("False", "Unreachable"));
        let cases = [
            ("no status yet", None, None, "spec.older"),
            ("the older is read", read, taken, "spec.older"),
            (
                "the older was corrected a moment ago",
                corrected,
                read,
                "spec.newer",
            ),
            ("the older was corrected", taken, read, "spec.newer"),
            ("and the watch broke", taken, unreachable, "spec.newer"),
            (
                "the watch of the older broke",
                unreachable,
                taken,
                "spec.older",
            ),
        ];
        for (name, older, newer, expected) in cases {
            let found = counts(&[("older", older), ("newer", newer)]);
            assert_eq!(found, expected, "{name}");
        }
    }
}
