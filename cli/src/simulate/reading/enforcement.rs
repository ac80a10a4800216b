//! What becomes of objects of files that name no queue, by the label of their namespace, as the webhooks do it.
//!
//! Must not know the configuration, which may require a queue of more namespaces, name another LocalQueue, and have
//! exceptions.

use serde_json::{Value, json};
use sluice_crds::{ENFORCEMENT_LABEL, QUEUE_NAME_LABEL};
use sluice_gates::{ManagedNamespaces, Unlabelled};
use sluice_kinds::Problem;
use sluice_kinds::metadata::{controller, group_version, labels};
use sluice_kinds::view::QueueLabels;

use super::settings::{Place, Role, is_pod, text};
use crate::input::Document;
use crate::rules::Rules;
use crate::simulate::problem::Problems;
use crate::simulate::quotas::Quotas;

/// With what it is judged.
pub struct Enforcement<'a> {
    /// The JobKinds.
    pub rules: &'a [Rules],
    /// Where namespaces are.
    pub quotas: &'a Quotas,
    /// The labels that name a queue.
    pub queue_labels: &'a QueueLabels,
}

impl Enforcement<'_> {
    /// Makes of the documents what would be created, and tells of those that are changed. A problem is an object that
    /// would be held or refused.
    pub fn apply(
        &self,
        documents: &mut [Document],
        problems: &mut Problems,
        notes: &mut Vec<String>,
    ) {
        let managed = ManagedNamespaces::default();
        for document in documents.iter_mut().filter(|document| self.needs(document)) {
            let namespace = text(&document.value, "/metadata/namespace").to_owned();
            let Some(labels) = self.quotas.namespaces.get(&namespace) else {
                continue;
            };
            let enforced = managed.of_namespace(&namespace, labels);
            if !enforced.requires_queue() {
                continue;
            }
            let value = labels.get(ENFORCEMENT_LABEL).map_or("", String::as_str);
            let by = format!("namespace {namespace:?} has the label {ENFORCEMENT_LABEL}={value}");
            let rule = match enforced.unlabelled {
                Unlabelled::Ignore => continue,
                Unlabelled::Default => {
                    let queue = managed.default_local_queue();
                    let note = format!(
                        "{}: {}: set to {queue:?}, as {by}",
                        Place(document),
                        field()
                    );
                    notes.push(note);
                    set_queue(&mut document.value, queue);
                    continue;
                }
                Unlabelled::Hold => "it would be held until it has one",
                Unlabelled::Refuse => "it would be refused without one",
            };
            let rule = format!("the name of a LocalQueue of the namespace: {by}, so {rule}");
            problems.add(&Place(document), &Problem::required(field(), rule));
        }
    }

    /// Whether an object is one that needs a queue, and names none.
    fn needs(&self, document: &Document) -> bool {
        let object = &document.value;
        let (group, _) = group_version(text(object, "/apiVersion"));
        let kind = text(object, "/kind");
        let is_read = self.rules.iter().any(|rules| rules.reads(group, kind))
            || is_pod(object) && controller(object).is_none();
        let names_queue = !labels(object, self.queue_labels.keys()).is_empty();
        Role::of(document) == Role::Job && is_read && !names_queue
    }
}

fn field() -> String {
    format!("metadata.labels[{QUEUE_NAME_LABEL}]")
}

fn set_queue(object: &mut Value, queue: &str) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    // `labels:` without anything is null.
    if labels.is_null() {
        *labels = json!({});
    }
    if let Value::Object(labels) = labels {
        labels.insert(QUEUE_NAME_LABEL.to_owned(), queue.into());
    }
}
