//! What an admitted pod may not do: ask for more than it was admitted with. It may shrink.
//!
//! What CEL can't do is add amounts up: each container is compared by itself, unless a pod-level request stands for the sum
//! of all containers, before and after. So containers can't share anew what they have.

use crate::manifests::cel::syntax::{filled, forbidden};
use crate::rules::pods::growth::GROWN;

/// CEL, a list: what is wrong with a resize of an admitted pod. Containers can neither come nor go.
pub(crate) fn problems() -> String {
    let is_pod_level = "object.spec.?resources.?requests[?r].hasValue() && oldObject.spec.?resources.?requests[?r].hasValue()";
    let of_containers = |list: &str| {
        format!(
            "object.spec.?{list}.orValue([]).transformList(i, c,\n{}).flatten()",
            growth(
                "c.?resources",
                &format!("oldObject.spec.{list}[i].?resources"),
                &format!("'spec.{list}[' + string(i) + '].resources.requests['"),
                &format!("!({is_pod_level}) && "),
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
            "",
        ),
    ]
    .join(" +\n")
}

/// CEL, a list: what grows in the requests of these resources, which lie at `at`; of those for which it `counts`.
fn growth(new: &str, old: &str, at: &str, counts: &str) -> String {
    let amount = |resources: &str| format!("string({resources}.?requests[?r].orValue('0'))");
    let (is, was) = (amount(new), amount(old));
    let rule = filled(GROWN, &[&was, &is]);
    format!(
        "{new}.?requests.orValue({{}}).map(r, r)\n\
         .filter(r, {counts}quantity({is}).isGreaterThan(quantity({was})))\n\
         .map(r, {})",
        forbidden(&format!("{at} + r + ']'"), &rule)
    )
}
