//! The rules for objects of a managed kind, in the order in which the webhook tells of them: gates,
//! queue label, how the object is admitted, who releases it, how it may change once it runs.
//!
//! What CEL can't do is read requests. That those of an admitted job don't change is seen to by the
//! API server for batch Job, whose template is immutable while it runs; for other kinds that can be
//! suspended it is left to the controller. Claims for devices can be compared. Nor are pods counted at
//! creation: a job whose pods can't be counted is held, and an event says why.

use k8s_openapi::api::admissionregistration::v1::{Validation, Variable};
use sluice_crds::{ADMISSION_ANNOTATION, JobKindSpec, RELEASED_ANNOTATION};

use super::super::job_rule;
use super::cel::{forbidden, not_supported, text, variable, when};
use super::marks::BY_SLUICE;
use super::metadata::{Map, differs};
use super::path::Path;
use super::{
    HeldKind, Options, Rules, cel, conditions, gates, gating, hold, marks, metadata, owners, queue,
    refuse,
};

/// What every refusal to grow ends with.
const ADVICE: &str = "while the job is admitted; suspend the job in the same update, and it is queued with the new value";

/// The validating policy for this kind, one of `kinds`.
pub(super) fn policy(options: &Options, kind: &HeldKind, kinds: &[HeldKind]) -> Rules<Validation> {
    let mut variables = metadata::variables();
    variables.extend(gates::problems());
    variables.push(gates::held_by());
    variables.extend(queue::variables(options));
    variables.extend(owners::variables(&[kind], kinds));
    variables.extend(owners::author_of(&[kind], kinds));
    variables.push(was_held());
    variables.push(gating::propagated("true"));
    variables.extend(hold::variables(options, &kind.job_kind));
    if let Some(suspend) = &kind.job_kind.suspend {
        variables.extend(suspended(suspend));
        variables.extend(counts(&kind.job_kind));
    }
    let spec = &kind.job_kind;
    let problems = [
        "variables.gateProblems".to_owned(),
        queue::problems(options),
        released(),
        owners::problems(),
        admission(is_settled(spec), &["PerPod", "Whole"]),
        unpropagated(),
        templates(spec),
        marks::problems(options, spec),
        refuse::problems(&[kind]),
        change(spec),
    ];
    variables.push(variable("problems", cel::all(problems)));
    Rules {
        name: hold::name(kind),
        requests: vec![job_rule(
            &kind.resource,
            &kind.resource.subresources,
            &["CREATE", "UPDATE"],
        )],
        condition: conditions::validate_job(options),
        judges_deleted: false,
        variables,
        outcomes: vec![cel::no_problems()],
    }
}

/// `variables.wasHeld`: whether the object had a reason to be held. Needs [`owners::variables`].
pub(super) fn was_held() -> Variable {
    variable(
        "wasHeld",
        format!(
            "oldObject != null && ({}.size() != 0 || variables.oldQueue.size() != 0 && !variables.wasChild)",
            metadata::gate_keys("variables.oldAnnotations"),
        ),
    )
}

/// The mark of an object that was released switches its gates off: nobody but Sluice sets it.
pub(super) fn released() -> String {
    when(
        &format!(
            "'{RELEASED_ANNOTATION}' in variables.annotations && {}",
            differs(Map::Annotations, RELEASED_ANNOTATION)
        ),
        &forbidden(&Map::Annotations.field(RELEASED_ANNOTATION), BY_SLUICE),
    )
}

/// CEL: whether it is settled how the object is admitted.
fn is_settled(kind: &JobKindSpec) -> &'static str {
    match kind.suspend {
        Some(_) => "oldObject != null",
        None => "variables.wasHeld",
    }
}

