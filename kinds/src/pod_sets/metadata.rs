//! Where an object has the metadata of its pods. Of templates that are not in the object, or whose place it names itself,
//! nothing is known here. What a label means is in `gates/labels.rs` and `read`.

use serde_json::Value;
use sluice_crds::PodSetRule;

use crate::field::path::FieldPath;
use crate::pod_sets::rule::{Rule, Source};

/// Where an object has the metadata of pods: `spec.template.metadata`, say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodMetadata {
    /// The lists or maps whose elements have it, each in an element of the one before.
    pub lists: Vec<FieldPath>,
    /// The path in an element, or in the object.
    pub path: FieldPath,
}

impl PodMetadata {
    /// That of `spec.template`.
    pub fn of_template() -> Self {
        Self {
            lists: Vec::new(),
            path: FieldPath::of(&["spec", "template", "metadata"]),
        }
    }

    /// Those that the rules of a JobKind name, as far as these compile.
    pub fn of(rules: &[PodSetRule]) -> Vec<Self> {
        let compiled = rules
            .iter()
            .filter_map(|rule| Rule::compile(rule, "", &mut Vec::new()));
        compiled.filter_map(|rule| Self::of_rule(&rule)).collect()
    }

    pub(crate) fn of_rule(rule: &Rule) -> Option<Self> {
        let path = match &rule.source {
            Source::Template(path) => path.below("metadata"),
            Source::Metadata(path) => path.clone(),
            Source::TemplateFrom(_) => return None,
        };
        let lists = rule.lists.clone();
        Some(Self { lists, path })
    }

    /// The metadata of all these pods of `object`.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut elements = vec![object];
        for list in &self.lists {
            let inner = elements.into_iter().filter_map(|element| list.get(element));
            elements = inner.flat_map(elements_of).collect();
        }
        let found = elements
            .into_iter()
            .filter_map(|element| self.path.get(element));
        found.collect()
    }
}

/// The elements of a list or map.
fn elements_of(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::template(json!({"template": ".spec.template"}), json!({"template": {"metadata": "a"}}), &["a"])]
    #[case::metadata(json!({"podMetadata": ".spec.driver"}), json!({"driver": "a"}), &["a"])]
    #[case::list(json!({"forEach": ".spec.roles", "template": ".template"}),
        json!({"roles": [{"template": {"metadata": "a"}}, {}, {"template": {"metadata": "b"}}]}), &["a", "b"])]
    #[case::list_in_a_map(json!({"forEach": ".spec.roles[].parts", "template": ".template"}),
        json!({"roles": {"x": {"parts": [{"template": {"metadata": "a"}}]}, "y": {}}}), &["a"])]
    #[case::named_by_the_object(json!({"forEach": ".spec.parts", "templateFrom": ".path"}),
        json!({"parts": [{"path": "spec.template"}], "template": {"metadata": "a"}}), &[])]
    #[case::no_metadata(json!({"template": ".spec.template"}), json!({"template": {"metadata": null}}), &[])]
    #[case::of_another_shape(json!({"forEach": ".spec.roles", "template": ".template"}), json!({"roles": "x"}), &[])]
    fn metadata_of_pods_is_found(
        #[case] mut rule: Value,
        #[case] spec: Value,
        #[case] expected: &[&str],
    ) {
        rule["name"] = json!("a");
        let rules: Vec<PodSetRule> = vec![serde_json::from_value(rule).unwrap()];
        let object = json!({"spec": spec});
        let all = PodMetadata::of(&rules);
        let found: Vec<_> = all.iter().flat_map(|place| place.find(&object)).collect();
        assert_eq!(
            found,
            expected
                .iter()
                .map(|text| json!(text))
                .collect::<Vec<_>>()
                .iter()
                .collect::<Vec<_>>()
        );
    }
}
