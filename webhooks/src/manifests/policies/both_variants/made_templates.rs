//! The policy for pod templates of ReplicaSets that a Deployment under Sluice has made, in both variants: what holds the
//! pods stays in them. Nobody but the Deployment controller has business there, and no other rule looks at them, as
//! the Deployment is what is judged.

use k8s_openapi::api::admissionregistration::v1::Validation;
use sluice_crds::{MANAGED_LABEL, PROPAGATED_GATES_ANNOTATION, QUEUE_GATE};

use crate::manifests::cel::syntax::{self, forbidden, text, variable, when};
use crate::manifests::conditions::entry::condition;
use crate::manifests::conditions::pods::IS_KUBERNETES;
use crate::manifests::policies::policy::Rules;
use crate::manifests::webhook_rules::rule;

/// The name of the policy.
const NAME: &str = "sluice-made-templates";
/// What is told of a template that would lose them.
const HELD: &str = "what holds the pods of this template comes from the object that the ReplicaSet belongs to, and may not be changed here; edit that object";

/// The rules.
pub(super) fn rules() -> Rules<Validation> {
    let is_marked = format!("!{IS_KUBERNETES} && ({})[0] != ''", marks("oldObject"));
    let differs = format!("({}) != ({})", marks("object"), marks("oldObject"));
    Rules {
        name: NAME.to_owned(),
        requests: vec![rule(
            "apps",
            "v1",
            &["UPDATE"],
            vec!["replicasets".to_owned()],
            "Namespaced",
        )],
        condition: condition("is-marked", is_marked),
        judges_deleted: true,
        variables: vec![variable(
            "problems",
            when(&differs, &forbidden("'spec.template'", &text(HELD))),
        )],
        outcomes: vec![syntax::no_problems()],
    }
}

/// CEL, a list of texts: what holds the pods of a template. The first is empty if Sluice has nothing to do with them.
fn marks(object: &str) -> String {
    let of = |map: &str, key: &str| {
        format!("string({object}.spec.template.?metadata.?{map}[?'{key}'].orValue(''))")
    };
    let gates =
        format!("{object}.spec.template.?spec.?schedulingGates.orValue([]).map(g, string(g.name))");
    format!(
        "[{}, {}, {}] + {gates}",
        of("labels", MANAGED_LABEL),
        of("annotations", PROPAGATED_GATES_ANNOTATION),
        of("annotations", QUEUE_GATE),
    )
}
