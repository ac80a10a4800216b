//! Reads webhook configurations as the API server has them, in JSON, so that fields of newer API servers are no matter.

use std::collections::BTreeSet;

use serde_json::Value;

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

fn texts<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(object, field).iter().filter_map(Value::as_str)
}

/// Whether the same rule is among these.
pub(super) fn contains_rule(rules: &[Value], rule: &Value) -> bool {
    let sought = sorted_rule(rule);
    rules.iter().any(|known| sorted_rule(known) == sought)
}

/// Whether two rules are for the same resource, in whichever version and with whichever subresources.
pub(super) fn is_same_resource(rule: &Value, other: &Value) -> bool {
    rule["apiGroups"] == other["apiGroups"]
        && texts(rule, "resources").next() == texts(other, "resources").next()
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
