//! Gates that are lifted after another object: which kinds are watched for them, and which held objects are looked at
//! when something has changed. What is known of the other objects is in `crate::cache::gates::dependencies`.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_gates::{CompiledAfter, Dependency, DependencyRule, GroupKind, Waiting};
use sluice_kinds::gates::Gate;

use crate::cache::Subject;
use crate::cache::gates::dependencies::KindChanges;
use crate::controller::Controller;
use crate::plan::gates::action::GateNow;

/// How many held objects are told something else in a second. Whoever may write an object that many others wait for
/// could have events written about all of them again and again.
const TOLD_PER_SECOND: usize = 100;

/// What was true of the object that another one waits for, and is not any more: it may be gone by the time that the gate
/// can be lifted. Kept while the gate holds whoever waited for it then.
#[derive(Debug, Default)]
pub struct Satisfied {
    by_gate: BTreeMap<Gate, BTreeMap<Subject, (Arc<DependencyRule>, String)>>,
}

impl Satisfied {
    fn note(&mut self, gate: &Gate, subject: &Subject, dependency: &Dependency<'_>) {
        let of_gate = self.by_gate.entry(gate.clone()).or_default();
        let what = (dependency.rule.clone(), dependency.plain());
        of_gate.insert(subject.clone(), what);
    }

    /// Whether that was so of just this object. Somebody may have named another one since.
    fn contains(&self, gate: &Gate, subject: &Subject, dependency: &Dependency<'_>) -> bool {
        let of_gate = self.by_gate.get(gate);
        let known = of_gate.and_then(|of_gate| of_gate.get(subject));
        known.is_some_and(|(rule, named)| rule == dependency.rule && *named == dependency.plain())
    }

    fn retain(&mut self, holds: impl Fn(&Gate, &Subject) -> bool) {
        self.by_gate.retain(|gate, of_gate| {
            of_gate.retain(|subject, _| holds(gate, subject));
            !of_gate.is_empty()
        });
    }
}

impl Controller {
    /// Has those kinds watched that Gates wait for.
    pub(in crate::controller) fn follow_gates(&mut self) {
        if !self.lists.are_complete() || !self.cluster.dependencies.take_outdated() {
            return;
        }
        let gates = self.cluster.gates.iter();
        let afters = gates.filter_map(|(_, object)| object.compiled.as_ref().ok()?.after());
        let rules = afters.flat_map(|after| after.rules().iter().cloned());
        self.cluster.dependencies.want(rules, self.now.moment);
        self.forget_listings();
    }

    /// Has those held objects planned of whose dependencies something else is known: at once where something is to be
    /// done, and some of the others, who are only told something else.
    pub(in crate::controller) fn look_after_dependencies(&mut self) {
        self.satisfied.retain(|gate, subject| {
            let gated = self.objects.gates_of(subject);
            gated.is_some_and(|gated| gated.is_held && gated.gates.contains(gate))
        });
        let changed = self.cluster.dependencies.take_changed();
        if !changed.is_empty() {
            self.look_at_changed(&changed);
        }
        let mut told = self.cluster.dependencies.take_untold(TOLD_PER_SECOND);
        // Some may be gone by now.
        told.retain(|subject| self.objects.gates_of(subject).is_some());
        self.agenda.plan_all(told);
    }

    fn look_at_changed(&mut self, changed: &BTreeMap<GroupKind, KindChanges>) {
        let known = &self.cluster.dependencies;
        let (mut due, mut untold) = (Vec::new(), Vec::new());
        for (gate, object) in self.cluster.gates.iter() {
            let compiled = object.compiled.as_ref().ok();
            let Some(after) = compiled.and_then(|compiled| compiled.after()) else {
                continue;
            };
            let has_changed = |kind| changed.contains_key(kind);
            if !after.rules().iter().any(|rule| has_changed(rule.kind())) {
                continue;
            }
            for held in self.objects.held_by(gate) {
                let Some(gated) = self.objects.gates_of(&held.subject) else {
                    continue;
                };
                let Ok(dependency) = after.dependency(gated.kept.annotations()) else {
                    continue;
                };
                if !known.is_changed(changed, &dependency, &held.namespace) {
                    continue;
                }
                let acts =
                    object.spec.deadline.is_some() && !gated.kept.has_expired(gate, gated.uid);
                if known.was_satisfied(changed, &dependency, &held.namespace) {
                    self.satisfied.note(gate, &held.subject, &dependency);
                    due.push(held.subject.clone());
                    continue;
                }
                let is_due = match known.check(&dependency, &held.namespace) {
                    Ok(()) => true,
                    Err(waiting) => acts && matches!(waiting, Waiting::Failed(_)),
                };
                let list = if is_due { &mut due } else { &mut untold };
                list.push(held.subject.clone());
            }
        }
        self.agenda.plan_all(due);
        for subject in untold {
            self.cluster.dependencies.tell_later(subject);
        }
    }

    /// Says whether such a gate is lifted from an object of `namespace` now.
    pub(super) fn look_at_dependency(
        &self,
        (gate, subject): (&Gate, &Subject),
        after: &CompiledAfter,
        annotations: &BTreeMap<String, String>,
        namespace: &str,
        now: &mut GateNow,
    ) {
        let dependency = match after.dependency(annotations) {
            Ok(dependency) => dependency,
            Err(waiting) => {
                now.closed = Some(waiting.to_string());
                return;
            }
        };
        if self.satisfied.contains(gate, subject, &dependency) {
            now.opened = Some(satisfied(&dependency).into());
            return;
        }
        match self.cluster.dependencies.check(&dependency, namespace) {
            Ok(()) => now.opened = Some(satisfied(&dependency).into()),
            Err(waiting) => {
                now.closed = Some(waiting.to_string());
                now.failed = matches!(waiting, Waiting::Failed(_))
                    .then(|| format!("{} has failed", dependency.plain()));
            }
        }
    }
}

/// Why such a gate is lifted, in the record of the object.
fn satisfied(dependency: &Dependency<'_>) -> String {
    format!("{} satisfies the condition of the Gate", dependency.plain())
}
