//! `spec.after` as a whole, checked.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use sluice_crds::{AFTER_ANNOTATION, After, AfterObject};
use sluice_kinds::{Problem, names};

use super::dependency::{Dependency, NamedBy};
use super::reference;
use super::rule::DependencyRule;
use super::waiting::Waiting;

/// Where it stands.
const FIELD: &str = "spec.after";
/// What it gets to hear if it says nothing, or both.
const EITHER: &str = "exactly one of object and kinds must be set: object is named here; with kinds, the held job names an object of one of \
     them in its annotation";

/// After which object a gate is lifted. Its fields were checked.
#[derive(Debug, Clone)]
pub struct CompiledAfter {
    named: Named,
}

/// Who names the object.
#[derive(Debug, Clone)]
enum Named {
    ByGate {
        rule: Arc<DependencyRule>,
        name: String,
        namespace: Option<String>,
    },
    ByHeldObject {
        annotation: String,
        rules: Vec<Arc<DependencyRule>>,
    },
}

impl CompiledAfter {
    /// Checks what a Gate says.
    pub(crate) fn compile(after: &After) -> Result<Self, Vec<Problem>> {
        let After {
            object,
            kinds,
            annotation,
        } = after;
        let named = match (object, kinds.is_empty()) {
            (Some(object), true) => by_gate(object)?,
            (None, false) => by_held_object(after, annotation.as_deref())?,
            (Some(_), false) | (None, true) => return Err(vec![Problem::required(FIELD, EITHER)]),
        };
        Ok(Self { named })
    }

    /// What is to be true of objects, by their kinds.
    pub fn rules(&self) -> &[Arc<DependencyRule>] {
        match &self.named {
            Named::ByGate { rule, .. } => slice::from_ref(rule),
            Named::ByHeldObject { rules, .. } => rules,
        }
    }

    /// The key of the annotation in which held objects name an object, if they do.
    pub(crate) fn annotation(&self) -> Option<&str> {
        match &self.named {
            Named::ByGate { .. } => None,
            Named::ByHeldObject { annotation, .. } => Some(annotation),
        }
    }

    /// The object that a held object with these annotations waits for.
    ///
    /// # Errors
    /// It names none, which holds it.
    pub fn dependency<'a>(
        &'a self,
        annotations: &'a BTreeMap<String, String>,
    ) -> Result<Dependency<'a>, Waiting> {
        match &self.named {
            Named::ByGate {
                rule,
                name,
                namespace,
            } => Ok(Dependency {
                rule,
                name,
                named_by: NamedBy::Gate {
                    namespace: namespace.as_deref(),
                },
            }),
            Named::ByHeldObject { annotation, rules } => {
                let (rule, name) = reference::read(annotations, annotation, rules)?;
                let named_by = NamedBy::HeldObject;
                Ok(Dependency {
                    rule,
                    name,
                    named_by,
                })
            }
        }
    }

    /// For each kind one object as it could be named, to find out whether it can.
    pub fn samples(&self) -> impl Iterator<Item = Dependency<'_>> {
        let named_by = match &self.named {
            Named::ByGate { namespace, .. } => NamedBy::Gate {
                namespace: namespace.as_deref(),
            },
            Named::ByHeldObject { .. } => NamedBy::HeldObject,
        };
        self.rules().iter().map(move |rule| Dependency {
            rule,
            name: "",
            named_by,
        })
    }
}

fn by_gate(object: &AfterObject) -> Result<Named, Vec<Problem>> {
    let field = format!("{FIELD}.object");
    let AfterObject {
        kind,
        name,
        namespace,
    } = object;
    let rule = DependencyRule::compile(kind, &field);
    let mut problems = names::subdomain(name, &format!("{field}.name"));
    if let Some(namespace) = namespace {
        problems.extend(names::label(namespace, &format!("{field}.namespace")));
    }
    match rule {
        Ok(rule) if problems.is_empty() => Ok(Named::ByGate {
            rule: Arc::new(rule),
            name: name.clone(),
            namespace: namespace.clone(),
        }),
        Ok(_) => Err(problems),
        Err(found) => Err(found.into_iter().chain(problems).collect()),
    }
}

fn by_held_object(after: &After, annotation: Option<&str>) -> Result<Named, Vec<Problem>> {
    let annotation = annotation.unwrap_or(AFTER_ANNOTATION);
    let problem = names::annotation_key(annotation, &format!("{FIELD}.annotation"));
    let mut problems: Vec<_> = problem.into_iter().collect();
    let mut rules: Vec<Arc<DependencyRule>> = Vec::new();
    for (index, kind) in after.kinds.iter().enumerate() {
        let field = format!("{FIELD}.kinds[{index}]");
        match DependencyRule::compile(kind, &field) {
            Ok(rule) if rules.iter().any(|known| known.kind() == rule.kind()) => {
                let kind = rule.kind().to_string();
                problems.push(Problem::duplicate(field, kind));
            }
            Ok(rule) => rules.push(Arc::new(rule)),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() {
        let annotation = annotation.to_owned();
        Ok(Named::ByHeldObject { annotation, rules })
    } else {
        Err(problems)
    }
}
