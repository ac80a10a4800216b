//! Who may have a Gate read what it waits for: whoever may get that himself. The same rule as in
//! `crate::rules::own::reads`, but for the names of resources: a policy knows no more than the kind, and takes its usual
//! plural.

use k8s_openapi::api::admissionregistration::v1::{Validation, Variable};
use sluice_crds::AFTER_KINDS_MAX;

use crate::manifests::cel::syntax::{filled, text, texts, variable};
use crate::manifests::conditions::entry::{after_differs, condition};
use crate::manifests::policies::policy::Rules;
use crate::manifests::webhook_rules::rule;
use crate::rules::own::reads::{EVERYWHERE, IN_NAMESPACE, NOT_READ};

/// The validating policy.
pub(super) fn policy() -> Rules<Validation> {
    let (group, version) = (sluice_crds::GROUP, sluice_crds::VERSION);
    let resources = vec!["gates".to_owned()];
    let operations = ["CREATE", "UPDATE"];
    let reads = format!(
        "has(object.spec.after) &&\n(request.operation == 'CREATE' ||\n{})",
        after_differs()
    );
    Rules {
        name: "sluice-gate-reads".to_owned(),
        requests: vec![rule(group, version, &operations, resources, "Cluster")],
        condition: condition("reads-something-else", reads),
        // It is read until it is gone.
        judges_deleted: true,
        variables: variables(),
        // One question for each: an expression may ask two, and others are not evaluated.
        outcomes: (0..=AFTER_KINDS_MAX).map(validation).collect(),
    }
}

/// `variables.reads`: what is read, as maps of the field, the kind, the plural of the kind, the namespace and the name.
fn variables() -> Vec<Variable> {
    let read = |at: &str, of: &str, namespace: &str, name: &str| {
        format!(
            "{{'at': {at}, 'group': string({of}.group), 'kind': string({of}.kind).lowerAscii(), 'namespace': string({namespace}), 'name': string({name})}}"
        )
    };
    let object = read(
        &text("spec.after.object"),
        "object.spec.after.object",
        "object.spec.after.object.?namespace.orValue('')",
        "object.spec.after.object.name",
    );
    let indices: Vec<_> = (0..AFTER_KINDS_MAX)
        .map(|index| index.to_string())
        .collect();
    let kinds = "object.spec.after.?kinds.orValue([])";
    let of_kind = read(
        "'spec.after.kinds[' + string(i) + ']'",
        &format!("{kinds}[i]"),
        "''",
        "''",
    );
    let many = texts(["s", "x", "z", "ch", "sh"]);
    let vowels = texts(["ay", "ey", "oy", "uy"]);
    let plural = format!(
        "r.kind == 'endpoints' ? r.kind :\n\
         {many}.exists(e, r.kind.endsWith(e)) ? r.kind + 'es' :\n\
         r.kind.endsWith('y') && !{vowels}.exists(e, r.kind.endsWith(e)) ? r.kind.substring(0, size(r.kind) - 1) + 'ies' :\n\
         r.kind + 's'"
    );
    vec![
        variable(
            "reads",
            format!(
                "(has(object.spec.after.object) ? [{object}] : []) +\n\
                 [{}].filter(i, i < size({kinds})).map(i, {of_kind})",
                indices.join(", ")
            ),
        ),
        variable("resources", format!("variables.reads.map(r, {plural})")),
    ]
}

/// That the author may get what is read as the `index`-th.
fn validation(index: usize) -> Validation {
    let read = format!("variables.reads[{index}]");
    let resource = format!("variables.resources[{index}]");
    let in_namespace = filled(IN_NAMESPACE, &[&format!("strings.quote({read}.namespace)")]);
    let what = format!(
        "{resource} + ({read}.group == '' ? '' : '.' + {read}.group) +\n\
         ({read}.name == '' ? '' : ' ' + strings.quote({read}.name)) +\n\
         ({read}.namespace == '' ? {} : {in_namespace})",
        text(EVERYWHERE)
    );
    let told = filled(
        NOT_READ,
        &["strings.quote(request.userInfo.username)", &what],
    );
    Validation {
        expression: format!(
            "size(variables.reads) <= {index} ||\n\
             authorizer.group({read}.group).resource({resource}).namespace({read}.namespace)\n\
             .name({read}.name).check('get').allowed()"
        ),
        message_expression: Some(format!("{read}.at + ': Forbidden: ' +\n{told}")),
        ..Validation::default()
    }
}
