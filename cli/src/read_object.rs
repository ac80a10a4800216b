//! Reads an object through the JobKind of its kind, with the code that the controller and the webhooks
//! read it with. What it comes to is kept in a `report`.

use serde_json::Value;
use sluice_crds::{ADMISSION_ANNOTATION, Quantity};
use sluice_kinds::devices::{TemplateDevices, uncounted};
use sluice_kinds::gates::{self, GateState};
use sluice_kinds::hold::admission_mode;
use sluice_kinds::metadata::{annotation_text, group_version, labels};
use sluice_kinds::requests::{Amounts, PodDefaults};
use sluice_kinds::view::{LabelledQueue, PodSetView, QueueLabels, bad_min_counts};
use sluice_kinds::{CompiledKind, HeldMark, Hold, Problem};

use crate::input::Document;
use crate::report::{
    GatesState, HoldReport, ObjectGates, ObjectReport, PodSetReport, Quantities, SeenObject,
};
use crate::rules::{self, Rules};

/// What Sluice sees of the object in `document` through that of the `rules` which is for its kind.
pub fn object(document: &Document, rules: &[Rules], queue_labels: &QueueLabels) -> ObjectReport {
    let text = |pointer: &str| {
        let found = document.value.pointer(pointer).and_then(Value::as_str);
        found.map(str::to_owned)
    };
    let api_version = text("/apiVersion").unwrap_or_default();
    let kind = text("/kind").unwrap_or_default();
    let (group, _) = group_version(&api_version);
    let reader = rules.iter().find(|rules| rules.reads(group, &kind));
    let mut problems = Vec::new();
    let readable = self::reader(&document.value, rules).map_err(|(_, problem)| problem);
    let seen = match readable {
        Ok((rules, kind)) => Some(see(
            &document.value,
            rules,
            kind,
            queue_labels,
            &mut problems,
        )),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    ObjectReport {
        file: document.file.clone(),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name")
            .or_else(|| text("/metadata/generateName"))
            .unwrap_or_default(),
        job_kind: reader.map(|rules| rules.name.clone()),
        api_version,
        kind,
        seen,
        problems: problems.iter().map(Problem::to_string).collect(),
    }
}

/// What Sluice sees of the pod in `document`, which would be admitted by itself.
pub fn pod(document: &Document, queue_labels: &QueueLabels) -> ObjectReport {
    let mut problems = Vec::new();
    let queue = queue(&document.value, queue_labels).unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    let gates = gates(&document.value).unwrap_or_else(|found| {
        problems.extend(found);
        ObjectGates {
            state: GatesState::Invalid,
            names: Vec::new(),
        }
    });
    let seen = SeenObject {
        queue,
        gates,
        hold: HoldReport::Pods,
        suspended: None,
        held_mark: None,
        active: None,
        finished: None,
        succeeded: None,
        message: String::new(),
        total_count: 1,
        total_requests: Quantities::default(),
        pods_of: Vec::new(),
        resource_claim_templates: Vec::new(),
        pod_sets: None,
    };
    ObjectReport {
        seen: Some(seen),
        problems: problems.iter().map(Problem::to_string).collect(),
        ..object(document, &[], queue_labels)
    }
}

/// What reads `object`, of all `rules`.
///
/// # Errors
/// Nothing does: the rules that are for its kind, if there are any, and why.
pub fn reader<'a>(
    object: &Value,
    rules: &'a [Rules],
) -> Result<(&'a Rules, &'a CompiledKind), (Option<&'a Rules>, Problem)> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    let api_version = text("apiVersion").unwrap_or_default();
    let kind = text("kind").unwrap_or_default();
    let (group, _) = group_version(api_version);
    match rules.iter().find(|rules| rules.reads(group, kind)) {
        Some(found) => readable(found, api_version).map_err(|problem| (Some(found), problem)),
        None => Err((None, nobody_reads(kind, rules))),
    }
}

