//! Shapes: what a workload requests, shared by all workloads with equal requests. Within a queue one
//! decision serves all of them.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::amount::Amount;
use crate::api::explanation::RequestProblem;
use crate::api::names::{LocalQueueKey, ResourceName};
use crate::api::quota::Borrowing;
use crate::api::workload::PodSet;

/// The class of a pending workload: its shape, and in a queue that admits by usage also its LocalQueue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassId {
    pub(crate) shape: ShapeId,
    pub(crate) local_queue: Option<Arc<LocalQueueKey>>,
}

/// The number of a shape. Numbers are given in order of arrival, so no decision may depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeId(u64);

/// What a workload requests.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) id: ShapeId,
    pub(crate) pod_sets: Arc<[PodSet]>,
    /// The sum of all requests, pods included: what is above zero. Empty if the requests are not valid.
    pub(crate) requests: Box<[(ResourceName, Amount)]>,
    /// Why the requests are not valid. Such a workload is never queued.
    pub(crate) problem: Option<RequestProblem>,
}

/// All shapes in use, with the number of workloads of each.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    users: BTreeMap<ShapeByContent, usize>,
    next: u64,
    /// What one pod costs of the resource `pods`.
    pod: Amount,
}

#[derive(Clone, Debug)]
struct ShapeByContent(Arc<Shape>);

impl Borrow<[PodSet]> for ShapeByContent {
    fn borrow(&self) -> &[PodSet] {
        &self.0.pod_sets
    }
}

impl PartialEq for ShapeByContent {
    fn eq(&self, other: &Self) -> bool {
        self.0.pod_sets == other.0.pod_sets
    }
}

impl Eq for ShapeByContent {}

impl PartialOrd for ShapeByContent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShapeByContent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.pod_sets.cmp(&other.0.pod_sets)
    }
}

impl Shape {
    /// Whether it may borrow: not if one of its pod sets may not.
    pub(crate) fn borrowing(&self) -> Borrowing {
        let all = self.pod_sets.iter().map(|pod_set| pod_set.borrowing);
        all.min().unwrap_or(Borrowing::Allowed)
    }
}

impl Shapes {
    pub(crate) fn new(pod: Amount) -> Self {
        Self {
            users: BTreeMap::new(),
            next: 0,
            pod: pod.clamped(),
        }
    }

    /// What one pod costs of the resource `pods`.
    pub(crate) fn pod(&self) -> Amount {
        self.pod
    }

    /// The shape of these pod sets, with one more user.
    pub(crate) fn acquire(&mut self, pod_sets: Vec<PodSet>) -> Arc<Shape> {
        if let Some((known, _)) = self.users.get_key_value(pod_sets.as_slice()) {
            let shape = Arc::clone(&known.0);
            if let Some(users) = self.users.get_mut(pod_sets.as_slice()) {
                *users = users.saturating_add(1);
            }
            return shape;
        }
        let (requests, problem) = match sums(&pod_sets, self.pod) {
            Ok(requests) => (requests, None),
            Err(problem) => (Box::default(), Some(problem)),
        };
        let shape = Arc::new(Shape {
            id: ShapeId(self.next),
            pod_sets: pod_sets.into(),
            requests,
            problem,
        });
        self.next = self.next.saturating_add(1);
        self.users.insert(ShapeByContent(Arc::clone(&shape)), 1);
        shape
    }

    /// The shape has one user less. Says whether it had any.
    #[must_use]
    pub(crate) fn release(&mut self, shape: &Shape) -> bool {
        let Some(users) = self.users.get_mut(&*shape.pod_sets) else {
            return false;
        };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.users.remove(&*shape.pod_sets);
        }
        true
    }
}

/// The sums of these requests, as far as they are above zero. Each amount and each sum over all pods must
/// lie between zero and [`Amount::LIMIT`].
fn sums(pod_sets: &[PodSet], pod: Amount) -> Result<Box<[(ResourceName, Amount)]>, RequestProblem> {
    let mut sums: BTreeMap<&ResourceName, Amount> = BTreeMap::new();
    let mut pods = Some(Amount::ZERO);
    for pod_set in pod_sets {
        for (resource, amount) in pod_set.requests.iter().filter(|(r, _)| !r.is_pods()) {
            if *amount < Amount::ZERO {
                let (pod_set, resource) = (pod_set.name.clone(), resource.clone());
                return Err(RequestProblem::Negative { pod_set, resource });
            }
            let sum = sums.entry(resource).or_default();
            *sum = add(*sum, *amount, pod_set.count).ok_or_else(|| too_large(resource))?;
        }
        pods = pods.and_then(|pods| add(pods, pod, pod_set.count));
    }
    let name = ResourceName::from(ResourceName::PODS);
    let pods = pods.ok_or_else(|| too_large(&name))?;
    let all = sums.into_iter().chain([(&name, pods)]);
    Ok(all
        .filter(|(_, sum)| *sum > Amount::ZERO)
        .map(|(resource, sum)| (resource.clone(), sum))
        .collect())
}

fn too_large(resource: &ResourceName) -> RequestProblem {
    RequestProblem::TooLarge {
        resource: resource.clone(),
    }
}

fn add(sum: Amount, amount: Amount, count: u32) -> Option<Amount> {
    let total = sum.checked_add(amount.checked_mul(count)?)?;
    (total <= Amount::LIMIT).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_counted_and_not_asked_for() {
        let pod_set = PodSet {
            requests: BTreeMap::from([
                ("pods".into(), Amount::new(-5)),
                ("cpu".into(), Amount::new(3)),
            ]),
            ..PodSet::new("main".into(), 2)
        };
        let shape = Shapes::new(Amount::new(10)).acquire(vec![pod_set]);
        let sums = [
            ("cpu".into(), Amount::new(6)),
            ("pods".into(), Amount::new(20)),
        ];
        assert_eq!((&*shape.requests, &shape.problem), (&sums[..], &None));
    }

    #[test]
    fn pods_that_are_too_many_to_count_are_a_problem() {
        let problem = |count| {
            let mut shapes = Shapes::new(Amount::LIMIT);
            let shape = shapes.acquire(vec![PodSet::new("main".into(), count)]);
            shape.problem.clone()
        };
        let resource = ResourceName::from(ResourceName::PODS);
        assert_eq!(problem(1), None);
        assert_eq!(problem(2), Some(RequestProblem::TooLarge { resource }));
    }
}
