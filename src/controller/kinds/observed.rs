//! Taking in what is seen of JobKinds, and what their tasks report.

use sluice_crds::JobKind;
use tracing::info;

use super::watch_state::{UnavailableReason, WatchState, unavailable};
use super::{Entry, KindReport, News};
use crate::cache::Source;
use crate::controller::Controller;
use crate::jobkinds::webhook_rules::Rule;
use crate::process::clock::Moment;

impl Controller {
    pub(in crate::controller) fn job_kind_applied(&mut self, object: &kube::api::DynamicObject) {
        let parsed = serde_json::to_value(object).and_then(serde_json::from_value::<JobKind>);
        match parsed {
            Ok(kind) => {
                let name = kind.metadata.name.as_deref().unwrap_or_default();
                self.note_readable(&Source::JobKind, "", name);
                if self.kinds.put(&kind, self.now.moment) {
                    let name = kind.metadata.name.as_deref().unwrap_or_default();
                    self.kinds.list_children(name);
                    self.kinds_changed();
                    self.review_kind(name);
                }
            }
            Err(error) => {
                let error = error.to_string();
                let is_in_force = self.kinds.put_unreadable(object, &error, self.now.moment);
                let about = Source::JobKind.reference(&object.metadata);
                self.note_unreadable(&Source::JobKind, about, &error, is_in_force);
            }
        }
    }

    /// A JobKind is there, is another one, or is gone: others may have backed off behind it.
    pub(in crate::controller) fn kinds_changed(&mut self) {
        self.kinds.revive(self.now.moment);
        for name in self.kinds.replaced() {
            self.forget_kind(&name);
        }
        self.kinds.publish_rules();
        self.forget_listings();
    }

    /// Drops what unfinished lists of ended watches have shown.
    pub(in crate::controller) fn forget_listings(&mut self) {
        let (kinds, dependencies) = (&self.kinds, &self.cluster.dependencies);
        self.lists.retain(|source| match source {
            Source::Jobs(name, life) => kinds.is_current(name, *life),
            Source::Dependencies(kind, life) => dependencies.is_current(kind, *life),
            _ => true,
        });
    }

    pub(in crate::controller) fn kind_report(&mut self, report: KindReport) {
        // It may be deleted, or another one, since its task reported.
        let Some(entry) = self.kinds.entries.get_mut(&report.name) else {
            return;
        };
        if entry.life != report.life {
            return;
        }
        match report.news {
            // It stands as it did until its objects are listed: finding it is not reading it.
            News::Found { resource, managed } => {
                entry.resource = Some(*resource);
                entry.rule = Rule::For(*managed);
                entry.misfit = None;
                entry.unserved_since = None;
            }
            News::Schema { misfit } => {
                info!(jobkind = %report.name, ?misfit, "the published schema has changed");
                entry.misfit = misfit;
            }
            News::OtherVersion { managed, message } => {
                let state = unavailable(UnavailableReason::NotServed, message);
                if !entry.set_unavailable(state, Rule::For(*managed), self.now.moment) {
                    return;
                }
            }
            News::Unavailable(state) => {
                let rule = state.rule(&entry.rule);
                if !entry.set_unavailable(state, rule, self.now.moment) {
                    return;
                }
            }
        }
        self.kinds.publish_rules();
        self.review_kind(&report.name);
    }
}

impl Entry {
    /// Notes that its objects can't be watched. Returns whether that is new.
    fn set_unavailable(&mut self, state: WatchState, rule: Rule, now: Moment) -> bool {
        if self.watch_state == state && self.rule == rule {
            return false;
        }
        info!(
            kind = self.spec.kind,
            group = self.spec.group,
            ?state,
            "the objects of a JobKind can't be watched"
        );
        self.unserved_since = matches!(state, WatchState::Unserved { .. }).then_some(now);
        self.rule = rule;
        self.watch_state = state;
        true
    }
}
