//! What namespaces and RuntimeClasses add to the pods of a job, shared by the tasks that read jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sluice_kinds::requests::{Amounts, ClassAdditions, PodDefaults};

/// What is added to pods. The one task that holds all state writes it; others read.
#[derive(Debug, Clone, Default)]
pub struct PodAdditions(Arc<RwLock<Tables>>);

/// Whose pods something else is added to now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// Those of a namespace.
    To(Arc<str>),
    /// Those of this RuntimeClass.
    OfClass(Arc<str>),
}

#[derive(Debug, Default)]
struct Tables {
    /// What LimitRanges give to containers, by namespace and name.
    limit_ranges: BTreeMap<(String, String), Amounts>,
    /// What each RuntimeClass adds, which may be nothing.
    runtime_classes: BTreeMap<String, ClassAdditions>,
}

impl PodAdditions {
    /// Takes in a LimitRange; `None` if it is gone. Whether something else is added now.
    pub fn set_limit_range(&self, namespace: &str, name: &str, amounts: Option<Amounts>) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        // One that gives nothing is as good as none.
        let amounts = amounts.filter(|amounts| !amounts.is_empty());
        set(&mut self.write().limit_ranges, key, amounts)
    }

    /// Takes in what a RuntimeClass adds; `None` if it is gone. Whether that changes anything.
    pub fn set_runtime_class(&self, class: &str, adds: Option<ClassAdditions>) -> bool {
        set(&mut self.write().runtime_classes, class.to_owned(), adds)
    }

    /// The namespaces and names of the LimitRanges.
    pub fn limit_ranges(&self) -> Vec<(String, String)> {
        self.read().limit_ranges.keys().cloned().collect()
    }

    /// The names of the RuntimeClasses.
    pub fn classes(&self) -> Vec<String> {
        self.read().runtime_classes.keys().cloned().collect()
    }

    /// What a pod of this namespace gets.
    pub fn of(&self, namespace: &str) -> PodDefaults {
        let tables = self.read();
        let mut defaults = PodDefaults {
            runtime_classes: Some(tables.runtime_classes.clone()),
            ..PodDefaults::default()
        };
        let first = (namespace.to_owned(), String::new());
        let ranges = tables.limit_ranges.range(first..);
        for (_, amounts) in ranges.take_while(|((ns, _), _)| ns == namespace) {
            defaults.add_limit_range(amounts);
        }
        defaults
    }

    // No reader and no writer can leave the tables half-written.
    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets or removes an entry. Returns whether that changes anything.
pub(super) fn set<K: Ord, V: PartialEq>(
    map: &mut BTreeMap<K, V>,
    key: K,
    value: Option<V>,
) -> bool {
    let changes = map.get(&key) != value.as_ref();
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
    changes
}
