//! Groups that a kind's controller makes pods by (`podGroups` of a JobKind), compiled; and the annotations by
//! which its pods say so. What a pod says of its group is read in `pod_group.rs`.

use serde_json::Value;
use sluice_crds::{
    JobKindSpec, POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION, PodGroupsRule,
};

use crate::expression::compiled::{Declared, Expression, Returns};
use crate::field::metadata::annotation;
use crate::field::names;
use crate::field::problem::Problem;
use crate::jobkind::kind::{CompiledKind, PodGroups};

impl PodGroups {
    /// Compiles the rule of a JobKind.
    pub(super) fn compile(spec: &JobKindSpec, problems: &mut Vec<Problem>) -> Option<Self> {
        let rule = spec.pod_groups.as_ref()?;
        let keys = rule.labels.iter().enumerate();
        let keys = keys.map(|(index, key)| (format!("spec.podGroups.labels[{index}]"), key));
        let total = "spec.podGroups.totalAnnotation".to_owned();
        for (field, key) in keys.chain([(total, &rule.total_annotation)]) {
            if !names::is_qualified_name(key) {
                let what = "must be the key of a label or annotation, such as \"acme.io/group\"";
                problems.push(Problem::invalid(field, key.clone(), what));
            }
        }
        let when = rule.when.as_deref();
        let when = when.map(|source| {
            Expression::compile_at(
                PodGroups::WHEN,
                source,
                Declared::Object,
                Returns::Bool,
                problems,
            )
        });
        Some(Self {
            labels: label_keys(rule),
            total: rule.total_annotation.clone(),
            when: match when {
                Some(when) => Some(when?),
                None => None,
            },
        })
    }
}

/// The value of the annotation that names the labels.
pub fn label_keys(rule: &PodGroupsRule) -> String {
    rule.labels.join(",")
}

impl CompiledKind {
    /// The annotations that the pods of `object`, which are made from `template`, get to be admitted by
    /// groups: key and value. Empty values take back what an earlier `object` had.
    pub(crate) fn group_marks(
        &self,
        object: &Value,
        template: &Value,
    ) -> Vec<(&'static str, &str)> {
        let Some(groups) = &self.pod_groups else {
            return Vec::new();
        };
        let is_grouped = match &groups.when {
            None => true,
            // What can't be told is admitted pod by pod: it may have no group that is ever complete.
            Some(when) => self.truth(when, PodGroups::WHEN, object).unwrap_or(false),
        };
        let marks = [
            (POD_GROUP_LABELS_ANNOTATION, &*groups.labels),
            (POD_GROUP_TOTAL_FROM_ANNOTATION, &*groups.total),
        ];
        if is_grouped {
            return marks.into();
        }
        let is_marked = |key: &str| annotation(template, key).is_some();
        let marked = marks.into_iter().filter(|(key, _)| is_marked(key));
        marked.map(|(key, _)| (key, "")).collect()
    }
}
