//! What the engine says about a waiting workload against what it then does: so much more quota as is lacking and it is
//! admitted, one unit less and it is not; those who have to end have ended, and it is admitted; and what can never fit
//! is not admitted where nothing else is.

use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{
    Amount, ClusterQueueName, Decision, Engine, Explanation, FlavorName, Need, Preemption,
    ResourceName, Time, Trial, Trials, WorkloadId, WorkloadState,
};

use crate::histories::play::rebuilt;
use crate::oracle::Oracle;
use crate::oracle::tally::Tally;

/// More of one resource in one flavor, in the queue of the workload.
type More = (FlavorName, ResourceName, i128);

/// A state in which one workload waits, and nobody else does, nor may preempt.
struct Alone<'a> {
    engine: &'a Engine,
    oracle: Oracle,
    id: &'a WorkloadId,
    now: Time,
}

/// Compares what is said about each waiting workload with what becomes of it.
pub(crate) fn check_trials(engine: &Engine, oracle: &Oracle, now: Time, tally: &mut Tally) {
    let explained = |id: &WorkloadId| engine.explain(id);
    // What is reserved for others is not there for somebody who is alone.
    let is_reserved = oracle
        .workloads
        .keys()
        .any(|id| matches!(explained(id), Some(Explanation::Nominated { .. })));
    for id in oracle.workloads.keys() {
        let Some(trials) = engine.trials(id) else {
            continue;
        };
        let explanation = explained(id).unwrap();
        if is_reserved || !is_about_quota(&explanation) {
            continue;
        }
        assert_eq!(
            explanation.never_fits(),
            !trials.ever_fits,
            "never fits: {id}: {trials:#?} {explanation:?}"
        );
        let mut alone = oracle.clone();
        alone.workloads.retain(|other, workload| {
            other == id || holds(&workload.state) || oracle.assumed.contains_key(other)
        });
        alone.workloads.get_mut(id).unwrap().not_before = None;
        for queue in alone.queues.values_mut() {
            queue.preemption = Preemption::default();
        }
        let alone = Alone {
            engine,
            oracle: alone,
            id,
            now,
        };
        alone.check(&trials, &explanation, tally);
    }
}

/// Whether it is quota that it waits for, or the head of a queue that waits for it.
fn is_about_quota(explanation: &Explanation) -> bool {
    matches!(
        explanation,
        Explanation::DoesNotFit { .. }
            | Explanation::BehindHead { .. }
            | Explanation::TargetsProtected { .. }
            | Explanation::QuotaReserved { .. }
            | Explanation::Queued { .. }
            | Explanation::NoQuota { .. }
    )
}

fn holds(state: &WorkloadState) -> bool {
    matches!(
        state,
        WorkloadState::Admitted(_) | WorkloadState::Evicting(..)
    )
}