/// What reads objects of `api_version` by the `rules`.
fn readable<'a>(
    rules: &'a Rules,
    api_version: &str,
) -> Result<(&'a Rules, &'a CompiledKind), Problem> {
    let Some(kind) = &rules.compiled else {
        let detail = format!(
            "JobKind {:?}, which reads this kind, does not compile",
            rules.name
        );
        return Err(Problem::forbidden("kind", detail));
    };
    let (_, version) = group_version(api_version);
    if version != kind.version {
        // What lies where in another version is known to the API server, which converts it.
        let detail = format!(
            "JobKind {:?} reads version {:?}, and only a cluster can convert objects to it",
            rules.name, kind.version
        );
        return Err(Problem::invalid("apiVersion", api_version, detail));
    }
    Ok((rules, kind))
}

/// The problem of an object that none of the `rules` is for.
fn nobody_reads(kind: &str, rules: &[Rules]) -> Problem {
    let read: Vec<_> = rules
        .iter()
        .map(|rules| rules::name_of_kind(&rules.group, &rules.kind))
        .collect();
    Problem::invalid(
        "kind",
        kind,
        format!(
            "no JobKind reads this kind: there are JobKinds for {}",
            read.join(", ")
        ),
    )
}

/// What Sluice sees of `object`, with what is wrong added to `problems`.
fn see(
    object: &Value,
    rules: &Rules,
    kind: &CompiledKind,
    queue_labels: &QueueLabels,
    problems: &mut Vec<Problem>,
) -> SeenObject {
    let mut tell = |problem: Problem| problems.push(problem);
    let queue = queue(object, queue_labels).unwrap_or_else(|problem| {
        tell(problem);
        None
    });
    let gates = gates(object).unwrap_or_else(|found| {
        found.into_iter().for_each(&mut tell);
        ObjectGates {
            state: GatesState::Invalid,
            names: Vec::new(),
        }
    });
    let hold = hold(object, kind).unwrap_or_else(|(hold, problem)| {
        tell(problem);
        hold
    });
    if queue.is_some() && hold != Hold::EachPod {
        kind.check_whole(object).into_iter().for_each(&mut tell);
    }
    kind.refusals(object, hold).into_iter().for_each(&mut tell);
    let suspended = kind.suspended(object).map_err(&mut tell).ok();
    let active = kind.active(object).map_err(&mut tell).ok();
    let finished = kind.finished(object).map_err(&mut tell).ok();
    let mut views = kind
        .pod_sets(object, &PodDefaults::default())
        .map_err(|found| found.into_iter().for_each(&mut tell))
        .ok()
        .map(|views| match hold {
            Hold::Suspend => views,
            Hold::Pods | Hold::EachPod => views.into_iter().map(PodSetView::as_a_whole).collect(),
        });
    if let Some(views) = &mut views {
        count_no_devices(views);
    }
    let sets = views.as_deref().unwrap_or_default();
    let mut claims: Vec<String> = (sets.iter())
        .flat_map(PodSetView::claimed_templates)
        .collect();
    claims.sort_unstable();
    claims.dedup();
    let problems = uncounted(sets).into_iter().chain(bad_min_counts(sets));
    problems.for_each(&mut tell);
    let totals = views.as_deref().map(|views| {
        totals(views).unwrap_or_else(|problem| {
            tell(problem);
            Amounts::new()
        })
    });
    let ended = finished.as_ref().and_then(Option::as_ref);
    SeenObject {
        queue,
        gates,
        hold: hold.into(),
        suspended,
        held_mark: HeldMark::of_object(object),
        active,
        finished: finished.as_ref().map(Option::is_some),
        succeeded: ended.map(|end| end.succeeded),
        message: ended.map(|end| end.message.clone()).unwrap_or_default(),
        total_count: views
            .iter()
            .flatten()
            .map(|view| u64::from(view.count))
            .sum(),
        total_requests: shown(&totals.unwrap_or_default()),
        pods_of: rules.pods_of(),
        resource_claim_templates: claims,
        pod_sets: views.map(|views| views.iter().map(PodSetReport::from).collect()),
    }
}

