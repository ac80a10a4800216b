//! The world that is measured: one cohort tree of queues that are full, and workloads that wait.
//! What happens in it is up to the benches.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use sluice_engine::{
    Admission, Amount, ClusterQueue, Cohort, Decision, Engine, Event, Flavor, FlavorQuotas,
    LocalQueue, LocalQueueKey, PodSet, Quota, ResourceGroup, Settings, Time, Workload, WorkloadId,
    WorkloadState,
};

const NANO: i128 = 1_000_000_000;
const GIB: i128 = 1 << 30;

/// How many pods a queue has room for.
const PLACES: u64 = 4;

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) pending: u64,
    pub(crate) queues: u64,
    /// In how many ways workloads differ in what they ask for.
    pub(crate) shapes: u64,
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pending,
            queues,
            shapes,
        } = self;
        write!(
            f,
            "{pending:>6} pending, {queues:>4} queues, {shapes:>4} shapes"
        )
    }
}

pub(crate) const fn scale(pending: u64, queues: u64, shapes: u64) -> Scale {
    Scale {
        pending,
        queues,
        shapes,
    }
}

/// A few shapes.
pub(crate) const FEW: [Scale; 6] = [
    scale(1_000, 10, 3),
    scale(10_000, 10, 3),
    scale(100_000, 10, 3),
    scale(1_000, 1_000, 3),
    scale(10_000, 1_000, 3),
    scale(100_000, 1_000, 3),
];

/// Hardly two workloads of a queue are alike.
pub(crate) const MANY: [Scale; 5] = [
    scale(1_000, 10, 1_000),
    scale(10_000, 10, 1_000),
    scale(100_000, 10, 1_000),
    scale(10_000, 1_000, 1_000),
    scale(100_000, 1_000, 1_000),
];

/// Where the quota is, and which queue stays empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each queue has its own, and uses it.
    Own,
    /// Each queue has more than it needs.
    Roomy,
    /// Each queue has its own; the first uses nothing, and the others borrow that.
    FirstIsIdle,
    /// All of it is the cohort's, so that all borrow.
    Shared,
}

/// One cohort tree. Workloads have numbers, and who is older has the smaller one.
pub(crate) struct World {
    pub(crate) engine: Engine,
    scale: Scale,
    layout: Layout,
    /// Who has been admitted, the longest admitted first.
    running: VecDeque<u64>,
    /// From a workload's number to that of the one that comes when it has ended.
    step: u64,
}

/// What becomes of the queues before they are told.
pub(crate) type Tweak = fn(ClusterQueue) -> ClusterQueue;

pub(crate) fn queue_name(queue: u64) -> String {
    format!("team-{queue}")
}

fn key(queue: u64) -> LocalQueueKey {
    LocalQueueKey::new("ns", queue_name(queue))
}

pub(crate) fn id(number: u64) -> WorkloadId {
    format!("00000000-0000-0000-0000-{number:012}").into()
}

fn number(id: &WorkloadId) -> u64 {
    id.as_str()
        .get(24..)
        .and_then(|text| text.parse().ok())
        .unwrap()
}

/// Quota for so many pods of any shape, and a little more of everything but pods.
fn group(places: u64, more: u64) -> ResourceGroup {
    let places = i128::from(places);
    let quota = |units: i128| Quota {
        nominal: Amount::new(units),
        ..Quota::default()
    };
    let resources = [
        ("cpu", quota(places * 2 * NANO + i128::from(more))),
        ("memory", quota(places * 2 * GIB * NANO)),
        ("pods", quota(places * NANO)),
    ];
    ResourceGroup {
        covered_resources: resources.iter().map(|(name, _)| (*name).into()).collect(),
        flavors: vec![FlavorQuotas {
            name: "default".into(),
            resources: resources
                .into_iter()
                .map(|(name, quota)| (name.into(), quota))
                .collect(),
        }],
    }
}

/// Everything but workloads.
pub(crate) fn config(scale: Scale, layout: Layout, tweak: Tweak) -> Vec<Event> {
    let shared = layout == Layout::Shared;
    let mut events = vec![
        Event::UpsertFlavor(Flavor {
            name: "default".into(),
            node_labels: BTreeMap::new(),
            node_taints: Vec::new(),
            tolerations: Vec::new(),
        }),
        Event::UpsertCohort(Cohort {
            resource_groups: vec![group(if shared { PLACES * scale.queues } else { 0 }, 0)],
            ..Cohort::new("all".into())
        }),
    ];
    for queue in 0..scale.queues {
        let name = queue_name(queue);
        events.push(Event::UpsertClusterQueue(cluster_queue(
            queue, 0, layout, tweak,
        )));
        let local = LocalQueue::new(key(queue), name.as_str().into());
        events.push(Event::UpsertLocalQueue(local));
    }
    events
}

/// A queue, with `more` quota than usual.
pub(crate) fn cluster_queue(queue: u64, more: u64, layout: Layout, tweak: Tweak) -> ClusterQueue {
    let places = match layout {
        Layout::Own | Layout::FirstIsIdle => PLACES,
        Layout::Roomy => 1_000_000,
        Layout::Shared => 0,
    };
    tweak(ClusterQueue {
        cohort: Some("all".into()),
        resource_groups: vec![group(places, more)],
        ..ClusterQueue::new(queue_name(queue).as_str().into())
    })
}

