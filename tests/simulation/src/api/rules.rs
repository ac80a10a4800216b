//! What the API server itself does to an object that is written, and what it refuses: metadata, status and
//! the rules of pods and Jobs that Sluice leans on. What admission adds is in `admission.rs`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::resource::{Place, Resource};
use super::store::in_seconds;

/// Which part of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status, where that has a subresource of its own.
    Main,
    /// The status alone.
    Status,
}

/// An object as it is stored that somebody creates.
pub(super) fn created(resource: &Resource, mut object: Value, uid: &str, now: Timestamp) -> Value {
    let metadata = &mut object["metadata"];
    metadata["uid"] = json!(uid);
    metadata["creationTimestamp"] = json!(in_seconds(now));
    metadata["generation"] = json!(1);
    if let Some(fields) = metadata.as_object_mut() {
        for field in ["resourceVersion", "deletionTimestamp", "managedFields"] {
            fields.remove(field);
        }
    }
    if resource.has_status
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    match resource.kind {
        "Pod" => {
            default_to(&mut object["spec"], "restartPolicy", &json!("Always"));
            default_to(&mut object["spec"], "priority", &json!(0));
            object["status"] = json!({"phase": "Pending"});
        }
        "Job" => {
            let name = object["metadata"]["name"].clone();
            let spec = &mut object["spec"];
            default_to(spec, "suspend", &json!(false));
            default_to(spec, "parallelism", &json!(1));
            default_to(spec, "backoffLimit", &json!(6));
            let labels = &mut spec["template"]["metadata"]["labels"];
            labels["batch.kubernetes.io/controller-uid"] = json!(uid);
            labels["batch.kubernetes.io/job-name"] = name;
            object["status"] = json!({});
        }
        "Workload" => {
            let spec = &mut object["spec"];
            default_to(spec, "priority", &json!(0));
            default_to(spec, "active", &json!(true));
        }
        _ => {}
    }
    without_empty(&mut object);
    object
}

/// What is empty in metadata is not stored.
fn without_empty(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    let is_empty = |value: &Value| {
        value.is_null()
            || value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    metadata.retain(|_, value| !is_empty(value));
}

fn default_to(object: &mut Value, field: &str, value: &Value) {
    if object[field].is_null() {
        object[field] = value.clone();
    }
}

/// An object as it is stored that somebody changes.
pub(super) fn updated(resource: &Resource, part: Part, old: &Value, mut new: Value) -> Value {
    for field in ["apiVersion", "kind"] {
        new[field] = old[field].clone();
    }
    let kept = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
    ];
    for field in kept
        .into_iter()
        .chain(["deletionGracePeriodSeconds", "resourceVersion"])
    {
        put_or_take(&mut new["metadata"], field, &old["metadata"][field]);
    }
    match part {
        Part::Status => {
            let mut object = old.clone();
            put_or_take(&mut object, "status", &new["status"]);
            // Labels and annotations are written too, but not of custom resources.
            if resource.group != sluice_crds::GROUP {
                object["metadata"] = new["metadata"].clone();
            }
            without_empty(&mut object);
            object
        }
        Part::Main => {
            if resource.has_status {
                put_or_take(&mut new, "status", &old["status"]);
            }
            if resource.kind != "Pod" && old["spec"] != new["spec"] {
                let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
                new["metadata"]["generation"] = json!(generation + 1);
            }
            without_empty(&mut new);
            new
        }
    }
}

fn put_or_take(object: &mut Value, field: &str, value: &Value) {
    if value.is_null() {
        if let Some(fields) = object.as_object_mut() {
            fields.remove(field);
        }
    } else {
        object[field] = value.clone();
    }
}

/// Why an API server refuses a change whoever makes it.
pub(super) fn forbidden(place: &Place, part: Part, old: &Value, new: &Value) -> Option<Refusal> {
    if part == Part::Status {
        return None;
    }
    let problem = match place.resource.kind {
        "Pod" => changed_pod(&old["spec"], &new["spec"]),
        "Job" => changed_job(old, new),
        _ => None,
    };
    problem.map(|problem| Refusal::invalid(place, &problem))
}

fn changed_pod(old: &Value, new: &Value) -> Option<String> {
    let gates = |spec: &Value| -> Vec<String> {
        let gates = spec["schedulingGates"].as_array().into_iter().flatten();
        gates
            .filter_map(|gate| Some(gate["name"].as_str()?.to_owned()))
            .collect()
    };
    let (was, is) = (gates(old), gates(new));
    if is.iter().any(|gate| !was.contains(gate)) {
        return Some("spec.schedulingGates: Forbidden: only deletion is allowed".to_owned());
    }
    let without = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            for field in ["schedulingGates", "tolerations", "activeDeadlineSeconds"] {
                fields.remove(field);
            }
            // While it is gated, more may be asked of its node.
            if !was.is_empty() {
                fields.remove("nodeSelector");
            }
        }
        spec
    };
    (without(old) != without(new))
        .then(|| "spec: Forbidden: pod updates may not change fields other than a few".to_owned())
}

fn changed_job(old: &Value, new: &Value) -> Option<String> {
    if old["spec"]["completions"] != new["spec"]["completions"] {
        return Some("spec.completions: Invalid value: field is immutable".to_owned());
    }
    let (was, is) = (&old["spec"]["template"], &new["spec"]["template"]);
    if was == is {
        return None;
    }
    // KEP-2926 and KEP-5440: a Job that is suspended and has not started, or whose pods are gone.
    let never_started = old["status"]["startTime"].is_null();
    let is_suspended = old["spec"]["suspend"] == true;
    let without = |template: &Value| {
        let mut template = template.clone();
        for field in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            put_or_take(&mut template["spec"], field, &Value::Null);
        }
        for field in ["labels", "annotations"] {
            put_or_take(&mut template["metadata"], field, &Value::Null);
        }
        template
    };
    (!is_suspended || !never_started || without(was) != without(is))
        .then(|| "spec.template: Invalid value: field is immutable".to_owned())
}
