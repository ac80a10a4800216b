//! The turns of a job's life: one line of the log for each, and what is counted of them. What a Workload shows is
//! `plan/transition.rs`; gates, releases and pods that are admitted by themselves are told where they are seen.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use sluice_engine::LocalQueueKey;
use sluice_kinds::gates::Gate;
use sluice_kinds::pod::{PodMode, PodPhase};
use sluice_kinds::view::LabelledQueue;
use tracing::info;

use crate::cache::held::Gated;
use crate::cache::{PodKey, PodRecord, Subject, Uid, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::plan::evictions::cause::Cause;
use crate::plan::pod::local_queue_of;
use crate::plan::transition::{self, Transition, turns};
use crate::process::clock::{Moment, Now};
use crate::process::hashing::HashMap;

/// What the log of a turn begins with, so that it can be selected.
const TARGET: &str = "sluice::turns";

/// The decisions that releases follow from, each with one release. Whoever reverts a release has the job released again.
#[derive(Debug, Default)]
pub struct Decided {
    by_subject: HashMap<Subject, Decision>,
}

/// The last decision to admit a job.
#[derive(Debug, Clone, Copy)]
enum Decision {
    /// It was made then, and the job is not released.
    At(Moment),
    /// That the job was released has been told.
    Released,
}

impl Decided {
    /// A job was admitted by the engine.
    pub fn note(&mut self, subject: &Subject, now: Now) {
        let decision = Decision::At(now.moment);
        self.by_subject.insert(subject.clone(), decision);
    }

    /// Nothing is known of a job any more.
    pub fn forget(&mut self, subject: &Subject) {
        self.by_subject.remove(subject);
    }

    /// Whether a job was admitted in this term, and that it was released is not told.
    fn is_unreleased(&self, subject: &Subject) -> bool {
        matches!(self.by_subject.get(subject), Some(Decision::At(_)))
    }

    /// A job is released. Returns the decision before that.
    fn note_released(&mut self, subject: &Subject) -> Option<Decision> {
        self.by_subject.insert(subject.clone(), Decision::Released)
    }
}

/// What a line says of a turn. What is not known, or does not apply, is empty.
#[derive(Default)]
struct Line<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// The ClusterQueue.
    queue: &'a str,
    flavor: &'a str,
    /// How long the job was in the state that this turn ends.
    waited: Option<Duration>,
    reason: &'a str,
}

fn log(turn: &str, line: &Line<'_>) {
    let Line {
        kind,
        namespace,
        name,
        queue,
        flavor,
        waited,
        reason,
    } = line;
    info!(
        target: TARGET,
        kind,
        namespace,
        name,
        queue,
        flavor,
        waited_seconds = waited.map(|waited| waited.as_secs_f64()),
        reason,
        "{turn}"
    );
}

impl Controller {
    /// Tells what has become of a Workload since it was seen last.
    pub(in crate::controller) fn tell_turns(
        &self,
        key: &WorkloadKey,
        before: &WorkloadRecord,
        after: &WorkloadRecord,
    ) {
        for turn in turns(before, after, self.backoff(before)) {
            // What gives its quota back had it in this queue, by these flavors.
            let record = match turn {
                Transition::Requeued { .. } => before,
                _ => after,
            };
            let began = match turn {
                Transition::Admitted | Transition::Deactivated { .. } | Transition::Reactivated => {
                    before.waits_since()
                }
                Transition::Requeued { .. } => transition::evicted_at(before),
                Transition::Ready => transition::admitted_at(after),
                Transition::Evicted { .. } | Transition::Finished { .. } => {
                    transition::admitted_at(before)
                }
            };
            let queue = self.cluster_queue_of(key, record);
            if let Some(queue) = queue {
                self.count_turn(&turn, queue, (key, before, after));
            }
            log(
                turn.as_str(),
                &Line {
                    queue: queue.unwrap_or_default(),
                    flavor: &transition::flavors(record),
                    waited: began.map(|began| self.since(began)),
                    reason: turn.reason(),
                    ..line_of(key, after)
                },
            );
        }
    }

    /// Counts a turn of a Workload in an existing ClusterQueue: the series of one that is gone stay gone.
    fn count_turn(
        &self,
        turn: &Transition,
        queue: &str,
        (key, before, after): (&WorkloadKey, &WorkloadRecord, &WorkloadRecord),
    ) {
        let local_queue = after.local_queue(key);
        let queues = self.counted_in(queue, Some(&local_queue));
        let class = after.spec.priority_class_ref.as_ref();
        let class = class.map_or("", |class| class.name.as_str());
        let since = |at: Option<Timestamp>| at.map_or(Duration::ZERO, |at| self.since(at));
        let metrics = &self.metrics.workloads;
        match turn {
            Transition::Admitted => {
                metrics.admitted(queues, class, since(before.waits_since()));
            }
            Transition::Ready => {
                let admitted = transition::admitted_at(after);
                let waited = since(before.waits_since());
                metrics.ready(queues, class, waited, since(admitted));
            }
            Transition::Evicted { reason, preempted } => {
                metrics.evicted(queues, reason);
                if let Some(right) = preempted {
                    metrics.preempted(queue, right);
                }
            }
            Transition::Deactivated { reason } => metrics.deactivated(queue, reason),
            Transition::Finished { reason } if after.status.admission.is_some() => {
                metrics.finished(queues, class, reason, since(after.exists_since()));
            }
            Transition::Finished { .. } | Transition::Requeued { .. } | Transition::Reactivated => {
            }
        }
    }

