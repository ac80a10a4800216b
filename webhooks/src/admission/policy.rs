//! What a verdict depends on besides the request: the kinds that are managed, the Gates, the labels that
//! name a queue, the names of the queue gate, and who Sluice is. A value: the caller builds a new one and
//! swaps it in whole.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use sluice_crds::GateSpec;
use sluice_gates::{CompiledAppliesTo, ManagedNamespaces};
use sluice_kinds::aliases::KeyAliases;
use sluice_kinds::gates::Gate;
use sluice_kinds::view::QueueLabels;
use sluice_kinds::{CompiledKind, QueueGates};

use crate::admission::queue_states::QueueStates;
use crate::admission::surroundings::Surroundings;

/// What the gate of objects without a queue says where no Gate says more: who may lift it is a matter of RBAC.
static QUEUE_REQUIRED: LazyLock<GateSpec> = LazyLock::new(GateSpec::default);

/// What verdicts depend on besides the request.
#[derive(Debug, Default)]
pub struct Policy {
    kinds: BTreeMap<(String, String), Arc<CompiledKind>>,
    gates: BTreeMap<Gate, Arc<GateSpec>>,
    applied: BTreeMap<Gate, Arc<CompiledAppliesTo>>,
    surroundings: Arc<Surroundings>,
    managed_namespaces: Arc<ManagedNamespaces>,
    queue_states: Arc<ArcSwap<QueueStates>>,
    queue_labels: QueueLabels,
    queue_gates: QueueGates,
    key_aliases: KeyAliases,
    username: String,
    knows_kinds: bool,
}

impl Policy {
    /// A policy for these kinds. `username` is Sluice's own:
    /// `system:serviceaccount:<namespace>:<name>`.
    pub fn new(
        kinds: impl IntoIterator<Item = Arc<CompiledKind>>,
        queue_labels: QueueLabels,
        username: impl Into<String>,
    ) -> Self {
        let kinds = kinds
            .into_iter()
            .map(|k| ((k.group.clone(), k.kind.clone()), k))
            .collect();
        Self {
            kinds,
            gates: BTreeMap::new(),
            applied: BTreeMap::new(),
            surroundings: Arc::default(),
            managed_namespaces: Arc::default(),
            queue_states: Arc::default(),
            queue_labels,
            queue_gates: QueueGates::default(),
            key_aliases: KeyAliases::default(),
            username: username.into(),
            knows_kinds: true,
        }
    }

    /// The same policy with these names of the queue gate on pods. The kinds have theirs from
    /// [`CompiledKind::with_queue_gates`], which should be the same.
    #[must_use]
    pub fn with_queue_gates(self, queue_gates: QueueGates) -> Self {
        Self {
            queue_gates,
            ..self
        }
    }

    /// The same policy with these other keys for keys of Sluice's own.
    #[must_use]
    pub fn with_key_aliases(self, key_aliases: KeyAliases) -> Self {
        Self {
            key_aliases,
            ..self
        }
    }

    /// The same policy with these Gates.
    #[must_use]
    pub fn with_gates(self, gates: impl IntoIterator<Item = (Gate, Arc<GateSpec>)>) -> Self {
        Self {
            gates: gates.into_iter().collect(),
            ..self
        }
    }

    /// The same policy, where these gates are set on the objects that their Gates apply to.
    #[must_use]
    pub fn with_applied(
        self,
        applied: impl IntoIterator<Item = (Gate, Arc<CompiledAppliesTo>)>,
        surroundings: Arc<Surroundings>,
    ) -> Self {
        Self {
            applied: applied.into_iter().collect(),
            surroundings,
            ..self
        }
    }

    /// The same policy, where objects in these namespaces need a queue.
    #[must_use]
    pub fn with_managed_namespaces(self, managed_namespaces: Arc<ManagedNamespaces>) -> Self {
        Self {
            managed_namespaces,
            ..self
        }
    }

    /// The same policy, which goes by what is known of queues here.
    #[must_use]
    pub fn with_queue_states(self, queue_states: Arc<ArcSwap<QueueStates>>) -> Self {
        Self {
            queue_states,
            ..self
        }
    }

    /// What is known of queues: for warnings, and for the priority that Gates may ask for. No other verdict depends on it.
    pub(crate) fn queue_states(&self) -> &ArcSwap<QueueStates> {
        &self.queue_states
    }

    /// Whether there are Gates for gates of this domain.
    pub(crate) fn has_gate_of(&self, domain: &str) -> bool {
        let mut gates = self.gates.keys();
        gates.any(|gate| {
            let rest = gate.as_str().strip_prefix(domain);
            rest.is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// The namespaces where objects need a queue.
    pub fn managed_namespaces(&self) -> &ManagedNamespaces {
        &self.managed_namespaces
    }

    /// The gates that are set on objects, and on which.
    pub fn applied(&self) -> &BTreeMap<Gate, Arc<CompiledAppliesTo>> {
        &self.applied
    }

    /// What is known of the cluster around an object.
    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// What the Gate of `gate` says, if there is one. The gate of objects without a queue has owners in any case.
    pub fn gate(&self, gate: &Gate) -> Option<&GateSpec> {
        let known = self.gates.get(gate).map(AsRef::as_ref);
        known.or_else(|| gate.is_queue_required().then(|| &*QUEUE_REQUIRED))
    }

    /// Whether the JobKinds are known. Those of the default policy are not yet.
    pub fn knows_kinds(&self) -> bool {
        self.knows_kinds
    }

    /// Whether a managed kind makes objects of this group and kind.
    pub(crate) fn is_child(&self, group: &str, kind: &str) -> bool {
        self.kinds.values().any(|owner| owner.makes(group, kind))
    }

    /// Whether objects of this kind are held and judged.
    pub fn manages(&self, group: &str, kind: &str) -> bool {
        self.kind(group, kind).is_some()
    }

    /// The managed kind of this group and name, whatever its version.
    pub(crate) fn kind(&self, group: &str, kind: &str) -> Option<&CompiledKind> {
        self.kinds
            .get(&(group.to_owned(), kind.to_owned()))
            .map(AsRef::as_ref)
    }

    /// The accounts that JobKinds name as makers of objects of this kind.
    pub(crate) fn makers<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = &'a String> + Clone {
        let children = self
            .kinds
            .values()
            .filter_map(move |owner| owner.child(group, kind));
        children.flat_map(|child| &child.made_by)
    }

    /// The labels that name a queue.
    pub(crate) fn queue_labels(&self) -> &QueueLabels {
        &self.queue_labels
    }

    /// The other keys for keys of Sluice's own.
    pub(crate) fn key_aliases(&self) -> &KeyAliases {
        &self.key_aliases
    }

    /// The names of the queue gate.
    pub(crate) fn queue_gates(&self) -> &QueueGates {
        &self.queue_gates
    }

    /// Whether `username` is Sluice itself.
    pub(crate) fn is_sluice(&self, username: &str) -> bool {
        self.username == username
    }
}
