//! Objects that a kind's controller would never run, by the expressions of its JobKind. They are the
//! same as those that the webhooks evaluate, and the words too.

use sluice_crds::{RefuseRule, RefuseScope};
use sluice_kinds::path::FieldPath;

use crate::manifests::cel::syntax::{forbidden, text, when};
use crate::manifests::held::HeldKind;

/// CEL: what an edit of an object of one of these kinds brings in that its controller would never run.
/// Needs `variables.isHeld`, `wasHeld` and `hold`.
pub(crate) fn problems(kinds: &[&HeldKind]) -> String {
    let refusing = kinds.iter().filter(|kind| !kind.job_kind.refuse.is_empty());
    let of_kinds: Vec<_> = refusing.map(|kind| of_kind(kind)).collect();
    if of_kinds.is_empty() {
        return "[]".to_owned();
    }
    format!("(!variables.isHeld ? [] :\n{})", of_kinds.join(" +\n"))
}

fn of_kind(kind: &HeldKind) -> String {
    let problems: Vec<_> = kind.job_kind.refuse.iter().map(problem).collect();
    format!(
        "(request.kind.kind != {} || request.kind.group != {} ? [] :\n{})",
        text(&kind.job_kind.kind),
        text(&kind.job_kind.group),
        problems.join(" +\n")
    )
}

fn problem(rule: &RefuseRule) -> String {
    // A variable of a comprehension hides the one that the rule's expression names.
    let holds_of = |object: &str| format!("[{object}].map(object, {})[0]", rule.when.trim());
    let scope = match rule.applies_to {
        RefuseScope::All => "",
        RefuseScope::Suspended => "variables.hold == 'Suspend' && ",
    };
    let condition = format!(
        "{scope}{} &&\n!(variables.wasHeld && {})",
        holds_of("object"),
        holds_of("oldObject")
    );
    let path = rule.field.as_deref().map(FieldPath::parse_below);
    let field = path.and_then(Result::ok).map(|path| path.field());
    let field = field.unwrap_or_else(|| "spec".to_owned());
    when(&condition, &forbidden(&text(&field), &text(&rule.message)))
}