    /// Tells that a Workload is there: its job is queued.
    pub(in crate::controller) fn tell_queued(&self, key: &WorkloadKey, record: &WorkloadRecord) {
        let waits = record.waits();
        if !waits || !self.phase.has_listed() {
            return;
        }
        let began = record.queued_since();
        log(
            "queued",
            &Line {
                queue: self.cluster_queue_of(key, record).unwrap_or_default(),
                waited: began.map(|began| self.since(began)),
                ..line_of(key, record)
            },
        );
    }

    /// Tells that a Workload is gone before it has finished: with its job, because its job needs none any more, or because
    /// somebody has deleted it.
    pub(in crate::controller) fn tell_deleted(&self, key: &WorkloadKey, record: &WorkloadRecord) {
        if record.is_finished() {
            return;
        }
        let began = transition::admitted_at(record).or_else(|| record.waits_since());
        log(
            "deleted",
            &Line {
                queue: self.cluster_queue_of(key, record).unwrap_or_default(),
                flavor: &transition::flavors(record),
                waited: began.map(|began| self.since(began)),
                ..line_of(key, record)
            },
        );
    }

    /// Tells that a job or group is released whose pods wait behind gates, by the first of them that is. Later ones take
    /// the places of others.
    pub(in crate::controller) fn tell_pod_released(&mut self, subject: &Subject) {
        if self.decided.is_unreleased(subject) {
            self.tell_released(subject);
        }
    }

    /// Tells that a job was released, if it holds quota: that it may run. Whether or not the write was answered.
    pub(in crate::controller) fn tell_released(&mut self, subject: &Subject) {
        let Some((key, record)) = self.objects.workload_of(subject) else {
            return;
        };
        if record.status.admission.is_none() || record.is_evicting() {
            return;
        }
        let since_decision = match self.decided.note_released(subject) {
            Some(Decision::Released) => return,
            Some(Decision::At(at)) => Some(self.now.since(at)),
            // An earlier leader has admitted it.
            None => None,
        };
        let queue = self.cluster_queue_of(key, record);
        if let Some(queue) = queue {
            self.metrics.workloads.released(queue, since_decision);
        }
        log(
            "released",
            &Line {
                queue: queue.unwrap_or_default(),
                flavor: &transition::flavors(record),
                waited: transition::admitted_at(record).map(|at| self.since(at)),
                ..line_of(key, record)
            },
        );
    }

    /// Tells what has become of the gates of an object since it was seen last; or that gates hold it, if it is new.
    pub(in crate::controller) fn tell_gates(
        &self,
        (kind, namespace, name): (&str, &str, &str),
        before: Option<Gated<'_>>,
        after: &Gated<'_>,
    ) {
        if !self.phase.has_listed() {
            return;
        }
        let turns = transition::gate_turns(before, after);
        if turns.is_empty() {
            return;
        }
        let by = after.kept.deactivated_by.as_deref();
        let by = by.and_then(|by| Gate::parse(by, "").ok());
        let by = by.map_or_else(String::new, |gate| gate.to_string());
        let gates: Vec<String> = after.gates.names().map(ToString::to_string).collect();
        let queue = match after.queue {
            LabelledQueue::Named(queue) => queue.as_str(),
            _ => "",
        };
        let key = LocalQueueKey::new(namespace, queue);
        let gates = gates.join(",");
        for turn in turns {
            log(
                turn,
                &Line {
                    kind,
                    namespace,
                    name,
                    queue: self.cluster.cluster_queue_of(&key).unwrap_or_default(),
                    waited: after.exists_since.map(|since| self.since(since)),
                    reason: if turn == "deactivated" { &by } else { &gates },
                    ..Line::default()
                },
            );
        }
    }

