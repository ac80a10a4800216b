//! Keeps a stored webhook configuration in step with the managed kinds and with Sluice's own
//! configuration: the rules of the webhooks for jobs, the match conditions of all, and the webhooks of Gates, which
//! are otherwise as that for jobs is. Whatever else
//! an administrator has changed, and match conditions of their own, are left alone.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::manifests::applied::is_applied;
use crate::manifests::webhooks::{MUTATE_JOBS, VALIDATE_JOBS};

/// The fields of a rule, all of them lists but the last.
const RULE_LISTS: [&str; 4] = ["apiGroups", "apiVersions", "operations", "resources"];

/// Whether the webhooks for jobs are among those of the configuration `stored`. Rules can be written
/// only into a webhook that is there.
pub fn has_webhook_for_jobs(stored: &Value) -> bool {
    webhooks(stored).any(|webhook| is_for_jobs(name_of(webhook)))
}

/// The strategic merge patch that brings `stored` into step with `wanted`, as [`crate::manifests::validating`]
/// and [`crate::manifests::mutating`] make them; none if it is so already. Rules for the API groups in
/// `undecided` stay: it is not known yet which kinds of them are managed.
///
/// The patch carries the resource version of what it was made from.
pub fn patch(stored: &Value, wanted: &Value, undecided: &BTreeSet<&str>) -> Option<Value> {
    let jobs = webhooks(stored).find(|webhook| is_for_jobs(name_of(webhook)));
    let mut changes: Vec<Value> = webhooks(stored)
        .filter_map(|old| {
            let new = webhooks(wanted).find(|new| name_of(new) == name_of(old));
            match (new, jobs) {
                (Some(new), Some(jobs)) if is_applied(name_of(old)) => {
                    change_applied(old, &of_gate(new, jobs), undecided)
                }
                (Some(new), _) => change(old, new, undecided),
                (None, _) if is_applied(name_of(old)) => {
                    Some(json!({"name": name_of(old), "$patch": "delete"}))
                }
                (None, _) => None,
            }
        })
        .collect();
    let is_missing = |new: &&Value| {
        is_applied(name_of(new)) && !webhooks(stored).any(|old| name_of(old) == name_of(new))
    };
    let mut added = Vec::new();
    if let Some(jobs) = jobs {
        let missing = webhooks(wanted).filter(is_missing);
        added.extend(missing.map(|new| of_gate(new, jobs)));
    }
    if changes.is_empty() && added.is_empty() {
        return None;
    }
    let version = json!({"resourceVersion": stored.pointer("/metadata/resourceVersion")});
    let mut patch = Map::from_iter([("metadata".to_owned(), version)]);
    if !added.is_empty() {
        // Else they would come first.
        let is_gone =
            |name: &str| is_applied(name) && !webhooks(wanted).any(|new| name_of(new) == name);
        let left = webhooks(stored).map(name_of).filter(|name| !is_gone(name));
        let order = left.chain(added.iter().map(name_of));
        let order: Vec<Value> = order.map(|name| json!({"name": name})).collect();
        patch.insert("$setElementOrder/webhooks".to_owned(), order.into());
    }
    changes.extend(added);
    patch.insert("webhooks".to_owned(), changes.into());
    Some(patch.into())
}

/// The webhook of a Gate as it is to be stored: as that for jobs, which says who is asked and how, but for what makes it
/// that of the Gate.
fn of_gate(wanted: &Value, jobs: &Value) -> Value {
    let mut webhook = jobs.as_object().cloned().unwrap_or_default();
    for field in ["name", "rules", "matchConditions"] {
        webhook.insert(field.to_owned(), wanted[field].clone());
    }
    // What is not asked about for jobs is not asked about here.
    let selector = &jobs["namespaceSelector"];
    let mut selected = list(selector, "matchExpressions").to_vec();
    for expression in list(&wanted["namespaceSelector"], "matchExpressions") {
        if !selected.contains(expression) {
            selected.push(expression.clone());
        }
    }
    let mut selector = selector.as_object().cloned().unwrap_or_default();
    selector.insert("matchExpressions".to_owned(), selected.into());
    webhook.insert("namespaceSelector".to_owned(), selector.into());
    webhook.into()
}

/// What has to change in the webhook `old` of a Gate.
fn change_applied(old: &Value, new: &Value, undecided: &BTreeSet<&str>) -> Option<Value> {
    let mut change = match change(old, new, undecided) {
        Some(Value::Object(change)) => change,
        Some(_) | None => Map::new(),
    };
    for (field, value) in new.as_object().into_iter().flatten() {
        let is_compared = ["name", "rules", "matchConditions"].contains(&field.as_str());
        if is_compared || old.get(field) == Some(value) {
            continue;
        }
        let mut value = value.clone();
        if let Some(map) = value.as_object_mut() {
            // Else what is gone would be merged.
            map.insert("$patch".to_owned(), json!("replace"));
        }
        change.insert(field.clone(), value);
    }
    if change.is_empty() {
        return None;
    }
    change.insert("name".to_owned(), name_of(old).into());
    Some(change.into())
}

/// What has to change in the webhook `old`, by its name.
fn change(old: &Value, new: &Value, undecided: &BTreeSet<&str>) -> Option<Value> {
    let mut change = Map::new();
    if is_for_jobs(name_of(old)) || is_applied(name_of(old)) {
        let rules = rules(old, new, undecided);
        if sorted(list(old, "rules")) != sorted(&rules) {
            // A list without a key: it is replaced as a whole.
            change.insert("rules".to_owned(), rules.into());
        }
    }
    let conditions: Vec<&Value> = list(new, "matchConditions")
        .iter()
        .filter(|condition| !list(old, "matchConditions").contains(condition))
        .collect();
    if !conditions.is_empty() {
        // Merged by name.
        change.insert("matchConditions".to_owned(), json!(conditions));
    }
    if change.is_empty() {
        return None;
    }
    change.insert("name".to_owned(), name_of(old).into());
    Some(change.into())
}

/// The rules of `new`, and those of `old` that nothing is known against.
fn rules(old: &Value, new: &Value, undecided: &BTreeSet<&str>) -> Vec<Value> {
    let mut rules = list(new, "rules").to_vec();
    for rule in list(old, "rules") {
        let is_undecided = texts(rule, "apiGroups").any(|group| undecided.contains(group));
        let is_decided = rules.iter().any(|known| {
            known["apiGroups"] == rule["apiGroups"]
                && texts(known, "resources").next() == texts(rule, "resources").next()
        });
        if is_undecided && !is_decided {
            rules.push(rule.clone());
        }
    }
    rules
}

/// Rules without the order of anything in them.
fn sorted(rules: &[Value]) -> BTreeSet<(Vec<Vec<&str>>, &str)> {
    let one = |rule| {
        let lists = RULE_LISTS.map(|field| {
            let mut texts: Vec<&str> = texts(rule, field).collect();
            texts.sort_unstable();
            texts
        });
        // The API server's default.
        (lists.to_vec(), rule["scope"].as_str().unwrap_or("*"))
    };
    rules.iter().map(one).collect()
}

fn is_for_jobs(name: &str) -> bool {
    [VALIDATE_JOBS, MUTATE_JOBS].contains(&name)
}

fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    list(configuration, "webhooks").iter()
}

fn name_of(webhook: &Value) -> &str {
    webhook["name"].as_str().unwrap_or_default()
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn texts<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(object, field).iter().filter_map(Value::as_str)
}
