//! Objects of Sluice's own that can't be read: each is told once for each problem, in an event of its own, and counted.
//! What becomes of them is said in `cache/cluster.rs`, and for Workloads in `cache/workload.rs`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use sluice_crds::reasons::event;
use tracing::warn;

use crate::cache::Source;
use crate::controller::Controller;
use crate::plan::Note;

/// What is wrong with each, by source, namespace and name.
#[derive(Debug, Default)]
pub struct UnreadableObjects(BTreeMap<Source, BTreeMap<(String, String), String>>);

impl Controller {
    /// An object can't be read. `is_in_force` says whether what was known of it before still counts.
    pub(in crate::controller) fn note_unreadable(
        &mut self,
        source: &Source,
        about: ObjectReference,
        error: &str,
        is_in_force: bool,
    ) {
        let place = (
            about.namespace.clone().unwrap_or_default(),
            about.name.clone().unwrap_or_default(),
        );
        let of_source = self.unreadable.0.entry(source.clone()).or_default();
        let before = of_source.insert(place, error.to_owned());
        let count = of_source.len();
        self.metrics.process.unreadable(source.kind(), count);
        if before.as_deref() == Some(error) {
            return;
        }
        let (namespace, name) = (about.namespace.as_deref(), about.name.as_deref());
        warn!(
            ?source,
            namespace, name, error, is_in_force, "object can't be read"
        );
        let kind = source.kind();
        let text = match source {
            Source::Workload if is_in_force => format!(
                "This Workload can't be read: {error}; it keeps the quota that it was admitted with"
            ),
            Source::Workload => format!("This Workload can't be read: {error}"),
            _ if is_in_force => {
                format!("This {kind} can't be read: {error}; what it said before stays in force")
            }
            _ => format!(
                "This {kind} can't be read: {error}; nothing is known of it, and what depends on it waits"
            ),
        };
        let note = Note::warning(event::UNREADABLE, text);
        self.recorder.repeat(about, note);
    }

    /// An object can be read, or is gone.
    pub(in crate::controller) fn note_readable(
        &mut self,
        source: &Source,
        namespace: &str,
        name: &str,
    ) {
        let Some(of_source) = self.unreadable.0.get_mut(source) else {
            return;
        };
        let place = (namespace.to_owned(), name.to_owned());
        if of_source.remove(&place).is_some() {
            let count = of_source.len();
            self.metrics.process.unreadable(source.kind(), count);
        }
    }
}