/// How the object is admitted: in one of the known ways, until it is settled.
pub(super) fn admission(is_settled: &str, known: &[&str]) -> String {
    let at = Map::Annotations.field(ADMISSION_ANNOTATION);
    let settled = when(
        &differs(Map::Annotations, ADMISSION_ANNOTATION),
        &forbidden(
            &at,
            &text("may only be set at creation: it determines how the object is held"),
        ),
    );
    let value = format!("variables.annotations['{ADMISSION_ANNOTATION}']");
    let unknown = when(
        &format!(
            "'{ADMISSION_ANNOTATION}' in variables.annotations && !({value} in {})",
            cel::texts(known.iter().copied())
        ),
        &not_supported(&at, &value, known),
    );
    format!("({is_settled} ? {settled} : {unknown})")
}

/// A gate whose name a pod can't carry is propagated by a hash of it, which CEL can't make.
fn unpropagated() -> String {
    format!(
        "(request.operation == 'CREATE' && variables.hold != 'Suspend' ? {} : [])",
        gates::unpropagated()
    )
}

/// The pods of an object that is queued as a whole may not ask to be queued by themselves.
fn templates(kind: &JobKindSpec) -> String {
    let problem = |index: usize, template: &str| {
        let at = text(&format!(
            "{}.metadata.annotations[",
            Path::parse(template).field()
        ));
        let rule = text(&format!(
            "requires that each pod is admitted by itself, but this object is admitted as a whole; to change that, create the object with the annotation {ADMISSION_ANNOTATION}: \"PerPod\""
        ));
        let (now, before) = (
            format!("variables.optedIn{index}"),
            format!("variables.optedInOld{index}"),
        );
        when(
            &format!("{now}.size() != 0 && !({before}.size() != 0 && {before}[0] == {now}[0])"),
            &forbidden(&format!("{at} + {now}[0] + ']'"), &rule),
        )
    };
    let problems: Vec<_> = kind
        .pod_sets
        .iter()
        .enumerate()
        .map(|(index, set)| problem(index, set.template.as_deref().unwrap_or_default()))
        .collect();
    format!(
        "(variables.queue.size() == 0 || variables.isChild || variables.hold == 'EachPod' ? [] :\n{})",
        problems.join(" +\n")
    )
}

/// How the object may be edited: who releases it, what it may not do while it is admitted.
fn change(kind: &JobKindSpec) -> String {
    let gated = change_of_gated();
    let Some(suspend) = &kind.suspend else {
        return format!("(!variables.wasGated ? [] :\n{gated})");
    };
    let late = queue::change_problems(
        None,
        None,
        Some(
            "may only be set at creation, when the pod templates of this object get scheduling gates; delete the object and create it again with the label",
        ),
    );
    format!(
        "(request.operation == 'CREATE' ? [] :\n\
         variables.hold == 'Suspend' ? {} :\n\
         (variables.wasGated ? {gated} : []) + {late} +\n\
         (variables.wasSuspended && !variables.isSuspended && !(variables.gatesPods &&\n\
         (variables.queue.size() == 0 || variables.isChild || variables.wasGated && variables.isGated)) ?\n\
         {} : []))",
        change_of_suspended(suspend, Some(&grown(kind))),
        started_by_hand(suspend)
    )
}

/// The queue of an object whose pods wait behind the queue gate.
pub(super) fn change_of_gated() -> String {
    queue::change_problems(
        Some(
            "may not be removed while the pods have the queue gate; delete the object and create it again without the label",
        ),
        Some(
            "is immutable while the pods have the queue gate; delete the object and create it again in the other queue",
        ),
        None,
    )
}

/// Of an object that waits suspended: who releases it, and which queue it is in. `grown` says how it
/// has grown, where that can be told.
pub(super) fn change_of_suspended(suspend: &str, grown: Option<&str>) -> String {
    let removed = "may not be removed while the job is admitted; delete the job and create it again \
                   without the label";
    let changed = "is immutable while the job is admitted; delete the job and create it again in the \
                   other queue";
    let added = "may not be added while the job runs; suspend the job in the same update, and it is \
                 queued";
    let grown = grown.map(|grown| {
        format!(" +\n(variables.oldQueue.size() == 0 || variables.isChild ? [] :\n{grown})")
    });
    let grown = grown.unwrap_or_default();
    format!(
        "(variables.wasSuspended && variables.isSuspended ? [] :\n\
         variables.wasSuspended ? {} :\n\
         variables.isSuspended ? {} :\n\
         {}{grown})",
        started_by_hand(suspend),
        queue::change_problems(Some(removed), Some(changed), None),
        queue::change_problems(Some(removed), Some(changed), Some(added)),
    )
}

