//! The rules for pods that wait by themselves, bare, opted in, in a group or with a gate: what may be
//! on them at creation, and what may change later.
//!
//! What CEL can't do is count: a pod whose requests can't be counted is held, and an event says why.

use k8s_openapi::api::admissionregistration::v1::{Validation, Variable};
use sluice_crds::{
    ADMITTED_ANNOTATION, DEACTIVATED_BY_ANNOTATION, EXPIRED_GATES_ANNOTATION,
    GATE_FAILURES_ANNOTATION, LIFTED_GATES_ANNOTATION, MANAGED_LABEL, POD_GROUP_LABEL,
    POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION,
    POD_SET_ANNOTATION, PROPAGATED_GATES_ANNOTATION, RETRIABLE_IN_GROUP_ANNOTATION,
};
use sluice_kinds::marks::{OF_OWNER, OF_POD, STANDS_FOR_ANNOTATION};
use sluice_kinds::pod::{
    GROUP_MARK_BYTES_MAX, GROUP_MARKS, GROUP_PODS_MAX, GROUP_TOTAL, UNCOUNTED_GROUP, UNNAMED_GROUP,
};
use sluice_kinds::problem::fill;

use crate::manifests::cel::gating::{self, has_queue_gate};
use crate::manifests::cel::marks::BY_SLUICE;
use crate::manifests::cel::metadata::{self, Map, differs};
use crate::manifests::cel::syntax::{
    self, filled, forbidden, invalid, not_supported, required, text, too_long, variable, when,
};
use crate::manifests::cel::{gate_marks, gates, growth, owners, queue};
use crate::manifests::conditions;
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::policies::gate_pods::{self, NAME};
use crate::manifests::policies::policy::Rules;
use crate::manifests::webhook_rules::pod_rule;
use crate::rules::pods::check_create::{WITH_ITS_GROUP, WOULD_RUN};
use crate::rules::pods::update::{
    ANOTHER_OWNER, DEACTIVATED, GROUP_ANNOTATIONS, LATE_QUEUE, QUEUE_CHANGED, QUEUE_GATE_REMOVED,
    QUEUE_OF_OWNER, QUEUE_REMOVED,
};

const IMMUTABLE: &str = "'is immutable'";

/// The validating policy.
pub(super) fn policy(options: &Options, kinds: &[HeldKind]) -> Rules<Validation> {
    let mut variables = metadata::variables();
    variables.extend(gates::problems());
    variables.push(gates::held_by());
    variables.extend(gate_marks::lifted());
    variables.extend(queue::variables(options));
    variables.extend(gate_pods::variables(options, kinds));
    variables.push(gating::propagated("!variables.isOwned"));
    variables.extend(before(options));
    variables.push(variable("groupProblems", group()));
    variables.push(variable("createProblems", create(options)));
    variables.push(variable("updateProblems", update(options)));
    variables.push(variable(
        "problems",
        format!(
            "request.operation == 'CREATE' ? variables.createProblems :\n\
             request.?subResource.orValue('') != 'resize' ? variables.updateProblems :\n\
             !variables.hadUsage ? [] :\n{}",
            growth::problems()
        ),
    ));
    Rules {
        name: NAME.to_owned(),
        requests: vec![
            pod_rule("pods", &["CREATE", "UPDATE"]),
            pod_rule("pods/status", &["UPDATE"]),
            pod_rule("pods/resize", &["UPDATE"]),
        ],
        condition: conditions::pods::validate_pod(options),
        judges_deleted: true,
        variables,
        outcomes: vec![syntax::no_problems()],
    }
}

