//! Both policies for kinds that are held by their suspend field and by nothing else: their pod
//! templates are lists and maps that CEL can't follow, or are those of their children.
//!
//! What is not seen here is all that the templates say: whether an admitted object grows, whether its pods may run on
//! other nodes, and whether somebody changes the marks by which Sluice knows its pods. The controller compares pods and
//! requests with what was admitted, and sees that a running object has lost the label of its pods; nobody compares nodes,
//! nor what a LimitRange or a RuntimeClass adds.

use k8s_openapi::api::admissionregistration::v1::{Mutation, Validation, Variable};

use crate::manifests::cel::path::Path;
use crate::manifests::cel::syntax::{self, variable};
use crate::manifests::cel::{
    gate_marks, gates, holding, metadata, owners, queue, refuse, suspension,
};
use crate::manifests::conditions;
use crate::manifests::held::{Group, HeldKind};
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, apply};
use crate::manifests::policies::{hold, jobs};
use crate::manifests::webhook_rules::job_rule;

/// The name of both policies: that of the path.
fn name(group: &Group<'_>) -> String {
    let path = Path::parse(group.suspend).field().to_ascii_lowercase();
    format!(
        "sluice-{}",
        path.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-")
    )
}

/// The mutating policy for these of `kinds`.
pub(super) fn mutating(
    options: &Options,
    group: &Group<'_>,
    kinds: &[HeldKind],
) -> Rules<Mutation> {
    let mut variables = read(options, group, kinds);
    variables.push(holding::is_held());
    variables.push(variable("hold", "'Suspend'"));
    variables.extend(suspension::suspended(group.suspend));
    Rules {
        name: name(group),
        requests: group
            .kinds
            .iter()
            .map(|kind| job_rule(&kind.resource, &[], &["CREATE", "UPDATE"]))
            .collect(),
        condition: conditions::jobs::hold_job(options),
        judges_deleted: false,
        variables,
        outcomes: vec![
            apply(hold::suspend(group.suspend)),
            apply(hold::mark_suspension("false")),
        ],
    }
}

/// The validating policy for these of `kinds`.
pub(super) fn validating(
    options: &Options,
    group: &Group<'_>,
    kinds: &[HeldKind],
) -> Rules<Validation> {
    let mut variables = read(options, group, kinds);
    variables.extend(gates::problems());
    variables.extend(gate_marks::lifted());
    variables.extend(owners::author_of(&group.kinds, kinds));
    variables.extend(suspension::suspended(group.suspend));
    variables.push(holding::is_held());
    variables.push(holding::was_held());
    variables.push(variable("hold", "'Suspend'"));
    let problems = [
        "variables.gateProblems".to_owned(),
        queue::problems(options),
        jobs::records(),
        owners::problems(),
        jobs::admission("oldObject != null", &["Whole"]),
        refuse::problems(&group.kinds),
        hold::if_unheld(true, "variables.isSuspended"),
        format!(
            "(request.operation == 'CREATE' ? [] :\n{})",
            jobs::change_of_suspended(group.suspend, None)
        ),
    ];
    variables.push(variable("problems", syntax::all(problems)));
    Rules {
        name: name(group),
        requests: group
            .kinds
            .iter()
            .map(|kind| {
                let resource = &kind.resource;
                job_rule(resource, &resource.subresources, &["CREATE", "UPDATE"])
            })
            .collect(),
        condition: conditions::jobs::validate_job(options),
        judges_deleted: false,
        variables,
        outcomes: vec![syntax::no_problems()],
    }
}

/// What both read of an object.
fn read(options: &Options, group: &Group<'_>, kinds: &[HeldKind]) -> Vec<Variable> {
    let mut variables = metadata::variables();
    variables.push(gates::held_by());
    variables.extend(queue::variables(options));
    variables.extend(owners::variables(&group.kinds, kinds));
    variables
}
