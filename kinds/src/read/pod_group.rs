//! Pods that are admitted together: what a pod says of the group that it belongs to. Bare pods name it by a
//! label; those that a controller makes by groups say by which of their labels it is told.

use std::sync::Arc;

use serde_json::Value;
use sluice_crds::{
    POD_GROUP_LABEL, POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_ANNOTATION,
    POD_GROUP_TOTAL_FROM_ANNOTATION, RETRIABLE_IN_GROUP_ANNOTATION,
};

use crate::field::metadata::{annotation_text, label};
use crate::field::names;
use crate::field::problem::{Problem, fill};
use crate::gates::field_of;

/// Most pods in a group.
pub const GROUP_PODS_MAX: u32 = 1000;
/// The annotations by which the groups are told that a controller makes pods by.
pub const GROUP_MARKS: [&str; 2] = [POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION];
/// Longest value of one of these, in bytes: what a JobKind can name, 4 keys of 317 bytes, is shorter. With each edit of a
/// pod, and each of its status, the API server compares all labels that the first one names, and spends no more than so
/// much on that.
pub const GROUP_MARK_BYTES_MAX: usize = 1280;

/// The group that a pod belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroup {
    /// Its name, unique in the namespace.
    pub name: Arc<str>,
    /// How many pods it has.
    pub total: u32,
    /// Whether a pod that failed may be replaced. If not, the group ends with it.
    pub is_retriable: bool,
}

/// The rule for a pod that counts a group without naming it; with the annotation that counts.
pub const UNNAMED_GROUP: &str = "must name the group whose pods {} counts";
/// The rule for a pod that names a group without counting it.
pub const UNCOUNTED_GROUP: &str = "must say how many pods the group has";
/// The rule for the number of pods of a group; with the most.
pub const GROUP_TOTAL: &str = "must be a whole number between 1 and {}";

/// Which annotations of the pod or template `pod` that tell such a group are too long.
pub fn too_long_marks(pod: &Value) -> impl Iterator<Item = &'static str> {
    let is_too_long = |key: &&str| {
        annotation_text(pod, key).is_some_and(|mark| GROUP_MARK_BYTES_MAX < mark.len())
    };
    GROUP_MARKS.into_iter().filter(is_too_long)
}

impl PodGroup {
    /// The group of `pod`, if it says that it belongs to one.
    ///
    /// # Errors
    /// All that is wrong with what it says.
    pub fn read(pod: &Value) -> Result<Option<Self>, Vec<Problem>> {
        let name = label(pod, POD_GROUP_LABEL);
        let total = annotation_text(pod, POD_GROUP_TOTAL_ANNOTATION);
        let mut problems = Vec::new();
        let is_retriable = read_retriable(pod).map_err(|problem| problems.push(problem));
        let group = match (name, total) {
            (None, None) => None,
            (None, Some(_)) => {
                problems.push(Problem::required(
                    format!("metadata.labels[{POD_GROUP_LABEL}]"),
                    fill(UNNAMED_GROUP, &[POD_GROUP_TOTAL_ANNOTATION]),
                ));
                None
            }
            (Some(name), total) => {
                problems.extend(names::subdomain(
                    name,
                    &format!("metadata.labels[{POD_GROUP_LABEL}]"),
                ));
                let total = read_total(POD_GROUP_TOTAL_ANNOTATION, total)
                    .map_err(|problem| problems.push(problem));
                Some((name, total))
            }
        };
        match (group, is_retriable) {
            _ if !problems.is_empty() => Err(problems),
            (Some((name, Ok(total))), Ok(is_retriable)) => Ok(Some(Self {
                name: name.into(),
                total,
                is_retriable,
            })),
            _ => Ok(None),
        }
    }

    /// The group of `pod` that its controller made it for, if it is to be admitted with such.
    ///
    /// # Errors
    /// What is missing or wrong of that.
    pub fn of_controller(pod: &Value) -> Option<Result<Self, Problem>> {
        let labels = annotation_text(pod, POD_GROUP_LABELS_ANNOTATION)?;
        let total = annotation_text(pod, POD_GROUP_TOTAL_FROM_ANNOTATION).unwrap_or_default();
        (!labels.is_empty()).then(|| Self::by_marks(pod, labels, total))
    }

    fn by_marks(pod: &Value, labels: &str, total: &str) -> Result<Self, Problem> {
        let value_of = |key: &str| {
            label(pod, key).ok_or_else(|| {
                Problem::required(
                    format!("metadata.labels[{key}]"),
                    format!("must be set: {POD_GROUP_LABELS_ANNOTATION} names it as part of the group name"),
                )
            })
        };
        let values: Vec<&str> = labels.split(',').map(value_of).collect::<Result<_, _>>()?;
        let name = values.join("-");
        let wrong = names::subdomain(&name, &field_of(POD_GROUP_LABELS_ANNOTATION));
        if let Some(problem) = wrong.into_iter().next() {
            return Err(problem);
        }
        // The Workload carries it in a label.
        if LABEL_VALUE_MAX < name.len() {
            let field = field_of(POD_GROUP_LABELS_ANNOTATION);
            return Err(Problem::invalid(field, name, GROUP_NAME_TOO_LONG));
        }
        Ok(Self {
            name: name.into(),
            total: read_total(total, annotation_text(pod, total))?,
            is_retriable: read_retriable(pod)?,
        })
    }
}

/// How long the value of a label may be.
const LABEL_VALUE_MAX: usize = 63;
/// The rule for the name that the values of labels make together.
const GROUP_NAME_TOO_LONG: &str = "names labels whose values, joined by '-', are the name of the group: must be no more than 63 characters";

fn read_total(key: &str, total: Option<&str>) -> Result<u32, Problem> {
    let field = field_of(key);
    let Some(text) = total else {
        return Err(Problem::required(field, UNCOUNTED_GROUP));
    };
    text.parse()
        .ok()
        .filter(|total| (1..=GROUP_PODS_MAX).contains(total))
        .ok_or_else(|| {
            let rule = fill(GROUP_TOTAL, &[&GROUP_PODS_MAX.to_string()]);
            Problem::invalid(field, text, rule)
        })
}

fn read_retriable(pod: &Value) -> Result<bool, Problem> {
    match annotation_text(pod, RETRIABLE_IN_GROUP_ANNOTATION) {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(Problem::not_supported(
            field_of(RETRIABLE_IN_GROUP_ANNOTATION),
            other,
            &["false", "true"],
        )),
    }
}
