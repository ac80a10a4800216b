//! The API groups whose kinds may be managed. One rule for JobKinds and for what Sluice's own account may do: a JobKind of
//! any other group could not get its webhook, and would keep others from theirs.

use sluice_crds::GROUP;

/// The groups of Kubernetes itself that have Job-like kinds.
pub const OF_KUBERNETES: [&str; 2] = ["batch", "apps"];
/// What the names of all other groups of Kubernetes end with that are not of one word.
pub const KUBERNETES_SUFFIX: &str = ".k8s.io";
/// What the names of groups end with that are made in the projects of Kubernetes, and are no part of it.
pub const EXTENSIONS_SUFFIX: &str = ".x-k8s.io";
/// Groups of other projects that end like those of Kubernetes.
pub const OF_OTHERS: [&str; 1] = ["sparkoperator.k8s.io"];
/// What is told of another group.
pub const RULE: &str = "may not be managed, because it secures or runs the cluster; allowed groups: batch, apps, sparkoperator.k8s.io, and groups with a dot that don't end in sluice.dev or .k8s.io (.x-k8s.io is allowed)";

/// Whether kinds of `group` may be managed.
pub fn may_be_managed(group: &str) -> bool {
    let is_kubernetes = group.ends_with(KUBERNETES_SUFFIX) && !group.ends_with(EXTENSIONS_SUFFIX);
    let is_own = group
        .strip_suffix(GROUP)
        .is_some_and(|parent| parent.is_empty() || parent.ends_with('.'));
    OF_KUBERNETES.contains(&group)
        || OF_OTHERS.contains(&group)
        || group.contains('.') && !is_kubernetes && !is_own
}
