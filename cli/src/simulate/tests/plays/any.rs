//! What must always hold, whatever jobs come and whatever their queues allow.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sluice_engine::{
    BorrowWithinCohort, FairPreemption, Preemption, ReclaimWithinCohort, Weight, WithinClusterQueue,
};

use super::*;
use crate::simulate::basis::Owner;

/// Two queues or three, and what holds for them.
#[derive(Debug, Clone)]
pub(in crate::simulate::tests) struct Setup {
    queues: BTreeMap<&'static str, Manners>,
    cohort: bool,
    pub(in crate::simulate::tests) fair_sharing: Option<Vec<FairPreemption>>,
}

/// What a queue has, may do to others, and is due.
#[derive(Debug, Clone, Copy)]
struct Manners {
    cpu: i128,
    preemption: Preemption,
    weight: Weight,
}

impl Setup {
    pub(in crate::simulate::tests) fn quotas(&self) -> Quotas {
        let cpus = self.queues.iter().map(|(name, queue)| (*name, queue.cpu));
        queues(&cpus.collect::<Vec<_>>(), self.cohort, |queue| {
            if let Some(manners) = self.queues.get(queue.name.as_str()) {
                queue.preemption = manners.preemption;
                queue.fair_weight = manners.weight;
            }
        })
    }

    /// Whether evictions are sure to come to an end. Where one that borrows may make others go by its
    /// priority, four jobs can stand in a circle, each before the next by another right: one play of
    /// millions. Of such plays it is asked only if they are the usual ones.
    fn is_sure_to_end(&self) -> bool {
        let never =
            |queue: &Manners| queue.preemption.borrow_within_cohort == BorrowWithinCohort::Never;
        self.fair_sharing.is_some() || !self.cohort || self.queues.values().all(never)
    }

    /// Whether a job would fit if nothing else was admitted.
    fn fits(&self, job: &Job) -> bool {
        let own = self.queues.get(&*job.queue.name);
        let most = if self.cohort {
            self.queues.values().map(|queue| queue.cpu).sum()
        } else {
            own.map_or(0, |queue| queue.cpu)
        };
        let sets = job.pod_sets.iter();
        let least: u32 = sets.map(|set| set.min_count.unwrap_or(set.count)).sum();
        own.is_some() && i128::from(least) <= most
    }
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

/// Whether the plays are the ones that are drawn if nothing is said.
fn is_usual() -> bool {
    !is_set("PROPTEST_CASES") && !is_set("PROPTEST_RNG_SEED")
}

/// The same plays each time; or others, if `PROPTEST_RNG_SEED` is set, and more, if `PROPTEST_CASES` is.
pub(in crate::simulate::tests) fn config() -> ProptestConfig {
    let mut config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if !is_set("PROPTEST_CASES") {
        config.cases = 128;
    }
    if !is_set("PROPTEST_RNG_SEED") {
        config.rng_seed = RngSeed::Fixed(0);
    }
    config
}

/// Some that all come at about the same time, or many that come one after the other.
pub(in crate::simulate::tests) fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    let jobs = |arrivals: i64, count| proptest::collection::vec(any_job(arrivals), count);
    prop_oneof![jobs(3, 1..8), jobs(80, 1..8), jobs(200, 1..40)]
}

pub(in crate::simulate::tests) fn any_job(arrivals: i64) -> impl Strategy<Value = Job> {
    let one = (
        prop_oneof![
            8 => Just("a"),
            8 => Just("b"),
            3 => Just("c"),
            1 => Just("x"),
        ],
        0..arrivals,
        0..60_u64,
        1..9_u32,
        0..3_i32,
        proptest::option::of(1..9_u32),
    );
    one.prop_map(|(queue, arrival, duration, count, priority, least)| {
        let least = least.map(|least| least.min(count));
        job(queue, arrival, duration, (count, least), priority)
    })
}