/// `variables.wasSuspended` and `isSuspended`.
pub(super) fn suspended(path: &str) -> [Variable; 2] {
    let path = Path::parse(path);
    let of = |object: &str| hold::is_suspended(&path, object);
    [
        variable(
            "wasSuspended",
            format!("oldObject != null && {}", of("oldObject")),
        ),
        variable("isSuspended", of("object")),
    ]
}

/// `variables.counts` and `oldCounts`: how many pods each pod set has.
pub(super) fn counts(kind: &JobKindSpec) -> [Variable; 2] {
    let of = |object: &str| {
        let counts: Vec<_> = kind
            .pod_sets
            .iter()
            .map(|set| set.count.as_deref().map_or("1", str::trim))
            .map(|count| format!("int({count})"))
            .collect();
        // A variable of a comprehension hides the one that the kind's expressions name.
        format!("[{object}].map(object, [{}])[0]", counts.join(",\n"))
    };
    [
        variable("counts", of("object")),
        variable("oldCounts", of("oldObject")),
    ]
}

/// Who lets a job go: Sluice does. A user who does it by hand is told what to do instead.
pub(super) fn started_by_hand(suspend: &str) -> String {
    let at = text(&Path::parse(suspend).field());
    let invalid = "'the job is held by an invalid value of ' + variables.gateFaults[0].at + '; remove the annotation'";
    let held = "'the job is held by ' + variables.gates.join(', ') +\n\
                '; it is queued, or started if it has no queue, once the last gate is removed from its annotations'";
    let queued = "'the job starts once LocalQueue ' + strings.quote(variables.queue[0].name) +\n\
                  ' admits it; to run it without Sluice, remove the label ' + variables.queue[0].key +\n\
                  ' in the same update'";
    format!(
        "(variables.gateFaults.size() != 0 ? [{}] :\n\
         variables.gates.size() != 0 ? [{}] :\n\
         variables.queue.size() != 0 && !variables.isChild ? [{}] : [])",
        forbidden(&at, invalid),
        forbidden(&at, held),
        forbidden(&at, queued),
    )
}

/// CEL: whether any pod set has grown. Needs `variables.counts` and `oldCounts`.
pub(super) fn has_grown(kind: &JobKindSpec) -> String {
    let sets = 0..kind.pod_sets.len();
    let grown = sets.map(|set| format!("variables.oldCounts[{set}] < variables.counts[{set}]"));
    format!("({})", grown.collect::<Vec<_>>().join(" || "))
}

/// Admitted jobs may shrink.
fn grown(kind: &JobKindSpec) -> String {
    let problem = |index: usize, name: &str| {
        let (is, was) = (
            format!("variables.counts[{index}]"),
            format!("variables.oldCounts[{index}]"),
        );
        let grown = format!(
            "'may not grow from ' + string({was}) + ' to ' + string({is}) + {}",
            text(&format!(" pods {ADVICE}"))
        );
        let claims = |suffix: &str| {
            format!("variables.pod{suffix}{index}.?spec.?resourceClaims.orValue([])")
        };
        let claimed = text(&format!(
            "the resourceClaims of its pods may not change {ADVICE}"
        ));
        let at = text(&format!("pod set {name:?}"));
        format!(
            "({was} < {is} ? [{}] :\n{} != {} ? [{}] : [])",
            forbidden(&at, &grown),
            claims(""),
            claims("Old"),
            forbidden(&at, &claimed)
        )
    };
    let problems: Vec<_> = kind
        .pod_sets
        .iter()
        .enumerate()
        .map(|(index, set)| problem(index, &set.name))
        .collect();
    problems.join(" +\n")
}
