//! Plans that the queues of a tree share: where queues choose among the same flavors and resources, a shape
//! is placed in the same way, whatever quota they have. What a plan is, is `flavors.rs`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::flavors::Plan;
use crate::model::{ClusterQueue, ResourceGroup};
use crate::shape::ShapeId;

/// Fewer plans than this are all kept.
const KEPT_MIN: usize = 1024;

/// What queues choose among: groups, flavors and resources, without the quotas. A number within a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LayoutId(usize);

/// The plans of a tree. They hold until it is built anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans {
    layouts: BTreeMap<ByLayout, LayoutId>,
    all: BTreeMap<(LayoutId, ShapeId), Arc<Plan>>,
    /// As many were left when those that nobody needs were last thrown away.
    left: usize,
}

#[derive(Clone, Debug)]
struct ByLayout(Arc<ClusterQueue>);

impl ByLayout {
    /// All names, in an order and with gaps from which the groups could be built again.
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

impl PartialEq for ByLayout {
    fn eq(&self, other: &Self) -> bool {
        self.names().eq(other.names())
    }
}

impl Eq for ByLayout {}

impl PartialOrd for ByLayout {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByLayout {
    fn cmp(&self, other: &Self) -> Ordering {
        self.names().cmp(other.names())
    }
}

impl Plans {
    /// What a queue chooses among.
    pub(crate) fn layout(&mut self, queue: &Arc<ClusterQueue>) -> LayoutId {
        let next = LayoutId(self.layouts.len());
        let layout = ByLayout(Arc::clone(queue));
        *self.layouts.entry(layout).or_insert(next)
    }

    /// How a shape could be placed in a layout; `work_out` is asked if that isn't known.
    pub(crate) fn get(
        &mut self,
        layout: LayoutId,
        shape: ShapeId,
        work_out: impl FnOnce() -> Plan,
    ) -> Arc<Plan> {
        let kept_max = self.left.saturating_mul(2).max(KEPT_MIN);
        if kept_max <= self.all.len() {
            self.all.retain(|_, plan| Arc::strong_count(plan) > 1);
            self.left = self.all.len();
        }
        let plan = self.all.entry((layout, shape));
        Arc::clone(plan.or_insert_with(|| Arc::new(work_out())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Amount;
    use crate::flavors::Obstacle;
    use crate::model::{FlavorQuotas, PodSet, Quota};
    use crate::shape::Shapes;

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
        let mut plans = Plans::default();
        for (number, (name, groups)) in cases.iter().enumerate() {
            let first = plans.layout(&mk_queue("first", groups, 1));
            assert_eq!(first, LayoutId(number), "{name}");
        }
        for (number, (name, groups)) in cases.iter().enumerate() {
            let second = plans.layout(&mk_queue("second", groups, 2));
            assert_eq!(second, LayoutId(number), "{name}");
        }
    }

    #[test]
    fn plans_that_nobody_needs_are_thrown_away() {
        let mut plans = Plans::default();
        let mut shapes = Shapes::new(Amount::new(1));
        let layout = plans.layout(&mk_queue("q", &[], 1));
        let mut plan = |count| {
            let shape = shapes.acquire(vec![PodSet::new("main".into(), count)]);
            let work_out = || Plan::Hopeless(Obstacle::NoQuota("cpu".into()));
            let plan = plans.get(layout, shape.id, work_out);
            (plan, plans.all.len())
        };
        let (first, _) = plan(1);
        for count in 2..10_000 {
            let (_, kept) = plan(count);
            assert!(kept <= KEPT_MIN, "{kept} are kept after {count}");
        }
        assert!(Arc::ptr_eq(&first, &plan(1).0), "what is needed is kept");
    }
}
