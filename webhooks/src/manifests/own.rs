//! The webhook configurations of Sluice's own making as they are to be stored: each webhook is as the shipped one, which
//! says who is asked and how, but for what makes it that of declared kinds, of a Gate, or of namespaces. Nobody else
//! edits them: what an administrator changes in the shipped webhook counts here too.
//!
//! They also ask about what the shipped webhooks ought to, and don't: objects that carry only a configured alias, and
//! whatever a shipped configuration of another version leaves out.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::manifests::declared::{is_for_declared_kinds, is_for_pods};
use crate::manifests::step::{is_for_shipped_kind, webhook_for_jobs, webhook_for_pods};
use crate::manifests::stored::{
    are_same_rules, ca_bundle, common, has_written_rules, is_same_resource, is_undecided, list,
    name_of, set, webhooks,
};
use crate::manifests::webhooks::IGNORE;

/// What there is of one kind of webhook configuration, and what it is to be made of.
#[derive(Debug, Clone, Copy)]
pub struct Making<'a> {
    /// The shipped configuration, as it is stored.
    pub shipped: &'a Value,
    /// The same, as [`crate::manifests::validating`] and [`crate::manifests::mutating`] make it for the managed kinds,
    /// without aliases.
    pub wanted_shipped: &'a Value,
    /// Sluice's own, as [`crate::manifests::declared_validating`] and [`crate::manifests::declared_mutating`] make it.
    pub wanted: &'a Value,
    /// Sluice's own, as it is stored; null if it is not there.
    pub stored: &'a Value,
    /// The API groups of which it is not known yet which kinds are managed: their rules stay.
    pub undecided: &'a BTreeSet<&'a str>,
}

/// The configuration that is to be stored in place of the stored one, with its resource version. None if it is right as
/// it is, or if there is no shipped webhook to be like. One that is there already is emptied then.
///
/// It is owned by the shipped configuration, so it goes with that one, however Sluice is removed.
pub fn made(making: &Making<'_>) -> Option<Value> {
    let jobs = webhook_for_jobs(making.shipped);
    let is_there = !making.stored.is_null();
    // What the shipped configuration owns goes with it.
    if making.shipped.is_null() || jobs.is_none() && !is_there {
        return None;
    }
    let wanted = jobs.into_iter().flat_map(|jobs| {
        let wanted = webhooks(making.wanted);
        wanted.filter_map(|wanted| making.webhook(wanted, jobs))
    });
    let wanted: Vec<Value> = wanted
        .filter(|webhook| !list(webhook, "rules").is_empty())
        .collect();
    let owner = owner(making.shipped);
    let is_owned = list(&making.stored["metadata"], "ownerReferences") == [owner.clone()];
    let is_right = are_same(list(making.stored, "webhooks"), &wanted);
    if is_there && is_owned && is_right {
        return None;
    }
    let base = if is_there {
        making.stored
    } else {
        making.wanted
    };
    let mut made = base.clone();
    for field in ["apiVersion", "kind"] {
        set(&mut made, field, making.wanted[field].clone());
    }
    if let Some(metadata) = made.get_mut("metadata") {
        set(metadata, "ownerReferences", json!([owner]));
    }
    set(&mut made, "webhooks", wanted.into());
    Some(made)
}

fn owner(shipped: &Value) -> Value {
    json!({
        "apiVersion": shipped["apiVersion"],
        "kind": shipped["kind"],
        "name": shipped.pointer("/metadata/name"),
        "uid": shipped.pointer("/metadata/uid"),
    })
}

fn are_same(stored: &[Value], wanted: &[Value]) -> bool {
    let is_same = |(stored, wanted): (&Value, &Value)| {
        let without_rules = |webhook: &Value| {
            let fields = webhook.as_object().cloned().unwrap_or_default();
            let fields = fields.into_iter().filter(|(field, _)| field != "rules");
            fields.collect::<Map<_, _>>()
        };
        without_rules(stored) == without_rules(wanted)
            && are_same_rules(list(stored, "rules"), list(wanted, "rules"))
    };
    stored.len() == wanted.len() && stored.iter().zip(wanted).all(is_same)
}