/// Counts claims that are made from templates as nothing: which resource their devices count as, the configuration of the
/// controller says. Any other claim can't be counted by it either.
pub fn count_no_devices(views: &mut [PodSetView]) {
    let nothing: TemplateDevices = Ok(Amounts::new());
    for view in views {
        view.count_devices(|_| Some(&nothing));
    }
}

/// The LocalQueue that the object names.
fn queue(object: &Value, queue_labels: &QueueLabels) -> Result<Option<String>, Problem> {
    match queue_labels.read(&labels(object, queue_labels.keys())) {
        LabelledQueue::None => Ok(None),
        LabelledQueue::Named(name) => Ok(Some(name)),
        LabelledQueue::Invalid(problem) => Err(problem),
    }
}

/// The gates of the object, if its annotations keep to the rules.
fn gates(object: &Value) -> Result<ObjectGates, Vec<Problem>> {
    let state = gates::read(&gates::gate_annotations(object));
    let names = state.names().map(ToString::to_string).collect();
    match state {
        GateState::Invalid(problems) => Err(problems),
        GateState::None => Ok(ObjectGates {
            state: GatesState::None,
            names,
        }),
        GateState::Held(_) => Ok(ObjectGates {
            state: GatesState::Held,
            names,
        }),
    }
}

/// How the object waits, or would; with an annotation that names no mode, as if it were not there.
fn hold(object: &Value, kind: &CompiledKind) -> Result<Hold, (Hold, Problem)> {
    let asked = annotation_text(object, ADMISSION_ANNOTATION);
    // Only an API server gives a UID: without it the object is yet to be created.
    let is_stored = object.pointer("/metadata/uid").is_some();
    let hold = if is_stored {
        kind.hold(object, asked)
    } else {
        kind.hold_at_creation(object, asked)
    };
    match asked.map(admission_mode) {
        None | Some(Ok(_)) => Ok(hold),
        Some(Err(problem)) => Err((hold, problem)),
    }
}

/// What all pods of all sets request.
fn totals(views: &[PodSetView]) -> Result<Amounts, Problem> {
    let mut totals = Amounts::new();
    for view in views {
        for (resource, amount) in &view.requests {
            let total = totals.entry(resource.clone()).or_default();
            *total = amount
                .checked_mul(i128::from(view.count))
                .and_then(|more| total.checked_add(more))
                .ok_or_else(|| {
                    Problem::invalid(
                        format!("pod set {:?}", view.name),
                        resource.clone(),
                        "the sum of the requests is too large to be counted",
                    )
                })?;
        }
    }
    Ok(totals)
}

fn shown(amounts: &Amounts) -> Quantities {
    let text =
        |(name, nanos): (&String, &i128)| (name.clone(), Quantity::of(name, *nanos).to_string());
    amounts.iter().map(text).collect()
}

impl From<&PodSetView> for PodSetReport {
    fn from(view: &PodSetView) -> Self {
        Self {
            name: view.name.to_string(),
            count: view.count,
            min_count: view
                .min_count
                .as_ref()
                .and_then(|count| count.as_ref().ok().copied()),
            requests: shown(&view.requests),
            total_requests: totals(std::slice::from_ref(view))
                .map(|totals| shown(&totals))
                .unwrap_or_default(),
            node_selector: view.placement.node_selector.clone(),
            tolerations: view.placement.tolerations.clone(),
            external_gates: view.has_external_gates,
        }
    }
}

impl From<Hold> for HoldReport {
    fn from(hold: Hold) -> Self {
        match hold {
            Hold::Suspend => Self::Suspend,
            Hold::Pods => Self::Pods,
            Hold::EachPod => Self::EachPod,
        }
    }
}
