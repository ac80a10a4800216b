//! A JobKind, checked and compiled: reads the objects of its kind. Nothing here knows a kind by
//! name; what batch/v1 Job needs, every kind can have.

use std::sync::Arc;

use serde_json::Value;
use sluice_crds::{AdmissionMode, ChildKind, FinishedRule, JobKind, JobKindSpec};

use crate::expression::Expression;
use crate::path::FieldPath;
use crate::pod_set::Reader;
use crate::problem::Problem;
use crate::queue_gates::QueueGates;
use crate::requests::PodDefaults;
use crate::view::{Finished, PodSetView};

#[cfg(test)]
mod tests;

/// Most pods in a set: what a Kubernetes count field can hold.
const COUNT_MAX: i64 = i32::MAX as i64;

/// Kinds that are refused whatever a JobKind says of them: Sluice never writes to what secures or
/// runs the cluster (reliability row D34).
const FORBIDDEN_KINDS: &[(&str, &str)] = &[
    ("", "Secret"),
    ("", "Node"),
    ("", "Namespace"),
    ("", "ServiceAccount"),
    ("", "ConfigMap"),
    ("rbac.authorization.k8s.io", "*"),
    ("admissionregistration.k8s.io", "*"),
    ("apiextensions.k8s.io", "*"),
    ("apiregistration.k8s.io", "*"),
    ("authentication.k8s.io", "*"),
    ("authorization.k8s.io", "*"),
    ("certificates.k8s.io", "*"),
    ("coordination.k8s.io", "*"),
    ("events.k8s.io", "*"),
    ("flowcontrol.apiserver.k8s.io", "*"),
    ("node.k8s.io", "*"),
    ("policy", "*"),
    ("scheduling.k8s.io", "*"),
    ("storage.k8s.io", "*"),
    ("sluice.dev", "*"),
];

/// A JobKind whose paths parse and whose expressions compile.
#[derive(Debug)]
pub struct CompiledKind {
    /// The name of the JobKind.
    pub name: String,
    /// The API group of the kind.
    pub group: String,
    /// The version that is read.
    pub version: String,
    /// The kind.
    pub kind: String,
    suspend: Option<FieldPath>,
    admission: AdmissionMode,
    pod_sets: Vec<CompiledPodSet>,
    finished: Option<CompiledFinished>,
    active: Option<Expression>,
    ready: Option<Expression>,
    children: Vec<ChildKind>,
    queue_gates: QueueGates,
}

#[derive(Debug)]
struct CompiledFinished {
    when: Expression,
    succeeded: Expression,
    message: Option<Expression>,
}

#[derive(Debug)]
struct CompiledPodSet {
    name: Arc<str>,
    template: FieldPath,
    count: Option<Expression>,
}

