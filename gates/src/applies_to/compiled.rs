//! `spec.appliesTo` of a Gate, checked; and what it says of an object.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_crds::{AppliedKind, AppliesTo};
use sluice_kinds::problem::summarize;
use sluice_kinds::{Problem, names};

use super::applicant::{Applicant, Applies};
use super::selector::Selector;
use super::when::When;

/// Where it stands.
const FIELD: &str = "spec.appliesTo";
/// Where its expression stands.
const WHEN: &str = "spec.appliesTo.when";

/// Which objects are born with the gate.
#[derive(Debug, Clone)]
pub struct CompiledAppliesTo {
    /// None: only objects that name a queue or a gate.
    namespaces: Option<Selector>,
    /// Empty: all.
    kinds: BTreeSet<AppliedKind>,
    /// Empty: any and none.
    queues: BTreeSet<String>,
    when: Option<Arc<When>>,
    /// What of it can't be followed. What the rest matches gets the gate.
    broken: Option<String>,
}

impl CompiledAppliesTo {
    /// Checks it.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn compile(spec: &AppliesTo) -> Result<Self, Vec<Problem>> {
        let (compiled, problems) = Self::read(spec);
        if problems.is_empty() {
            Ok(compiled)
        } else {
            Err(problems)
        }
    }

    /// The same for one that is stored whatever is wrong with it: what can't be followed matches everything.
    pub fn or_wider(spec: &AppliesTo) -> Self {
        let (mut compiled, problems) = Self::read(spec);
        compiled.broken = (!problems.is_empty()).then(|| summarize(&problems));
        compiled
    }

    fn read(spec: &AppliesTo) -> (Self, Vec<Problem>) {
        let AppliesTo {
            namespace_selector,
            kinds,
            queues,
            when,
        } = spec;
        let mut problems = Vec::new();
        let namespaces = namespace_selector.as_ref().map(|selector| {
            let field = format!("{FIELD}.namespaceSelector");
            Selector::compile(selector, &field, &mut problems)
        });
        for (index, kind) in kinds.iter().enumerate() {
            if kinds.iter().take(index).any(|other| other == kind) {
                let field = format!("{FIELD}.kinds[{index}]");
                let name = format!("{}.{}", kind.kind, kind.group);
                problems.push(Problem::duplicate(field, name.trim_end_matches('.')));
            }
        }
        for (index, queue) in queues.iter().enumerate() {
            let field = format!("{FIELD}.queues[{index}]");
            problems.extend(names::subdomain(queue, &field));
            if queues.iter().take(index).any(|other| other == queue) {
                problems.push(Problem::duplicate(field, queue.clone()));
            }
        }
        let when = when.as_ref().and_then(|source| {
            let compiled = When::compile(source, WHEN);
            compiled.map_err(|problem| problems.push(problem)).ok()
        });
        let compiled = Self {
            namespaces,
            kinds: kinds.iter().cloned().collect(),
            queues: queues.iter().cloned().collect(),
            when: when.map(Arc::new),
            broken: None,
        };
        (compiled, problems)
    }

    /// Whether objects that name neither a queue nor a gate may match: those of the selected namespaces.
    pub fn reaches_others(&self) -> bool {
        self.namespaces.is_some() && self.queues.is_empty()
    }

    /// Whether it depends on who makes the request.
    pub fn reads_author(&self) -> bool {
        self.when.as_ref().is_some_and(|when| when.reads_author())
    }

    /// Whether all of it can be followed.
    pub fn is_sound(&self) -> bool {
        self.broken.is_none()
    }

    /// Whether objects of this kind may match.
    pub fn may_be(&self, group: &str, kind: &str) -> bool {
        let is = |applied: &AppliedKind| applied.group == group && applied.kind == kind;
        self.kinds.is_empty() || self.kinds.iter().any(is)
    }

    /// Whether `candidate` is born with the gate. What costs least is asked first.
    pub fn applies(&self, candidate: &dyn Applicant) -> Applies {
        if !self.may_be(candidate.group(), candidate.kind()) {
            return Applies::No;
        }
        let is_of_queue = |queue: &str| self.queues.contains(queue);
        if !self.queues.is_empty() && !candidate.queue().is_some_and(is_of_queue) {
            return Applies::No;
        }
        let is_selected = match &self.namespaces {
            None => candidate.asks_for_sluice(),
            Some(selector) => match candidate.namespace_labels() {
                None => return Applies::Early,
                Some(labels) => selector.matches(labels),
            },
        };
        if !is_selected {
            return Applies::No;
        }
        if let Some(broken) = &self.broken {
            return Applies::Unclear(broken.clone());
        }
        let Some(when) = &self.when else {
            return Applies::Yes;
        };
        match when.is_true(candidate) {
            Ok(true) => Applies::Yes,
            Ok(false) => Applies::No,
            Err(why) => Applies::Unclear(format!("{WHEN} fails: {why}")),
        }
    }
}
