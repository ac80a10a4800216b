//! Bare pods that are admitted together: what a pod says of the group that it belongs to.

use std::sync::Arc;

use serde_json::Value;
use sluice_crds::{POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION, RETRIABLE_IN_GROUP_ANNOTATION};

use crate::gates::field_of;
use crate::metadata::{annotation_text, label};
use crate::names;
use crate::problem::Problem;

/// Most pods in a group.
pub const GROUP_PODS_MAX: u32 = 1000;

/// The group that a bare pod belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroup {
    /// Its name, unique in the namespace.
    pub name: Arc<str>,
    /// How many pods it has.
    pub total: u32,
    /// Whether a pod that failed may be replaced. If not, the group ends with it.
    pub is_retriable: bool,
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
                    format!("must name the group whose pods {POD_GROUP_TOTAL_ANNOTATION} counts"),
                ));
                None
            }
            (Some(name), total) => {
                problems.extend(names::subdomain(
                    name,
                    &format!("metadata.labels[{POD_GROUP_LABEL}]"),
                ));
                let total = read_total(total).map_err(|problem| problems.push(problem));
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
}

fn read_total(total: Option<&str>) -> Result<u32, Problem> {
    let field = field_of(POD_GROUP_TOTAL_ANNOTATION);
    let Some(text) = total else {
        return Err(Problem::required(
            field,
            "must say how many pods the group has",
        ));
    };
    text.parse()
        .ok()
        .filter(|total| (1..=GROUP_PODS_MAX).contains(total))
        .ok_or_else(|| {
            let rule = format!("must be a whole number between 1 and {GROUP_PODS_MAX}");
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
