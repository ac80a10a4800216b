//! The rules for objects of a managed kind, in the order in which the webhook tells of them: gates,
//! queue label, how the object is admitted, who releases it, how it may change once it runs.
//!
//! What CEL can't do is read requests. That those of an admitted job don't grow is seen to by the
//! API server for batch Job, whose template is immutable while it runs; for other kinds that can be
//! suspended it is left to the controller. Claims for devices can be compared, and RuntimeClasses. Nor are pods counted at
//! creation: a job whose pods can't be counted is held, and an event says why.

use k8s_openapi::api::admissionregistration::v1::Validation;
use sluice_crds::{
    ADMISSION_ANNOTATION, DEACTIVATED_BY_ANNOTATION, EXPIRED_GATES_ANNOTATION,
    GATE_FAILURES_ANNOTATION, JobKindSpec, LIFTED_GATES_ANNOTATION, PodSetRule,
    QUEUE_REQUIRED_GATE, RELEASED_ANNOTATION,
};
use sluice_kinds::hold::ASKS_FOR_EACH_POD;
use sluice_kinds::problem::fill;

use crate::manifests::cel::holding::{self, was_held};
use crate::manifests::cel::marks::{self, BY_SLUICE};
use crate::manifests::cel::metadata::{self, Map, differs};
use crate::manifests::cel::path::Path;
use crate::manifests::cel::suspension::{counts, suspended};
use crate::manifests::cel::syntax::{self, filled, forbidden, not_supported, text, variable, when};
use crate::manifests::cel::{gate_marks, gates, gating, owners, queue, refuse};
use crate::manifests::conditions;
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::policies::hold;
use crate::manifests::policies::policy::Rules;
use crate::manifests::webhook_rules::job_rule;
use crate::rules::jobs::growth::{
    ADVICE, CLAIMS_CHANGED, GROWN, PLACEMENT_CHANGED, RUNTIME_CHANGED,
};
use crate::rules::jobs::validate::ADMISSION_IS_SETTLED;
use crate::rules::pods::check_create::WOULD_RUN;
use crate::rules::queue_label::{self, ADDED, CHANGED, REMOVED};
use crate::rules::unsuspend::{DEACTIVATED, HELD_BY_GATES, HELD_BY_INVALID, QUEUED};

/// The validating policy for this kind, one of `kinds`.
pub(super) fn policy(options: &Options, kind: &HeldKind, kinds: &[HeldKind]) -> Rules<Validation> {
    let mut variables = metadata::variables();
    variables.extend(gates::problems());
    variables.push(gates::held_by());
    variables.extend(gate_marks::lifted());
    variables.extend(queue::variables(options));
    variables.extend(owners::variables(&[kind], kinds));
    variables.extend(owners::author_of(&[kind], kinds));
    variables.push(was_held());
    variables.push(gating::propagated("true"));
    variables.extend(holding::variables(options, &kind.job_kind));
    if let Some(suspend) = &kind.job_kind.suspend {
        variables.extend(suspended(suspend));
        variables.extend(counts(&kind.job_kind));
    }
    let spec = &kind.job_kind;
    let problems = [
        "variables.gateProblems".to_owned(),
        queue::problems(options),
        records(),
        owners::problems(),
        admission(is_settled(spec), &["PerPod", "Whole"]),
        unpropagated(),
        templates(spec),
        unbound(spec),
        marks::group_marks(spec),
        marks::problems(options, spec),
        refuse::problems(&[kind]),
        hold::unheld(options, spec),
        change(spec),
    ];
    variables.push(variable("problems", syntax::all(problems)));
    Rules {
        name: kind.policy_name(),
        requests: vec![job_rule(
            &kind.resource,
            &kind.resource.subresources,
            &["CREATE", "UPDATE"],
        )],
        condition: conditions::jobs::validate_job(options),
        judges_deleted: false,
        variables,
        outcomes: vec![syntax::no_problems()],
    }
}

