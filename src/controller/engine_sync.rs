//! What the engine is told: each job, group and pod as its record says. Jobs and groups by their
//! Workloads; a pod that is admitted by itself is its own record, with usage once Sluice's gate is removed and
//! until it has ended. How far each has come is told in `plan/engine_state.rs`.

use k8s_openapi::jiff::Timestamp;
use sluice_engine::{Borrowing, Event, LocalQueueKey, StandingState, WorkloadState};
use sluice_kinds::gates::Gate;
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodMode;
use sluice_translate as translate;
use tracing::warn;

use super::Controller;
use crate::cache::pods::QuotaOf;
use crate::cache::{JobRecord, PodKey, PodRecord, Subject, Uid, WorkloadRecord};
use crate::plan::WriteKind;
use crate::plan::engine_state::{self, PodSituation, may_run_without_workload, time};
use crate::plan::evictions::stall;
use crate::plan::evictions::unused_quota;
use crate::plan::pod::{pod_set_of, queue_of};
use crate::plan::progress::LivePods;
use crate::plan::{group, place_in_queue};
use crate::process::hashing::HashMap;

impl Controller {
    /// Makes the engine see the Workload of a job or group as it is recorded, and what its pods use beside it.
    pub(super) fn sync_workload(&mut self, subject: &Subject) {
        self.sync_recorded(subject);
        self.await_pods(subject);
        self.look_at_replaced_pods(subject);
    }

    fn sync_recorded(&mut self, subject: &Subject) {
        let id = subject.id();
        let unused = self.note_unused(subject);
        let in_flight = self.writes.of(subject);
        let job = self.objects.job_of(subject).map(|(_, job)| job);
        let Some((key, workload)) = self.objects.workload_of(subject) else {
            return self.sync_without_workload(subject);
        };
        self.expected.note(subject, workload, job);
        (self.unreleased).note(subject, workload, job, self.now.moment);
        let situation = engine_state::WorkloadSituation {
            workload,
            job,
            unused,
            bound_pods: &|| self.bound_pods(subject),
            admission_in_flight: self.writes.admission_in_flight(subject),
            awaits_reply: in_flight.is_some_and(|kind| kind != WriteKind::Explanation)
                && self.engine.admission(&id).is_some(),
            is_free: in_flight.is_none_or(|kind| kind == WriteKind::Explanation)
                && !self.writes.is_backing_off(subject),
            is_eligible: &|| self.is_eligible(subject, workload),
        };
        let state = match engine_state::state(&situation) {
            Ok(Some(state)) => state,
            Ok(None) => return,
            Err(problems) => {
                warn!(workload = %key.name, ?problems, "admission can't be counted");
                WorkloadState::Inactive
            }
        };
        let queue = LocalQueueKey::new(key.namespace.clone(), workload.spec.queue_name.as_str());
        let is_kept = self.is_not_made_again(subject) && self.keeps(&queue, workload);
        // If the spec can't be read, or is being written anew, the admission stands for the requests.
        let admission = match &state {
            WorkloadState::Admitted(admission) | WorkloadState::Evicting(admission, _) => {
                Some(admission)
            }
            _ => None,
        };
        let asked = translate::pod_sets(&workload.spec, Borrowing::allowed_if(!is_kept)).ok();
        let asked = asked.filter(|_| workload.unreadable.is_none());
        let Some(pod_sets) = asked.or_else(|| admission.map(translate::admitted_pod_sets)) else {
            self.engine.apply(Event::RemoveWorkload(id));
            return;
        };
        let evictable = match state {
            WorkloadState::Admitted(_) => {
                !workload.is_evicting()
                    && !workload.is_stalled()
                    && self.can_be_evicted(subject)
                    && !self.writes.resists_eviction(subject, self.now.moment)
            }
            _ => true,
        };
        let created = workload.place(job.and_then(|job| job.created));
        let created = created.map_or(i64::MAX, Timestamp::as_second);
        let not_before = self.requeue_at(key, workload).map(time);
        self.engine
            .apply(Event::UpsertWorkload(sluice_engine::Workload {
                priority: engine_state::priority(workload, job),
                created,
                pod_sets,
                not_before,
                evictable,
                state,
                ..sluice_engine::Workload::new(id, queue)
            }));
    }

