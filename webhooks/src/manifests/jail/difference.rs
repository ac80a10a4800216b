//! What has changed in an object, in CEL: level by level from the root, one variable a level, as
//! expressions know no recursion. Only what differs is looked into.
//!
//! A change is a map: `at`, the path with `[]` for an element of a list; `key`, its last part; `new` and
//! `old`, null where there is nothing.

use k8s_openapi::api::admissionregistration::v1::Variable;

use crate::manifests::cel::syntax::{flattened, forbidden, variable};

/// Deepest field that is looked into. Shipped kinds need eight.
const LEVELS: usize = 14;

/// How a change `c` is judged. All of these are CEL over `c`.
pub(super) struct DifferenceRules {
    /// Whether it may be, whatever is in it.
    pub(super) allowed: String,
    /// Whether it is to be looked into. What is neither is a problem.
    pub(super) looked_into: String,
    /// Of a map that is changed at `p`: the path of what is there at `k`.
    pub(super) path: String,
    /// What a refusal says.
    pub(super) rule: String,
}

/// `variables.changes`, the problems with what lies outside of metadata. Whoever is asked must be sure
/// that there are `object` and `oldObject`.
pub(super) fn variables(rules: &DifferenceRules) -> Vec<Variable> {
    let root = "[{'at': dyn(''), 'key': dyn(''), 'new': dyn(object), 'old': dyn(oldObject)}]";
    let mut variables = vec![variable("level0", root)];
    for level in 1..=LEVELS {
        let above = level - 1;
        let kept = if level == 1 {
            ".filter(c, !(c.key in ['apiVersion', 'kind', 'metadata']))"
        } else {
            ""
        };
        let looked_into = if level == 1 {
            "true".to_owned()
        } else {
            rules.looked_into.clone()
        };
        let below = flattened(&format!(
            "variables.level{above}.filter(c, {looked_into}).map(p,\n{})",
            children(&rules.path)
        ));
        variables.push(variable(
            &format!("level{level}"),
            format!("{below}{kept}\n.filter(c, !({}))", rules.allowed),
        ));
    }
    let all: Vec<_> = (1..=LEVELS)
        .map(|level| match level {
            LEVELS => format!("variables.level{level}"),
            _ => format!("variables.level{level}.filter(c, !({}))", rules.looked_into),
        })
        .collect();
    let at = "string(c.at).substring(1)";
    variables.push(variable(
        "changes",
        format!(
            "({}).map(c, {})",
            all.join(" +\n"),
            forbidden(at, &rules.rule)
        ),
    ));
    variables
}

/// CEL, a list: what differs in the map or list at `p`. A map or list that is not there is empty. A list
/// of another length has changed as a whole, unless it was empty.
fn children(path: &str) -> String {
    let (new, old) = (
        "(p.new == null ? dyn({}) : p.new)",
        "(p.old == null ? dyn({}) : p.old)",
    );
    let new_list = "(p.new == null ? dyn([]) : p.new)";
    let is_filled = format!("type({new_list}) == list && (p.old == null || p.old == [])");
    format!(
        "is_map(p.new) && is_map(p.old) ?\n\
         ({new}.map(k, k) + {old}.map(k, k).filter(k, !(k in {new})))\n\
         .filter(k, {new}[?k] != {old}[?k])\n\
         .map(k, {{'at': dyn({path}), 'key': dyn(k), 'new': {new}[?k].orValue(dyn(null)), 'old': {old}[?k].orValue(dyn(null))}}) :\n\
         {is_filled} ?\n\
         {new_list}.map(v, {{'at': dyn(p.at + '[]'), 'key': dyn('[]'), 'new': v, 'old': dyn(null)}}) :\n\
         type(p.new) == list && type(p.old) == list && p.new.size() == p.old.size() ?\n\
         p.new.transformList(i, v, v != p.old[i], {{'at': dyn(p.at + '[]'), 'key': dyn('[]'), 'new': v, 'old': p.old[i]}}) :\n\
         [{{'at': dyn(p.at), 'key': dyn(''), 'new': dyn('of another type or length'), 'old': dyn('')}}]"
    )
    .replace("is_map(p.new)", "(type(p.new) == map || p.new == null)")
    .replace("is_map(p.old)", "(type(p.old) == map || p.old == null)")
}
