//! What the spec of a Gate says, in words: when it is lifted, which objects are born with it, and from when on it holds
//! too many. Pure. Who may lift it is told in `text.rs`.

use kube::core::Selector;
use sluice_crds::{AFTER_ANNOTATION, After, AfterKind, AppliesTo, Backlog, GateSpec, Schedule};

use crate::cluster::age::span;
use crate::rules::name_of_kind;

/// How a gate is lifted, in a word, for a table.
pub fn in_a_word(spec: &GateSpec) -> &'static str {
    if spec.schedule.is_some() {
        "Schedule"
    } else if spec.after.is_some() {
        "After"
    } else if spec.counter.is_some() {
        "Counter"
    } else {
        "Approval"
    }
}

/// How a gate is lifted from which so many have `passed`.
pub fn in_full(spec: &GateSpec, passed: Option<i32>) -> String {
    if let Some(schedule) = &spec.schedule {
        by_schedule(schedule)
    } else if let Some(after) = &spec.after {
        by_dependency(after)
    } else if let Some(counter) = &spec.counter {
        let passed = passed.unwrap_or_default();
        format!(
            "for {} at a time; {passed} passed and not finished",
            counter.limit
        )
    } else {
        "by approval: somebody lifts it".to_owned()
    }
}

fn by_schedule(schedule: &Schedule) -> String {
    let mut told = Vec::new();
    if let Some(not_before) = &schedule.not_before {
        told.push(format!(
            "at the time in the annotation {}",
            not_before.annotation
        ));
    }
    let windows = schedule.windows.iter().map(|window| {
        let long = span(i64::from(window.duration_seconds));
        format!("{:?} {} for {long}", window.start, window.time_zone)
    });
    let windows: Vec<_> = windows.collect();
    if !windows.is_empty() {
        told.push(format!("in windows: {}", windows.join(", ")));
    }
    let exceptions = schedule.exceptions.iter().map(|exception| {
        let (from, to) = (exception.from.0, exception.to.0);
        let reason = exception.reason.as_ref();
        let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        format!("from {from} to {to}{reason}")
    });
    let exceptions: Vec<_> = exceptions.collect();
    if !exceptions.is_empty() {
        told.push(format!("not {}", exceptions.join(", ")));
    }
    format!("by its schedule, {}", told.join("; "))
}

fn by_dependency(after: &After) -> String {
    if let Some(object) = &after.object {
        let namespace = object.namespace.as_ref();
        let namespace = namespace.map_or_else(String::new, |name| format!(" in namespace {name}"));
        return format!(
            "after {} {:?}{namespace}, once {}",
            kind(&object.kind),
            object.name,
            object.kind.condition
        );
    }
    let kinds = after.kinds.iter();
    let kinds = kinds.map(|named| format!("{}, once {}", kind(named), named.condition));
    let kinds: Vec<_> = kinds.collect();
    let annotation = after.annotation.as_deref().unwrap_or(AFTER_ANNOTATION);
    format!(
        "after the object in the annotation {annotation}: {}",
        kinds.join("; ")
    )
}

fn kind(named: &AfterKind) -> String {
    name_of_kind(&named.group, &named.kind)
}

/// Which objects are born with a gate.
pub fn born_with(applies_to: Option<&AppliesTo>) -> String {
    let Some(applies_to) = applies_to else {
        return "objects that name it".to_owned();
    };
    let mut told = Vec::new();
    if !applies_to.kinds.is_empty() {
        let kinds = applies_to.kinds.iter();
        let kinds: Vec<_> = kinds
            .map(|applied| name_of_kind(&applied.group, &applied.kind))
            .collect();
        told.push(format!("of kind {}", kinds.join(", ")));
    }
    if !applies_to.queues.is_empty() {
        told.push(format!("in queue {}", applies_to.queues.join(", ")));
    }
    match &applies_to.namespace_selector {
        None if applies_to.queues.is_empty() => told.push("with a queue or a gate".to_owned()),
        None => {}
        Some(selector) => told.push(match Selector::try_from(selector.clone()) {
            Ok(selector) if selector.selects_all() => "in all namespaces".to_owned(),
            Ok(selector) => format!("in namespaces with {selector}"),
            Err(_) => "in no namespace: the selector is invalid".to_owned(),
        }),
    }
    if let Some(when) = &applies_to.when {
        told.push(format!("when {when}"));
    }
    format!("objects that name it, and objects {}", told.join(", "))
}

/// From when on a gate holds too many, or for too long.
pub fn backlog(backlog: &Backlog) -> Option<String> {
    let held = backlog.held.map(|held| format!("more than {held} held"));
    let age = backlog
        .age_seconds
        .map(|age| format!("held for longer than {}", span(i64::from(age))));
    let told: Vec<_> = held.into_iter().chain(age).collect();
    (!told.is_empty()).then(|| told.join(", or "))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::{Value, json};

    use super::*;

    fn told(spec: Value) -> String {
        let spec: GateSpec = serde_json::from_value(spec).unwrap();
        let lines = [
            in_a_word(&spec).to_owned(),
            in_full(&spec, Some(2)),
            born_with(spec.applies_to.as_ref()),
            spec.backlog.as_ref().and_then(backlog).unwrap_or_default(),
        ];
        lines.join("\n")
    }

    #[test]
    fn what_a_spec_says() {
        let approval = json!({
            "appliesTo": {"namespaceSelector": {}},
            "backlog": {"held": 10, "ageSeconds": 3600},
        });
        assert_snapshot!("approval", told(approval));
        let schedule = json!({
            "schedule": {
                "notBefore": {},
                "windows": [
                    {"start": "0 18 * * MON-FRI", "durationSeconds": 28800, "timeZone": "Europe/Berlin"},
                    {"start": "@daily", "durationSeconds": 600},
                ],
                "exceptions": [{
                    "from": "2026-12-24T00:00:00Z", "to": "2026-12-27T00:00:00Z", "reason": "holidays",
                }],
            },
            "appliesTo": {
                "kinds": [{"group": "batch", "kind": "Job"}, {"kind": "Pod"}],
                "queues": ["nightly"],
                "namespaceSelector": {"matchLabels": {"env": "prod"}},
                "when": "requests['nvidia.com/gpu'] > 8.0",
            },
            "backlog": {"ageSeconds": 90},
        });
        assert_snapshot!("schedule", told(schedule));
        let complete = "object.status.succeeded > 0";
        let named = json!({"after": {"object": {
            "group": "batch", "kind": "Job", "name": "prepare", "namespace": "data", "condition": complete,
        }}, "appliesTo": {"queues": ["a", "b"]}});
        assert_snapshot!("after_named", told(named));
        let by_annotation = json!({"after": {"kinds": [
            {"group": "batch", "kind": "Job", "condition": complete},
            {"group": "", "kind": "PersistentVolumeClaim", "condition": "object.status.phase == 'Bound'"},
        ]}, "backlog": {}});
        assert_snapshot!("after_annotation", told(by_annotation));
        assert_snapshot!("counter", told(json!({"counter": {"limit": 3}})));
    }
}
