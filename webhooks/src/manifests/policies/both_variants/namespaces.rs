//! The policy for the label `sluice.dev/enforcement` of namespaces, in both variants: a value that is not known is refused.
//! Where one is stored all the same, it counts as Hold.

use sluice_crds::ENFORCEMENT_LABEL;
use sluice_gates::ManagedNamespaces;

use crate::manifests::cel::syntax::{self, field, not_supported, variable, when};
use crate::manifests::conditions::entry::{Entry, condition};
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, Validating};
use crate::manifests::webhook_rules::rule;

/// The name of the policy.
const NAME: &str = "sluice-namespaces";

/// The policy.
pub(super) fn policy(options: &Options) -> Validating {
    let label = Entry::label(ENFORCEMENT_LABEL);
    let value = format!("string(object.metadata.labels['{ENFORCEMENT_LABEL}'])");
    let values = ManagedNamespaces::LABEL_VALUES;
    let is_known = format!("{value} in {}", syntax::texts(values));
    let problem = not_supported(&field("labels", ENFORCEMENT_LABEL), &value, &values);
    let is_new = format!(
        "{} && (request.operation == 'CREATE' || {})",
        label.is_on("object"),
        label.differs()
    );
    let rules = Rules {
        name: NAME.to_owned(),
        requests: vec![rule(
            "",
            "v1",
            &["CREATE", "UPDATE"],
            vec!["namespaces".to_owned()],
            "Cluster",
        )],
        condition: condition("has-label", is_new),
        judges_deleted: false,
        variables: vec![variable(
            "problems",
            when(&format!("!({is_known})"), &problem),
        )],
        outcomes: vec![syntax::no_problems()],
    };
    rules.validating(options)
}