    /// Makes the engine see a job or group without a Workload.
    fn sync_without_workload(&mut self, subject: &Subject) {
        let id = subject.id();
        let job = self.objects.job_of(subject).map(|(_, job)| job);
        // Somebody deleted the Workload of a job whose pods may run: the quota is not free yet.
        self.expected.forget_workload(subject);
        self.unreleased.forget_suspended(subject);
        let may_run = || {
            let may_be_unsuspended = || self.writes.may_be_unsuspended(subject, self.now.moment);
            job.is_some_and(|job| may_run_without_workload(job, may_be_unsuspended))
        };
        let admission = self.engine.admission(&id);
        let may_have_pods = admission.is_some_and(|admission| {
            let now = time(self.now.wall);
            let is_new = unused_quota::unseen_pods_for(admission.since, now).is_some();
            let may_have_unseen = |uid| {
                (job.is_none() && is_new) || self.orphans.may_have_unseen_pods(uid, self.now.moment)
            };
            may_run() || 0 < self.live_pods(subject) || subject.job().is_some_and(may_have_unseen)
        });
        if !may_have_pods {
            self.expected.forget(subject);
            self.engine.apply(Event::RemoveWorkload(id));
            return;
        }
        if let (Subject::Job(uid), None) = (subject, job) {
            self.note_orphan(uid);
        }
        if let Some(until) = self.deleted_in_time_until(subject)
            && let Some(admission) = self.engine.admission(&id)
        {
            let queue = admission.queue.as_str();
            self.expected.note_terminating(subject, queue, until);
        } else {
            self.hold_up_nobody(subject);
        }
    }

    /// Makes the engine count on no eviction of a job or group that holds quota without a Workload, which would say that
    /// it is evicted: it is not preempted, and nobody waits for it to stop.
    pub(super) fn hold_up_nobody(&mut self, subject: &Subject) {
        let id = subject.id();
        // The engine assumes an admission that is under way.
        if self.writes.admission_in_flight(subject) {
            return;
        }
        let Some(standing) = self.engine.standing(&id) else {
            return;
        };
        if let StandingState::Admitted(admission) | StandingState::Evicting(admission, _) =
            standing.state
        {
            self.engine
                .apply(Event::UpsertWorkload(sluice_engine::Workload {
                    priority: standing.priority,
                    created: standing.created,
                    pod_sets: standing.pod_sets.to_vec(),
                    evictable: false,
                    state: WorkloadState::Admitted(admission),
                    ..sluice_engine::Workload::new(id, standing.queue)
                }));
        }
    }

    /// Whether the ClusterQueue of a Workload keeps pods that nobody would make again: the one that
    /// admitted it, else the one that it waits for.
    pub(super) fn keeps(&self, queue: &LocalQueueKey, workload: &WorkloadRecord) -> bool {
        match &workload.status.admission {
            Some(admission) => (self.cluster).keeps_not_restartable(&admission.cluster_queue),
            None => self.cluster.local_queue_keeps_not_restartable(queue),
        }
    }

    /// Makes the engine see a job, group or pod as it is recorded.
    pub(super) fn sync(&mut self, subject: &Subject) {
        match subject {
            Subject::Pod(uid) => self.sync_pod(uid),
            Subject::Job(_) | Subject::Group(_) => self.sync_workload(subject),
        }
    }

    /// Whether a job or group with a Workload may be admitted.
    fn is_eligible(&self, subject: &Subject, workload: &WorkloadRecord) -> bool {
        if self.no_priority(subject, workload).is_some() {
            return false;
        }
        if let Subject::Group(_) = subject {
            return group::is_ready(&self.objects.pods_by_age(subject), workload);
        }
        // What is known of a job is so only while its kind is watched.
        self.objects.job_of(subject).is_some_and(|(key, job)| {
            self.kinds.is_listed(&key.kind)
                && engine_state::is_eligible(job, workload)
                && self.pods_are_free(subject, job)
        })
    }

