//! Which rules a webhook of Sluice's own making may have: those for kinds that a JobKind may declare, and in the webhooks of
//! Gates and namespaces those for pods and what makes pods. Never one for deletions: nothing could be deleted any more
//! while nobody answers.

use sluice_kinds::manageable_groups::{
    EXTENSIONS_SUFFIX, KUBERNETES_SUFFIX, OF_KUBERNETES, OF_OTHERS,
};

use crate::manifests::cel::syntax::{text, texts};

/// CEL: kinds of the API group `group` may be managed, as [`sluice_kinds::manageable_groups::may_be_managed`] says it.
pub(crate) fn may_be_managed(group: &str) -> String {
    format!(
        "({group} in {} || {group}.contains('.') && {group} != {} && !{group}.endsWith({}) &&\n\
         (!{group}.endsWith({}) || {group}.endsWith({})))",
        texts(OF_KUBERNETES.into_iter().chain(OF_OTHERS)),
        text(sluice_crds::GROUP),
        text(&format!(".{}", sluice_crds::GROUP)),
        text(KUBERNETES_SUFFIX),
        text(EXTENSIONS_SUFFIX)
    )
}

/// CEL: the rule `r` is one for managed kinds.
pub(crate) fn is_for_jobs() -> String {
    format!(
        "r.apiGroups.all(g, {}) && has(r.scope) && r.scope == 'Namespaced' &&\n\
         r.operations.all(o, o in ['CREATE', 'UPDATE']) &&\n\
         (r.apiGroups + r.apiVersions + r.resources).all(t, !t.contains('*'))",
        may_be_managed("g")
    )
}

/// CEL: the rule `r` is one for new pods, for their resizing, or for the maker of pods of their API group.
pub(crate) fn is_for_pods_of_a_gate() -> String {
    let kinds = [
        ("pods", &["CREATE"][..]),
        ("pods/resize", &["UPDATE"]),
        ("replicationcontrollers", &["CREATE", "UPDATE"]),
    ];
    let kinds = kinds.map(|(resource, operations)| {
        format!(
            "r.resources == [{}] && r.operations.all(o, o in {})",
            text(resource),
            texts(operations.iter().copied())
        )
    });
    format!(
        "r.apiGroups == [''] && r.apiVersions == ['v1'] && has(r.scope) && r.scope == 'Namespaced' &&\n({})",
        kinds.join(" ||\n")
    )
}
