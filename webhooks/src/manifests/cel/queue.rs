//! The label that names the queue: its form, and when it may change.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_kinds::aliases::MetadataKey;

use crate::manifests::cel::gates::{BAD_SUBDOMAIN, is_subdomain};
use crate::manifests::cel::syntax::{forbidden, invalid, text, texts, variable};
use crate::manifests::options::Options;

/// `variables.queue` and `oldQueue`: a list of the one queue that the object names or named, with
/// its label, or of none. Under the first queue label that it carries.
pub(crate) fn variables(options: &Options) -> Vec<Variable> {
    let keys = keys(options);
    let of = |labels: &str| {
        format!(
            "{keys}.filter(k, k in {labels}).map(k, {{'key': k, 'name': {labels}[k]}})\n\
             .slice(0, {keys}.exists(k, k in {labels}) ? 1 : 0)"
        )
    };
    vec![
        variable("queue", of("variables.labels")),
        variable("oldQueue", of("variables.oldLabels")),
    ]
}

/// The labels that name a queue, as a list.
pub(crate) fn keys(options: &Options) -> String {
    texts(options.queue_labels.iter().map(String::as_str))
}

/// CEL: whether a queue is named, by a label or by an annotation of others that stands for one. `map` is CEL for the
/// `labels` and the `annotations` to look into.
pub(crate) fn is_named(options: &Options, map: impl Fn(&str) -> String) -> String {
    let own = MetadataKey::Label(QUEUE_NAME_LABEL.to_owned());
    let (mut labels, mut annotations) = (BTreeSet::new(), BTreeSet::new());
    labels.extend(options.queue_labels.iter().map(String::as_str));
    for alias in options.key_aliases.of(&own) {
        match alias {
            MetadataKey::Label(key) => labels.insert(key.as_str()),
            MetadataKey::Annotation(key) => annotations.insert(key.as_str()),
        };
    }
    let exists = [("labels", labels), ("annotations", annotations)];
    let exists = exists.into_iter().filter(|(_, keys)| !keys.is_empty());
    let exists: Vec<_> = exists
        .map(|(name, keys)| format!("{}.exists(k, k in {})", texts(keys), map(name)))
        .collect();
    exists.join(" ||\n")
}

/// CEL, a list: what is wrong with the queue labels that a request brings in.
pub(crate) fn problems(options: &Options) -> String {
    let (keys, labels) = (keys(options), "variables.labels");
    let malformed = format!(
        "(q.name.size() <= 253 && {} ? [] : [{}])",
        is_subdomain("q.name"),
        invalid("'metadata.labels[' + q.key + ']'", "q.name", BAD_SUBDOMAIN)
    );
    let judged = if options.queue_labels.len() < 2 {
        malformed
    } else {
        // Two spellings must agree.
        let other = format!("{keys}.filter(k, k in {labels} && {labels}[k] != q.name)");
        let differing = invalid(
            &format!("'metadata.labels[' + {other}[0] + ']'"),
            &format!("{labels}[{other}[0]]"),
            "'must equal the label ' + q.key + ', which names ' + strings.quote(q.name)",
        );
        format!("{other}.size() != 0 ? [{differing}] : {malformed}")
    };
    format!(
        "({keys}.all(k, {labels}[?k] == variables.oldLabels[?k]) ? [] :\n\
         variables.queue.map(q,\n{judged}).flatten())"
    )
}

/// CEL, a list: whether the queue may change as it does, with a rule against each way. Without one
/// the queue may change so.
pub(crate) fn change_problems(
    removed: Option<&str>,
    changed: Option<&str>,
    added: Option<&str>,
) -> String {
    let problem = |queue: &str, rule: Option<&str>| {
        let at = format!("'metadata.labels[' + {queue}.key + ']'");
        let problem = rule.map(|rule| forbidden(&at, &text(rule)));
        format!("[{}]", problem.unwrap_or_default())
    };
    format!(
        "(variables.oldQueue.size() == 0 ?\n\
         (variables.queue.size() == 0 ? [] : {}) :\n\
         variables.queue.size() == 0 ? {} :\n\
         variables.queue[0].name == variables.oldQueue[0].name ? [] : {})",
        problem("variables.queue[0]", added),
        problem("variables.oldQueue[0]", removed),
        problem("variables.queue[0]", changed),
    )
}
