//! What an admitted pod may not do: ask for more than it was admitted with. It may shrink.

use crate::manifests::cel::syntax::{filled, forbidden};
use crate::rules::pods::growth::GROWN;

/// CEL, a list: what is wrong with a resize of an admitted pod. Containers can neither come nor go.
pub(crate) fn problems() -> String {
    let of_containers = |list: &str| {
        format!(
            "object.spec.?{list}.orValue([]).transformList(i, c,\n{}).flatten()",
            growth(
                "c.?resources",
                &format!("oldObject.spec.{list}[i].?resources"),
                &format!("'spec.{list}[' + string(i) + '].resources.requests['")
            )
        )
    };
    [
        of_containers("containers"),
        of_containers("initContainers"),
        growth(
            "object.spec.?resources",
            "oldObject.spec.?resources",
            "'spec.resources.requests['",
        ),
    ]
    .join(" +\n")
}

/// CEL, a list: what grows in the requests of these resources, which lie at `at`.
fn growth(new: &str, old: &str, at: &str) -> String {
    let amount = |resources: &str| format!("string({resources}.?requests[?r].orValue('0'))");
    let (is, was) = (amount(new), amount(old));
    let rule = filled(GROWN, &[&was, &is]);
    format!(
        "{new}.?requests.orValue({{}}).map(r, r)\n\
         .filter(r, quantity({is}).isGreaterThan(quantity({was})))\n\
         .map(r, {})",
        forbidden(&format!("{at} + r + ']'"), &rule)
    )
}
