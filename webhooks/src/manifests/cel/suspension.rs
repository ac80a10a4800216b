//! Whether an object is suspended, and whether it has grown, in CEL.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::JobKindSpec;

use crate::manifests::cel::path::Path;
use crate::manifests::cel::syntax::variable;

/// CEL: whether `object` is suspended by the field at `path`.
pub(crate) fn is_suspended(path: &Path, object: &str) -> String {
    format!("{} == dyn(true)", path.or(object, "false"))
}

/// `variables.wasSuspended` and `isSuspended`.
pub(crate) fn suspended(path: &str) -> [Variable; 2] {
    let path = Path::parse(path);
    let of = |object: &str| is_suspended(&path, object);
    [
        variable(
            "wasSuspended",
            format!("oldObject != null && {}", of("oldObject")),
        ),
        variable("isSuspended", of("object")),
    ]
}

/// `variables.counts` and `oldCounts`: how many pods each pod set has.
pub(crate) fn counts(kind: &JobKindSpec) -> [Variable; 2] {
    let of = |object: &str| {
        let counts: Vec<_> = kind
            .pod_sets
            .iter()
            .map(|set| set.count.as_deref().map_or("1", str::trim))
            .map(|count| format!("int({count})"))
            .collect();
        // A variable of a comprehension hides the one that the kind's expressions name.
        format!("[{object}].map(object, [{}])[0]", counts.join(",\n"))
    };
    [
        variable("counts", of("object")),
        variable("oldCounts", of("oldObject")),
    ]
}

/// CEL: whether any pod set has grown. Needs `variables.counts` and `oldCounts`.
pub(crate) fn has_grown(kind: &JobKindSpec) -> String {
    let sets = 0..kind.pod_sets.len();
    let grown = sets.map(|set| format!("variables.oldCounts[{set}] < variables.counts[{set}]"));
    format!("({})", grown.collect::<Vec<_>>().join(" || "))
}
