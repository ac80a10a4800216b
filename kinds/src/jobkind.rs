//! A JobKind, checked and compiled: reads the objects of its kind. Nothing here knows a kind by
//! name; what batch/v1 Job needs, every kind can have.

use std::sync::Arc;

use serde_json::Value;
use sluice_crds::{JobKind, JobKindSpec};

use crate::expression::Expression;
use crate::path::FieldPath;
use crate::problem::Problem;
use crate::requests::{PodDefaults, pod_requests};
use crate::template::{self, Placement};
use crate::view::{Finished, PodSetView};

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
    suspend: FieldPath,
    pod_sets: Vec<CompiledPodSet>,
    finished: Expression,
    succeeded: Expression,
    message: Option<Expression>,
    active: Expression,
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
        let suspend = compile_path("spec.suspend", &spec.suspend, &mut problems);
        let pod_sets = compile_pod_sets(spec, &mut problems);
        let mut expression =
            |field: &str, source: &str| compile_expression(field, source, &mut problems);
        let finished = expression("spec.finished.when", &spec.finished.when);
        let succeeded = expression("spec.finished.succeeded", &spec.finished.succeeded);
        let message = match &spec.finished.message {
            Some(source) => expression("spec.finished.message", source).map(Some),
            None => Some(None),
        };
        let active = expression("spec.active", &spec.active);
        match (suspend, finished, succeeded, message, active) {
            (Some(suspend), Some(finished), Some(succeeded), Some(message), Some(active))
                if problems.is_empty() =>
            {
                Ok(Self {
                    name: kind.metadata.name.clone().unwrap_or_default(),
                    group: spec.group.clone(),
                    version: spec.version.clone(),
                    kind: spec.kind.clone(),
                    suspend,
                    pod_sets,
                    finished,
                    succeeded,
                    message,
                    active,
                })
            }
            _ => Err(problems),
        }
    }

    /// The path of the suspend field.
    pub fn suspend_path(&self) -> &FieldPath {
        &self.suspend
    }

    /// The paths of the pod templates, each with the field of the JobKind that names it.
    pub fn template_paths(&self) -> impl Iterator<Item = (String, &FieldPath)> {
        self.pod_sets
            .iter()
            .enumerate()
            .map(|(index, set)| (format!("spec.podSets[{index}].template"), &set.template))
    }

    /// Whether `object` is suspended. A missing field is `false`, as the API conventions have it.
    ///
    /// # Errors
    /// The field holds something that is not a boolean.
    pub fn suspended(&self, object: &Value) -> Result<bool, Problem> {
        match self.suspend.get(object) {
            None => Ok(false),
            Some(Value::Bool(suspended)) => Ok(*suspended),
            Some(other) => Err(Problem::invalid(
                self.suspend.field(),
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
        let mut problems = Vec::new();
        let mut views = Vec::with_capacity(self.pod_sets.len());
        for set in &self.pod_sets {
            match set.read(object, defaults, &self.name) {
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

    /// How `object` ended, if it has.
    ///
    /// # Errors
    /// An expression of the JobKind does not fit the object.
    pub fn finished(&self, object: &Value) -> Result<Option<Finished>, Problem> {
        if !self.truth(&self.finished, "spec.finished.when", object)? {
            return Ok(None);
        }
        let succeeded = self.truth(&self.succeeded, "spec.finished.succeeded", object)?;
        let message = match &self.message {
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

    /// Whether pods of `object` run or may still be made.
    ///
    /// # Errors
    /// The expression of the JobKind does not fit the object.
    pub fn active(&self, object: &Value) -> Result<bool, Problem> {
        self.truth(&self.active, "spec.active", object)
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
        defaults: &PodDefaults,
        kind: &str,
    ) -> Result<PodSetView, Vec<Problem>> {
        let Some(template) = self.template.get(object).filter(|t| t.is_object()) else {
            return Err(vec![Problem::required(
                self.template.field(),
                format!("JobKind {kind:?} says that a pod template lies here"),
            )]);
        };
        let field = format!("{}.spec", self.template.field());
        let empty = Value::Null;
        let pod = template.get("spec").unwrap_or(&empty);
        let mut problems = Vec::new();
        let count = self
            .count(object)
            .map_err(|p| problems.push(p))
            .unwrap_or_default();
        let requests = pod_requests(pod, &field, defaults)
            .map_err(|p| problems.extend(p))
            .unwrap_or_default();
        let plain = PodDefaults::default();
        let declared = if *defaults == plain {
            requests.clone()
        } else {
            // What can't be counted was told above.
            pod_requests(pod, &field, &plain).unwrap_or_default()
        };
        let placement = Placement::read(pod, &field)
            .map_err(|p| problems.push(p))
            .unwrap_or_default();
        let affinity = template::required_affinity(pod, &field)
            .map_err(|p| problems.push(p))
            .unwrap_or_default();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(PodSetView {
            name: self.name.clone(),
            count,
            requests,
            declared,
            placement,
            required_affinity: affinity,
            priority_class: pod
                .get("priorityClassName")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
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
        let template = compile_path(&format!("{field}.template"), &rule.template, problems);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{batch_job, job_kind};

    #[test]
    fn reads_a_job() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let mut job = batch_job();
        assert!(!kind.suspended(&job).unwrap());
        assert_eq!(kind.finished(&job).unwrap(), None);
        let sets = kind.pod_sets(&job, &PodDefaults::default()).unwrap();
        assert_eq!((sets.len(), sets[0].count), (1, 2));

        job["status"] = json!({"active": 2});
        assert!(kind.active(&job).unwrap());
        job["status"] = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
        assert!(!kind.active(&job).unwrap());
        job["status"] = json!({"conditions": [
            {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}]});
        assert_eq!(
            kind.finished(&job).unwrap(),
            Some(Finished {
                succeeded: false,
                message: "Job has reached the specified backoff limit".to_owned()
            })
        );
    }

    #[test]
    fn the_smaller_of_parallelism_and_completions_counts() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let cases = [
            (json!({}), 1),
            (json!({"parallelism": 3}), 3),
            (json!({"parallelism": 3, "completions": 2}), 2),
            (json!({"parallelism": 3, "completions": 9}), 3),
            (json!({"parallelism": 0}), 0),
        ];
        for (spec, expected) in cases {
            let mut job = batch_job();
            job["spec"]["parallelism"] = spec["parallelism"].clone();
            job["spec"]["completions"] = spec["completions"].clone();
            if spec["parallelism"].is_null() {
                job["spec"].as_object_mut().unwrap().remove("parallelism");
            }
            if spec["completions"].is_null() {
                job["spec"].as_object_mut().unwrap().remove("completions");
            }
            let sets = kind.pod_sets(&job, &PodDefaults::default()).unwrap();
            assert_eq!(sets[0].count, expected, "{spec}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let mut kind = job_kind();
        kind.spec.suspend = "spec.suspend".to_owned();
        kind.spec.pod_sets[0].template = ".spec.templates[*]".to_owned();
        kind.spec.active = "jobs.x".to_owned();
        let texts: Vec<String> = CompiledKind::compile(&kind)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "spec.suspend: Invalid value: \"spec.suspend\": must start with a dot (such as \".spec.suspend\")",
                "spec.podSets[0].template: Invalid value: \".spec.templates[*]\": must be field names with a dot before each (such as \".spec.suspend\"); lists and wildcards are not supported",
                "spec.active: Invalid value: \"jobs.x\": undeclared reference to \"jobs\": only \"object\" is declared",
            ]
        );
    }

    #[test]
    fn what_secures_the_cluster_is_refused() {
        for (group, name) in [
            ("", "Secret"),
            ("", "Node"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("coordination.k8s.io", "Lease"),
            (
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
            ),
        ] {
            let mut kind = job_kind();
            kind.spec.group = group.to_owned();
            kind.spec.kind = name.to_owned();
            let problems = CompiledKind::compile(&kind).unwrap_err();
            assert_eq!(
                problems[0].to_string(),
                format!(
                    "spec.kind: Forbidden: {name} of group {group:?} may not be managed: it secures or runs the cluster"
                )
            );
        }
    }

    #[test]
    fn an_object_that_does_not_fit_is_told_where() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let mut job = batch_job();
        job["spec"]["suspend"] = json!("yes");
        assert_eq!(
            kind.suspended(&job).unwrap_err().to_string(),
            "spec.suspend: Invalid value: \"\\\"yes\\\"\": must be a boolean, as JobKind \"job\" says"
        );
        job["spec"].as_object_mut().unwrap().remove("template");
        let problems = kind.pod_sets(&job, &PodDefaults::default()).unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "spec.template: Required value: JobKind \"job\" says that a pod template lies here"
        );
    }
}
