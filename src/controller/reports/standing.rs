//! How the jobs of a tree of cohorts stand, for readers of `visibility.sluice.dev` who ask when a job will start: taken a part
//! at a time, so that no decision waits for it. And which jobs have finished, for how long jobs run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::{ConditionType, PodSet};
use sluice_engine::{
    Borrowing, ClusterQueueName, Event, FlavorName, LocalQueueKey, NodeName, StandingState, Time,
    WorkloadId,
};
use sluice_estimates::durations::FOREVER;
use sluice_estimates::finished::FinishedJob;
use sluice_estimates::play::Start;
use sluice_estimates::standing::StandingJob;
use sluice_translate as translate;

use crate::cache::conditions;
use crate::cache::{Subject, Uid, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::plan::engine_state::time;
use crate::visibility::{JOBS_MAX, StandingWorkload, TakenJobs, WorkloadRef};

/// A node costs as much as so many workloads that are looked at: it may have quota for many resources. So does a job, of which
/// more is taken than that it waits.
const LOOKS_OF_NODE: usize = 10;
const LOOKS_OF_JOB: usize = 4;
/// A job that asks for more than so many bytes of JSON does not count once it has finished: its user could fill the memory
/// with such. In memory each value costs as much as so many bytes besides its own.
const ASKED_BYTES_MAX: usize = 4096;
const BYTES_OF_VALUE: usize = 64;
/// What a group of pods is called as a kind.
const POD_GROUP: &str = "PodGroup";

/// The jobs of a tree, as far as they are taken.
pub struct TakingJobs {
    taken: TakenJobs,
    /// What is left to look at: the nodes, then the workloads that are in LocalQueues of theirs, and those that hold quota.
    nodes: Vec<NodeName>,
    local_queues: Vec<LocalQueueKey>,
    cluster_queues: Vec<ClusterQueueName>,
    /// The workload that was looked at last.
    last: Option<WorkloadId>,
    /// Flavors that are taken.
    flavors: BTreeSet<FlavorName>,
}

impl TakingJobs {
    /// All of it.
    pub fn end(self) -> TakenJobs {
        self.taken
    }
}

impl Controller {
    /// How far a workload has come, and with whom it shares quota. None if there is no such workload.
    pub(in crate::controller) fn standing_workload(
        &self,
        named: &WorkloadRef,
    ) -> Option<StandingWorkload> {
        let stated = self.stated_of(named)?;
        let queue = stated.cluster_queue.as_ref();
        let root = queue.map(|queue| self.engine.root_of(queue));
        Some(StandingWorkload { stated, root })
    }

    /// Begins to take the jobs of the tree that a node is in. None if there is no such node.
    pub(in crate::controller) fn begin_jobs(&self, of: &NodeName) -> Option<TakingJobs> {
        let nodes = self.engine.tree_members(of)?;
        let queues = nodes.iter().filter_map(|node| match node {
            NodeName::ClusterQueue(name) => Some(name.clone()),
            NodeName::Cohort(_) => None,
        });
        let queues: Vec<ClusterQueueName> = queues.collect();
        let counts = queues.iter().map(|queue| self.engine.workloads_len(queue));
        let jobs = counts.fold(0, usize::saturating_add);
        let too_many = Some(jobs).filter(|jobs| JOBS_MAX < *jobs);
        let is_taken = too_many.is_none();
        Some(TakingJobs {
            taken: TakenJobs {
                settings: self.engine.settings().clone(),
                setup: Vec::new(),
                jobs: BTreeMap::new(),
                too_many,
                finished: self.finished.clone(),
            },
            nodes: if is_taken { nodes } else { Vec::new() },
            local_queues: Vec::new(),
            cluster_queues: if is_taken { queues } else { Vec::new() },
            last: None,
            flavors: BTreeSet::new(),
        })
    }

    /// Looks at one part more, as much as so many workloads. Returns whether that was the end.
    pub(in crate::controller) fn go_on_jobs(&self, taking: &mut TakingJobs, left: usize) -> bool {
        if !taking.nodes.is_empty() {
            let nodes = left.div_ceil(LOOKS_OF_NODE);
            let rest = taking.nodes.len().saturating_sub(nodes);
            for node in taking.nodes.split_off(rest) {
                let setup = self.engine.setup_of(&node, &mut taking.flavors);
                taking
                    .local_queues
                    .extend(setup.iter().filter_map(local_queue_of));
                taking.taken.setup.extend(setup);
            }
            return false;
        }
        let mut left = left.div_ceil(LOOKS_OF_JOB);
        while let Some(key) = taking.local_queues.last().cloned() {
            let after = taking.last.take();
            for (id, _) in self.engine.workloads_of(&key, after.as_ref()) {
                if left == 0 {
                    return false;
                }
                left = left.saturating_sub(1);
                self.take_job(taking, id);
            }
            taking.last = None;
            taking.local_queues.pop();
            left = left.saturating_sub(1);
        }
        // Their LocalQueues may point elsewhere by now.
        while let Some(queue) = taking.cluster_queues.last().cloned() {
            let after = taking.last.take();
            for id in self.engine.workloads_with_usage(&queue, after.as_ref()) {
                if left == 0 {
                    return false;
                }
                left = left.saturating_sub(1);
                self.take_job(taking, id);
            }
            taking.last = None;
            taking.cluster_queues.pop();
            left = left.saturating_sub(1);
        }
        true
    }

    fn take_job(&self, taking: &mut TakingJobs, id: &WorkloadId) {
        taking.last = Some(id.clone());
        if let Some(job) = self.standing_job(id) {
            taking.taken.jobs.insert(id.clone(), job);
        }
    }

    /// How a workload of the engine stands. None of one that neither waits nor holds quota.
    fn standing_job(&self, id: &WorkloadId) -> Option<StandingJob> {
        let standing = self.engine.standing(id)?;
        let subject = Subject::from(id);
        let record = self.objects.workload_of(&subject);
        let record = record.map(|(_, record)| record);
        let start = match standing.state {
            StandingState::Pending(None) => Start::Pending,
            StandingState::Pending(Some(until)) => Start::BackingOff(until),
            StandingState::Evicting(admission, preemptor) => Start::Evicting {
                admission,
                preemptor,
            },
            StandingState::Admitted(admission) => {
                // Those count that have ended, too.
                let recorded = record.and_then(|record| record.status.admission.as_ref());
                let pods = match recorded {
                    Some(recorded) => (recorded.pod_set_assignments.iter())
                        .map(|set| u32::try_from(set.count).unwrap_or_default())
                        .fold(0, u32::saturating_add),
                    None => (admission.pod_sets.iter())
                        .map(|set| set.count)
                        .fold(0, u32::saturating_add),
                };
                Start::Admitted {
                    admission,
                    pods,
                    evictable: standing.evictable,
                }
            }
        };
        Some(StandingJob {
            id: Some(id.clone()),
            queue: standing.queue,
            kind: kind_of(&subject, record),
            pod_sets: standing.pod_sets,
            priority: standing.priority,
            // The engine counts in seconds.
            created: Time::from_millis(standing.created.saturating_mul(1000)),
            said: self.never_ends(&subject).then_some(FOREVER),
            start,
        })
    }

    /// Whether a job, group or pod never ends by itself, as one of a kind without a rule for that, and as pods of a
    /// service.
    fn never_ends(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Job(_) => {
                let job = self.objects.job_of(subject);
                let kind = job.and_then(|(key, _)| self.kinds.compiled(&key.kind));
                kind.is_some_and(|kind| kind.never_ends())
            }
            // It holds quota for as long as any of its pods.
            Subject::Group(group) => {
                let mut members = self.objects.pods.members(group);
                members.any(|uid| self.is_always_restarted(uid))
            }
            Subject::Pod(uid) => self.is_always_restarted(uid),
        }
    }

    fn is_always_restarted(&self, uid: &Uid) -> bool {
        let pod = self.objects.pods.of(uid);
        pod.is_some_and(|(_, pod)| pod.never_ends)
    }

    /// Takes note of a Workload whose job has finished.
    pub(in crate::controller) fn note_finished(&mut self, key: &WorkloadKey) {
        if let Some(finished) = self.finished_job(key) {
            Arc::make_mut(&mut self.finished).note(finished);
        }
    }

    fn finished_job(&self, key: &WorkloadKey) -> Option<FinishedJob> {
        let record = self.objects.workload(key)?;
        if !record.is_finished() || record.unreadable.is_some() || !is_small(&record.spec.pod_sets)
        {
            return None;
        }
        let subject = &record.owner.as_ref()?.subject;
        let queue = LocalQueueKey::new(key.namespace.clone(), record.spec.queue_name.as_str());
        // As the engine was told of it.
        let is_kept = self.is_not_made_again(subject) && self.keeps(&queue, record);
        let pod_sets = translate::pod_sets(&record.spec, Borrowing::allowed_if(!is_kept)).ok()?;
        let finished = recorded(record, ConditionType::Finished)?;
        Some(FinishedJob {
            queue,
            kind: kind_of(subject, Some(record)),
            pod_sets: pod_sets.into(),
            priority: record.spec.priority,
            created: time(record.place(None)?),
            finished: time(finished),
            ran: ran(record, finished),
        })
    }
}

