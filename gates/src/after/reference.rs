//! The object that a held object names in an annotation: a name, and the kind where several are listed. It can't name
//! a namespace: nobody learns of objects in a namespace of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_kinds::gates::field_of;
use sluice_kinds::{Problem, names};

use super::rule::DependencyRule;
use super::waiting::Waiting;

/// Reads the annotation `key`: which of the rules it names, and the name of the object.
///
/// # Errors
/// It names none. That holds the object.
pub(super) fn read<'a>(
    annotations: &'a BTreeMap<String, String>,
    key: &str,
    rules: &'a [Arc<DependencyRule>],
) -> Result<(&'a Arc<DependencyRule>, &'a str), Waiting> {
    let Some(value) = annotations.get(key) else {
        return Err(Waiting::Unnamed {
            annotation: key.to_owned(),
            form: form(rules),
        });
    };
    let bad = |rule: String| Waiting::BadName(Problem::invalid(field_of(key), value, rule));
    let (kind, name) = match value.split_once('/') {
        Some((kind, name)) => (Some(kind), name),
        None => (None, value.as_str()),
    };
    let fits = |rule: &&Arc<DependencyRule>| {
        let of = rule.kind();
        kind.is_none_or(|kind| *kind == *of.kind || kind == of.to_string())
    };
    let mut named = rules.iter().filter(fits);
    let (Some(rule), None) = (named.next(), named.next()) else {
        return Err(bad(format!("must be {}", form(rules))));
    };
    if !names::subdomain(name, "").is_empty() {
        return Err(bad(format!("must be {}", form(rules))));
    }
    Ok((rule, name))
}

/// What such an annotation holds.
fn form(rules: &[Arc<DependencyRule>]) -> String {
    if let [rule] = rules {
        return format!(
            "the name of a {} in the namespace of this object",
            rule.kind()
        );
    }
    let kinds = rules.iter().map(|rule| rule.kind().to_string());
    let kinds: Vec<_> = kinds.collect();
    format!(
        "KIND/NAME of an object in the namespace of this object, where KIND is one of {}",
        kinds.join(", ")
    )
}