    /// Tells that a pod was admitted by itself, and counts it.
    pub(in crate::controller) fn tell_pod_admitted(&self, uid: &Uid) {
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return;
        };
        let Some(Ok(admitted)) = &pod.admitted else {
            return;
        };
        let queue = &admitted.cluster_queue;
        let since = pod.exists_since();
        let waited = since.map(|since| between(since, pod.times.since(admitted.at.0)));
        if self.cluster.queues.contains_key(queue) {
            let class = self.pod_class_name(&key.namespace, pod);
            let class = class.as_deref().unwrap_or_default();
            let local_queue = local_queue_of(key, pod);
            let queues = self.counted_in(queue, local_queue.as_ref());
            self.metrics
                .workloads
                .admitted(queues, class, waited.unwrap_or_default());
        }
        log(
            "admitted",
            &Line {
                waited,
                ..line_of_pod(key, pod)
            },
        );
    }

    /// Tells that a pod that was admitted by itself is evicted, and counts it.
    pub(in crate::controller) fn pod_evicted(&self, uid: &Uid, cause: &Cause) {
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return;
        };
        let line = line_of_pod(key, pod);
        let admission = self.engine.admission(&Subject::Pod(uid.clone()).id());
        let queue = admission.map_or(line.queue, |admission| admission.queue.as_str());
        if self.cluster.queues.contains_key(queue) {
            let local_queue = local_queue_of(key, pod);
            let queues = self.counted_in(queue, local_queue.as_ref());
            self.metrics.workloads.evicted(queues, cause.reason);
            if let Some(right) = cause.preempted {
                self.metrics.workloads.preempted(queue, right.reason());
            }
        }
        log(
            "evicted",
            &Line {
                queue,
                waited: admitted_pod_since(pod).map(|at| self.since(at)),
                reason: cause.reason,
                ..line
            },
        );
    }

    /// Tells that a pod that was admitted by itself has ended, or that it stops because it is deleted.
    pub(in crate::controller) fn tell_pod_ended(
        &self,
        key: &PodKey,
        before: &PodRecord,
        after: &PodRecord,
    ) {
        if has_finished(before, after) {
            let reason = match after.phase {
                PodPhase::Succeeded => "Succeeded",
                PodPhase::Live | PodPhase::Failed => "Failed",
            };
            self.tell_end_of_pod("finished", reason, key, after);
        } else if before.is_live() && !after.is_live() {
            self.tell_end_of_pod("deleted", "", key, after);
        }
    }

    /// Tells that a pod that was admitted by itself is gone, unless it had ended before.
    pub(in crate::controller) fn tell_pod_gone(&self, key: &PodKey, pod: &PodRecord) {
        if pod.is_live() {
            self.tell_end_of_pod("deleted", "", key, pod);
        }
    }

    fn tell_end_of_pod(&self, turn: &str, reason: &str, key: &PodKey, pod: &PodRecord) {
        let at = admitted_pod_since(pod);
        if let Some(at) = at.filter(|_| pod.mode == PodMode::Single) {
            let line = Line {
                waited: Some(self.since(at)),
                reason,
                ..line_of_pod(key, pod)
            };
            log(turn, &line);
        }
    }

    /// The ClusterQueue that a Workload holds quota of, or waits in; if it exists.
    pub(in crate::controller) fn cluster_queue_of<'a>(
        &'a self,
        key: &WorkloadKey,
        record: &'a WorkloadRecord,
    ) -> Option<&'a str> {
        let admission = record.status.admission.as_ref();
        let of_admission = admission.map(|admission| admission.cluster_queue.as_str());
        let queue =
            of_admission.or_else(|| self.cluster.cluster_queue_of(&record.local_queue(key)));
        queue.filter(|queue| self.cluster.queues.contains_key(*queue))
    }

    fn since(&self, at: Timestamp) -> Duration {
        between(at, self.now.wall)
    }
}

/// Whether a pod that is admitted by itself has ended of its own accord: what is evicted or deleted ends as well, and
/// kubelet says so before it is gone.
pub(in crate::controller) fn has_finished(before: &PodRecord, after: &PodRecord) -> bool {
    let has_ended = before.is_live() && !after.is_live() && !after.deleting;
    has_ended && after.mode == PodMode::Single
}

/// Nothing for times in the wrong order: clocks differ.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn admitted_pod_since(pod: &PodRecord) -> Option<Timestamp> {
    let admitted = pod.admitted.as_ref()?.as_ref().ok()?;
    Some(admitted.at.0)
}

/// Which job or group a Workload stands for. One of which only the UID is known is called by its Workload.
fn line_of<'a>(key: &'a WorkloadKey, record: &'a WorkloadRecord) -> Line<'a> {
    let owner = record.owner.as_ref().filter(|owner| !owner.is_nameless());
    let (kind, name) = match owner {
        Some(owner) => match &owner.subject {
            Subject::Group(_) => ("PodGroup", owner.name.as_str()),
            Subject::Job(_) | Subject::Pod(_) => (&*owner.group_kind.kind, owner.name.as_str()),
        },
        None => ("Workload", &*key.name),
    };
    Line {
        kind,
        namespace: &key.namespace,
        name,
        ..Line::default()
    }
}

fn line_of_pod<'a>(key: &'a PodKey, pod: &'a PodRecord) -> Line<'a> {
    let admitted = pod.recorded_admission();
    let flavors = admitted.map(|admitted| &admitted.flavors);
    Line {
        kind: "Pod",
        namespace: &key.namespace,
        name: &key.name,
        queue: admitted.map_or("", |admitted| admitted.cluster_queue.as_str()),
        flavor: flavors
            .and_then(|flavors| flavors.get("pods").or_else(|| flavors.values().next()))
            .map_or("", String::as_str),
        ..Line::default()
    }
}
