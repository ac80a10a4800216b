//! What is asked of the JobKinds: how their objects are read, where they are, whether all are known. Nothing
//! changes here.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, GroupVersionKind};
use sluice_crds::{ConditionType, JobKindStatus};
use sluice_gates::GroupKind;
use sluice_kinds::CompiledKind;

use super::watch_state::{UnavailableReason, WatchState, unavailable};
use super::{Entry, Kinds, PATIENCE, ReadingBasis};
use crate::cache::cluster::Kept;
use crate::cache::conditions;
use crate::cache::job::JobReader;
use crate::jobkinds::webhook_rules::Reach;
use crate::process::clock::Moment;

impl Kinds {
    /// The names of all JobKinds that there are.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let entries = self.entries.iter().filter(|(_, entry)| !entry.is_retiring);
        entries.map(|(name, _)| name)
    }

    /// The names of those that are deleted and kept for objects that hold quota.
    pub fn retiring(&self) -> Vec<Arc<str>> {
        let entries = self.entries.iter().filter(|(_, entry)| entry.is_retiring);
        entries.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the JobKind is deleted and kept for objects that hold quota.
    pub fn is_retiring(&self, name: &str) -> bool {
        self.entries
            .get(name)
            .is_some_and(|entry| entry.is_retiring)
    }

    /// The JobKind, ready to read objects.
    pub fn compiled(&self, name: &str) -> Option<Arc<CompiledKind>> {
        self.entries.get(name)?.compiled.clone()
    }

    /// What the JobKind's objects are called, as in `Job.batch`.
    pub fn name_of_kind(&self, name: &str) -> String {
        let compiled = self
            .entries
            .get(name)
            .and_then(|entry| entry.compiled.as_ref());
        match compiled {
            Some(kind) if kind.group.is_empty() => kind.kind.clone(),
            Some(kind) => format!("{}.{}", kind.kind, kind.group),
            None => name.to_owned(),
        }
    }

    /// What all objects are read with.
    pub fn reading(&self) -> &ReadingBasis {
        &self.reading
    }

    /// Reads the JobKind's objects.
    pub fn reader(&self, name: &str) -> Option<JobReader> {
        let (name, entry) = self.entries.get_key_value(name)?;
        Some(JobReader {
            name: name.clone(),
            kind: entry.compiled.clone()?,
            queue_labels: self.reading.queue_labels.clone(),
            key_aliases: self.reading.key_aliases.clone(),
            device_classes: self.reading.device_classes.clone(),
            additions: self.reading.additions.clone(),
        })
    }

    /// Whether what is known of the JobKind's objects was read by the JobKind as it is.
    pub fn has_listed(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.has_listed)
    }

    /// The JobKind that declares this group and kind.
    pub fn declared(&self, group: &str, kind: &str) -> Option<Arc<CompiledKind>> {
        let mut compiled = self.entries.values().filter_map(|e| e.compiled.as_ref());
        let found = compiled.find(|declared| declared.group == group && declared.kind == kind);
        found.cloned()
    }

    /// The resource of the JobKind's objects.
    pub fn resource(&self, name: &str) -> Option<ApiResource> {
        self.entries.get(name)?.resource.clone()
    }

    /// Whether observations of this life of a watch still count.
    pub fn is_current(&self, name: &str, life: u64) -> bool {
        self.entries
            .get(name)
            .is_some_and(|entry| entry.life == life)
    }

    /// Which life of its watch the JobKind is in.
    pub fn life(&self, name: &str) -> Option<u64> {
        self.entries.get(name).map(|entry| entry.life)
    }

    /// The resource of this group and kind, if all its objects are known.
    pub fn listed_resource(&self, of: &GroupKind) -> Option<ApiResource> {
        let mut entries = self.entries.values();
        let entry =
            entries.find(|entry| names(entry, of) && entry.watch_state == WatchState::Listed)?;
        entry.resource.clone()
    }

    /// The resource of this group and kind, as it was when it was last served.
    pub fn last_resource(&self, of: &GroupKind) -> Option<ApiResource> {
        let mut entries = self.entries.values().filter(|entry| names(entry, of));
        entries.find_map(|entry| entry.resource.clone())
    }

    /// The API group and the kind that a JobKind reads.
    pub fn group_kind(&self, name: &str) -> Option<GroupKind> {
        let spec = &self.entries.get(name)?.spec;
        Some(GroupKind::new(spec.group.as_str(), spec.kind.as_str()))
    }

    /// The resource of this group and kind as its JobKind names it, if no version of it is served.
    pub fn unserved_resource(&self, of: &GroupKind) -> Option<ApiResource> {
        let mut entries = self.entries.values();
        let entry = entries.find(|entry| {
            names(entry, of) && matches!(entry.watch_state, WatchState::Unserved { .. })
        })?;
        let named = GroupVersionKind::gvk(&of.group, &entry.spec.version, &of.kind);
        Some(ApiResource::from_gvk(&named))
    }

    /// Whether all objects of this JobKind are known, and what becomes of them is seen.
    pub fn is_watched(&self, name: &str) -> bool {
        let entry = self.entries.get(name);
        entry.is_some_and(|entry| entry.watch_state == WatchState::Listed)
    }

    /// Whether objects of this JobKind may be released: all are known, and it fits them.
    pub fn is_listed(&self, name: &str) -> bool {
        let entry = self.entries.get(name);
        let fits = entry.is_some_and(|entry| entry.misfit.is_none() && !entry.is_retiring);
        fits && self.is_watched(name)
    }

    /// Whether objects of this JobKind may not be released, and its status has said so for a while: a list may fail once,
    /// and begins anew when a JobKind is edited.
    pub fn is_unlisted_for_long(&self, name: &str, now: Timestamp) -> bool {
        let told = self.entries.get(name).and_then(|entry| {
            let ready = conditions::find(&entry.kept.status.conditions, ConditionType::Ready);
            ready.filter(|ready| ready.status == "False")
        });
        let since = told.map(|told| now.duration_since(told.last_transition_time.0));
        !self.is_listed(name) && since.is_some_and(|since| PATIENCE <= since.unsigned_abs())
    }

    /// Whether no JobKind is about to show objects for the first time. One that takes too long is
    /// not waited for: it must not hold up the others.
    pub fn all_settled(&self, now: Moment) -> bool {
        self.may_start
            && self.entries.values().all(|entry| {
                entry.watch_state != WatchState::Starting || PATIENCE < now.since(entry.since)
            })
    }

    /// Whether all objects are known of each kind that has any.
    pub fn all_listed(&self) -> bool {
        self.may_start
            && self.entries.values().all(|entry| {
                matches!(
                    entry.watch_state,
                    WatchState::Listed | WatchState::Unserved { .. }
                )
            })
    }

    /// What is kept for the status of each JobKind, and the state of its watch.
    pub fn watch_states(
        &self,
    ) -> impl Iterator<Item = (&Arc<str>, &Kept<JobKindStatus>, WatchState)> {
        let entries = self.entries.iter().filter(|(_, entry)| !entry.is_retiring);
        entries.map(|(name, entry)| {
            let state = match (&entry.watch_state, &entry.misfit) {
                (WatchState::Listed, Some(misfit)) => unavailable(
                    UnavailableReason::SchemaMismatch,
                    format!("{misfit}; nothing of this kind is admitted until that is corrected"),
                ),
                (state, _) => state.clone(),
            };
            (name, &entry.kept, state)
        })
    }

    /// Whether the API server asks Sluice about objects of this JobKind.
    pub fn reach(&self, name: &str) -> Reach {
        self.rules.reach(name)
    }

    /// Whether objects that a Gate applies to are born with its gate.
    pub fn reach_of_gate(&self, name: &str) -> Reach {
        self.rules.reach_of_gate(name)
    }

    /// Whether a JobKind reads objects of this group and kind.
    pub fn is_read(&self, group: &str, kind: &str) -> bool {
        self.read_by(group, kind).is_some()
    }

    /// The JobKind that reads objects of this group and kind.
    pub(super) fn read_by(&self, group: &str, kind: &str) -> Option<Arc<str>> {
        let reads = |entry: &Entry| {
            entry.spec.group == group
                && entry.spec.kind == kind
                && entry.compiled.is_some()
                && !entry.is_retiring
        };
        let found = self.entries.iter().find(|(_, entry)| reads(entry));
        found.map(|(name, _)| name.clone())
    }

    /// Those that retire and whose kind another JobKind reads by now.
    pub(super) fn replaced(&self) -> Vec<Arc<str>> {
        let mut replaced = self.retiring();
        replaced.retain(|name| {
            let spec = self.entries.get(name).map(|entry| &entry.spec);
            spec.is_some_and(|spec| self.is_read(&spec.group, &spec.kind))
        });
        replaced
    }
}

/// Whether a JobKind names this group and kind.
fn names(entry: &Entry, of: &GroupKind) -> bool {
    *entry.spec.group == *of.group && *entry.spec.kind == *of.kind
}