/// A workload of so many pods in a queue.
pub(crate) fn workload(scale: Scale, number: u64, queue: u64, pods: u32) -> Workload {
    let shape = i128::from(number / scale.queues % scale.shapes);
    let requests = [
        ("cpu", Amount::new(NANO + shape)),
        ("memory", Amount::new(GIB * NANO)),
    ];
    Workload {
        created: i64::try_from(number).unwrap(),
        pod_sets: vec![PodSet {
            requests: requests
                .into_iter()
                .map(|(name, amount)| (name.into(), amount))
                .collect(),
            ..PodSet::new("main".into(), pods)
        }],
        ..Workload::new(id(number), key(queue))
    }
}

impl World {
    /// Full queues in which nobody waits yet.
    pub(crate) fn full(scale: Scale, layout: Layout, settings: Settings, tweak: Tweak) -> Self {
        let step = (scale.pending + PLACES * scale.queues).next_multiple_of(scale.queues)
            * scale.queues.saturating_sub(1).max(1);
        let mut world = Self {
            engine: Engine::new(settings),
            scale,
            layout,
            running: VecDeque::new(),
            step,
        };
        for event in config(scale, layout, tweak) {
            world.engine.apply(event);
        }
        for number in 0..PLACES * scale.queues {
            world.arrive(number, 0, 1);
        }
        let decisions = world.engine.decide(Time::default());
        assert_eq!(decisions.len() as u64, PLACES * scale.queues);
        for decision in decisions {
            world.confirm(decision);
        }
        world
    }

    /// Full queues, and `pending` workloads that wait for `pods` places each.
    pub(crate) fn waiting(
        scale: Scale,
        layout: Layout,
        settings: Settings,
        tweak: Tweak,
        pods: u32,
    ) -> Self {
        let mut world = Self::full(scale, layout, settings, tweak);
        let first = PLACES * scale.queues;
        for number in first..first + scale.pending {
            world.arrive(number, 0, pods);
        }
        assert_eq!(world.engine.decide(Time::default()), []);
        world
    }

    fn queue_of(&self, number: u64) -> u64 {
        match self.layout {
            Layout::FirstIsIdle => 1 + number % (self.scale.queues - 1),
            _ => number % self.scale.queues,
        }
    }

    pub(crate) fn arrive(&mut self, number: u64, priority: i32, pods: u32) {
        let queue = self.queue_of(number);
        self.arrive_in(queue, number, priority, pods);
    }

    pub(crate) fn arrive_in(&mut self, queue: u64, number: u64, priority: i32, pods: u32) {
        self.engine.apply(Event::UpsertWorkload(Workload {
            priority,
            ..workload(self.scale, number, queue, pods)
        }));
    }

    /// Tells that an admission was written.
    pub(crate) fn confirm(&mut self, decision: Decision) {
        let Decision::Admit { id, admission } = decision else {
            unreachable!("an admission, not {decision:?}");
        };
        let number = number(&id);
        self.record(
            number,
            self.queue_of(number),
            WorkloadState::Admitted(admission),
        );
        self.running.push_back(number);
    }

    /// The same for one that isn't in the queue that its number says, and isn't to be replaced.
    pub(crate) fn confirm_in(&mut self, queue: u64, number: u64, admission: Admission) {
        self.record(number, queue, WorkloadState::Admitted(admission));
    }

    /// A workload is gone, wherever it was.
    pub(crate) fn leave(&mut self, number: u64) {
        self.engine.apply(Event::RemoveWorkload(id(number)));
    }

    /// Tells how a workload of one pod stands.
    pub(crate) fn record(&mut self, number: u64, queue: u64, state: WorkloadState) {
        self.engine.apply(Event::UpsertWorkload(Workload {
            state,
            ..workload(self.scale, number, queue, 1)
        }));
    }

    /// The one that has run longest ends. Returns its number.
    pub(crate) fn finish(&mut self) -> u64 {
        let number = self.running.pop_front().unwrap();
        self.leave(number);
        number
    }

    /// The one that was admitted last ends.
    pub(crate) fn finish_last(&mut self) {
        let number = self.running.pop_back().unwrap();
        self.leave(number);
    }

    /// The number of the one that takes the place of `number` among those who wait in its queue.
    pub(crate) fn successor(&self, number: u64) -> u64 {
        number + self.step
    }

    /// Decides, and confirms the one admission.
    pub(crate) fn admit_one(&mut self) {
        let decision = self.only_decision();
        self.confirm(decision);
    }

    pub(crate) fn only_decision(&mut self) -> Decision {
        let mut decisions = self.engine.decide(Time::default());
        match (decisions.pop(), decisions.as_slice()) {
            (Some(decision), []) => decision,
            (last, others) => unreachable!("one decision, not {others:?} and {last:?}"),
        }
    }

    /// Decides to evict one, and takes it back into its queue once it has gone. Then who made it go
    /// is admitted; returns the admission.
    pub(crate) fn make_room(&mut self) -> Admission {
        let Decision::Evict { id, .. } = self.only_decision() else {
            unreachable!("somebody has to go");
        };
        let victim = number(&id);
        let admission = self.engine.admission(&id).cloned().unwrap();
        let queue = self.queue_of(victim);
        self.record(victim, queue, WorkloadState::Evicting(admission, None));
        self.record(victim, queue, WorkloadState::Pending);
        self.running.retain(|number| *number != victim);
        match self.only_decision() {
            Decision::Admit { admission, .. } => admission,
            Decision::Evict { .. } => unreachable!("there is room"),
        }
    }
}

/// The engine's settings without anything special.
pub(crate) fn plain() -> Settings {
    Settings::new(Amount::new(NANO))
}

/// The queues as they are.
pub(crate) fn as_is(queue: ClusterQueue) -> ClusterQueue {
    queue
}
