//! JobKinds from files: checked as the API server and Sluice check them. What they make of an object is
//! said in `report`.

mod of_resource;
pub mod queue_names;
pub mod schemas;
pub mod shipped;

pub use self::of_resource::{OfResource, of_resource};

use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::Value;
use sluice_crds::{GROUP, JobKind, JobKindSpec, VERSION};
use sluice_kinds::metadata::{group_version, label};
use sluice_kinds::{CompiledKind, Problem, QueueGates};

use crate::input::Document;
use crate::rules::schemas::Schemas;

/// A JobKind, and what became of it.
#[derive(Debug)]
pub struct Rules {
    /// The file that it is from.
    pub file: String,
    /// Its name.
    pub name: String,
    /// The API group of the objects that it reads.
    pub group: String,
    /// The version of the objects that it reads.
    pub version: String,
    /// The kind of the objects that it reads.
    pub kind: String,
    /// What it says, if it can be told.
    pub spec: Option<JobKindSpec>,
    /// Reads objects, if there are no problems but those with the schema.
    pub compiled: Option<CompiledKind>,
    /// Whether it was held against the schema of its kind.
    pub is_schema_checked: bool,
    /// All that is wrong with it.
    pub problems: Vec<String>,
}

/// Whether `object` is a JobKind, of whatever version.
pub fn is_job_kind(object: &Value) -> bool {
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    object.get("kind").and_then(Value::as_str) == Some("JobKind")
        && api_version.is_some_and(|version| version.split('/').next() == Some(GROUP))
}

/// Whether `object` goes with JobKinds, and is neither one nor read by one: the role by which Sluice may touch their
/// objects, or what kustomize reads.
pub fn goes_with_job_kinds(object: &Value) -> bool {
    let text = |field: &str| {
        object
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match (group_version(text("apiVersion")).0, text("kind")) {
        ("kustomize.config.k8s.io", _) => true,
        ("rbac.authorization.k8s.io", "ClusterRole") => {
            label(object, "sluice.dev/aggregate-to-controller") == Some("true")
        }
        _ => false,
    }
}

/// A kind as kubectl names it: `Job.batch`.
pub fn name_of_kind(group: &str, kind: &str) -> String {
    match group {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    }
}

/// Reads the JobKinds `documents`.
pub fn read(documents: &[Document], schemas: &Schemas, queue_gates: &QueueGates) -> Vec<Rules> {
    let mut all: Vec<Rules> = Vec::with_capacity(documents.len());
    for document in documents {
        let mut rules = Rules::read(document, schemas, queue_gates);
        let other = all
            .iter()
            .find(|other| other.reads(&rules.group, &rules.kind));
        if let Some(other) = other.filter(|_| !rules.kind.is_empty()) {
            let detail = format!(
                "JobKind {:?} in {:?} already reads {} of group {:?}",
                other.name, other.file, rules.kind, rules.group
            );
            let problem = Problem::invalid("spec.kind", rules.kind.clone(), detail);
            rules.problems.push(problem.to_string());
        }
        all.push(rules);
    }
    all
}

impl Rules {
    /// Whether it is for objects of this group and kind.
    pub fn reads(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// The kinds of the children whose pods count as those of an object that has no pod sets itself.
    pub fn pods_of(&self) -> Vec<String> {
        self.spec
            .iter()
            .filter(|spec| spec.pod_sets.is_empty())
            .flat_map(|spec| &spec.children)
            .map(|child| name_of_kind(&child.group, &child.kind))
            .collect()
    }

    fn read(document: &Document, schemas: &Schemas, queue_gates: &QueueGates) -> Self {
        let text = |pointer: &str| {
            let found = document.value.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let mut rules = Self {
            file: document.file.clone(),
            name: text("/metadata/name"),
            group: text("/spec/group"),
            version: text("/spec/version"),
            kind: text("/spec/kind"),
            spec: None,
            compiled: None,
            is_schema_checked: false,
            problems: Vec::new(),
        };
        let mut problems = Vec::new();
        let api_version = text("/apiVersion");
        if api_version != format!("{GROUP}/{VERSION}") {
            let supported = format!("{GROUP}/{VERSION}");
            problems.push(Problem::not_supported(
                "apiVersion",
                api_version,
                &[&supported],
            ));
        }
        if rules.name.is_empty() {
            problems.push(Problem::required("metadata.name", "a JobKind has a name"));
        }
        rules.problems = problems.iter().map(Problem::to_string).collect();
        let spec = document.value.get("spec").unwrap_or(&Value::Null);
        match strict::<JobKindSpec>(spec, "spec") {
            Err(problems) => rules.problems.extend(problems),
            Ok((spec, unknown)) => {
                rules.problems.extend(unknown);
                rules.compile(spec, schemas, queue_gates);
            }
        }
        rules
    }

    fn compile(&mut self, spec: JobKindSpec, schemas: &Schemas, queue_gates: &QueueGates) {
        let object = JobKind::new(&self.name, spec);
        match CompiledKind::compile(&object) {
            Err(problems) => self
                .problems
                .extend(problems.iter().map(Problem::to_string)),
            Ok(compiled) => {
                let checked = schemas.check(&compiled);
                self.is_schema_checked = checked.is_some();
                let misfits = checked.unwrap_or_default();
                self.problems.extend(misfits.iter().map(Problem::to_string));
                self.compiled = Some(compiled.with_queue_gates(queue_gates.clone()));
            }
        }
        self.spec = Some(object.spec);
    }
}

/// `value`, which lies at `field`, as a `T`, and the fields of it that there are not in `T`.
///
/// # Errors
/// It is no `T`: where, and what is expected.
pub fn strict<T: DeserializeOwned>(
    value: &Value,
    field: &str,
) -> Result<(T, Vec<String>), Vec<String>> {
    let typed = serde_path_to_error::deserialize(value).map_err(|error| {
        let below = error.path().to_string();
        let place = match below.as_str() {
            "." => field.to_owned(),
            below => format!("{field}.{below}"),
        };
        vec![format!("{place}: Invalid value: {}", error.inner())]
    })?;
    let mut unknown = Vec::new();
    let ignored = |path: Path<'_>| {
        // The words of the API server's strict decoder.
        unknown.push(format!("unknown field \"{field}{}\"", below(&path)));
    };
    // It was read without an error a moment ago; here just the names of what is left over matter.
    let _: Result<T, _> = serde_ignored::deserialize(value, ignored);
    Ok((typed, unknown))
}

/// `path` as the API server writes what is below a field: `.podSets[0].count`.
fn below(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", below(parent)),
        Path::Map { parent, key } => format!("{}.{key}", below(parent)),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => below(parent),
    }
}
