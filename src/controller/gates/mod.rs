//! Gates: whose deadline passes when, what was lifted from whom, who passes a gate with a counter, and what is lifted
//! after another object. What follows
//! for an object is planned in `crate::plan::gates`; what a Gate's status says lies in `reports/gate_statuses.rs`.
//!
//! Must not know quota or queues.

mod after;
mod counters;
mod queue_required;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::QueuePlace;
use sluice_gates::Opening;
use sluice_kinds::gates::Gate;

pub use after::Satisfied;
pub use counters::Counters;

use super::Controller;
use crate::cache::Subject;
use crate::cache::gates::Gates;
use crate::cache::held::{Gated, Held};
use crate::cache::kept_gates::KeptGates;
use crate::plan::Note;
use crate::plan::gates::action::{GateNow, expires, lifted_note};
use crate::process::metrics::Metrics;

/// Why a gate with a schedule is lifted, in the record of the object.
const SCHEDULED: &str = "its schedule says";

impl Controller {
    /// Has those objects planned for which the deadline of a gate has passed since it was last looked at. They
    /// are in order of age, so that nothing is looked at that is not due.
    pub(super) fn look_after_deadlines(&mut self) {
        let now = self.now.wall;
        let mut due = Vec::new();
        for (gate, object) in self.cluster.gates.iter() {
            let Some(deadline) = object.deadline() else {
                continue;
            };
            let is_due = |held: &&Held| {
                let since = held.exists_since;
                since.is_none_or(|since| expires(deadline, since) <= now)
            };
            let held = self.objects.held().into_iter();
            let held = held.flat_map(|held| held.unexpired(gate).take_while(is_due));
            due.extend(held.map(|held| held.subject.clone()));
        }
        self.agenda.plan_all(due);
    }

    /// Has those objects planned that a schedule lifts a gate from now.
    pub(super) fn look_after_schedules(&mut self) {
        let now = self.now.wall;
        let mut open = Vec::new();
        for (gate, object) in self.cluster.gates.iter() {
            let (Some(_), Ok(compiled)) = (&object.spec.schedule, &object.compiled) else {
                continue;
            };
            // Whatever they hold, most gates are closed most of the time.
            if !compiled.lets_any_through(now) {
                continue;
            }
            let held = self.objects.held_by(gate).map(|held| &held.subject);
            let opened = held.filter(|subject| {
                let gated = self.objects.gates_of(subject);
                gated.is_some_and(|gated| compiled.is_open(gated.kept.annotations(), now))
            });
            open.extend(opened.cloned());
        }
        self.agenda.plan_all(open);
    }

    /// What the Gate of `gate` says of an object now, if there is one.
    pub(in crate::controller) fn gate_now(
        &self,
        gate: &Gate,
        subject: &Subject,
        namespace: &str,
        kept: &KeptGates,
    ) -> Option<GateNow> {
        if gate.is_queue_required() {
            return Some(self.look_at_queue(subject, namespace));
        }
        let object = self.cluster.gates.get(gate)?;
        let mut now = GateNow {
            spec: object.spec.clone(),
            deadline: object.deadline(),
            opened: self.counters.opened(gate, subject).map(Into::into),
            closed: None,
            failed: None,
        };
        if let (Some(limit), None) = (object.limit(), &now.opened) {
            let why = self.without_place(gate, subject, limit);
            now.closed = why.map(|why| why.to_string());
        }
        let annotations = kept.annotations();
        match &object.compiled {
            Ok(compiled) if let Some(after) = compiled.after() => {
                self.look_at_dependency((gate, subject), after, annotations, namespace, &mut now);
            }
            Ok(compiled) => match compiled.opening(annotations, self.now.wall) {
                Opening::NotScheduled => {}
                Opening::Open => now.opened = Some(SCHEDULED.into()),
                Opening::Closed(closed) => now.closed = Some(closed.to_string()),
            },
            Err(_) => {
                now.opened = None;
                now.closed = Some("its Gate is not valid".to_owned());
            }
        }
        let named = object
            .compiled
            .as_ref()
            .ok()
            .and_then(|compiled| compiled.annotation());
        if let Some(unread) = named.and_then(|key| kept.unread(key)) {
            now.closed = Some(unread);
        }
        Some(now)
    }

    /// Where an object takes its place in its queue from which this gate was lifted.
    pub(super) fn place_of(&self, gate: &Gate) -> QueuePlace {
        let object = self.cluster.gates.get(gate);
        object.map_or_else(QueuePlace::default, |object| object.spec.place)
    }

    /// The Gate of a gate says something else, or is gone: what the gate holds is told.
    pub(super) fn gate_changed(&mut self, gate: &Gate) {
        let held = self.objects.held_by(gate);
        self.agenda.plan_all(held.map(|held| held.subject.clone()));
    }
}

/// Counts what has changed about the gates of an object that was known. Returns what is to be told about that.
pub fn count_changes(
    known: &mut Gates,
    metrics: &Metrics,
    before: Gated<'_>,
    after: Gated<'_>,
    now: Timestamp,
) -> Vec<Note> {
    for gate in before.gates.names() {
        let is_left = after.gates.contains(gate);
        if !is_left
            && known.count_lifted(gate)
            && let (Some(name), Some(since)) = (gate.object_name(), after.exists_since)
        {
            let held = now.duration_since(since);
            metrics
                .gates
                .gate_lifted(&name, Duration::try_from(held).unwrap_or_default());
        }
    }
    for gate in after.kept.expired.difference(&before.kept.expired) {
        let gate = Gate::parse(gate, "").ok();
        let counted = gate.filter(|gate| known.count_expired(gate));
        if let Some(name) = counted.and_then(|gate| gate.object_name()) {
            metrics.gates.gate_expired(&name);
        }
    }
    let lifted = after.kept.lifted.iter();
    let news = lifted.filter(|lifted| !before.kept.lifted.contains(lifted));
    news.map(lifted_note).collect()
}