    /// Whether no gate but Sluice's holds a pod of a job that waits behind gates. Where its templates
    /// bring such gates, all its pods must be there to tell.
    fn pods_are_free(&self, subject: &Subject, job: &JobRecord) -> bool {
        if job.hold != Hold::Pods {
            return true;
        }
        let pods = self.objects.pods_of(subject);
        let is_gated = pods.iter().any(|(_, pod)| pod.is_gated_elsewhere());
        !is_gated && self.are_gated_pods_there(subject, job)
    }

    /// How many pods of a job or group may run: those that were released, and those for which that is
    /// under way.
    pub(super) fn live_pods(&self, subject: &Subject) -> usize {
        let pods = self.objects.pods_of(subject);
        let own = pods.iter().filter(|(_, pod)| self.may_run(pod)).count();
        own + self.orphaned_pods(subject).len()
    }

    /// How many of these will not be gone in a moment.
    pub(super) fn lasting_pods(&self, subject: &Subject) -> impl Iterator<Item = &PodKey> {
        let pods = self.objects.pods_of(subject).into_iter();
        let lasting = pods.filter(move |(_, pod)| self.may_run(pod) && !pod.is_soon_gone);
        lasting.map(|(key, _)| key)
    }

    /// How many pods of one of its pod sets may run, and may be of it: those that don't say which set
    /// they are of count for each. Those that have left it and keep their places use its quota, too.
    pub(super) fn live_pods_of_set(&self, subject: &Subject, pod_set: &str) -> LivePods {
        let mut live = LivePods::default();
        let own = self.objects.pods_of(subject).into_iter();
        for (_, pod) in own.chain(self.detached_pods(subject)) {
            let is_of_set = pod.pod_set.as_deref().is_none_or(|set| set == pod_set);
            if is_of_set && self.may_run(pod) {
                live.all += 1;
                live.staying += usize::from(!pod.deleting);
            }
        }
        live
    }

    pub(super) fn may_run(&self, pod: &PodRecord) -> bool {
        pod.is_released() || self.writes.may_be_released(&pod.uid)
    }

    /// How many pods of each pod set are bound to nodes.
    fn bound_pods(&self, subject: &Subject) -> HashMap<String, u32> {
        let mut bound: HashMap<String, u32> = HashMap::default();
        let left_behind = self.orphaned_pods(subject);
        let own = self.objects.pods_of(subject).into_iter();
        let pods = own.chain(left_behind).chain(self.detached_pods(subject));
        for (_, pod) in pods {
            if !(pod.is_released() && pod.is_bound) || self.has_own_usage(&pod.uid) {
                continue;
            }
            if let Some(set) = pod_set_of(pod, subject) {
                let count = bound.entry(set.to_string()).or_default();
                *count = count.saturating_add(1);
            }
        }
        bound
    }

    /// Whether the quota of a job is in use still though its Workload is gone.
    pub(in crate::controller) fn is_still_in_use(&self, subject: &Subject) -> bool {
        let has_workload = self.objects.workload_of(subject).is_some();
        !has_workload && self.engine.admission(&subject.id()).is_some()
    }

    /// Whether a job has usage.
    pub(in crate::controller) fn holds_quota(&self, subject: &Subject) -> bool {
        let workload = self.objects.workload_of(subject);
        workload.is_some_and(|(_, w)| w.holds_quota())
            || self.engine.admission(&subject.id()).is_some()
    }