/// `variables.wasManaged`: whether Sluice looked after the pod. `isLive`: whether it had not ended.
/// `hadQueueGate`: whether it waited in a queue. `wasAlone`: whether it asked to be queued by itself
/// or with its group. `hadUsage`: whether quota was held for it. `wasOwned`: whether it had a
/// controller.
fn before(options: &Options) -> Vec<Variable> {
    let mut variables = gating::variables("oldObject == null ? {} : oldObject", "Old", options);
    variables.extend([
        variable(
            "wasManaged",
            format!("'{MANAGED_LABEL}' in variables.oldLabels"),
        ),
        variable(
            "isLive",
            "!(variables.podOld.?status.?phase.orValue('') in ['Succeeded', 'Failed'])",
        ),
        variable("hadQueueGate", has_queue_gate("Old", options)),
        owners::old_owners(),
        variable(
            "wasOwned",
            format!("oldObject != null && {}", metadata::is_owned("oldObject")),
        ),
        variable(
            "wasAlone",
            format!(
                "variables.optedInOld.size() != 0 || '{POD_GROUP_LABEL}' in variables.oldLabels &&\n\
                 (!variables.isOwned || '{POD_GROUP_TOTAL_ANNOTATION}' in variables.oldAnnotations && '{ADMITTED_ANNOTATION}' in variables.oldAnnotations)"
            ),
        ),
        variable(
            "hadUsage",
            format!(
                "variables.wasManaged && !variables.hadQueueGate && variables.isLive &&\n\
                 (variables.wasAlone || variables.oldQueue.size() != 0 || '{ADMITTED_ANNOTATION}' in variables.oldAnnotations ||\n\
                 '{POD_SET_ANNOTATION}' in variables.oldAnnotations &&\n\
                 !variables.oldAnnotations[?'{PROPAGATED_GATES_ANNOTATION}'].orValue('').split(',').exists(g, g.trim() != ''))"
            ),
        ),
    ]);
    variables
}

/// What may be on a pod at its creation.
fn create(options: &Options) -> String {
    let admitted = when(
        &format!("'{ADMITTED_ANNOTATION}' in variables.annotations"),
        &forbidden(&Map::Annotations.field(ADMITTED_ANNOTATION), BY_SLUICE),
    );
    let too_long = GROUP_MARKS.map(|key| {
        let size = format!("size(bytes(variables.annotations[?'{key}'].orValue('')))");
        when(
            &format!("{GROUP_MARK_BYTES_MAX} < {size}"),
            &too_long(&Map::Annotations.field(key), GROUP_MARK_BYTES_MAX),
        )
    });
    let failures = when(
        &format!("'{GATE_FAILURES_ANNOTATION}' in variables.annotations && !variables.isOwned"),
        &forbidden(&Map::Annotations.field(GATE_FAILURES_ANNOTATION), BY_SLUICE),
    );
    let listed = when(
        "!variables.isOwned && variables.listed.exists(g, !(g in variables.propagated))",
        &forbidden(
            &Map::Annotations.field(PROPAGATED_GATES_ANNOTATION),
            BY_SLUICE,
        ),
    );
    let hides = when(
        &gate_pods::hides(),
        &forbidden(&Map::Labels.field(MANAGED_LABEL), BY_SLUICE),
    );
    let opt_ins: Vec<_> = options.queue_gates.iter().map(|key| is_bool(key)).collect();
    let one_way = when(
        &format!("'{POD_GROUP_LABEL}' in variables.labels && variables.optedIn.size() != 0"),
        &forbidden(
            "'metadata.annotations[' + variables.optedIn[0] + ']'",
            &text(&fill(WITH_ITS_GROUP, &[POD_GROUP_LABEL])),
        ),
    );
    let bound = when(
        "variables.hold != 'None' && object.spec.?nodeName.orValue('') != ''",
        &forbidden("'spec.nodeName'", &text(WOULD_RUN)),
    );
    format!(
        "{admitted} +\n\
         {} +\n\
         {failures} +\n\
         {listed} +\n\
         {hides} +\n\
         {} +\n\
         (variables.isOwned ? [] :\n\
         variables.gateFaults +\n{} +\n\
         variables.groupProblems +\n\
         {one_way}) +\n\
         {bound} +\n\
         {} +\n\
         (!(variables.hold in ['Single', 'Group']) ? [] :\n{})",
        syntax::all(too_long),
        opt_ins.join(" +\n"),
        gates::unpropagated(),
        gate_pods::unheld(options),
        queue::problems(options)
    )
}

/// An annotation that is true or false.
fn is_bool(key: &str) -> String {
    let value = format!("variables.annotations[{}]", text(key));
    when(
        &format!(
            "!(variables.annotations[?{}].orValue('true') in ['true', 'false'])",
            text(key)
        ),
        &not_supported(&Map::Annotations.field(key), &value, &["false", "true"]),
    )
}