pub(in crate::simulate::tests) fn any_setup() -> impl Strategy<Value = Setup> {
    let fair_sharing = proptest::option::of(any_fairness());
    let queues = (
        any_manners(4),
        any_manners(3),
        any_manners(2),
        0..3_u8,
        any::<bool>(),
    );
    (queues, any::<bool>(), fair_sharing).prop_map(|(queues, cohort, fair_sharing)| {
        let (a, mut b, mut c, have_c, is_alike) = queues;
        if is_alike {
            (b.preemption, c.preemption) = (a.preemption, a.preemption);
        }
        let mut queues = BTreeMap::from([("a", a), ("b", b)]);
        if have_c == 0 {
            queues.insert("c", c);
        }
        Setup {
            queues,
            cohort,
            fair_sharing,
        }
    })
}

fn any_manners(cpu: i128) -> impl Strategy<Value = Manners> {
    let weight = prop_oneof![Just(1000), Just(1000), Just(3000), Just(500), Just(0)];
    (any_preemption(), weight).prop_map(move |(preemption, weight)| Manners {
        cpu,
        preemption,
        weight: Weight::from_thousandths(weight),
    })
}

fn any_fairness() -> impl Strategy<Value = Vec<FairPreemption>> {
    let [final_share, initial_share] = FairPreemption::DEFAULT;
    prop_oneof![
        Just(vec![final_share, initial_share]),
        Just(vec![final_share]),
        Just(vec![initial_share]),
    ]
}

fn any_preemption() -> impl Strategy<Value = Preemption> {
    let within = prop_oneof![
        Just(WithinClusterQueue::Never),
        Just(WithinClusterQueue::LowerPriority),
        Just(WithinClusterQueue::LowerOrNewerEqualPriority),
    ];
    let reclaim = prop_oneof![
        Just(ReclaimWithinCohort::Never),
        Just(ReclaimWithinCohort::LowerPriority),
        Just(ReclaimWithinCohort::Any),
    ];
    let threshold = proptest::option::of(0..3_i32);
    let borrow = prop_oneof![
        Just(BorrowWithinCohort::Never),
        threshold.prop_map(|max_priority_threshold| BorrowWithinCohort::LowerPriority {
            max_priority_threshold
        }),
    ];
    (within, reclaim, borrow).prop_map(
        |(within_cluster_queue, reclaim_within_cohort, borrow_within_cohort)| Preemption {
            within_cluster_queue,
            reclaim_within_cohort,
            borrow_within_cohort,
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_must_always_hold(
        jobs in any_jobs(),
        setup in any_setup(),
        checkpoint: bool,
        until in proptest::option::of(0..300_i64),
    ) {
        let quotas = setup.quotas();
        let rules = Rules {
            settings: Settings { fair_sharing: setup.fair_sharing.clone(), ..rules().settings },
            until: until.map(|until| Time::from_millis(until * 1000)),
            restart: if checkpoint { Restart::WhereItWas } else { Restart::FromStart },
            ..rules()
        };
        let figures = figures(&quotas, &jobs, &rules);
        let has_ended = figures.cut != Some("evictions");
        prop_assert!(has_ended || !(is_usual() || setup.is_sure_to_end()));
        if has_ended && until.is_none() {
            let able = jobs.iter().filter(|job| setup.fits(job)).count();
            prop_assert_eq!(figures.all.finished, able);
        }
        for row in &figures.quotas {
            if matches!(row.owner, Owner::All | Owner::Cohort(_)) {
                prop_assert!(row.utilisation.is_none_or(|part| (0.0..=1.0).contains(&part)));
            }
        }
        let groups = [
            vec![figures.all.clone()],
            figures.cluster_queues.clone(),
            figures.local_queues.clone(),
            figures.priorities.clone(),
            figures.sizes.clone(),
        ];
        for groups in groups {
            let all: usize = groups.iter().map(|group| group.jobs).sum();
            prop_assert_eq!(all, jobs.len());
            for group in groups {
                let ends = [group.finished, group.running, group.waiting, group.never_admitted, group.not_arrived];
                prop_assert_eq!(ends.iter().sum::<usize>(), group.jobs);
                for spread in group.wait.iter().chain(&group.turnaround) {
                    prop_assert!(0 <= spread.p50_seconds.0 && spread.p50_seconds <= spread.max_seconds);
                }
            }
        }
        let again = self::figures(&quotas, &jobs, &rules);
        prop_assert_eq!(serde_json::to_string(&figures).unwrap(), serde_json::to_string(&again).unwrap());
    }
}
