//! What stands in the pod templates of an object that is not counted. What follows from it is said by the webhooks.

use serde_json::Value;

use crate::jobkind::kind::CompiledKind;
use crate::pod_sets::template::Template;

impl CompiledKind {
    /// The fields of the pod templates of `object` that name a node. Where only the metadata of pods is known, there is
    /// none.
    pub fn fields_of_nodes(&self, object: &Value) -> Vec<String> {
        let templates = self.templates(object);
        let bound = templates.iter().filter(|template| {
            let pod = template.pod.as_deref();
            let node = pod.and_then(|pod| pod.pointer("/spec/nodeName"));
            node.and_then(Value::as_str)
                .is_some_and(|name| !name.is_empty())
        });
        bound
            .map(|template| format!("{}.nodeName", template.place.spec_field()))
            .collect()
    }

    /// The fields of the pod templates of `new` that say which RuntimeClass its pods have, or what that adds to their
    /// requests, and say something else than in `old`.
    pub fn runtime_fields_changed(&self, old: &Value, new: &Value) -> Vec<String> {
        let before = self.templates(old);
        let templates = self.templates(new);
        let changed = templates.iter().flat_map(|template| {
            let was = before.iter().find(|old| old.set == template.set);
            let fields = ["runtimeClassName", "overhead"].into_iter();
            let changed = fields.filter(move |field| {
                was.is_some_and(|was| spec_field(was, field) != spec_field(template, field))
            });
            changed.map(|field| format!("{}.{field}", template.place.spec_field()))
        });
        changed.collect()
    }

    /// The metadata that the templates of `object` give its pods, as far as it is there, and its fields.
    pub fn metadata_of_pods<'a>(&self, object: &'a Value) -> Vec<(String, &'a Value)> {
        let templates = self.templates(object);
        let places = templates.iter().map(|template| &template.place);
        let metadata =
            places.filter_map(|place| Some((place.metadata_field(), place.metadata_in(object)?)));
        metadata.collect()
    }
}

/// A field of the pod spec in a template, if it says anything.
fn spec_field<'a>(template: &'a Template<'_>, field: &str) -> Option<&'a Value> {
    let spec = template.pod.as_deref()?.get("spec")?;
    spec.get(field).filter(|value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;
    use sluice_crds::JobKind;

    use super::*;

    fn kind(sets: &Value) -> CompiledKind {
        let kind: JobKind = serde_json::from_value(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "JobKind", "metadata": {"name": "k"},
            "spec": {"group": "acme.io", "version": "v1", "kind": "Made", "admission": "PerPod", "podSets": sets},
        }))
        .unwrap();
        CompiledKind::compile(&kind).unwrap()
    }

    #[rstest]
    #[case::none(json!({"template": {"spec": {}}}), &[])]
    #[case::empty(json!({"template": {"spec": {"nodeName": ""}}}), &[])]
    #[case::of_another_type(json!({"template": {"spec": {"nodeName": 7}}}), &[])]
    #[case::one(json!({"template": {"spec": {"nodeName": "n"}}}), &["spec.template.spec.nodeName"])]
    #[case::in_a_list(json!({"roles": [{"t": {"spec": {}}}, {"t": {"spec": {"nodeName": "n"}}}]}),
        &["spec.roles[1].t.spec.nodeName"])]
    fn templates_that_name_a_node_are_found(#[case] spec: Value, #[case] expected: &[&str]) {
        let kind = kind(&json!([
            {"name": "a", "template": ".spec.template", "whenAbsent": "Skip"},
            {"name": "b", "forEach": ".spec.roles", "template": ".t", "whenAbsent": "Skip"},
        ]));
        assert_eq!(kind.fields_of_nodes(&json!({"spec": spec})), expected);
    }

    #[test]
    fn metadata_of_pods_is_found_with_its_field() {
        let marked = kind(&json!([{"name": "a", "podMetadata": ".spec.driver"}]));
        let object = json!({"spec": {"driver": {"labels": {"a": "b"}}}});
        let expected = json!({"labels": {"a": "b"}});
        assert_eq!(
            marked.metadata_of_pods(&object),
            [("spec.driver".to_owned(), &expected)]
        );
        assert_eq!(marked.fields_of_nodes(&object), [""; 0]);
        let listed = kind(&json!([
            {"name": "a", "forEach": ".spec.roles", "template": ".t", "whenAbsent": "Skip"},
        ]));
        let object = json!({"spec": {"roles": [{"t": {}}, {"t": {"metadata": expected}}]}});
        assert_eq!(
            listed.metadata_of_pods(&object),
            [("spec.roles[1].t.metadata".to_owned(), &expected)]
        );
    }
}
