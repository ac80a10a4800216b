//! What Sluice takes out of a stored shipped webhook configuration: rules for shipped kinds that no JobKind declares, and
//! what an earlier version has added. Whatever else is there is left alone, as somebody applies it again and again, also
//! where it has fewer or more rules than what is shipped; what it lacks stands in Sluice's own (`own.rs`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::manifests::applied::is_applied;
use crate::manifests::options::Options;
use crate::manifests::stored::{
    has_written_rules, is_same_resource, is_undecided, list, name_of, webhooks,
};
use crate::manifests::webhooks::{MUTATE_JOBS, MUTATE_PODS, VALIDATE_JOBS, VALIDATE_PODS};

/// The webhook for jobs of the shipped configuration `stored`, if it is there: what is declared is judged as it says.
pub fn webhook_for_jobs(stored: &Value) -> Option<&Value> {
    webhooks(stored).find(|webhook| [VALIDATE_JOBS, MUTATE_JOBS].contains(&name_of(webhook)))
}

/// The webhook for pods of the shipped configuration `stored`, if it is there.
pub(super) fn webhook_for_pods(stored: &Value) -> Option<&Value> {
    webhooks(stored).find(|webhook| [VALIDATE_PODS, MUTATE_PODS].contains(&name_of(webhook)))
}

/// The strategic merge patch that brings `stored` into step with `wanted`, as [`crate::manifests::validating`]
/// and [`crate::manifests::mutating`] make them; none if it is so already. Rules for the API groups in
/// `undecided` stay: it is not known yet which kinds of them are managed.
///
/// The patch carries the resource version of what it was made from.
pub fn patch(stored: &Value, wanted: &Value, undecided: &BTreeSet<&str>) -> Option<Value> {
    let changes = webhooks(stored).filter_map(|old| {
        if is_applied(name_of(old)) {
            return Some(json!({"name": name_of(old), "$patch": "delete"}));
        }
        let new = webhooks(wanted).find(|new| name_of(new) == name_of(old))?;
        let is_written = has_written_rules(stored, name_of(old));
        change(old, new, is_written, undecided)
    });
    let changes: Vec<Value> = changes.collect();
    if changes.is_empty() {
        return None;
    }
    Some(json!({
        "metadata": {"resourceVersion": stored.pointer("/metadata/resourceVersion")},
        "webhooks": changes,
    }))
}

/// What has to change in the webhook `old`, by its name. Of other kinds than the shipped ones it has rules that an earlier
/// version has written, if `is_written`: they go once, to Sluice's own configuration. Those of somebody else stay.
fn change(old: &Value, new: &Value, is_written: bool, undecided: &BTreeSet<&str>) -> Option<Value> {
    if ![VALIDATE_JOBS, MUTATE_JOBS].contains(&name_of(old)) {
        return None;
    }
    let is_wanted = |rule: &Value| {
        let mut wanted = list(new, "rules").iter();
        wanted.any(|wanted| is_same_resource(wanted, rule))
    };
    let kept = list(old, "rules").iter().filter(|rule| {
        let may_go = is_for_shipped_kind(rule) || is_written;
        !may_go || is_wanted(rule) || is_undecided(rule, undecided)
    });
    let kept: Vec<&Value> = kept.collect();
    // A list without a key: it is replaced as a whole.
    (kept.len() != list(old, "rules").len()).then(|| json!({"name": name_of(old), "rules": kept}))
}

/// Whether the rule is for a kind that the shipped webhook for jobs names as it is applied, and for no other.
pub(super) fn is_for_shipped_kind(rule: &Value) -> bool {
    let mut shipped = Options::default().resources.into_iter();
    shipped.any(|resource| {
        let shipped = json!({"apiGroups": [resource.group], "resources": [resource.resource]});
        is_same_resource(&shipped, rule)
    })
}