/// The mark of an object that was released switches its gates off, and what it keeps of its gates says whether it
/// passes one that counts: nobody but Sluice writes these. That it is deactivated may be taken back, and a lifted gate
/// is kept in the request that lifts it. Needs [`gate_marks::lifted`].
///
/// What the controller of its owner writes to a child is copied from the owner, and says nothing unless it names the
/// child itself.
pub(super) fn records() -> String {
    let problem = |condition: String, key: &str| {
        let at = Map::Annotations.field(key);
        when(&condition, &forbidden(&at, BY_SLUICE))
    };
    let set = [
        RELEASED_ANNOTATION,
        DEACTIVATED_BY_ANNOTATION,
        GATE_FAILURES_ANNOTATION,
    ];
    let set = set.map(|key| {
        let differs = differs(Map::Annotations, key);
        problem(
            format!(
                "'{key}' in variables.annotations && {differs} && !variables.isMadeByController"
            ),
            key,
        )
    });
    let kept = [LIFTED_GATES_ANNOTATION, EXPIRED_GATES_ANNOTATION].map(|key| {
        let (new, old) = Map::Annotations.variables();
        let names_itself = format!(
            "[{new}, {old}].exists(a, a[?'{key}'].orValue('').contains(object.metadata.?uid.orValue('?')))"
        );
        let differs = differs(Map::Annotations, key);
        let is_judged = format!("(!variables.isMadeByController || {names_itself})");
        let is_own = match key {
            LIFTED_GATES_ANNOTATION => format!(" && !{}", gate_marks::is_own_record()),
            _ => String::new(),
        };
        problem(format!("{differs} && {is_judged}{is_own}"), key)
    });
    syntax::all(set.into_iter().chain(kept))
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
        &forbidden(&at, &text(ADMISSION_IS_SETTLED)),
    );
    let value = format!("variables.annotations['{ADMISSION_ANNOTATION}']");
    let unknown = when(
        &format!(
            "'{ADMISSION_ANNOTATION}' in variables.annotations && !({value} in {})",
            syntax::texts(known.iter().copied())
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
        let rule = text(&fill(ASKS_FOR_EACH_POD, &[ADMISSION_ANNOTATION]));
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

/// Pods behind gates get no node: the API server takes no pod that has both.
fn unbound(kind: &JobKindSpec) -> String {
    let problem = |index: usize, template: &str| {
        let at = Path::parse(template)
            .below("spec")
            .below("nodeName")
            .field();
        let node = |suffix: &str| {
            format!("variables.pod{suffix}{index}.?spec.?nodeName.orValue('') != ''")
        };
        when(
            &format!("{} && !(variables.wasHeld && {})", node(""), node("Old")),
            &forbidden(&text(&at), &text(WOULD_RUN)),
        )
    };
    let sets = kind.pod_sets.iter().enumerate();
    let problems: Vec<_> = sets
        .map(|(index, set)| problem(index, set.template.as_deref().unwrap_or_default()))
        .collect();
    format!(
        "(!variables.isHeld || variables.hold == 'Suspend' ? [] :\n{})",
        problems.join(" +\n")
    )
}

/// How the object may be edited: who releases it, what it may not do while it is admitted.
fn change(kind: &JobKindSpec) -> String {
    let gated = change_of_gated();
    let Some(suspend) = &kind.suspend else {
        return format!("(!variables.wasGated ? [] :\n{gated})");
    };
    // Where it was born to wait for a queue that it is given later, Sluice put the queue gate there.
    let late = format!(
        "(variables.hold == 'Pods' && variables.wasGated && '{QUEUE_REQUIRED_GATE}' in variables.oldGates ? [] :\n{})",
        queue::change_problems(None, None, Some(queue_label::LATE))
    );
    format!(
        "(request.operation == 'CREATE' ? [] :\n\
         variables.hold == 'Suspend' ? {} :\n\
         (variables.wasGated ? {gated} : []) + {late} +\n\
         (variables.wasSuspended && !variables.isSuspended && !(variables.gatesPods &&\n\
         (variables.queue.size() == 0 || variables.isChild || variables.wasGated && variables.isGated)) ?\n\
         {} : []))",
        change_of_fixed(suspend, kind),
        started_by_hand(suspend)
    )
}

/// Of an object that waits suspended, whose templates are at fixed paths. Where these bring gates of others, its pods would
/// wait for those while they hold its quota.
fn change_of_fixed(suspend: &str, kind: &JobKindSpec) -> String {
    let are_gated = holding::each_set(kind, |set| {
        format!("variables.carried{set}.size() + variables.listed{set}.size() != 0")
    });
    format!(
        "{} +\n\
         (!variables.isSuspended || variables.isChild || !({}) ? [] :\n{})",
        change_of_suspended(suspend, Some(&grown(kind))),
        are_gated.join(" || "),
        queue::change_problems(None, None, Some(queue_label::LATE))
    )
}

/// The queue of an object whose pods wait behind the queue gate.
pub(super) fn change_of_gated() -> String {
    queue::change_problems(
        Some(queue_label::REMOVED_OF_GATED),
        Some(queue_label::CHANGED_OF_GATED),
        None,
    )
}

/// Of an object that waits suspended: who releases it, and which queue it is in. `grown` says how it
/// has grown, where that can be told.
pub(super) fn change_of_suspended(suspend: &str, grown: Option<&str>) -> String {
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
        queue::change_problems(Some(REMOVED), Some(CHANGED), None),
        queue::change_problems(Some(REMOVED), Some(CHANGED), Some(ADDED)),
    )
}

/// Who lets a job go: Sluice does. A user who does it by hand is told what to do instead.
pub(super) fn started_by_hand(suspend: &str) -> String {
    let at = text(&Path::parse(suspend).field());
    let invalid = filled(HELD_BY_INVALID, &["variables.gateFaults[0].at"]);
    let held = filled(HELD_BY_GATES, &["variables.gates.join(', ')"]);
    let by = format!("strings.quote(variables.annotations['{DEACTIVATED_BY_ANNOTATION}'])");
    let deactivated = filled(DEACTIVATED, &[&by]);
    let queue = [
        "strings.quote(variables.queue[0].name)",
        "variables.queue[0].key",
    ];
    let queued = filled(QUEUED, &queue);
    format!(
        "(variables.gateFaults.size() != 0 ? [{}] :\n\
         variables.gates.size() != 0 ? [{}] :\n\
         {} ? [{}] :\n\
         variables.queue.size() != 0 && !variables.isChild ? [{}] : [])",
        forbidden(&at, &invalid),
        forbidden(&at, &held),
        is_deactivated(),
        forbidden(&at, &deactivated),
        forbidden(&at, &queued),
    )
}

/// CEL: whether a gate has deactivated the object. What its owner's controller has copied to a child says nothing.
pub(super) fn is_deactivated() -> String {
    format!("'{DEACTIVATED_BY_ANNOTATION}' in variables.annotations && !variables.isChild")
}

/// Admitted jobs may shrink.
fn grown(kind: &JobKindSpec) -> String {
    let problem = |index: usize, set: &PodSetRule| {
        let name = &set.name;
        let template = Path::parse(set.template.as_deref().unwrap_or_default());
        let (is, was) = (
            format!("variables.counts[{index}]"),
            format!("variables.oldCounts[{index}]"),
        );
        let counts = [format!("string({was})"), format!("string({is})")];
        let grown = filled(
            &format!("{GROWN} {ADVICE}"),
            &counts.each_ref().map(String::as_str),
        );
        let claims = |suffix: &str| {
            format!("variables.pod{suffix}{index}.?spec.?resourceClaims.orValue([])")
        };
        let claimed = text(&format!("{CLAIMS_CHANGED} {ADVICE}"));
        let spec = |suffix: &str, field: &str, none: &str| {
            format!("variables.pod{suffix}{index}.?spec.?{field}.orValue({none})")
        };
        let (selector, tolerations) = ("nodeSelector", "tolerations");
        let terms = "affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms";
        let allows_other_nodes = format!(
            "(!{}.all(k, {}[?k] == {}[?k]) ||\n!{}.all(t, t in {}) ||\n{} != {})",
            spec("Old", selector, "{}"),
            spec("", selector, "{}"),
            spec("Old", selector, "{}"),
            spec("", tolerations, "[]"),
            spec("Old", tolerations, "[]"),
            spec("", terms, "[]"),
            spec("Old", terms, "[]"),
        );
        let placed = text(&format!("{PLACEMENT_CHANGED} {ADVICE}"));
        let at = text(&format!("pod set {name:?}"));
        let runtime = [("runtimeClassName", "''"), ("overhead", "{}")].map(|(field, none)| {
            let at = text(&template.below("spec").below(field).field());
            when(
                &format!("{} != {}", spec("", field, none), spec("Old", field, none)),
                &forbidden(&at, &text(&format!("{RUNTIME_CHANGED} {ADVICE}"))),
            )
        });
        format!(
            "({was} < {is} ? [{}] :\n{} != {} ? [{}] :\n{allows_other_nodes} ? [{}] :\n{})",
            forbidden(&at, &grown),
            claims(""),
            claims("Old"),
            forbidden(&at, &claimed),
            forbidden(&at, &placed),
            syntax::all(runtime)
        )
    };
    let problems: Vec<_> = kind
        .pod_sets
        .iter()
        .enumerate()
        .map(|(index, set)| problem(index, set))
        .collect();
    problems.join(" +\n")
}