/// What a pod says of its group.
fn group() -> String {
    let (label, total) = (
        format!("'{POD_GROUP_LABEL}' in variables.labels"),
        format!("'{POD_GROUP_TOTAL_ANNOTATION}' in variables.annotations"),
    );
    let (name, count) = (
        format!("variables.labels['{POD_GROUP_LABEL}']"),
        format!("variables.annotations['{POD_GROUP_TOTAL_ANNOTATION}']"),
    );
    let (at_name, at_count) = (
        Map::Labels.field(POD_GROUP_LABEL),
        Map::Annotations.field(POD_GROUP_TOTAL_ANNOTATION),
    );
    let counted = fill(UNNAMED_GROUP, &[POD_GROUP_TOTAL_ANNOTATION]);
    [
        is_bool(RETRIABLE_IN_GROUP_ANNOTATION),
        when(
            &format!("{total} && !({label})"),
            &required(&at_name, &text(&counted)),
        ),
        when(
            &format!("{label} && !{}", gates::is_subdomain(&name)),
            &invalid(&at_name, &name, gates::BAD_SUBDOMAIN),
        ),
        when(
            &format!("{label} && !({total})"),
            &required(&at_count, &text(UNCOUNTED_GROUP)),
        ),
        when(
            &format!("{label} && {total} && !{count}.matches('^[+]?0*([1-9][0-9]{{0,2}}|1000)$')"),
            &invalid(
                &at_count,
                &count,
                &text(&fill(GROUP_TOTAL, &[&GROUP_PODS_MAX.to_string()])),
            ),
        ),
    ]
    .join(" +\n")
}

/// What may change on a pod that Sluice looks after.
fn update(options: &Options) -> String {
    let annotations = [
        (ADMITTED_ANNOTATION, BY_SLUICE),
        (PROPAGATED_GATES_ANNOTATION, BY_SLUICE),
        (POD_SET_ANNOTATION, BY_SLUICE),
        (LIFTED_GATES_ANNOTATION, BY_SLUICE),
        (EXPIRED_GATES_ANNOTATION, BY_SLUICE),
        (GATE_FAILURES_ANNOTATION, BY_SLUICE),
    ];
    let opt_ins = options
        .queue_gates
        .iter()
        .map(|key| (key.as_str(), IMMUTABLE));
    let annotations: Vec<_> = annotations
        .into_iter()
        .chain(opt_ins)
        .chain(GROUP_ANNOTATIONS.map(|key| (key, IMMUTABLE)))
        .map(|(key, rule)| {
            let kept = kept(Map::Annotations, key, rule);
            match key {
                LIFTED_GATES_ANNOTATION => {
                    format!("({} ? [] : {kept})", gate_marks::is_own_record())
                }
                _ => kept,
            }
        })
        .collect();
    // What is wrong with the rest of it was so before: it can't change.
    let retriable = format!(
        "(variables.isOwned && !variables.wasAlone || !({}) ? [] : {})",
        differs(Map::Annotations, RETRIABLE_IN_GROUP_ANNOTATION),
        is_bool(RETRIABLE_IN_GROUP_ANNOTATION)
    );
    // It may run in a queue: then it would be counted as this record says.
    let forged = when(
        &format!(
            "'{ADMITTED_ANNOTATION}' in variables.annotations && {}",
            differs(Map::Annotations, ADMITTED_ANNOTATION)
        ),
        &forbidden(&Map::Annotations.field(ADMITTED_ANNOTATION), BY_SLUICE),
    );
    format!(
        "{} +\n\
         (!variables.wasManaged ? {forged} :\n\
         {} +\n\
         {} +\n\
         {} +\n\
         {} +\n\
         {retriable} +\n\
         {} +\n\
         {} +\n\
         {} +\n\
         {}) +\n\
         (variables.isOwned ? [] : variables.gateProblems) +\n\
         (variables.wasManaged || variables.isOwned || !variables.isLive ? [] :\n{}) +\n\
         {}",
        kept(Map::Labels, MANAGED_LABEL, BY_SLUICE),
        annotations.join(" +\n"),
        kept(Map::Labels, POD_GROUP_LABEL, IMMUTABLE),
        kept_with_controller(),
        kept_owner(),
        opened(options),
        lifted(),
        queue::problems(options),
        requeued(),
        queue::change_problems(None, None, Some(LATE_QUEUE)),
        queue_of_owned(),
    )
}

/// A label or annotation that stays as it is.
fn kept(map: Map, key: &str, rule: &str) -> String {
    when(&differs(map, key), &forbidden(&map.field(key), rule))
}