fn local_queue_of(event: &Event) -> Option<LocalQueueKey> {
    match event {
        Event::UpsertLocalQueue(local_queue) => Some(local_queue.key.clone()),
        _ => None,
    }
}

/// Whether what a job asks for is small enough to be kept once it has finished.
fn is_small(pod_sets: &[PodSet]) -> bool {
    let Ok(text) = serde_json::to_string(pod_sets) else {
        return false;
    };
    let values = text.matches(',').count();
    text.len()
        .saturating_add(values.saturating_mul(BYTES_OF_VALUE))
        <= ASKED_BYTES_MAX
}

/// The kind by which jobs are alike.
fn kind_of(subject: &Subject, record: Option<&WorkloadRecord>) -> Arc<str> {
    let owner = record.and_then(|record| record.owner.as_ref());
    match subject {
        Subject::Group(_) => POD_GROUP.into(),
        Subject::Pod(_) => "Pod".into(),
        Subject::Job(_) => owner.map_or_else(|| "".into(), |owner| owner.group_kind.kind.clone()),
    }
}

/// How long a job ran that has finished by then: since it was last admitted.
fn ran(record: &WorkloadRecord, finished: Timestamp) -> Option<Duration> {
    let admitted = recorded(record, ConditionType::Admitted)?;
    Duration::try_from(finished.duration_since(admitted)).ok()
}

/// Since when a condition is True, as it was recorded.
fn recorded(record: &WorkloadRecord, kind: ConditionType) -> Option<Timestamp> {
    let condition = conditions::find(&record.status.conditions, kind);
    let condition = condition.filter(|condition| condition.status == "True");
    condition.map(|condition| condition.last_transition_time.0)
}