impl Making<'_> {
    /// The webhook `wanted` as it is to be stored, where `jobs` is the shipped one for jobs. None if the shipped webhook
    /// for pods is asked about all that it is to be asked about, or is not there.
    fn webhook(&self, wanted: &Value, jobs: &Value) -> Option<Value> {
        if is_for_pods(name_of(wanted)) {
            let pods = webhook_for_pods(self.shipped)?;
            let as_shipped = webhook_for_pods(self.wanted_shipped);
            if is_covered(wanted, pods, as_shipped) {
                return None;
            }
            let conditions = with_own(wanted, list(pods, "matchConditions").iter());
            return Some(self.like(pods, wanted, list(pods, "rules").to_vec(), conditions));
        }
        let mut rules = list(wanted, "rules").to_vec();
        let conditions = list(jobs, "matchConditions").iter();
        if is_for_declared_kinds(name_of(wanted)) {
            rules.extend(self.not_shipped(wanted, jobs));
            rules.extend(self.undecided(name_of(wanted), &rules, jobs));
            return Some(self.like(jobs, wanted, rules, with_own(wanted, conditions)));
        }
        rules.extend(self.undecided(name_of(wanted), &rules, jobs));
        // Those of an administrator count here, too; which jobs the shipped one is asked about does not.
        let of_jobs = webhook_for_jobs(self.wanted_shipped).and_then(own_condition);
        let of_jobs = of_jobs.map(|condition| &condition["name"]);
        let conditions = conditions.filter(|condition| Some(&condition["name"]) != of_jobs);
        let mut webhook = self.like(jobs, wanted, rules, with_own(wanted, conditions));
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
        set(&mut webhook, "namespaceSelector", selector.into());
        if wanted["failurePolicy"] == IGNORE {
            set(&mut webhook, "failurePolicy", IGNORE.into());
        }
        Some(webhook)
    }

    /// As the shipped webhook `shipped`, with the name of `wanted`, these rules and these conditions.
    fn like(
        &self,
        shipped: &Value,
        wanted: &Value,
        rules: Vec<Value>,
        conditions: Vec<Value>,
    ) -> Value {
        let mut webhook = shipped.clone();
        set(&mut webhook, "name", wanted["name"].clone());
        set(&mut webhook, "rules", rules.into());
        set(&mut webhook, "matchConditions", conditions.into());
        let bundle = self.known_bundle(name_of(wanted)).cloned();
        if let (Some(bundle), Some(client)) = (bundle, webhook.get_mut("clientConfig")) {
            set(client, "caBundle", bundle);
        }
        webhook
    }

    /// The CA that the stored webhook of this name trusts, or else another one beside it. Whoever keeps the certificate
    /// brings it into each configuration by itself: the shipped one may have lost it, or not have the new one yet.
    fn known_bundle(&self, name: &str) -> Option<&Value> {
        let same = webhooks(self.stored).filter(|webhook| name_of(webhook) == name);
        let mut known = same.chain(webhooks(self.stored));
        known.find_map(ca_bundle)
    }

    /// Rules for shipped kinds that the shipped webhook for jobs ought to have, and has not, in whichever form; all of them,
    /// as far as an administrator has not narrowed them, if its condition leaves out what `wanted` is to be asked about.
    fn not_shipped(&self, wanted: &Value, jobs: &Value) -> Vec<Value> {
        let as_shipped = webhook_for_jobs(self.wanted_shipped);
        let is_covered = is_covered(wanted, jobs, as_shipped);
        let rules = as_shipped.map(|webhook| list(webhook, "rules"));
        let rules = rules.into_iter().flatten();
        let missing = rules.filter_map(|rule| match common(rule, list(jobs, "rules")) {
            None => Some(rule.clone()),
            Some(common) => (!is_covered).then_some(common),
        });
        missing.collect()
    }

    /// The stored rules of the webhook that nothing is known against. An earlier version kept those for declared kinds,
    /// and the webhooks of Gates, in the shipped configuration.
    fn undecided(&self, name: &str, rules: &[Value], jobs: &Value) -> Vec<Value> {
        let is_for_kinds = is_for_declared_kinds(name);
        let is_same = |webhook: &&Value| {
            name_of(webhook) == name || is_for_kinds && name_of(webhook) == name_of(jobs)
        };
        let of = |configuration| {
            let webhooks = webhooks(configuration).filter(is_same);
            webhooks.flat_map(|webhook| list(webhook, "rules"))
        };
        // Those for shipped kinds are there to stay, and those of somebody else.
        let is_written = has_written_rules(self.shipped, name_of(jobs));
        let shipped = of(self.shipped)
            .filter(|rule| !is_for_kinds || is_written && !is_for_shipped_kind(rule));
        let mut kept: Vec<Value> = Vec::new();
        for rule in of(self.stored).chain(shipped) {
            let mut known = rules.iter().chain(&kept);
            let is_decided = known.any(|known| is_same_resource(known, rule));
            if is_undecided(rule, self.undecided) && !is_decided {
                kept.push(rule.clone());
            }
        }
        kept
    }
}

/// Whether the shipped webhook `shipped` is asked about all that `wanted` is to be asked about, and stays so when it is
/// applied again, as it is in `as_shipped`.
fn is_covered(wanted: &Value, shipped: &Value, as_shipped: Option<&Value>) -> bool {
    let Some(own) = own_condition(wanted) else {
        return true;
    };
    [Some(shipped), as_shipped]
        .into_iter()
        .flatten()
        .all(|webhook| list(webhook, "matchConditions").contains(own))
}

/// The condition that says what the webhook is asked about: the last one. Those before it leave out who is never asked.
fn own_condition(wanted: &Value) -> Option<&Value> {
    list(wanted, "matchConditions").last()
}

/// The conditions of a shipped webhook, where the one that says what it is asked about is that of `wanted`.
fn with_own<'a>(wanted: &'a Value, conditions: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut all: Vec<Value> = conditions.cloned().collect();
    if let Some(own) = own_condition(wanted) {
        let mut known = all.iter_mut();
        match known.find(|known| known["name"] == own["name"]) {
            Some(known) => known.clone_from(own),
            None => all.push(own.clone()),
        }
    }
    all
}
