//! A JobKind, checked and compiled: reads the objects of its kind. Nothing here knows a kind by
//! name; what batch/v1 Job needs, every kind can have.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_crds::{AdmissionMode, ChildKind, RefuseScope};

use crate::expression::compiled::{Expression, Variables};
use crate::field::metadata::annotation_text;
use crate::field::path::FieldPath;
use crate::field::problem::Problem;
use crate::gates::scheduling::QueueGates;
use crate::pod_sets::metadata::PodMetadata;
use crate::pod_sets::rule::Rule;
use crate::pod_sets::template::{SETS_MAX, Template};
use crate::read::place::Place;
use crate::read::pod_set::Reader;
use crate::read::requests::PodDefaults;
use crate::read::view::{Finished, PodSetView};

#[cfg(test)]
mod tests;

/// The field of the JobKind that says whose start time is cleared.
pub(super) const CLEAR_START_TIME: &str = "spec.clearStartTime";

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
    pub(super) suspend: Option<FieldPath>,
    pub(super) admission: AdmissionMode,
    pub(super) rules: Vec<Rule>,
    pub(super) finished: Option<CompiledFinished>,
    pub(super) active: Option<Expression>,
    pub(super) clear_start_time: Option<Expression>,
    pub(super) ready: Option<Expression>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) pod_groups: Option<PodGroups>,
    pub(super) children: Vec<ChildKind>,
    pub(super) queue_gates: QueueGates,
}

#[derive(Debug)]
pub(super) struct CompiledFinished {
    pub(super) when: Expression,
    pub(super) succeeded: Expression,
    pub(super) message: Option<Expression>,
}

/// What the kind's controller would never run.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) when: Expression,
    /// Where in the JobKind the expression stands.
    pub(super) rule: String,
    /// What is wrong with an object that is refused.
    pub(super) problem: Problem,
    pub(super) scope: RefuseScope,
}

/// The groups that the kind's controller makes pods by.
#[derive(Debug)]
pub(super) struct PodGroups {
    pub(super) labels: String,
    pub(super) total: String,
    pub(super) when: Option<Expression>,
}

impl PodGroups {
    /// The field of the JobKind that the expression is.
    pub(super) const WHEN: &str = "spec.podGroups.when";
}

