//! The APIService of `visibility.sluice.dev`: Sluice's account may have it trust another certificate. Where requests go
//! stays as the administrator applied it, as whoever is asked there learns who asks.

use crate::manifests::cel::syntax::{forbidden, text, variable};
use crate::manifests::jail::cell::{Cell, rule};
use crate::manifests::jail::entries;

/// The name of the APIService.
pub(super) const NAME: &str = "v1alpha1.visibility.sluice.dev";

/// The policy for it.
pub(super) fn cell() -> Cell {
    let told = text("Sluice's account may change only the caBundle here");
    let fields = format!(
        "{}.filter(k, k != 'caBundle').map(k, {})",
        entries::changed("object.spec", "oldObject.spec"),
        forbidden("'spec.' + k", &told)
    );
    let status = format!(
        "(object.?status == oldObject.?status ? [] : [{}])",
        forbidden("'status'", &told)
    );
    let problems = format!("{fields} +\n{status} +\n{}", entries::metadata_problems());
    Cell {
        name: "sluice-jail-api-service",
        rules: vec![rule(
            "apiregistration.k8s.io",
            &["UPDATE"],
            &["apiservices", "apiservices/status"],
        )],
        excluded: Vec::new(),
        compared_with: None,
        variables: vec![variable("problems", problems)],
    }
}
