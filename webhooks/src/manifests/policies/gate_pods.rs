//! Has pods that are queued by themselves, or carry a gate, be born behind scheduling gates.

use k8s_openapi::api::admissionregistration::v1::{Mutation, Variable};
use sluice_crds::{MANAGED_LABEL, POD_GROUP_LABEL, QUEUE_GATE};

use crate::manifests::cel::gating::{self, Gating, entry, has_queue_gate};
use crate::manifests::cel::path::Path;
use crate::manifests::cel::syntax::{forbidden, text, variable, when};
use crate::manifests::cel::{gates, metadata, owners, queue};
use crate::manifests::conditions;
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, apply};
use crate::manifests::webhook_rules::pod_rule;
use crate::rules::hold::NOT_HELD;

/// The name of both policies for pods.
pub(super) const NAME: &str = "sluice-pods";

/// CEL: the new pod says that Sluice does not manage it.
pub(super) fn hides() -> String {
    format!("variables.labels[?'{MANAGED_LABEL}'].orValue('true') != 'true'")
}

/// The mutating policy.
pub(super) fn policy(options: &Options, kinds: &[HeldKind]) -> Rules<Mutation> {
    let mut variables = metadata::variables();
    variables.push(gates::held_by());
    variables.extend(queue::variables(options));
    variables.extend(self::variables(options, kinds));
    variables.push(gating::propagated("!variables.isOwned"));
    Rules {
        name: NAME.to_owned(),
        requests: vec![pod_rule("pods", &["CREATE"])],
        condition: conditions::pods::hold_pod(options),
        judges_deleted: false,
        variables,
        outcomes: vec![apply(gate(options)), apply(managed())],
    }
}

/// No pod hides from Sluice, by whatever its controller made of the labels of its template.
fn managed() -> String {
    format!(
        "{} && !variables.owners.exists(o, o.apiVersion.startsWith('apps/') || o.kind == 'ReplicationController') ?\n\
         Object{{metadata: Object.metadata{{labels: {{'{MANAGED_LABEL}': 'true'}}}}}} : Object{{}}",
        hides()
    )
}

/// `variables.hold`: how the pod waits that is being created: in a queue (`Single`, or in a `Group`),
/// for its `Gates` alone, or not (`None`). And those of [`gating::variables`] and [`owners::of_pod`].
pub(super) fn variables(options: &Options, kinds: &[HeldKind]) -> Vec<Variable> {
    let mut variables = gating::variables("object", "", options);
    variables.extend(owners::of_pod(options, kinds));
    variables.push(variable(
        "hold",
        format!(
            "variables.optedIn.size() != 0 ? 'Single' :\n\
             !variables.isOwned && '{POD_GROUP_LABEL}' in variables.labels ? 'Group' :\n\
             variables.queue.size() != 0 && !variables.goesWithOwner ||\n\
             {} && !(variables.goesWithOwner && '{MANAGED_LABEL}' in variables.labels) ? 'Single' :\n\
             !variables.isOwned && {} ? 'Single' :\n\
             !variables.isOwned && variables.gateKeys.size() != 0 ? 'Gates' : 'None'",
            has_queue_gate("", options),
            gates::require_queue(),
        ),
    ));
    variables
}

/// CEL, a list: what is wrong with a new pod that is to wait, and that nothing holds. One that is bound to a node is refused
/// for that.
pub(super) fn unheld(options: &Options) -> String {
    let is_held = format!(
        "'{MANAGED_LABEL}' in variables.labels && (variables.hold == 'Gates' || {}) &&\n\
         variables.propagated.all(g, g in variables.carried)",
        has_queue_gate("", options)
    );
    let at = "(!variables.isOwned && variables.gateKeys.size() != 0 ? 'metadata.annotations[' + variables.gateKeys[0] + ']' :\n\
              variables.queue.size() != 0 ? 'metadata.labels[' + variables.queue[0].key + ']' : 'metadata')";
    when(
        &format!(
            "variables.hold != 'None' && object.spec.?nodeName.orValue('') == '' && !({is_held})"
        ),
        &forbidden(at, &text(NOT_HELD)),
    )
}

/// One that is bound to a node can't wait: it is left as it is, and refused.
fn gate(options: &Options) -> String {
    // By Sluice's own name, if the pod doesn't ask for another.
    let is_own = format!("variables.optedIn.all(g, g == '{QUEUE_GATE}')");
    let gating = Gating {
        path: Path::default(),
        suffix: "",
        labels: Vec::new(),
        annotations: vec![entry(
            QUEUE_GATE,
            &format!("variables.hold == 'Single' && {is_own}"),
            "'true'",
        )],
        // It came down from the owner.
        may_stay: "(variables.isOwned ? variables.listed : [])".to_owned(),
        queue_gate: format!(
            "!(variables.hold in ['Single', 'Group']) ? [] :\n\
             variables.optedIn.size() != 0 ? variables.optedIn.slice(0, 1) : ['{QUEUE_GATE}']"
        ),
    };
    format!(
        "object.spec.?nodeName.orValue('') != '' || variables.hold == 'None' && variables.isOwned ? Object{{}} :\n\
         variables.hold == 'None' ? ({}) : {}",
        gating::unlist(&Path::default(), ""),
        gating.apply(options)
    )
}
