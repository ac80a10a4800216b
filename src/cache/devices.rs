//! The ResourceClaimTemplates of all namespaces, as far as they count: what a claim of each comes to. A
//! tenant may make very many of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sluice_kinds::devices::{DeviceClasses, TemplateDevices};
use sluice_kinds::view::PodSetView;

use crate::process::hashing::HashMap;

/// What devices are counted by.
#[derive(Debug, Default)]
pub struct Devices {
    classes: DeviceClasses,
    templates: HashMap<Arc<str>, BTreeMap<Arc<str>, TemplateDevices>>,
}

impl Devices {
    /// Devices of these classes are counted.
    pub fn new(classes: DeviceClasses) -> Self {
        Self {
            classes,
            templates: HashMap::default(),
        }
    }

    /// Whether any devices are counted.
    pub fn are_counted(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Takes in a template; `None` if it is gone. Returns whether it counts as something else now.
    pub fn put(&mut self, namespace: &str, name: &str, template: Option<&Value>) -> bool {
        let Some(template) = template else {
            let Some(templates) = self.templates.get_mut(namespace) else {
                return false;
            };
            let was_known = templates.remove(name).is_some();
            if templates.is_empty() {
                self.templates.remove(namespace);
            }
            return was_known;
        };
        let counted = self.classes.count(template);
        let templates = self.templates.entry(namespace.into()).or_default();
        if templates.get(name) == Some(&counted) {
            return false;
        }
        templates.insert(name.into(), counted);
        true
    }

    /// The namespaces and names of the templates.
    pub fn names(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let all = self.templates.iter();
        all.flat_map(|(namespace, templates)| {
            let names = templates.keys();
            names.map(|name| (namespace.clone(), name.clone()))
        })
        .collect()
    }

    /// The same pod sets of a job in this namespace, with their devices counted by what is known now. None
    /// if they claim none, or none are counted.
    pub fn count(&self, namespace: &str, pod_sets: &[PodSetView]) -> Option<Arc<[PodSetView]>> {
        if !self.are_counted() || pod_sets.iter().all(|set| set.claims.is_empty()) {
            return None;
        }
        let templates = self.templates.get(namespace);
        let counted = pod_sets.iter().cloned().map(|mut set| {
            set.count_devices(|name| templates?.get(name));
            set
        });
        Some(counted.collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(count: i64) -> Value {
        json!({"spec": {"spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}}})
    }

    #[test]
    fn nothing_is_left_of_templates_that_are_gone() {
        let gpus = ("gpu".to_owned(), "example.com/gpu".to_owned());
        let mut devices = Devices::new(DeviceClasses::new([gpus]));
        assert!(devices.put("blue", "a", Some(&template(1))));
        assert!(!devices.put("blue", "a", Some(&template(1))), "as before");
        assert!(devices.put("blue", "a", Some(&template(2))));
        assert!(devices.put("red", "a", Some(&json!({}))));
        assert_eq!(devices.names().len(), 2);
        assert!(!devices.put("green", "a", None));
        assert!(devices.put("blue", "a", None) && devices.put("red", "a", None));
        assert!(devices.templates.is_empty());
    }
}