/// The labels, and the annotation, that tell the group that the controller made the pod for.
fn kept_with_controller() -> String {
    let old = |key: &str| format!("variables.oldAnnotations[?'{key}'].orValue('')");
    let labels = old(POD_GROUP_LABELS_ANNOTATION);
    let total = format!("[{}]", old(POD_GROUP_TOTAL_FROM_ANNOTATION));
    let changed = |keys: &str, map: Map| {
        let (now, before) = map.variables();
        let field = map.name();
        format!(
            "{keys}.filter(k, k != '' && {now}[?k] != {before}[?k]).map(k,\n{})",
            forbidden(&format!("'metadata.{field}[' + k + ']'"), IMMUTABLE)
        )
    };
    let (now, before) = Map::Labels.variables();
    let any = when(
        &format!("{now} != {before}"),
        &forbidden("'metadata.labels'", IMMUTABLE),
    );
    // More labels than that would cost more than the API server spends.
    format!(
        "({GROUP_MARK_BYTES_MAX} < size({labels}) ? {any} :\n{}) +\n{}",
        changed(&format!("{labels}.split(',')"), Map::Labels),
        changed(&total, Map::Annotations)
    )
}

/// Only a controller has a pod belong to another object.
fn kept_owner() -> String {
    when(
        "variables.isOwned && !variables.isController && variables.owners.map(o, o.uid) != variables.oldOwners.map(o, o.uid)",
        &forbidden("'metadata.ownerReferences'", &text(ANOTHER_OWNER)),
    )
}

/// A pod that runs without Sluice's gate has usage in the queue that it names.
fn queue_of_owned() -> String {
    format!(
        "(!variables.isOwned || variables.isController || variables.wasAlone || !variables.isLive || variables.hadQueueGate ? [] :\n{})",
        queue::change_problems(
            Some(QUEUE_OF_OWNER),
            Some(QUEUE_OF_OWNER),
            Some(QUEUE_OF_OWNER)
        ),
    )
}

/// The queue gate is Sluice's to remove.
fn opened(options: &Options) -> String {
    let removed = format!(
        "variables.carriedOld.filter(g, g in {} && !(g in variables.carried))",
        gating::queue_gates(options)
    );
    let queue = "(variables.oldQueue.size() == 0 ? 'its queue' : 'LocalQueue ' + strings.quote(variables.oldQueue[0].name))";
    let rule = filled(QUEUE_GATE_REMOVED, &["strings.quote(g)", queue]);
    format!(
        "{removed}.slice(0, {removed}.size() == 0 ? 0 : 1).map(g,\n{})",
        forbidden("'spec.schedulingGates'", &rule)
    )
}

/// The gates that stand for gate annotations go when those do, and Sluice takes them off. Those of a pod that has lost
/// its controller stay.
fn lifted() -> String {
    // A pod that has lost its controller has more gates than were its own: these came down.
    let came_down = format!(
        "(variables.isOwned || variables.wasOwned || !(g in variables.oldGates || {}))",
        gate_marks::was_lifted("g", "variables.oldAnnotations")
    );
    let is_deactivated = format!("'{DEACTIVATED_BY_ANNOTATION}' in variables.annotations");
    let removed = format!(
        "variables.carriedOld.filter(g, g in variables.listedOld && !(g in variables.carried) &&\n\
         ({came_down} || g in variables.propagated || {is_deactivated}))"
    );
    let holder = format!("({came_down} ? {} : {})", text(OF_OWNER), text(OF_POD));
    let stands = filled(STANDS_FOR_ANNOTATION, &["strings.quote(g)", &holder]);
    let stays = filled(DEACTIVATED, &["strings.quote(g)"]);
    let rule = format!("({came_down} || g in variables.propagated ?\n{stands} :\n{stays})");
    format!(
        "{removed}.slice(0, {removed}.size() == 0 ? 0 : 1).map(g,\n{})",
        forbidden("'spec.schedulingGates'", &rule)
    )
}

/// The queue label of a pod that is queued by itself or with its group: free while it waits, fixed
/// while its quota is taken from there.
fn requeued() -> String {
    format!(
        "(variables.wasAlone && variables.hadUsage ? {} :\n\
         !variables.wasAlone && !variables.isOwned && variables.isLive && !variables.hadQueueGate ? {} : [])",
        queue::change_problems(
            Some(QUEUE_REMOVED),
            Some(QUEUE_CHANGED),
            Some(QUEUE_CHANGED)
        ),
        queue::change_problems(Some(LATE_QUEUE), Some(LATE_QUEUE), Some(LATE_QUEUE)),
    )
}
