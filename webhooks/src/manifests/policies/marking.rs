//! Both policies for a kind that says nothing of its pods but their metadata: what has them queued by
//! themselves is written there, and the policies for pods do the rest. Gates hold such an object by
//! its suspend field; one that has none can't be held by gates.

use k8s_openapi::api::admissionregistration::v1::{Mutation, Validation, Variable};
use sluice_crds::{HELD_ANNOTATION, JobKindSpec, MANAGED_LABEL, PodSetRule, QUEUE_GATE};

use sluice_kinds::HeldMark;

use crate::manifests::cel::holding::{self, each_set};
use crate::manifests::cel::path::Path;
use crate::manifests::cel::syntax::{self, forbidden, text, variable, when};
use crate::manifests::cel::{
    gate_marks, gates, gating, marks, metadata, owners, queue, refuse, suspension,
};
use crate::manifests::conditions;
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::policies::hold::{self, IS_QUEUED};
use crate::manifests::policies::jobs;
use crate::manifests::policies::policy::{Rules, json_patch};
use crate::manifests::webhook_rules::job_rule;
use crate::rules::queue_label;

/// The mutating policy for this kind, one of `kinds`.
pub(super) fn mutating(options: &Options, kind: &HeldKind, kinds: &[HeldKind]) -> Rules<Mutation> {
    let mut variables = read(options, kind, kinds);
    variables.push(holding::is_held());
    let spec = &kind.job_kind;
    let by_suspend = spec.suspend.as_deref().map(suspend);
    let sets = spec.pod_sets.iter().enumerate();
    let marks = sets.map(|(index, set)| mark(options, set, &index.to_string()));
    let outcomes = by_suspend.into_iter().chain(marks);
    Rules {
        name: kind.policy_name(),
        requests: vec![job_rule(&kind.resource, &[], hold::operations(spec))],
        condition: conditions::jobs::hold_job(options),
        judges_deleted: false,
        variables,
        outcomes: outcomes.map(json_patch).collect(),
    }
}

/// The validating policy for this kind, one of `kinds`.
pub(super) fn validating(
    options: &Options,
    kind: &HeldKind,
    kinds: &[HeldKind],
) -> Rules<Validation> {
    let spec = &kind.job_kind;
    let mut variables = read(options, kind, kinds);
    variables.extend(gates::problems());
    variables.extend(gate_marks::lifted());
    variables.extend(owners::author_of(&[kind], kinds));
    let was_marked = each_set(spec, |set| format!("variables.optedInOld{set}.size() != 0"));
    variables.push(variable(
        "wasMarked",
        format!("oldObject != null && {}", was_marked.join(" && ")),
    ));
    let (is_settled, by_gates) = if let Some(suspend) = &spec.suspend {
        variables.extend(suspension::suspended(suspend));
        ("oldObject != null", started(spec, suspend))
    } else {
        variables.push(holding::was_held());
        ("variables.wasHeld", ungated(&spec.kind))
    };
    variables.push(holding::is_held());
    if !spec.refuse.is_empty() {
        if spec.suspend.is_some() {
            variables.push(holding::was_held());
        }
        variables.push(variable("hold", "'EachPod'"));
    }
    let problems = [
        "variables.gateProblems".to_owned(),
        queue::problems(options),
        jobs::records(),
        owners::problems(),
        jobs::admission(is_settled, &["PerPod"]),
        by_gates,
        marks::group_marks(spec),
        marks::of_metadata(spec, IS_QUEUED),
        refuse::problems(&[kind]),
        unheld(options, spec),
        format!("(!variables.wasMarked ? [] :\n{})", jobs::change_of_gated()),
        late(spec),
    ];
    variables.push(variable("problems", syntax::all(problems)));
    let resource = &kind.resource;
    Rules {
        name: kind.policy_name(),
        requests: vec![job_rule(
            resource,
            &resource.subresources,
            &["CREATE", "UPDATE"],
        )],
        condition: conditions::jobs::validate_job(options),
        judges_deleted: false,
        variables,
        outcomes: vec![syntax::no_problems()],
    }
}

/// What both read of an object.
fn read(options: &Options, kind: &HeldKind, kinds: &[HeldKind]) -> Vec<Variable> {
    let mut variables = metadata::variables();
    variables.push(gates::held_by());
    variables.extend(queue::variables(options));
    variables.extend(owners::variables(&[kind], kinds));
    for (index, set) in kind.job_kind.pod_sets.iter().enumerate() {
        let path = path(set);
        let pod = |object: &str| format!("{{'metadata': {}}}", path.or(object, "{}"));
        let before = format!(
            "oldObject == null ? {{'metadata': dyn({{}})}} : {}",
            pod("oldObject")
        );
        variables.extend(gating::variables(
            &pod("object"),
            &index.to_string(),
            options,
        ));
        variables.extend(gating::variables(&before, &format!("Old{index}"), options));
    }
    variables
}

