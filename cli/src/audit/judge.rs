//! What becomes of objects that name no queue, by the rules of the webhooks.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use sluice_configuration::Configuration;
use sluice_gates::{ManagedNamespaces, Unlabelled};
use sluice_kinds::CompiledKind;
use sluice_kinds::aliases::{KeyAliases, MetadataKey};
use sluice_kinds::metadata::controller;
use sluice_kinds::view::QueueLabels;
use sluice_webhooks::manifests::SYSTEM_NAMESPACES;
use sluice_webhooks::{GroupVersionKind, Policy, Surroundings, review};

/// What would become of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ObjectFate {
    Queued,
    Held,
    Refused,
    /// An exception covers it.
    Excepted,
    Ignored,
}

/// Judges objects.
pub(super) struct Judge {
    labels: QueueLabels,
    keys: KeyAliases,
    /// The namespaces that are never managed.
    system: Vec<String>,
    without_exceptions: Policy,
    /// By the exceptions that cover an object whoever creates it, those that cover it for somebody, and all.
    for_anybody: Policy,
    for_somebody: Policy,
    for_known: Policy,
}

impl Judge {
    /// One that goes by this configuration, and in namespaces without a label by `tried`, if that is to be tried. Sluice is
    /// in the namespace `home`.
    pub(super) fn new(
        configuration: &Configuration,
        tried: Option<Unlabelled>,
        home: String,
        kinds: &[Arc<CompiledKind>],
        surroundings: Surroundings,
    ) -> Self {
        let sluice = format!("system:serviceaccount:{home}:sluice");
        let system = SYSTEM_NAMESPACES.map(str::to_owned).into_iter();
        let system: Vec<String> = system.chain([home]).collect();
        let managed = || {
            let mut spec = configuration.managed_namespaces_spec();
            if let Some(unlabelled) = tried {
                spec.selector = Some(LabelSelector::default());
                spec.unlabelled = unlabelled;
            }
            // It was checked when it was read.
            let managed = ManagedNamespaces::compile(&spec, "").unwrap_or_default();
            managed.without(system.clone())
        };
        let labels = QueueLabels::new(configuration.aliases.queue_labels());
        let keys = configuration.aliases.key_aliases();
        let surroundings = Arc::new(surroundings);
        let policy = |managed: ManagedNamespaces| {
            Policy::new(kinds.iter().cloned(), labels.clone(), sluice.clone())
                .with_key_aliases(keys.clone())
                .with_applied([], surroundings.clone())
                .with_managed_namespaces(Arc::new(managed))
        };
        Self {
            for_anybody: policy(managed().for_any_author()),
            for_somebody: policy(managed().for_some_author()),
            for_known: policy(managed()),
            without_exceptions: policy(managed().without_exceptions()),
            labels,
            keys,
            system,
        }
    }

    /// Whether nothing is required in this namespace, whatever its labels say.
    pub(super) fn is_never_managed(&self, namespace: &str) -> bool {
        self.system.iter().any(|system| system == namespace)
    }

    /// Whether this metadata, of an object or of a template, names a queue.
    pub(super) fn names_queue(&self, metadata: &Value) -> bool {
        let has_label = |key: &str| {
            let labels = metadata.get("labels");
            labels.is_some_and(|labels| labels.get(key).is_some())
        };
        let own = MetadataKey::Label(sluice_crds::QUEUE_NAME_LABEL.to_owned());
        let mut aliases = self.keys.of(&own).iter();
        self.labels.keys().any(has_label) || aliases.any(|key| key.value_in(metadata).is_some())
    }

    /// What would become of an object of this kind, and whether it may be an exception for whoever creates it.
    pub(super) fn fate(
        &self,
        kind: &GroupVersionKind,
        namespace: &str,
        mut object: Value,
    ) -> (ObjectFate, bool) {
        let api_version = match kind.group.as_str() {
            "" => kind.version.clone(),
            group => format!("{group}/{}", kind.version),
        };
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!(api_version));
            fields.insert("kind".to_owned(), json!(kind.kind));
        }
        let required =
            |policy: &Policy| review::required_of(kind.clone(), namespace, &object, policy);
        // The Jobs of a CronJob have an author who is known.
        let is_of_cron_job = controller(&object) == Some(("batch", "CronJob"));
        let is_known = is_of_cron_job || kind.group == "batch" && kind.kind == "CronJob";
        let policy = if is_known {
            &self.for_known
        } else {
            &self.for_anybody
        };
        let Some(enforced) = required(&self.without_exceptions) else {
            return (ObjectFate::Ignored, false);
        };
        if required(policy).is_none() {
            return (ObjectFate::Excepted, false);
        }
        let fate = match enforced.unlabelled {
            Unlabelled::Ignore => ObjectFate::Ignored,
            Unlabelled::Refuse => ObjectFate::Refused,
            Unlabelled::Default => ObjectFate::Queued,
            Unlabelled::Hold => ObjectFate::Held,
        };
        (fate, !is_known && required(&self.for_somebody).is_none())
    }
}
