//! What was found out about JobKinds and objects: plain data, in the form that `-o json` and `-o yaml`
//! show. How objects are read is said in `read_object`, how it is told to people in `print`.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Toleration;
use serde::Serialize;
use sluice_kinds::HeldMark;

use crate::rules::Rules;

/// All that was looked at.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The JobKinds, in the order of the files.
    pub job_kinds: Vec<JobKindReport>,
    /// The objects, in the order of the files.
    pub objects: Vec<ObjectReport>,
}

/// A JobKind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobKindReport {
    /// Its name.
    pub name: String,
    /// The file that it is from.
    pub file: String,
    /// The API group of the objects that it reads.
    pub group: String,
    /// Their version.
    pub version: String,
    /// Their kind.
    pub kind: String,
    /// Whether it was held against the schema of its kind.
    pub schema_checked: bool,
    /// All that is wrong with it.
    pub problems: Vec<String>,
}

/// An object.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReport {
    /// The file that it is from.
    pub file: String,
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it names one.
    pub namespace: Option<String>,
    /// Its name, or what the name is going to begin with.
    pub name: String,
    /// The name of the JobKind that reads it.
    pub job_kind: Option<String>,
    /// What Sluice sees; none if it is not read.
    #[serde(flatten)]
    pub seen: Option<SeenObject>,
    /// All that is wrong with it.
    pub problems: Vec<String>,
}

/// What Sluice sees of an object. What can't be read is missing, and told as a problem.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenObject {
    /// The LocalQueue that its label names.
    pub queue: Option<String>,
    /// Its gates.
    pub gates: ObjectGates,
    /// How it waits.
    pub hold: HoldReport,
    /// Whether it is suspended.
    pub suspended: Option<bool>,
    /// What Sluice last did to its suspend field, or what its user says in its place.
    #[serde(skip)]
    pub held_mark: Option<HeldMark>,
    /// Whether pods run or may still be made.
    pub active: Option<bool>,
    /// Whether it has ended.
    pub finished: Option<bool>,
    /// Whether it did what it was for, if it has ended.
    pub succeeded: Option<bool>,
    /// What is told about its end.
    pub message: String,
    /// Its sets of equal pods; none if one of them can't be read.
    pub pod_sets: Option<Vec<PodSetReport>>,
    /// The kinds of the children whose pods count as its own; none if it has pod sets itself.
    pub pods_of: Vec<String>,
    /// How many pods it has in all.
    pub total_count: u64,
    /// What they all request.
    pub total_requests: Quantities,
    /// The ResourceClaimTemplates whose devices they claim, which are not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_templates: Vec<String>,
}

/// The gates of an object.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectGates {
    /// Whether there are any.
    pub state: GatesState,
    /// Their names, sorted. None if they are invalid.
    pub names: Vec<String>,
}

/// Whether there are gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum GatesState {
    /// There are none.
    None,
    /// There are, and they hold the object.
    Held,
    /// An annotation breaks the rules. It can't be created, and would hold the object if it could.
    Invalid,
}

/// How an object waits, by the names of `sluice_kinds::Hold`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum HoldReport {
    /// It is suspended.
    Suspend,
    /// Its pods wait behind gates and are released together.
    Pods,
    /// Its pods wait behind gates and are released one by one.
    EachPod,
}

/// Quantities by resource.
pub type Quantities = BTreeMap<String, String>;

/// A set of equal pods.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSetReport {
    /// Its name.
    pub name: String,
    /// How many pods run at the same time.
    pub count: u32,
    /// How many of them will do, if the object says that fewer will.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u32>,
    /// What one pod requests, as the scheduler counts it.
    pub requests: Quantities,
    /// What all of them request.
    pub total_requests: Quantities,
    /// The nodeSelector of the template.
    pub node_selector: BTreeMap<String, String>,
    /// The tolerations of the template.
    pub tolerations: Vec<Toleration>,
    /// Whether the pods carry scheduling gates that are none of Sluice's.
    pub external_gates: bool,
}

/// What does not fit, in a sentence.
#[derive(Debug)]
pub struct Misfits {
    job_kinds: (usize, usize),
    objects: (usize, usize),
}

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<_> = [("JobKinds", self.job_kinds), ("objects", self.objects)]
            .into_iter()
            .filter(|(_, (misfits, _))| *misfits != 0)
            .map(|(what, (misfits, all))| format!("{misfits} of {all} {what}"))
            .collect();
        write!(f, "does not fit: {}", told.join(", "))
    }
}

impl Report {
    /// What does not fit; none if all is well.
    pub fn misfits(&self) -> Option<Misfits> {
        let job_kinds = self.job_kinds.iter().filter(|k| !k.problems.is_empty());
        let objects = self.objects.iter().filter(|o| !o.problems.is_empty());
        let misfits = Misfits {
            job_kinds: (job_kinds.count(), self.job_kinds.len()),
            objects: (objects.count(), self.objects.len()),
        };
        (misfits.job_kinds.0 + misfits.objects.0 != 0).then_some(misfits)
    }
}

impl From<&Rules> for JobKindReport {
    fn from(rules: &Rules) -> Self {
        Self {
            name: rules.name.clone(),
            file: rules.file.clone(),
            group: rules.group.clone(),
            version: rules.version.clone(),
            kind: rules.kind.clone(),
            schema_checked: rules.is_schema_checked,
            problems: rules.problems.clone(),
        }
    }
}
