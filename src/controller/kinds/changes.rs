//! JobKinds that come, change and go: which of two for one kind counts, whose task is started and ended, and
//! which rules the webhooks are to have.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::DynamicObject;
use sluice_crds::{JobKind, JobKindSpec, JobKindStatus};
use sluice_kinds::CompiledKind;
use sluice_kinds::problem::summarize;

use super::watch_state::{UnavailableReason, WatchState, unavailable};
use super::{Entry, Kinds, Order, PATIENCE};
use crate::cache::cluster::{Kept, text, unknown};
use crate::jobkinds::webhook_rules::{Rule, Wanted};
use crate::process::clock::Moment;
use crate::process::invariants::violated;

impl Kinds {
    /// Begins to watch: what jobs are judged by is known.
    pub fn start_all(&mut self, now: Moment) {
        // Of two for one kind the older one counts, in whatever order they were listed: a start must not
        // read objects by another one than before.
        let all = std::mem::take(&mut self.entries);
        self.put_again(all.into_iter().collect(), now);
        self.may_start = true;
        let names: Vec<_> = self.entries.keys().cloned().collect();
        for name in names {
            self.start(&name);
        }
        self.publish_rules();
    }

    /// Takes in a JobKind. Returns whether objects have to be read anew.
    pub(super) fn put(&mut self, object: &JobKind, now: Moment) -> bool {
        let name: Arc<str> = object.metadata.name.as_deref().unwrap_or_default().into();
        let kept = Kept::new(&object.metadata, object.status.clone(), None);
        if let Some(entry) = self.entries.get_mut(&name)
            && entry.spec == object.spec
            && !entry.is_retiring
            && !entry.kept.is_broken()
        {
            entry.kept = kept;
            return false;
        }
        self.remove(&name);
        let mut entry = self.entry(&object.metadata, kept, object.spec.clone(), now);
        match CompiledKind::compile(object) {
            Ok(compiled) => {
                if let Some(other) = self.read_by(&compiled.group, &compiled.kind) {
                    entry.watch_state = unavailable(
                        UnavailableReason::Taken,
                        format!(
                            "JobKind {other:?} reads {} of group {:?} already; delete one of the two",
                            compiled.kind, compiled.group
                        ),
                    );
                } else {
                    let compiled = compiled.with_queue_gates(self.reading.queue_gates.clone());
                    entry.compiled = Some(Arc::new(compiled));
                    entry.rule = Rule::Undecided;
                }
            }
            Err(problems) => {
                entry.watch_state = unavailable(UnavailableReason::Invalid, summarize(&problems));
                // Objects wait until it is corrected, rather than that they pass.
                entry.rule = Rule::Undecided;
            }
        }
        self.entries.insert(name.clone(), entry);
        if self.may_start {
            self.start(&name);
        }
        true
    }

    /// Takes in that a JobKind can't be read. What was known of it before stays in force; of one that was not known, the
    /// webhooks keep the rules that they have, so that nothing of its kind passes them. Returns whether it was known.
    pub(super) fn put_unreadable(
        &mut self,
        object: &DynamicObject,
        error: &str,
        now: Moment,
    ) -> bool {
        let name: Arc<str> = object.metadata.name.as_deref().unwrap_or_default().into();
        if let Some(entry) = self.entries.get_mut(&name) {
            entry.kept.note_unreadable(object, error);
            return entry.compiled.is_some();
        }
        let field = |name| text(object, name).unwrap_or_default();
        let spec = JobKindSpec {
            group: field("group"),
            version: field("version"),
            kind: field("kind"),
            ..JobKindSpec::default()
        };
        let mut entry = self.entry(&object.metadata, unknown(object, error), spec, now);
        entry.rule = Rule::Undecided;
        entry.watch_state = unavailable(
            UnavailableReason::Invalid,
            format!("The JobKind can't be read: {error}"),
        );
        self.entries.insert(name, entry);
        self.publish_rules();
        false
    }

    /// A JobKind in a new life, of which nothing is found out yet.
    fn entry(
        &mut self,
        metadata: &ObjectMeta,
        kept: Kept<JobKindStatus>,
        spec: JobKindSpec,
        now: Moment,
    ) -> Entry {
        self.lives += 1;
        Entry {
            created: metadata.creation_timestamp.as_ref().map(|at| at.0),
            kept,
            spec,
            compiled: None,
            resource: None,
            rule: Rule::None,
            watch_state: WatchState::Starting,
            misfit: None,
            has_listed: false,
            is_retiring: false,
            unserved_since: None,
            life: self.lives,
            since: now,
            has_task: false,
        }
    }

