//! The JobKinds that Sluice ships: for commands that have no others, and for callers who may not list others.

use sluice_crds::JobKind;
use sluice_kinds::CompiledKind;

/// The JobKinds that Sluice ships, by the names of their files.
pub const SHIPPED: [(&str, &str); 17] = [
    (
        "appwrapper",
        include_str!("../../../config/jobkinds/appwrapper.yaml"),
    ),
    (
        "deployment",
        include_str!("../../../config/jobkinds/deployment.yaml"),
    ),
    (
        "jaxjob",
        include_str!("../../../config/jobkinds/jaxjob.yaml"),
    ),
    ("job", include_str!("../../../config/jobkinds/job.yaml")),
    (
        "jobset",
        include_str!("../../../config/jobkinds/jobset.yaml"),
    ),
    (
        "leaderworkerset",
        include_str!("../../../config/jobkinds/leaderworkerset.yaml"),
    ),
    (
        "mpijob",
        include_str!("../../../config/jobkinds/mpijob.yaml"),
    ),
    (
        "paddlejob",
        include_str!("../../../config/jobkinds/paddlejob.yaml"),
    ),
    (
        "pytorchjob",
        include_str!("../../../config/jobkinds/pytorchjob.yaml"),
    ),
    (
        "raycluster",
        include_str!("../../../config/jobkinds/raycluster.yaml"),
    ),
    (
        "rayjob",
        include_str!("../../../config/jobkinds/rayjob.yaml"),
    ),
    (
        "sparkapplication",
        include_str!("../../../config/jobkinds/sparkapplication.yaml"),
    ),
    (
        "statefulset",
        include_str!("../../../config/jobkinds/statefulset.yaml"),
    ),
    ("tfjob", include_str!("../../../config/jobkinds/tfjob.yaml")),
    (
        "trainjob",
        include_str!("../../../config/jobkinds/trainjob.yaml"),
    ),
    (
        "workflow",
        include_str!("../../../config/jobkinds/workflow.yaml"),
    ),
    (
        "xgboostjob",
        include_str!("../../../config/jobkinds/xgboostjob.yaml"),
    ),
];

/// What reads the objects of these kinds.
pub fn compiled() -> impl Iterator<Item = CompiledKind> {
    SHIPPED.iter().filter_map(|(_, text)| {
        let kind: JobKind = serde_saphyr::from_str(text).ok()?;
        CompiledKind::compile(&kind).ok()
    })
}

/// What reads the objects of this kind, if a JobKind for it is shipped.
pub fn of_kind(group: &str, kind: &str) -> Option<CompiledKind> {
    compiled().find(|found| found.group == group && found.kind == kind)
}