impl CompiledKind {
    /// Checks and compiles `kind`.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn compile(kind: &JobKind) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let spec = &kind.spec;
        check_allowed(spec, &mut problems);
        let suspend = spec
            .suspend
            .as_ref()
            .and_then(|path| compile_path("spec.suspend", path, &mut problems));
        let pod_sets = compile_pod_sets(spec, &mut problems);
        let finished = spec
            .finished
            .as_ref()
            .and_then(|rule| compile_finished(rule, &mut problems));
        let active = spec
            .active
            .as_ref()
            .and_then(|source| compile_expression("spec.active", source, &mut problems));
        let ready = spec
            .ready
            .as_ref()
            .and_then(|source| compile_expression("spec.ready", source, &mut problems));
        if spec.suspend.is_some() && spec.active.is_none() {
            problems.push(Problem::required(
                "spec.active",
                "required with spec.suspend: it says when the pods of a suspended object are gone",
            ));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            name: kind.metadata.name.clone().unwrap_or_default(),
            group: spec.group.clone(),
            version: spec.version.clone(),
            kind: spec.kind.clone(),
            suspend,
            admission: spec.admission,
            pod_sets,
            finished,
            active,
            ready,
            children: spec.children.clone(),
            queue_gates: QueueGates::default(),
        })
    }

    /// The same kind, whose pod templates are read with these names of the queue gate. Without it
    /// only Sluice's own name is known, and a configured alias is a gate of somebody else.
    #[must_use]
    pub fn with_queue_gates(self, queue_gates: QueueGates) -> Self {
        Self {
            queue_gates,
            ..self
        }
    }

    /// The path of the suspend field; none if objects of this kind can't be suspended.
    pub fn suspend_path(&self) -> Option<&FieldPath> {
        self.suspend.as_ref()
    }

    /// How objects of this kind are admitted that don't say it themselves.
    pub fn admission(&self) -> AdmissionMode {
        self.admission
    }

    /// Whether the kind's controller makes objects of this group and kind for an object.
    pub fn makes(&self, group: &str, kind: &str) -> bool {
        let mut children = self.children.iter();
        children.any(|child| child.group == group && child.kind == kind)
    }

    /// Whether the pods of an object are those of its children, and it names no pod sets of its own.
    pub fn has_pods_of_children(&self) -> bool {
        self.pod_sets.is_empty()
    }

    /// The accepted names of the queue gate.
    pub(crate) fn queue_gates(&self) -> &QueueGates {
        &self.queue_gates
    }

    /// The paths of the pod templates, each with the field of the JobKind that names it.
    pub fn template_paths(&self) -> impl Iterator<Item = (String, &FieldPath)> {
        self.pod_sets
            .iter()
            .enumerate()
            .map(|(index, set)| (format!("spec.podSets[{index}].template"), &set.template))
    }

    /// The pod templates of `object`: the name of the set, the path, and what lies there.
    pub(crate) fn templates<'a>(
        &'a self,
        object: &'a Value,
    ) -> impl Iterator<Item = (&'a str, &'a FieldPath, Option<&'a Value>)> {
        self.pod_sets
            .iter()
            .map(move |set| (&*set.name, &set.template, set.template.get(object)))
    }

    /// Whether `object` is suspended. A missing field is `false`, as the API conventions have it;
    /// so is that of a kind that has none.
    ///
    /// # Errors
    /// The field holds something that is not a boolean.
    pub fn suspended(&self, object: &Value) -> Result<bool, Problem> {
        let Some(path) = &self.suspend else {
            return Ok(false);
        };
        match path.get(object) {
            None => Ok(false),
            Some(Value::Bool(suspended)) => Ok(*suspended),
            Some(other) => Err(Problem::invalid(
                path.field(),
                other.to_string(),
                format!("must be a boolean, as JobKind {:?} says", self.name),
            )),
        }
    }

    /// The pod sets of `object`.
    ///
    /// # Errors
    /// All that can't be read or counted.
    pub fn pod_sets(
        &self,
        object: &Value,
        defaults: &PodDefaults,
    ) -> Result<Vec<PodSetView>, Vec<Problem>> {
        let reader = Reader {
            defaults,
            queue_gates: &self.queue_gates,
        };
        let mut problems = Vec::new();
        let mut views = Vec::with_capacity(self.pod_sets.len());
        for set in &self.pod_sets {
            match set.read(object, reader, &self.name) {
                Ok(view) => views.push(view),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() {
            Ok(views)
        } else {
            Err(problems)
        }
    }

    /// How `object` ended, if it has. One of a kind without such a rule never ends.
    ///
    /// # Errors
    /// An expression of the JobKind does not fit the object.
    pub fn finished(&self, object: &Value) -> Result<Option<Finished>, Problem> {
        let Some(rule) = &self.finished else {
            return Ok(None);
        };
        if !self.truth(&rule.when, "spec.finished.when", object)? {
            return Ok(None);
        }
        let succeeded = self.truth(&rule.succeeded, "spec.finished.succeeded", object)?;
        let message = match &rule.message {
            None => String::new(),
            Some(expression) => match expression.evaluate(object) {
                Ok(cel::Value::String(text)) => text.to_string(),
                Ok(other) => {
                    return Err(self.misfit(
                        "spec.finished.message",
                        &format!("gave {}, not a string", other.type_of()),
                    ));
                }
                Err(error) => return Err(self.misfit("spec.finished.message", &error)),
            },
        };
        Ok(Some(Finished { succeeded, message }))
    }

    /// Whether pods of `object` run or may still be made. Not known, and so false, for a kind without
    /// such an expression: its pods themselves tell.
    ///
    /// # Errors
    /// The expression of the JobKind does not fit the object.
    pub fn active(&self, object: &Value) -> Result<bool, Problem> {
        match &self.active {
            Some(expression) => self.truth(expression, "spec.active", object),
            None => Ok(false),
        }
    }

    /// Whether all pods of `object` do their work; none for a kind that does not say.
    ///
    /// # Errors
    /// The expression of the JobKind does not fit the object.
    pub fn ready(&self, object: &Value) -> Result<Option<bool>, Problem> {
        let ready = self.ready.as_ref();
        ready
            .map(|expression| self.truth(expression, "spec.ready", object))
            .transpose()
    }

    /// The template path of the pod set `name`.
    pub(crate) fn template_of(&self, name: &str) -> Option<&FieldPath> {
        self.pod_sets
            .iter()
            .find(|set| &*set.name == name)
            .map(|set| &set.template)
    }

    fn truth(&self, expression: &Expression, field: &str, object: &Value) -> Result<bool, Problem> {
        match expression.evaluate(object) {
            Ok(cel::Value::Bool(truth)) => Ok(truth),
            Ok(other) => Err(self.misfit(field, &format!("gave {}, not a bool", other.type_of()))),
            Err(error) => Err(self.misfit(field, &error)),
        }
    }

    fn misfit(&self, field: &str, what: &str) -> Problem {
        Problem::forbidden(
            format!("jobkind {:?} {field}", self.name),
            format!("the expression does not fit this object: {what}"),
        )
    }
}

impl CompiledPodSet {
    fn read(
        &self,
        object: &Value,
        reader: Reader<'_>,
        kind: &str,
    ) -> Result<PodSetView, Vec<Problem>> {
        let Some(template) = self.template.get(object).filter(|t| t.is_object()) else {
            return Err(vec![Problem::required(
                self.template.field(),
                format!("JobKind {kind:?} says that a pod template lies here"),
            )]);
        };
        let field = format!("{}.spec", self.template.field());
        let count = self.count(object);
        let view = reader.read(
            self.name.clone(),
            count.as_ref().copied().unwrap_or_default(),
            template,
            &field,
        );
        match (count, view) {
            (Ok(_), view) => view,
            (Err(problem), Ok(_)) => Err(vec![problem]),
            (Err(problem), Err(problems)) => {
                Err(std::iter::once(problem).chain(problems).collect())
            }
        }
    }

    fn count(&self, object: &Value) -> Result<u32, Problem> {
        let Some(expression) = &self.count else {
            return Ok(1);
        };
        let field = format!("the count of pod set {:?}", self.name);
        let count = match expression.evaluate(object) {
            Ok(cel::Value::Int(count)) => count,
            Ok(cel::Value::UInt(count)) => i64::try_from(count).unwrap_or(i64::MAX),
            Ok(other) => {
                return Err(Problem::forbidden(
                    field,
                    format!("the expression gave {}, not an int", other.type_of()),
                ));
            }
            Err(error) => {
                return Err(Problem::forbidden(
                    field,
                    format!("the expression does not fit this object: {error}"),
                ));
            }
        };
        if !(0..=COUNT_MAX).contains(&count) {
            return Err(Problem::invalid(
                field,
                count.to_string(),
                format!("must be between 0 and {COUNT_MAX}"),
            ));
        }
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

fn check_allowed(spec: &JobKindSpec, problems: &mut Vec<Problem>) {
    if spec.group.is_empty() && spec.kind == "Pod" {
        problems.push(Problem::forbidden(
            "spec.kind",
            "Pod needs no JobKind: pods that ask for it are queued by themselves",
        ));
    }
    let forbidden = FORBIDDEN_KINDS
        .iter()
        .any(|(group, kind)| *group == spec.group && (*kind == "*" || *kind == spec.kind));
    if forbidden {
        problems.push(Problem::forbidden(
            "spec.kind",
            format!(
                "{} of group {:?} may not be managed: it secures or runs the cluster",
                spec.kind, spec.group
            ),
        ));
    }
}

fn compile_finished(rule: &FinishedRule, problems: &mut Vec<Problem>) -> Option<CompiledFinished> {
    let when = compile_expression("spec.finished.when", &rule.when, problems);
    let succeeded = compile_expression("spec.finished.succeeded", &rule.succeeded, problems);
    let message = rule
        .message
        .as_ref()
        .and_then(|source| compile_expression("spec.finished.message", source, problems));
    Some(CompiledFinished {
        when: when?,
        succeeded: succeeded?,
        message,
    })
}

fn compile_pod_sets(spec: &JobKindSpec, problems: &mut Vec<Problem>) -> Vec<CompiledPodSet> {
    let mut sets: Vec<CompiledPodSet> = Vec::with_capacity(spec.pod_sets.len());
    for (index, rule) in spec.pod_sets.iter().enumerate() {
        let field = format!("spec.podSets[{index}]");
        if sets.iter().any(|set| *set.name == *rule.name) {
            problems.push(Problem::duplicate(
                format!("{field}.name"),
                rule.name.clone(),
            ));
        }
        let template = compile_path(
            &format!("{field}.template"),
            rule.template.as_deref().unwrap_or_default(),
            problems,
        );
        let count = rule
            .count
            .as_ref()
            .map(|source| compile_expression(&format!("{field}.count"), source, problems));
        if let (Some(template), None | Some(Some(_))) = (template, &count) {
            sets.push(CompiledPodSet {
                name: rule.name.as_str().into(),
                template,
                count: count.flatten(),
            });
        }
    }
    if spec.pod_sets.is_empty() {
        problems.push(Problem::required(
            "spec.podSets",
            "must name at least one pod template",
        ));
    }
    sets
}

fn compile_path(field: &str, text: &str, problems: &mut Vec<Problem>) -> Option<FieldPath> {
    FieldPath::parse(text)
        .map_err(|rule| problems.push(Problem::invalid(field, text, rule)))
        .ok()
}

fn compile_expression(
    field: &str,
    source: &str,
    problems: &mut Vec<Problem>,
) -> Option<Expression> {
    Expression::compile(source)
        .map_err(|rule| problems.push(Problem::invalid(field, source, rule)))
        .ok()
}