/// Suspends an object that has gates, and marks it as suspended by Sluice: its pods are queued by
/// themselves, so it is the gates that suspend it, and the controller starts it when they are gone.
fn suspend(path: &str) -> String {
    let path = Path::parse(path);
    let mut operations: Vec<_> = path.parent().prefixes().map(|at| make(&at)).collect();
    operations.push(add("true", &path, "true"));
    // An object with gates has annotations.
    let mark = Path::parse(".metadata.annotations").below(HELD_ANNOTATION);
    operations.push(add("true", &mark, &text(HeldMark::Held.value())));
    format!(
        "variables.gateKeys.size() == 0 || {} ? [] :\n{}",
        suspension::is_suspended(&path, "object"),
        operations.join(" +\n")
    )
}

/// CEL, a list: who starts an object. Its user may, as long as its pods are queued by themselves, before and after.
fn started(kind: &JobKindSpec, suspend: &str) -> String {
    let do_wait = each_set(kind, |set| {
        format!("variables.optedInOld{set}.size() != 0 && variables.optedIn{set}.size() != 0")
    });
    format!(
        "(variables.wasSuspended && !variables.isSuspended && (variables.gateKeys.size() != 0 || {} ||\n\
         {IS_QUEUED} && !({})) ?\n\
         {} : [])",
        jobs::is_deactivated(),
        do_wait.join(" && "),
        jobs::started_by_hand(suspend)
    )
}

/// CEL, a list: whether an object joins a queue too late. What its pods are made from is written at its creation; where it
/// can't be suspended, at each edit.
fn late(kind: &JobKindSpec) -> String {
    if kind.suspend.is_none() {
        return "[]".to_owned();
    }
    let late = queue::change_problems(None, None, Some(queue_label::LATE));
    format!("(oldObject == null ? [] :\n{late})")
}

/// Has the pods of a set queued by themselves.
fn mark(options: &Options, set: &PodSetRule, suffix: &str) -> String {
    let path = path(set);
    let (labels, annotations) = (path.below("labels"), path.below("annotations"));
    let mut operations: Vec<_> = labels.prefixes().map(|at| make(&at)).collect();
    operations.push(make(&annotations));
    operations.push(add("true", &labels.below(MANAGED_LABEL), "'true'"));
    let taken = hold::labels(options, IS_QUEUED, suffix);
    operations.extend(
        taken
            .iter()
            .map(|(key, condition, value)| add(condition, &labels.below(key), value)),
    );
    // By Sluice's own name, if the pods don't ask for another.
    let is_own = format!("{IS_QUEUED} && variables.optedIn{suffix}.all(g, g == '{QUEUE_GATE}')");
    operations.push(add(&is_own, &annotations.below(QUEUE_GATE), "'true'"));
    format!("!variables.isHeld ? [] :\n{}", operations.join(" +\n"))
}

/// CEL, a list: what is wrong with an object of this kind that is to be held, and that nothing holds. Needs
/// `variables.isSuspended` where it can be suspended.
fn unheld(options: &Options, kind: &JobKindSpec) -> String {
    let keys = queue::keys(options);
    let are_marked = each_set(kind, |set| {
        let labels = format!("variables.pod{set}.?metadata.?labels.orValue({{}})");
        format!(
            "'{MANAGED_LABEL}' in {labels} && (!({IS_QUEUED}) ||\n\
             variables.optedIn{set}.size() != 0 && {keys}.exists(k, k in {labels}))"
        )
    });
    let are_marked = are_marked.join(" &&\n");
    let is_held = match kind.suspend {
        Some(_) => {
            format!("(variables.gateKeys.size() == 0 || variables.isSuspended) && {are_marked}")
        }
        None => are_marked,
    };
    hold::if_unheld(kind.suspend.is_some(), &is_held)
}

/// CEL, a list of operations: `value` comes to `path` under a condition.
fn add(condition: &str, path: &Path, value: &str) -> String {
    let pointer = text(&path.pointer());
    when(
        condition,
        &format!("JSONPatch{{op: 'add', path: {pointer}, value: {value}}}"),
    )
}

/// CEL, a list of operations: there is a map at `path`.
fn make(path: &Path) -> String {
    add(&format!("!{}", path.is_in("object")), path, "{}")
}

/// The gates of an object that can't be suspended, whose pods would have to be born with them.
fn ungated(kind: &str) -> String {
    let at = "'metadata.annotations[' + variables.gateKeys[0] + ']'";
    let rule = format!("without the webhooks of Sluice a {kind} can not be held by gates");
    when(
        "request.operation == 'CREATE' && variables.gateKeys.size() != 0",
        &forbidden(at, &text(&rule)),
    )
}

fn path(set: &PodSetRule) -> Path {
    Path::parse(set.pod_metadata.as_deref().unwrap_or_default())
}