    /// Makes the engine see a pod that is admitted by itself as it is recorded.
    pub(super) fn sync_pod(&mut self, uid: &Uid) {
        let subject = &Subject::Pod(uid.clone());
        let id = subject.id();
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            self.engine.apply(Event::RemoveWorkload(id));
            return;
        };
        let is_late = self.ended_terms.has_pod(uid);
        if (pod.queue_gate.is_some() || is_late) && self.writes.admission_in_flight(subject) {
            // The engine assumes an admission that is under way.
            return;
        }
        let quota_of = self.quota_of(key, pod);
        if quota_of == QuotaOf::Unknown {
            return;
        }
        let is_single = pod.mode == PodMode::Single;
        let own = (quota_of == QuotaOf::Own && !is_single).then(|| self.own_admission(key, pod));
        let own = own.flatten();
        self.note_quota_of(uid, &quota_of, own.is_some());
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return;
        };
        let in_flight = self.writes.of(subject);
        let (Some(queue), Ok(asks), true) = (
            queue_of(pod).or(own.as_ref().map(|_| self.own_queue(uid))),
            pod.asks.as_ref(),
            pod.is_live() && (is_single || own.is_some()),
        ) else {
            self.expected.forget(subject);
            self.engine.apply(Event::RemoveWorkload(id));
            return;
        };
        let queue = LocalQueueKey::new(key.namespace.clone(), queue);
        let is_kept = pod.owner.is_none() && self.keeps_pod(&queue, pod);
        // A late admission is decided about once more. The pod runs: until that is decided, it has usage, and again once its
        // deletion was tried.
        let is_free = in_flight.is_none() && !self.writes.is_backing_off(subject);
        let is_undecided = is_late
            && is_free
            && !pod.deleting
            && !(self.writes).is_eviction_failing(subject, self.now.moment);
        let situation = PodSituation {
            pod,
            asks,
            own: own.as_ref(),
            first_choice: &|| self.cluster.first_choice(&queue),
            is_undecided,
            is_eligible: &|| {
                is_free
                    && self.unused.backs_off_until(pod, self.now).is_none()
                    && self.pod_priority(&key.namespace, pod).is_ok()
            },
            now: self.now.wall,
        };
        let state = engine_state::pod_state(&situation);
        if let WorkloadState::Admitted(held) | WorkloadState::Evicting(held, _) = &state
            && let Some(until) = stall::pod_in_time_until(pod)
        {
            (self.expected).note_terminating(subject, held.queue.as_str(), until);
        }
        if state == WorkloadState::Pending || self.unused.backs_off_until(pod, self.now).is_some() {
            self.pending_reasons.insert(subject, self.now);
        }
        let created = self.place_of_pod(key, pod);
        let created = created.map_or(i64::MAX, Timestamp::as_second);
        let priority = self.pod_priority_value(&key.namespace, pod);
        let resists = self.writes.resists_eviction(subject, self.now.moment);
        self.engine
            .apply(Event::UpsertWorkload(sluice_engine::Workload {
                priority,
                created,
                pod_sets: vec![translate::pod_set(asks, Borrowing::allowed_if(!is_kept))],
                evictable: !is_kept && !pod.deleting && !resists,
                state,
                ..sluice_engine::Workload::new(id, queue)
            }));
    }

    /// When a pod takes its place in its queue that is admitted by itself.
    fn place_of_pod(&self, key: &PodKey, pod: &PodRecord) -> Option<Timestamp> {
        let may_depend = pod.owner.is_some() && self.cluster.gates.any_place_is_late();
        let owner = may_depend.then(|| self.job_of_pod(pod, &key.namespace));
        let owner = owner.flatten().map(Into::into);
        let place_of = |gate: &Gate| self.place_of(gate);
        place_in_queue::taken_by_pod(pod.into(), owner, &place_of, self.now.wall)
    }

    /// Whether the ClusterQueue of a pod that is admitted by itself keeps such as nobody would make again.
    pub(super) fn keeps_pod(&self, queue: &LocalQueueKey, pod: &PodRecord) -> bool {
        match &pod.admitted {
            Some(Ok(admitted)) => (self.cluster).keeps_not_restartable(&admitted.cluster_queue),
            Some(Err(_)) | None => self.cluster.local_queue_keeps_not_restartable(queue),
        }
    }
}
