//! Whether an object needs a queue that it does not name, in CEL, by the label of its namespace, and by as much of the
//! configuration as the policies are generated with. The same rules as in `crate::rules::enforcement`.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::{ENFORCEMENT_LABEL, HELD_BY_LABEL_PREFIX, QUEUE_NAME_LABEL, QUEUE_REQUIRED_GATE};
use sluice_gates::{Exception, ManagedNamespacesSpec};
use sluice_kinds::gates::{ADMISSION_GATED_BY, Gate, VALUE_BYTES_MAX};
use sluice_kinds::{Condition, Problem};

use crate::manifests::cel::syntax::{text, texts, variable};
use crate::rules::enforcement::made::cron_job_controller;

/// What an exception may name: the rest of what a Gate may can't be read or counted in a policy.
const VARIABLES: &[&str] = &["object", "queue", "user", "groups"];

/// `variables.required`: what becomes of the object: `Default`, `Hold`, `Refuse`, or `Ignore` where it stands not at the
/// top (`is_top`), or names a queue.
pub(crate) fn variables(
    is_top: &str,
    names_queue: &str,
    managed: &ManagedNamespacesSpec,
) -> Vec<Variable> {
    // Asked only in namespaces with the label, and in those that the configuration selects.
    let unlabelled = match managed.selector {
        Some(_) => managed.unlabelled.name(),
        None => "Ignore",
    };
    let label =
        format!("namespaceObject.metadata.?labels[?'{ENFORCEMENT_LABEL}'].orValue('{unlabelled}')");
    let is_excepted = exceptions(managed);
    let is_excepted = is_excepted.map_or_else(String::new, |any| format!(" || ({any})"));
    vec![
        variable("enforcement", label),
        variable(
            "required",
            format!(
                "({names_queue}) || !({is_top}) || variables.enforcement in ['DryRun', 'Ignore']{is_excepted} ? 'Ignore' :\n\
                 variables.enforcement in ['Default', 'Refuse'] ? variables.enforcement : 'Hold'"
            ),
        ),
    ]
}

/// CEL: whether an exception covers the object and whoever asks for it. None: there is none.
pub(crate) fn exceptions(managed: &ManagedNamespacesSpec) -> Option<String> {
    let all: Vec<_> = managed.exceptions.iter().map(exception).collect();
    (!all.is_empty()).then(|| all.join(" ||\n"))
}

fn exception(exception: &Exception) -> String {
    let Exception {
        users,
        groups,
        when,
    } = exception;
    let mut all = Vec::new();
    if !users.is_empty() {
        let users = texts(users.iter().map(String::as_str));
        all.push(format!("request.userInfo.username in {users}"));
    }
    if !groups.is_empty() {
        let groups = texts(groups.iter().map(String::as_str));
        all.push(format!(
            "request.userInfo.?groups.orValue([]).exists(g, g in {groups})"
        ));
    }
    if let Some(when) = when {
        // As variables of a comprehension the expression finds its names.
        all.push(format!(
            "[request.userInfo.username].exists(user, [request.userInfo.?groups.orValue([])].exists(groups, [''].exists(queue,\n{when}\n)))"
        ));
    }
    format!("({})", all.join(" && "))
}

/// Whether an exception may cover the Jobs of CronJobs, whose author is known. What `when` says of a Job is asked when it is
/// made.
pub(crate) fn may_cover_cron_jobs(managed: &ManagedNamespacesSpec) -> bool {
    let author = cron_job_controller();
    managed.exceptions.iter().any(|exception| {
        let is_user = exception.users.is_empty() || exception.users.contains(&author.username);
        let mut groups = exception.groups.iter();
        let is_member =
            exception.groups.is_empty() || groups.any(|one| author.groups.contains(one));
        is_user && is_member
    })
}

/// What policies can't do of the exceptions at `field`.
pub fn problems(managed: &ManagedNamespacesSpec, field: &str) -> Vec<Problem> {
    let exceptions = managed.exceptions.iter().enumerate();
    let problem = |(index, exception): (usize, &Exception)| {
        let field = format!("{field}.exceptions[{index}].when");
        let when = exception.when.as_ref()?;
        let wrong = Condition::compile(&field, when, VARIABLES).err()?;
        let rule = format!(
            "policies can't evaluate it, as they know no requests, pods and priority: {}",
            wrong.detail
        );
        Some(Problem::invalid(field, when.clone(), rule))
    };
    exceptions.filter_map(problem).collect()
}

/// `variables.labels` and `annotations`: those of the object with what it gets. `own` are the variables for those that it
/// has. So all that is read of them is read of the object as it will be.
pub(crate) fn given(own_labels: &str, own_annotations: &str, queue: &str) -> Vec<Variable> {
    let with = |own: &str, key: &str, value: &str| {
        let key = text(key);
        format!(
            "({own}.map(k, k).filter(k, k != {key}) + [{key}]).transformMapEntry(i, k, {{k: k == {key} ? {value} : {own}[k]}})"
        )
    };
    let gates = text(ADMISSION_GATED_BY);
    let list = format!(
        "(({own_annotations}[?{gates}].orValue('') == '' ? [] : [{own_annotations}[{gates}]]) + ['{QUEUE_REQUIRED_GATE}']).join(',')"
    );
    vec![
        variable("gateList", list),
        variable(
            "labels",
            format!(
                "variables.required != 'Default' ? {own_labels} :\n{}",
                with(own_labels, QUEUE_NAME_LABEL, &text(queue))
            ),
        ),
        variable(
            "annotations",
            format!(
                "!variables.isGiven ? {own_annotations} :\n{}",
                with(own_annotations, ADMISSION_GATED_BY, "variables.gateList")
            ),
        ),
    ]
}

/// CEL: whether the object of these annotations has the gate. A longer list than any valid one names none, and would cost
/// too much: on a pod with a controller it may be as long as an annotation.
pub(crate) fn has_gate(annotations: &str) -> String {
    format!(
        "[{annotations}[?'{ADMISSION_GATED_BY}'].orValue('')].exists(l, size(l) <= {VALUE_BYTES_MAX} && l.split(',').exists(g, g.trim() == '{QUEUE_REQUIRED_GATE}'))"
    )
}

/// CEL, what is to be: the label, or the gate and the label that tells of it.
pub(crate) fn configuration(queue: &str) -> String {
    let name = Gate::queue_required().object_name().unwrap_or_default();
    format!(
        "variables.required == 'Default' ? Object{{metadata: Object.metadata{{labels: {{'{QUEUE_NAME_LABEL}': {}}}}}}} :\n\
         !variables.isGiven ? Object{{}} :\n\
         Object{{metadata: Object.metadata{{\n\
         labels: {{'{HELD_BY_LABEL_PREFIX}{name}': 'true'}},\n\
         annotations: {{'{ADMISSION_GATED_BY}': variables.gateList}}}}}}",
        text(queue)
    )
}
