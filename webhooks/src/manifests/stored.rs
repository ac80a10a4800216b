//! Reads webhook configurations as the API server has them, in JSON, so that fields of newer API servers are no matter.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// The name under which what Sluice writes is recorded in managedFields.
pub const FIELD_MANAGER: &str = "sluice";

/// The fields of a rule, all of them lists but the last.
const RULE_LISTS: [&str; 4] = ["apiGroups", "apiVersions", "operations", "resources"];

pub(super) fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    list(configuration, "webhooks").iter()
}

pub(super) fn name_of(webhook: &Value) -> &str {
    webhook["name"].as_str().unwrap_or_default()
}

/// The CA that the webhook trusts.
pub fn ca_bundle(webhook: &Value) -> Option<&Value> {
    let bundle = webhook.pointer("/clientConfig/caBundle");
    bundle.filter(|bundle| !bundle.is_null())
}

pub(super) fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

pub(super) fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

fn texts<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(object, field).iter().filter_map(Value::as_str)
}

/// Whether two rules are for the same resource and no other, in whichever version and with whichever subresources.
pub(super) fn is_same_resource(rule: &Value, other: &Value) -> bool {
    let resource = resource_of(rule);
    resource.is_some() && resource == resource_of(other)
}

/// The API group and the resource of a rule that is for one alone.
fn resource_of(rule: &Value) -> Option<(&str, &str)> {
    let mut groups = texts(rule, "apiGroups");
    let mut resources = texts(rule, "resources").map(|resource| split(resource).0);
    let (group, resource) = (groups.next()?, resources.next()?);
    let is_alone = groups.next().is_none() && resources.all(|other| other == resource);
    (is_alone && group != "*" && resource != "*").then_some((group, resource))
}

/// A resource and its subresource, which is empty if it has none.
fn split(resource: &str) -> (&str, &str) {
    resource.split_once('/').unwrap_or((resource, ""))
}

/// Whether the API server asks about this resource by the rule (`Matcher.resource` in Kubernetes'
/// apiserver/pkg/admission/plugin/webhook/predicates/rules).
fn asks_about(rule: &Value, resource: &str) -> bool {
    let (name, below) = split(resource);
    texts(rule, "resources")
        .map(split)
        .any(|(known, sub)| (known == "*" || known == name) && (sub == "*" || sub == below))
}

/// The part of `rule`, which is for one resource, that these rules ask about, in whichever version: None if there is none.
pub(super) fn common(rule: &Value, rules: &[Value]) -> Option<Value> {
    let group = texts(rule, "apiGroups").next()?;
    let is_of_group = |known: &&Value| texts(known, "apiGroups").any(|g| g == "*" || g == group);
    let known: Vec<&Value> = rules.iter().filter(is_of_group).collect();
    let resources: Vec<&str> = texts(rule, "resources")
        .filter(|resource| known.iter().any(|rule| asks_about(rule, resource)))
        .collect();
    let asking = known.into_iter().filter(|rule| {
        let mut resources = resources.iter();
        resources.any(|resource| asks_about(rule, resource))
    });
    let asked: BTreeSet<&str> = asking.flat_map(|rule| texts(rule, "operations")).collect();
    let operations: Vec<&str> = texts(rule, "operations")
        .filter(|operation| asked.contains(operation) || asked.contains("*"))
        .collect();
    if resources.is_empty() || operations.is_empty() {
        return None;
    }
    let mut common = rule.clone();
    set(&mut common, "resources", json!(resources));
    set(&mut common, "operations", json!(operations));
    Some(common)
}

/// Whether Sluice is recorded as who has written the rules of the webhook of this name. Whoever changes them afterwards is
/// recorded instead.
pub(super) fn has_written_rules(configuration: &Value, webhook: &str) -> bool {
    let key = json!({ "name": webhook });
    let rules = format!("/fieldsV1/f:webhooks/k:{key}/f:rules");
    let mut fields = list(&configuration["metadata"], "managedFields").iter();
    fields.any(|entry| entry["manager"] == FIELD_MANAGER && entry.pointer(&rules).is_some())
}

/// Whether the rule is for one of these API groups.
pub(super) fn is_undecided(rule: &Value, undecided: &BTreeSet<&str>) -> bool {
    texts(rule, "apiGroups").any(|group| undecided.contains(group))
}

/// Whether these are the same rules, in whichever order.
pub(super) fn are_same_rules(rules: &[Value], others: &[Value]) -> bool {
    let sorted = |rules: &[Value]| -> BTreeSet<_> {
        let rules = rules.iter().map(sorted_rule);
        rules
            .map(|(lists, scope)| (lists.map(|list| list.join(" ")), scope.to_owned()))
            .collect()
    };
    sorted(rules) == sorted(others)
}

/// A rule without the order of anything in it.
fn sorted_rule(rule: &Value) -> ([Vec<&str>; 4], &str) {
    let lists = RULE_LISTS.map(|field| {
        let mut texts: Vec<&str> = texts(rule, field).collect();
        texts.sort_unstable();
        texts
    });
    // The API server's default.
    (lists, rule["scope"].as_str().unwrap_or("*"))
}