    /// Lists the objects again that may have the pods of this JobKind's objects: nobody has known yet
    /// what they are.
    pub(super) fn list_children(&mut self, name: &str) {
        let owner = self.compiled(name);
        let Some(owner) = owner.filter(|owner| self.may_start && owner.has_pods_of_children())
        else {
            return;
        };
        let makes = |entry: &Entry| owner.makes(&entry.spec.group, &entry.spec.kind);
        let children = self.entries.iter().filter(|(_, entry)| makes(entry));
        let children: Vec<_> = children.map(|(name, _)| name.clone()).collect();
        for name in children {
            self.stop(&name);
            self.lives += 1;
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.life = self.lives;
            }
            self.start(&name);
        }
    }

    /// JobKinds that backed off behind another one that is gone now.
    pub(super) fn revive(&mut self, now: Moment) {
        let backs_off = |entry: &Entry| {
            matches!(
                entry.watch_state,
                WatchState::Unavailable {
                    reason: UnavailableReason::Taken,
                    ..
                }
            )
        };
        let waiting = self.entries.extract_if(.., |_, entry| backs_off(entry));
        let waiting = waiting.collect();
        self.put_again(waiting, now);
    }

    /// Takes in JobKinds anew, the oldest first.
    fn put_again(&mut self, mut all: Vec<(Arc<str>, Entry)>, now: Moment) {
        all.sort_by(|(a, one), (b, other)| (one.created, a).cmp(&(other.created, b)));
        for (name, entry) in all {
            if entry.kept.is_broken() {
                self.entries.insert(name, entry);
                continue;
            }
            let mut object = JobKind::new(&name, entry.spec);
            object.metadata.creation_timestamp = entry.created.map(Time);
            object.metadata.generation = entry.kept.generation;
            object.status = Some(entry.kept.status);
            self.put(&object, now);
        }
    }

    /// Keeps a JobKind that is deleted for what still runs. Returns whether it was there.
    pub(super) fn retire(&mut self, name: &str) -> bool {
        let entry = self.entries.get_mut(name);
        let Some(entry) = entry.filter(|entry| !entry.is_retiring) else {
            return false;
        };
        entry.is_retiring = true;
        true
    }

    /// Ends the watch of a JobKind and forgets it.
    pub(super) fn remove(&mut self, name: &str) {
        self.stop(name);
        let Some(entry) = self.entries.remove(name) else {
            return;
        };
        if let Some(resource) = entry.resource {
            let mut others = self.entries.values().filter_map(|e| e.resource.as_ref());
            if !others.any(|other| other.plural == resource.plural) {
                self.metrics.traffic.forget_watch(&resource.plural);
            }
        }
    }

    fn start(&mut self, name: &Arc<str>) {
        // One that is not valid reads nothing.
        let Some(reader) = self.reader(name) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(name) else {
            return violated("a JobKind that reads objects is there");
        };
        entry.has_task = true;
        self.orders.push(Order::Start {
            life: entry.life,
            reader,
        });
    }

    fn stop(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name)
            && std::mem::take(&mut entry.has_task)
        {
            self.orders.push(Order::Stop { life: entry.life });
        }
    }

    /// The JobKinds whose kind has not been served for a while in any version: each once.
    pub fn take_unserved(&mut self, now: Moment) -> Vec<Arc<str>> {
        let is_due = |since: &mut Moment| PATIENCE <= now.since(*since);
        let due = self.entries.iter_mut().filter_map(|(name, entry)| {
            entry.unserved_since.take_if(is_due)?;
            Some(name.clone())
        });
        due.collect()
    }

    /// Notes that the first list of a kind is complete.
    pub fn listed(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.watch_state = WatchState::Listed;
            entry.has_listed = true;
        }
    }

    /// Says which rules the webhooks are to have.
    pub(super) fn publish_rules(&self) {
        if !self.may_start {
            return;
        }
        let wanted = |entry: &Entry| Wanted {
            group: entry.spec.group.clone(),
            kind: entry.spec.kind.clone(),
            rule: entry.rule.clone(),
        };
        let entries = self.entries.iter().filter(|(_, entry)| !entry.is_retiring);
        self.rules.want(
            entries
                .map(|(name, entry)| (name.clone(), wanted(entry)))
                .collect(),
        );
    }
}