impl CompiledKind {
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
        self.child(group, kind).is_some()
    }

    /// What the JobKind says of the objects of this group and kind that the kind's controller makes.
    pub fn child(&self, group: &str, kind: &str) -> Option<&ChildKind> {
        let mut children = self.children.iter();
        children.find(|child| child.group == group && child.kind == kind)
    }

    /// Whether the JobKind says what the kind's controller makes.
    pub fn names_its_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Whether the kind's controller makes objects that have pods of their own, besides pods.
    pub fn makes_objects(&self) -> bool {
        !self.children.iter().all(ChildKind::is_pod)
    }

    /// Whether the pods of an object are those of its children, and it names no pod sets of its own.
    pub fn has_pods_of_children(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether an object says itself which templates it has and how many pods come from each (`templateFrom`).
    pub fn names_its_templates(&self) -> bool {
        self.rules.iter().any(Rule::is_named_by_object)
    }

    /// The accepted names of the queue gate.
    pub(crate) fn queue_gates(&self) -> &QueueGates {
        &self.queue_gates
    }

    /// The rules about pod sets, each with the field of the JobKind that it is.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (String, &Rule)> {
        let rules = self.rules.iter().enumerate();
        rules.map(|(index, rule)| (format!("spec.podSets[{index}]"), rule))
    }

    /// The expressions over the object as a whole, each with the field of the JobKind that it is.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = (&'static str, &Expression)> {
        let finished = self.finished.as_ref();
        let of_finished = finished.into_iter().flat_map(|rule| {
            let message = rule.message.as_ref();
            [
                Some(("spec.finished.when", &rule.when)),
                Some(("spec.finished.succeeded", &rule.succeeded)),
                message.map(|message| ("spec.finished.message", message)),
            ]
        });
        let active = self.active.as_ref().map(|active| ("spec.active", active));
        let clear = self.clear_start_time.as_ref();
        let clear = clear.map(|clear| (CLEAR_START_TIME, clear));
        let ready = self.ready.as_ref().map(|ready| ("spec.ready", ready));
        let groups = self.pod_groups.as_ref();
        let groups = groups.and_then(|groups| Some((PodGroups::WHEN, groups.when.as_ref()?)));
        of_finished.chain([active, clear, ready, groups]).flatten()
    }

    /// Whether an expression names the type or the metadata of an object, so that objects have to be read with these.
    pub fn reads_metadata(&self) -> bool {
        let of_object = self.expressions().map(|(_, expression)| expression);
        let refusals = self.refusals.iter().map(|refusal| &refusal.when);
        let of_sets = self.rules.iter().flat_map(Rule::expressions);
        let mut all = of_object.chain(refusals).chain(of_sets);
        all.any(Expression::reads_metadata)
    }

    /// Whether only the pods of an object tell what they ask for: each is admitted by itself.
    pub fn is_opaque(&self) -> bool {
        self.rules.iter().any(Rule::is_opaque)
    }

    /// Whether objects of this kind wait by being suspended and in no other way: they have no
    /// templates of their own, or none that can be changed.
    pub fn waits_suspended(&self) -> bool {
        self.has_pods_of_children() || self.rules.iter().any(Rule::has_infos)
    }

    /// The pod templates of `object` as far as they can be found.
    pub(crate) fn templates<'a>(&'a self, object: &'a Value) -> Vec<Template<'a>> {
        let mut found = self.find(object, &mut Vec::new());
        // Sluice can neither gate nor place what is made from no template of the object.
        found.retain(|template| !template.is_assumed());
        found
    }

    fn find<'a>(&'a self, object: &'a Value, problems: &mut Vec<Problem>) -> Vec<Template<'a>> {
        let mut found = Vec::with_capacity(self.rules.len());
        for rule in &self.rules {
            found.extend(rule.templates(object, problems));
        }
        if SETS_MAX < found.len() {
            let detail = format!("an object must have at most {SETS_MAX} pod sets");
            problems.push(Problem::too_many("its pod sets", found.len(), detail));
            found.truncate(SETS_MAX);
        }
        found
    }

    /// Where objects of this kind have the metadata of their pods.
    pub fn pod_metadata(&self) -> Vec<PodMetadata> {
        self.rules.iter().filter_map(PodMetadata::of_rule).collect()
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
        self.pod_sets_by(object, &|key| annotation_text(object, key), defaults)
    }

    /// The same, where `object` needs metadata only for expressions ([`CompiledKind::reads_metadata`]): `annotation` says
    /// what it has at a key.
    ///
    /// # Errors
    /// All that can't be read or counted.
    pub fn pod_sets_by<'a>(
        &self,
        object: &Value,
        annotation: &dyn Fn(&str) -> Option<&'a str>,
        defaults: &PodDefaults,
    ) -> Result<Vec<PodSetView>, Vec<Problem>> {
        let reader = Reader {
            defaults,
            queue_gates: &self.queue_gates,
        };
        let mut problems = Vec::new();
        let templates = self.find(object, &mut problems);
        let mut names = BTreeSet::new();
        let mut views = Vec::with_capacity(templates.len());
        for template in templates {
            if !names.insert(template.set.clone()) {
                let field = format!("the name of the pod set at {}", template.place);
                problems.push(Problem::duplicate(field, &*template.set));
            }
            let partial = template.rule.partial.as_ref();
            let view = read(&template, object, reader, &mut problems);
            views.extend(view.map(|view| match partial {
                Some(partial) => partial.read(view, object, annotation),
                None => view,
            }));
        }
        if problems.is_empty() {
            Ok(views)
        } else {
            Err(problems)
        }
    }

    /// Whether its objects never end by themselves.
    pub fn never_ends(&self) -> bool {
        self.finished.is_none()
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
            Some(expression) => match expression.evaluate(of_object(object)) {
                Ok(cel::Value::String(text)) => text.to_string(),
                Ok(other) => {
                    return Err(self.misfit(
                        "spec.finished.message",
                        &format!("gave {}, not a string", other.type_of()),
                    ));
                }
                Err(error) => return Err(self.misfit("spec.finished.message", &error.to_string())),
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

    /// Whether the start time of `object` must be cleared before its templates can be written to.
    ///
    /// # Errors
    /// The expression of the JobKind does not fit the object.
    pub fn clears_start_time(&self, object: &Value) -> Result<bool, Problem> {
        match &self.clear_start_time {
            Some(expression) => self.truth(expression, CLEAR_START_TIME, object),
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

    pub(super) fn truth(
        &self,
        expression: &Expression,
        field: &str,
        object: &Value,
    ) -> Result<bool, Problem> {
        match expression.evaluate(of_object(object)) {
            Ok(cel::Value::Bool(truth)) => Ok(truth),
            Ok(other) => Err(self.misfit(field, &format!("gave {}, not a bool", other.type_of()))),
            Err(error) => Err(self.misfit(field, &error.to_string())),
        }
    }

    fn misfit(&self, field: &str, what: &str) -> Problem {
        Problem::forbidden(
            format!("jobkind {:?} {field}", self.name),
            format!("the expression does not fit this object: {what}"),
        )
    }
}

fn of_object(object: &Value) -> Variables<'_> {
    Variables {
        object,
        element: None,
    }
}

/// Reads one pod set. One that can't be read is left out, and told.
fn read(
    template: &Template<'_>,
    object: &Value,
    reader: Reader<'_>,
    problems: &mut Vec<Problem>,
) -> Option<PodSetView> {
    let count = template
        .count(object)
        .map_err(|problem| problems.push(problem))
        .ok();
    let reclaimable = template.reclaimable(object, count.unwrap_or_default());
    problems.extend(gated_by_others(template, reader.queue_gates));
    // Of pods whose template is still to be made nothing is known: they are not counted by it.
    let pod = template
        .counted(object)
        .map_err(|problem| problems.push(problem))
        .ok()?;
    let is_assumed = template.is_assumed();
    let view = reader
        .read(template.set.clone(), template.place.clone(), count?, &pod)
        .map_err(|found| problems.extend(found))
        .ok()?;
    Some(PodSetView {
        reclaimable,
        is_assumed,
        is_fixed: template.rule.is_fixed(),
        ..view
    })
}

/// What is wrong with a template that brings gates of others to pods that only the suspension of their
/// object holds: their quota would be in use while they wait for somebody else.
fn gated_by_others(template: &Template<'_>, gates: &QueueGates) -> Option<Problem> {
    let pod = template.pod.as_deref()?;
    let is_gated = matches!(template.place, Place::Info { .. }) && gates.has_external(pod);
    is_gated.then(|| {
        Problem::forbidden(
            format!("{}.schedulingGates", template.place.spec_field()),
            "this template can't be changed, so its pods can't be released together: quota would be held while a gate of others is left",
        )
    })
}