impl Alone<'_> {
    fn check(&self, trials: &Trials, explanation: &Explanation, tally: &mut Tally) {
        let text = format!("{}: {trials:#?} {explanation:?}", self.id);
        let empty = self.without(|_| true);
        assert_eq!(
            empty.is_admitted(&[]),
            trials.ever_fits,
            "in an empty tree: {text}"
        );
        if !trials.ever_fits {
            tally.never_fits += 1;
        }
        // More quota does not help where a pod set has no flavor at all.
        let slots = slots(trials);
        let suits_none = |slot: &Vec<&Trial>| slot.iter().all(|trial| trial.needs.is_err());
        let has_no_quota = matches!(explanation, Explanation::NoQuota { .. });
        if has_no_quota || slots.is_empty() || slots.iter().any(suits_none) {
            return;
        }
        for more in [Self::more(trials, 0), lacking(trials, 0)]
            .into_iter()
            .flatten()
        {
            assert!(self.gets_quota(&more), "with {more:?} more: {text}");
        }
        if trials.lacking.is_empty() {
            return;
        }
        tally.lacking += 1;
        // More quota that is not lent is there even while others use more than the cohort has.
        let less = if !do_compete(&slots) {
            Self::more(trials, 1)
        } else if may_exceed_most(&slots) {
            // What could never be had may lack less.
            None
        } else {
            tally.one_less_together += 1;
            lacking(trials, 1)
        };
        if !self.has_lending_limits()
            && let Some(less) = less
        {
            tally.one_less += 1;
            assert!(!self.is_admitted(&less), "with {less:?} more: {text}");
        }
        self.check_holders(trials, &text, tally);
    }

    fn check_holders(&self, trials: &Trials, text: &str, tally: &mut Tally) {
        let mut holders = self.engine.begin_holders(self.id).unwrap();
        while !self.engine.go_on_holders(&mut holders, 1) {}
        let stopping = holders.found().iter().filter(|holder| holder.is_stopping);
        let stopping: BTreeSet<WorkloadId> = stopping.map(|holder| holder.id().clone()).collect();
        let all: BTreeSet<WorkloadId> = holders.found().iter().map(|h| h.id().clone()).collect();
        let ended: BTreeSet<WorkloadId> = holders.have_to_end().into_iter().collect();
        assert!(
            ended.is_subset(&all) && ended.is_disjoint(&stopping),
            "{text}"
        );
        if ended.is_empty() {
            return;
        }
        tally.have_to_end += 1;
        let gone = |id: &WorkloadId| ended.contains(id) || stopping.contains(id);
        let rest = self.without(gone);
        assert!(rest.gets_quota(&[]), "without {ended:?}: {text}");
        // In its first flavor none ends in vain; it may fit into another one with fewer.
        let is_one_way = slots(trials).iter().all(|slot| slot.len() == 1);
        for kept in ended.iter().filter(|_| is_one_way) {
            let fewer = self.without(|id| gone(id) && id != kept);
            assert!(!fewer.is_admitted(&[]), "{kept} need not end: {text}");
        }
    }

    /// So much more that it fits into each flavor; or short of one unit in each into which it does not fit. None where
    /// amounts are absurd, or not all flavors suit.
    fn more(trials: &Trials, short_of: i128) -> Option<Vec<More>> {
        // What a pod set needs includes what those before it get of the same flavor.
        let mut more: BTreeMap<(FlavorName, ResourceName), i128> = BTreeMap::new();
        for trial in &trials.flavors {
            let mut short_of = short_of;
            for need in trial.needs.as_ref().ok()? {
                if need.lacking > Amount::ZERO {
                    let amount = need.lacking.get() - std::mem::take(&mut short_of);
                    let known = more.entry((trial.flavor.clone(), need.resource.clone()));
                    let known = known.or_default();
                    *known = amount.max(*known);
                }
            }
        }
        let more = more.into_iter();
        sane(more.map(|((flavor, resource), amount)| (flavor, resource, amount)))
    }

    fn has_lending_limits(&self) -> bool {
        let of_queue = &self.oracle.queues[&self.queue()].resource_groups;
        let of_cohorts = self.oracle.cohorts.values();
        let groups = of_cohorts
            .flat_map(|cohort| &cohort.resource_groups)
            .chain(of_queue);
        let flavors = groups.flat_map(|group| &group.flavors);
        let mut quotas = flavors.flat_map(|flavor| flavor.resources.values());
        quotas.any(|quota| quota.lending_limit.is_some())
    }

    fn queue(&self) -> ClusterQueueName {
        let key = &self.oracle.workloads[self.id].queue;
        self.oracle.locals[key].cluster_queue.clone()
    }

    /// The same without these others.
    fn without(&self, gone: impl Fn(&WorkloadId) -> bool) -> Self {
        let mut oracle = self.oracle.clone();
        let is_kept = |id: &WorkloadId| id == self.id || !gone(id);
        oracle.workloads.retain(|id, _| is_kept(id));
        oracle.assumed.retain(|id, _| is_kept(id));
        Self { oracle, ..*self }
    }

    /// Whether it is admitted if its queue has so much more quota.
    fn is_admitted(&self, more: &[More]) -> bool {
        self.decides(more, |_| false)
    }

    /// The same, or quota is reserved for it. Whoever may be admitted in part fits with his fewest pods, and
    /// rather waits for what evicted workloads give back if more of his pods fit then. So does one that need not borrow
    /// then, in another flavor.
    fn gets_quota(&self, more: &[More]) -> bool {
        let pod_sets = &self.oracle.workloads[self.id].pod_sets;
        let in_part = pod_sets.iter().any(|pod_set| pod_set.min_count.is_some());
        let mut groups = self.oracle.queues[&self.queue()].resource_groups.iter();
        let has_choice = groups.any(|group| group.flavors.len() > 1);
        self.decides(more, |engine| {
            (in_part || has_choice)
                && matches!(engine.explain(self.id), Some(Explanation::Nominated { .. }))
        })
    }

    fn decides(&self, more: &[More], or: impl Fn(&Engine) -> bool) -> bool {
        let mut oracle = self.oracle.clone();
        let queue = oracle.queues.get_mut(&self.queue()).unwrap();
        let groups = queue.resource_groups.iter_mut();
        for flavor in groups.flat_map(|group| &mut group.flavors) {
            for (resource, quota) in &mut flavor.resources {
                let amounts = more
                    .iter()
                    .filter(|(name, of, _)| (name, of) == (&flavor.name, resource));
                let amount: i128 = amounts.map(|(_, _, amount)| amount).sum();
                if amount > 0 {
                    quota.nominal = Amount::new(quota.nominal.get().max(0) + amount);
                }
            }
        }
        let mut engine = rebuilt(&oracle, self.engine, 0);
        let decided = engine.decide(self.now);
        let admits =
            |decision: &Decision| matches!(decision, Decision::Admit { id, .. } if id == self.id);
        decided.iter().any(admits) || or(&engine)
    }
}

