//! How the policies write CEL: literals, problems, and the sentence that a refusal ends with.
//!
//! A problem is a map with the fields of [`sluice_kinds::Problem`]: `at`, `kind`, and where there
//! are any, `value` and `rule`. So expressions find problems, and one expression words them. The
//! arguments of the functions that make one are expressions too.

use k8s_openapi::api::admissionregistration::v1::{Validation, Variable};
use sluice_kinds::Problem;

/// Most problems that are spelled out, as in [`sluice_kinds::problem::summarize`].
const SHOWN_MAX: usize = 10;
/// Longest value that is quoted back, as in [`sluice_kinds::problem`], but in characters.
const QUOTED_MAX: usize = 128;

/// A string literal.
pub(crate) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

/// A list of string literals.
pub(crate) fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let values: Vec<_> = values.into_iter().map(text).collect();
    format!("[{}]", values.join(", "))
}

/// CEL, a string: `template` with these expressions in place of its `{}`, as [`sluice_kinds::problem::fill`] does it.
pub(crate) fn filled(template: &str, values: &[&str]) -> String {
    let texts = template.split("{}").map(text);
    let values = values
        .iter()
        .map(|&value| value.to_owned())
        .chain([String::new()]);
    let parts = texts.zip(values).flat_map(|(text, value)| [text, value]);
    let parts: Vec<_> = parts.filter(|part| !matches!(&**part, "" | "''")).collect();
    parts.join(" +\n")
}

/// The literal `metadata.<map>[<key>]`.
pub(crate) fn field(map: &str, key: &str) -> String {
    text(&format!("metadata.{map}[{key}]"))
}

/// A variable of a policy.
pub(crate) fn variable(name: &str, expression: impl Into<String>) -> Variable {
    Variable {
        name: name.to_owned(),
        expression: expression.into(),
    }
}

/// A problem with a value.
pub(crate) fn invalid(at: &str, value: &str, rule: &str) -> String {
    format!("{{'at': {at}, 'kind': 'Invalid value', 'value': {value}, 'rule': {rule}}}")
}

/// A problem with a value that stands there twice.
pub(crate) fn duplicate(at: &str, value: &str) -> String {
    format!("{{'at': {at}, 'kind': 'Duplicate value', 'value': {value}}}")
}

/// A problem with an edit.
pub(crate) fn forbidden(at: &str, rule: &str) -> String {
    format!("{{'at': {at}, 'kind': 'Forbidden', 'rule': {rule}}}")
}

/// A problem with a value that is none of `supported`.
pub(crate) fn not_supported(at: &str, value: &str, supported: &[&str]) -> String {
    let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
    let rule = format!("supported values: {}", supported.join(", "));
    format!(
        "{{'at': {at}, 'kind': 'Unsupported value', 'value': {value}, 'rule': {}}}",
        text(&rule)
    )
}

/// A problem with a value that is missing.
pub(crate) fn required(at: &str, rule: &str) -> String {
    format!("{{'at': {at}, 'kind': 'Required value', 'rule': {rule}}}")
}

/// A problem with a length.
pub(crate) fn too_long(at: &str, bytes_max: usize) -> String {
    let rule = Problem::too_long("", bytes_max).detail;
    format!(
        "{{'at': {at}, 'kind': 'Too long', 'rule': {}}}",
        text(&rule)
    )
}

/// A problem with the number of elements.
pub(crate) fn too_many(at: &str, count: &str, rule: &str) -> String {
    format!("{{'at': {at}, 'kind': 'Too many: ' + string({count}), 'rule': {rule}}}")
}

/// `expression` in brackets of a list if `condition` holds, else the empty list.
pub(crate) fn when(condition: &str, expression: &str) -> String {
    format!("({condition}\n? [{expression}] : [])")
}

/// CEL, a list: what is in any of these lists. One that is always empty is left out.
pub(crate) fn all(lists: impl IntoIterator<Item = String>) -> String {
    let lists: Vec<_> = lists.into_iter().filter(|list| list != "[]").collect();
    if lists.is_empty() {
        return "[]".to_owned();
    }
    lists.join(" +\n")
}

/// CEL, a list: what is in the lists of the list `lists`, in no order. The function `flatten()` is newer than
/// the oldest Kubernetes that the jail has to hold on (`crds/src/kubernetes.rs`).
pub(crate) fn flattened(lists: &str) -> String {
    format!(
        "{lists}.transformMapEntry(i, l, l.transformMapEntry(j, e, {{string(i) + '/' + string(j): e}})).transformList(at, e, e)"
    )
}

/// The validation that there are no `variables.problems`, which tells them all in one sentence.
pub(crate) fn no_problems() -> Validation {
    none_of("problems")
}

/// The same of the problems in another variable.
pub(crate) fn none_of(problems: &str) -> Validation {
    let quoted = format!(
        "strings.quote({QUOTED_MAX} < size(p.value) ? p.value.substring(0, {QUOTED_MAX}) + '…' : \
         p.value).replace('\\x00', '\\\\0')"
    );
    let shown: Vec<_> = (0..SHOWN_MAX).map(|index| index.to_string()).collect();
    let message = format!(
        "[{}].filter(i, i < size(variables.{problems})).map(i, variables.{problems}[i]).map(p,\n\
         p.at + ': ' + p.kind +\n\
         ('value' in p ? ': ' + {quoted} : '') +\n\
         ('rule' in p ? ': ' + p.rule : '')).join('; ') +\n\
         ({SHOWN_MAX} < size(variables.{problems}) ? '; and ' + string(size(variables.{problems}) - {SHOWN_MAX}) + ' more' : '')",
        shown.join(", ")
    );
    Validation {
        expression: format!("size(variables.{problems}) == 0"),
        message_expression: Some(message),
        ..Validation::default()
    }
}
