//! Nobody but Sluice writes the status of a Workload: it says from which quota a job lives.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, Validation};

use crate::manifests::policies::policy::Rules;
use crate::manifests::webhook_rules::rule;

/// The validating policy.
pub(super) fn policy() -> Rules<Validation> {
    let (group, version) = (sluice_crds::GROUP, sluice_crds::VERSION);
    let resources = vec!["workloads/status".to_owned()];
    Rules {
        name: "sluice-workload-status".to_owned(),
        requests: vec![rule(group, version, &["UPDATE"], resources, "Namespaced")],
        condition: MatchCondition {
            name: "status-changes".to_owned(),
            expression: "object.?status != oldObject.?status".to_owned(),
        },
        judges_deleted: false,
        variables: Vec::new(),
        outcomes: vec![Validation {
            expression: "false".to_owned(),
            message: Some("status: Forbidden: is written by Sluice alone".to_owned()),
            ..Validation::default()
        }],
    }
}