/// None where amounts are absurd.
fn sane(more: impl Iterator<Item = More>) -> Option<Vec<More>> {
    let more: Vec<More> = more.collect();
    let is_sane = |amount: i128| (0..1_000_000).contains(&amount);
    let are_sane = more.iter().all(|(_, _, amount)| is_sane(*amount));
    are_sane.then_some(more)
}

/// What is said to be lacking, or short of so much of the first.
fn lacking(trials: &Trials, short_of: i128) -> Option<Vec<More>> {
    let mut short_of = short_of;
    let lacking = trials.lacking.iter().cloned();
    sane(lacking.map(|(flavor, resource, amount)| {
        let amount = amount.get() - std::mem::take(&mut short_of);
        (flavor, resource, amount)
    }))
}

/// What was tried for each pod set and resource group. All groups of a queue begin with the same flavor here.
fn slots(trials: &Trials) -> Vec<Vec<&Trial>> {
    let mut slots: Vec<Vec<&Trial>> = Vec::new();
    for trial in &trials.flavors {
        let is_of = |slot: &&mut Vec<&Trial>| slot.iter().all(|other| other.flavor != trial.flavor);
        match slots.last_mut().filter(is_of) {
            Some(slot) => slot.push(trial),
            None => slots.push(vec![trial]),
        }
    }
    slots
}

/// What it may use in each flavor that suits it.
fn needs<'a>(slot: &'a [&Trial]) -> impl Iterator<Item = (&'a FlavorName, &'a Need)> {
    slot.iter().flat_map(|trial| {
        let needs = trial.needs.iter().flatten();
        needs.map(|need| (&trial.flavor, need))
    })
}

/// Whether the flavor of one may leave too little to a later one.
fn do_compete(slots: &[Vec<&Trial>]) -> bool {
    let mut chosen = BTreeSet::new();
    for slot in slots {
        let cells = || needs(slot).map(|(flavor, need)| (flavor, &need.resource));
        if cells().any(|cell| chosen.contains(&cell)) {
            return true;
        }
        if slot.iter().filter(|trial| trial.needs.is_ok()).count() > 1 {
            chosen.extend(cells());
        }
    }
    false
}

/// Whether all together could get more of a flavor than there can be.
fn may_exceed_most(slots: &[Vec<&Trial>]) -> bool {
    let mut sums: BTreeMap<_, i128> = BTreeMap::new();
    let mut all = slots.iter().flat_map(|slot| needs(slot));
    all.any(|(flavor, need)| {
        let sum = sums.entry((flavor, &need.resource)).or_default();
        *sum = sum.saturating_add(need.request.get());
        need.most.get() < *sum
    })
}
