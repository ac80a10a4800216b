//! Flavor options that the queues of a tree share. Queues with the same flavors and resources have the same
//! options for a shape, whatever their quota.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::queues::ClusterQueue;
use crate::api::quota::ResourceGroup;
use crate::flavor::options::FlavorOptions;
use crate::workload::shape::ShapeId;

/// The cache is never purged below this size.
const KEPT_MIN: usize = 1024;

/// The groups, flavors and resources of a queue without the quotas, and the resources that it ignores. A
/// number within a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LayoutId(usize);

/// The flavor options of a tree. They are valid until it is built again.
#[derive(Clone, Debug, Default)]
pub(crate) struct OptionsCache {
    layouts: BTreeMap<LayoutByNames, LayoutId>,
    all: BTreeMap<(LayoutId, ShapeId), Arc<FlavorOptions>>,
    /// The size after the last purge.
    left: usize,
}

#[derive(Clone, Debug)]
struct LayoutByNames(Arc<ClusterQueue>);

impl LayoutByNames {
    /// All names, in an order and with gaps from which the groups could be reconstructed.
    fn names(&self) -> impl Iterator<Item = Option<&str>> {
        self.0.resource_groups.iter().flat_map(names)
    }
}

fn names(group: &ResourceGroup) -> impl Iterator<Item = Option<&str>> {
    let covered = group
        .covered_resources
        .iter()
        .map(|name| Some(name.as_str()));
    let flavors = group.flavors.iter().flat_map(|flavor| {
        let resources = flavor.resources.keys().map(|name| Some(name.as_str()));
        let name = std::iter::once(Some(flavor.name.as_str()));
        name.chain(resources).chain([None])
    });
    // A flavor begins with its name, so a gap after a gap is the start of a group.
    let gap = || std::iter::once(None);
    gap().chain(covered).chain(gap()).chain(flavors)
}

impl PartialEq for LayoutByNames {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for LayoutByNames {}

impl PartialOrd for LayoutByNames {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LayoutByNames {
    fn cmp(&self, other: &Self) -> Ordering {
        let undeclared = |layout: &Self| layout.0.undeclared_resources.clone();
        (self.names().cmp(other.names())).then_with(|| undeclared(self).cmp(&undeclared(other)))
    }
}

impl OptionsCache {
    /// The layout of a queue.
    pub(crate) fn layout(&mut self, queue: &Arc<ClusterQueue>) -> LayoutId {
        let next = LayoutId(self.layouts.len());
        let layout = LayoutByNames(Arc::clone(queue));
        *self.layouts.entry(layout).or_insert(next)
    }

    /// The flavor options of a shape in a layout; `work_out` is called if they are not cached.
    pub(crate) fn get(
        &mut self,
        layout: LayoutId,
        shape: ShapeId,
        work_out: impl FnOnce() -> FlavorOptions,
    ) -> Arc<FlavorOptions> {
        let size_max = self.left.saturating_mul(2).max(KEPT_MIN);
        if size_max <= self.all.len() {
            self.all.retain(|_, options| Arc::strong_count(options) > 1);
            self.left = self.all.len();
        }
        let options = self.all.entry((layout, shape));
        Arc::clone(options.or_insert_with(|| Arc::new(work_out())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::amount::Amount;
    use crate::api::quota::{FlavorQuotas, Quota};
    use crate::api::workload::PodSet;
    use crate::flavor::options::NoAssignment;
    use crate::workload::shape::Shapes;

    /// The covered resources of each group, and its flavors, each with its resources.
    type Groups<'a> = &'a [(&'a str, &'a [&'a str])];

    fn mk_queue(name: &str, groups: Groups<'_>, nominal: i128) -> Arc<ClusterQueue> {
        let quota = Quota {
            nominal: Amount::new(nominal),
            ..Quota::default()
        };
        let group = |(covered, flavors): &(&str, &[&str])| ResourceGroup {
            covered_resources: covered.split_whitespace().map(Into::into).collect(),
            flavors: (flavors.iter())
                .map(|words| {
                    let (name, resources) = words.split_once(' ').unwrap_or((words, ""));
                    let resources = resources.split_whitespace();
                    FlavorQuotas {
                        name: name.into(),
                        resources: resources.map(|name| (name.into(), quota)).collect(),
                    }
                })
                .collect(),
        };
        Arc::new(ClusterQueue {
            resource_groups: groups.iter().map(group).collect(),
            ..ClusterQueue::new(name.into())
        })
    }

    #[test]
    fn queues_share_a_layout_if_they_differ_in_quota_alone() {
        let cases: [(&str, Groups<'_>); 10] = [
            ("nothing", &[]),
            ("an empty group", &[("", &[])]),
            ("no flavor", &[("cpu", &[])]),
            ("one flavor", &[("cpu", &["a cpu"])]),
            ("a resource of another name", &[("gpu", &["a gpu"])]),
            ("a flavor without the resource", &[("cpu", &["a"])]),
            ("two flavors", &[("cpu", &["a cpu", "b cpu"])]),
            ("the other way round", &[("cpu", &["b cpu", "a cpu"])]),
            ("two groups", &[("cpu", &["a cpu"]), ("b", &["cpu"])]),
            ("one group of both", &[("b cpu", &["a cpu", "cpu"])]),
        ];
        let mut options_cache = OptionsCache::default();
        for (number, (name, groups)) in cases.iter().enumerate() {
            let first = options_cache.layout(&mk_queue("first", groups, 1));
            assert_eq!(first, LayoutId(number), "{name}");
        }
        for (number, (name, groups)) in cases.iter().enumerate() {
            let second = options_cache.layout(&mk_queue("second", groups, 2));
            assert_eq!(second, LayoutId(number), "{name}");
        }
    }

    #[test]
    fn plans_that_nobody_needs_are_thrown_away() {
        let mut options_cache = OptionsCache::default();
        let mut shapes = Shapes::new(Amount::new(1));
        let layout = options_cache.layout(&mk_queue("q", &[], 1));
        let mut options = |count| {
            let shape = shapes.acquire(vec![PodSet::new("main".into(), count)]);
            let work_out = || FlavorOptions::None(NoAssignment::NoQuota("cpu".into()));
            let options = options_cache.get(layout, shape.id, work_out);
            (options, options_cache.all.len())
        };
        let (first, _) = options(1);
        for count in 2..10_000 {
            let (_, kept) = options(count);
            assert!(kept <= KEPT_MIN, "{kept} are kept after {count}");
        }
        assert!(Arc::ptr_eq(&first, &options(1).0), "what is needed is kept");
    }
}
