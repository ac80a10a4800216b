//! The one thing in a status that Sluice takes away: the start time of a suspended object whose JobKind says that its
//! templates can't be changed otherwise (`clearStartTime`).

use sluice_crds::JobKindSpec;

use crate::manifests::cel::syntax::text;

/// CEL: the change `c` of a status is that the start time of a suspended object goes.
pub(super) const GOES: &str =
    "c.at == '.status.startTime' && c.new == null && variables.isSuspended";

/// CEL: the request is about a shipped kind whose start times are cleared.
pub(super) fn is_cleared(shipped: &[JobKindSpec]) -> String {
    any(shipped, is_of)
}

/// CEL: the object is one of these kinds, and suspended.
pub(super) fn is_suspended(shipped: &[JobKindSpec]) -> String {
    any(shipped, |kind| {
        let suspend = kind.suspend.as_deref().unwrap_or_default();
        format!(
            "{} && dyn(object){}.orValue(false) == true",
            is_of(kind),
            suspend.replace('.', ".?")
        )
    })
}

fn is_of(kind: &JobKindSpec) -> String {
    format!(
        "request.kind.group == {} && request.kind.kind == {}",
        text(&kind.group),
        text(&kind.kind)
    )
}

fn any(shipped: &[JobKindSpec], of_kind: impl Fn(&JobKindSpec) -> String) -> String {
    let clearing = shipped
        .iter()
        .filter(|kind| kind.clear_start_time.is_some());
    let conditions: Vec<_> = clearing.map(of_kind).collect();
    if conditions.is_empty() {
        return "false".to_owned();
    }
    conditions.join(" || ")
}
