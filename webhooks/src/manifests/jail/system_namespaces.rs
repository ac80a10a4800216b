//! Where Sluice's account may write: never in kube-system and its like, and in its own namespace only its
//! certificate. What it may write elsewhere is `every_request.rs`.

use crate::manifests::cel::syntax::{invalid, text, texts, when};
use crate::manifests::options::SYSTEM_NAMESPACES;

/// Never in a namespace of the system; at home only the certificate.
pub(super) fn problems() -> String {
    let namespace = "request.?namespace.orValue('')";
    let system = when(
        &format!("{namespace} in {}", texts(SYSTEM_NAMESPACES)),
        &invalid(
            "'metadata.namespace'",
            namespace,
            &text("Sluice's account may write nothing in a system namespace"),
        ),
    );
    let home = when(
        &format!(
            "{namespace} == variables.home && !(request.resource.group == '' && variables.resource == 'secrets')"
        ),
        &invalid(
            "'metadata.namespace'",
            namespace,
            &text(
                "Sluice's account may write only its Lease and its certificate in its own namespace",
            ),
        ),
    );
    format!("{system} +\n{home}")
}
