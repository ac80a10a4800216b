//! Restores the usage of targets after a search, and drops those that need not be evicted after all.

use crate::preemption::target::Target;
use crate::quota::quota_tree::QuotaTree;

/// Restores the usage of all targets.
pub(crate) fn restore_all(quota: &mut QuotaTree, targets: &[Target]) {
    for target in targets {
        target.restore_usage(quota);
    }
}

/// Drops the targets whose eviction is not required, the last in the order of preemption first, and restores the usage of
/// all. One target may have been required only because of another that is dropped later, so this repeats until nothing
/// changes. `is_accepted` gets the restored target and the remaining ones.
pub(crate) fn fill_back(
    quota: &mut QuotaTree,
    taken: &mut Vec<Target>,
    mut is_accepted: impl FnMut(&mut QuotaTree, &Target, &[Target]) -> bool,
) {
    let mut is_least = false;
    while !is_least {
        is_least = true;
        for index in (0..taken.len()).rev() {
            let restored = taken.remove(index);
            restored.restore_usage(quota);
            if is_accepted(quota, &restored, taken) {
                is_least = false;
            } else {
                restored.remove_usage(quota);
                taken.insert(index, restored);
            }
        }
    }
    restore_all(quota, taken);
}
