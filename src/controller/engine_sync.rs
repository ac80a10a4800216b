//! What the engine is told: each job, group and pod as its record says. Jobs and groups by their
//! Workloads; a pod that is admitted by itself is its own record, with usage once Sluice's gate is removed and
//! until it has ended.

use k8s_openapi::jiff::Timestamp;
use sluice_engine::{Admission, Event, LocalQueueKey, Time, WorkloadState};
use sluice_kinds::gates::Gate;
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodMode;
use sluice_translate as translate;
use tracing::warn;

use super::Controller;
use crate::cache::pods::QuotaOf;
use crate::cache::{JobRecord, PodRecord, Subject, Uid, WorkloadRecord};
use crate::controller::writes::in_flight::Kind;
use crate::plan::pod::{pod_set_of, queue_of};
use crate::plan::progress::LivePods;
use crate::plan::workload::Fit;
use crate::plan::{group, place, stall, unused_quota};
use crate::process::hashing::HashMap;

impl Controller {
    /// Makes the engine see the Workload of a job or group as it is recorded, and what its pods use beside it.
    pub(super) fn sync_workload(&mut self, subject: &Subject) {
        self.sync_recorded(subject);
        self.look_at_replaced_pods(subject);
    }

    fn sync_recorded(&mut self, subject: &Subject) {
        let id = subject.id();
        let unused = self.unused(subject);
        let in_flight = self.writes.of(subject);
        let job = self.objects.job_of(subject).map(|(_, job)| job);
        let Some((key, workload)) = self.objects.workload_of(subject) else {
            return self.sync_without_workload(subject);
        };
        self.expected.note(subject, workload, job, self.now.moment);
        let state = match &workload.status.admission {
            _ if workload.is_finished() => WorkloadState::Finished,
            Some(admission) => {
                let ended = |pod_set: &str| workload.reclaimed(pod_set);
                let since = unused_quota::usage_since(workload).map_or(Time::default(), time);
                let counted = translate::admission(admission, ended, &self.bound_pods(subject));
                match counted.map(|admission| Admission { since, ..admission }) {
                    // What is deleted together with its pods goes by itself: nobody else has to make
                    // quota meanwhile. Nothing waits for what does not end.
                    Ok(admission)
                        if (workload.is_evicting() || job.is_some_and(|job| job.deletes_pods))
                            && !workload.is_stalled() =>
                    {
                        let whom = workload.status.makes_room_for.as_deref();
                        WorkloadState::Evicting(
                            admission,
                            whom.map(|whom| Subject::from(whom).id()),
                        )
                    }
                    Ok(admission) => WorkloadState::Admitted(Admission {
                        unused_since: unused.since.map(time),
                        had_nodes: unused.had_nodes,
                        ..admission
                    }),
                    Err(problems) => {
                        warn!(workload = %key.name, ?problems, "admission can't be counted");
                        WorkloadState::Inactive
                    }
                }
            }
            // The engine assumes an admission that is under way.
            None if self.writes.may_be_admitted(subject) => {
                return;
            }
            None if in_flight.is_none_or(|kind| kind == Kind::Explanation)
                && !self.writes.is_backing_off(subject)
                && !workload.deleting
                && workload.spec.active
                && self.may_wait(subject, workload) =>
            {
                WorkloadState::Pending
            }
            None => WorkloadState::Inactive,
        };
        let queue = LocalQueueKey::new(key.namespace.clone(), workload.spec.queue_name.as_str());
        let is_kept = self.is_not_made_again(subject) && self.keeps(&queue, workload);
        // Where nobody knows what it asked for, its admission says what it holds; or its spec is written anew.
        let held = match &state {
            WorkloadState::Admitted(held) | WorkloadState::Evicting(held, _) => Some(held),
            _ => None,
        };
        let asked = translate::pod_sets(&workload.spec, !is_kept).ok();
        let asked = asked.filter(|_| workload.unreadable.is_none());
        let Some(pod_sets) = asked.or_else(|| held.map(translate::admitted_pod_sets)) else {
            self.engine.apply(Event::RemoveWorkload(id));
            return;
        };
        let evictable = match state {
            WorkloadState::Admitted(_) => {
                !workload.is_evicting() && !workload.is_stalled() && self.can_be_evicted(subject)
            }
            _ => true,
        };
        let is_deleted = job.is_some_and(|job| job.deleting);
        let created = workload.place(job.and_then(|job| job.created));
        let created = created.map_or(i64::MAX, Timestamp::as_second);
        let told = sluice_engine::Workload {
            // Its user has given it up: it is preempted before any other.
            priority: if is_deleted {
                i32::MIN
            } else {
                workload.spec.priority
            },
            created,
            pod_sets,
            not_before: self.requeue_at(key, workload).map(time),
            evictable,
            state,
            ..sluice_engine::Workload::new(id, queue)
        };
        // Its Workload may go before it does.
        if job.is_some_and(|job| job.deletes_pods) {
            self.expected.note_leaving(subject, told.clone());
        }
        self.engine.apply(Event::UpsertWorkload(told));
    }

    /// Makes the engine see a job or group without a Workload.
    fn sync_without_workload(&mut self, subject: &Subject) {
        let id = subject.id();
        let job = self.objects.job_of(subject).map(|(_, job)| job);
        // Somebody deleted the Workload of a job whose pods may run: the quota is not free yet.
        self.expected.forget_workload(subject);
        let may_run = || {
            let may_be_unsuspended = || self.writes.may_be_unsuspended(subject, self.now.moment);
            job.is_some_and(|job| {
                let reading = job.reading.as_ref();
                job.finished().is_none()
                    && job.hold == Hold::Suspend
                    && (reading.map_or(true, |read| !read.suspended || read.active)
                        || may_be_unsuspended())
            })
        };
        let admission = self.engine.admission(&id);
        let may_have_pods = admission.is_some_and(|admission| {
            let now = time(self.now.wall);
            let may_have_unseen = |uid| {
                unused_quota::unseen_pods_for(admission.since, now).is_some()
                    || self.orphans.may_have_unseen_pods(uid, self.now.moment)
            };
            let gone = subject.job().filter(|_| job.is_none());
            may_run() || 0 < self.live_pods(subject) || gone.is_some_and(may_have_unseen)
        });
        if !may_have_pods {
            self.expected.forget(subject);
            self.engine.apply(Event::RemoveWorkload(id));
        } else if let (Subject::Job(uid), None) = (subject, job) {
            self.note_orphan(uid);
        } else if let Some(until) = self.deleted_in_time_until(subject)
            && let Some(admission) = self.engine.admission(&id)
        {
            let queue = admission.queue.as_str();
            (self.expected).note_terminating(subject, queue, until, self.now.wall);
        }
    }

    /// Whether the ClusterQueue of a Workload keeps pods that nobody would make again: the one that
    /// admitted it, else the one that it waits for.
    fn keeps(&self, queue: &LocalQueueKey, workload: &WorkloadRecord) -> bool {
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
    fn may_wait(&self, subject: &Subject, workload: &WorkloadRecord) -> bool {
        if self.no_priority(subject, workload).is_some() {
            return false;
        }
        if let Subject::Group(_) = subject {
            return group::is_ready(&self.objects.pods_by_age(subject), workload);
        }
        // What is known of a job is so only while its kind is watched.
        self.objects.job_of(subject).is_some_and(|(key, job)| {
            self.kinds.is_listed(&key.kind)
                && may_wait(job, workload)
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

    /// Whether all pods of a job are there whose templates bring gates of others.
    pub(super) fn are_gated_pods_there(&self, subject: &Subject, job: &JobRecord) -> bool {
        let pods = self.objects.pods_of(subject);
        let sets = job.reading.as_ref().ok();
        let sets = sets.and_then(|reading| reading.pod_sets.as_ref().ok());
        sets.is_some_and(|sets| {
            sets.iter().all(|set| {
                let of_set = pods
                    .iter()
                    .filter(|(_, pod)| pod.pod_set.as_deref() == Some(&*set.name))
                    .filter(|(_, pod)| pod.is_live() && !pod.deleting);
                let count = usize::try_from(set.count).unwrap_or(usize::MAX);
                !set.has_external_gates || count <= of_set.count()
            })
        })
    }

    /// How many pods of a job or group may run: those that were released, and those for which that is
    /// under way.
    pub(super) fn live_pods(&self, subject: &Subject) -> usize {
        let pods = self.objects.pods_of(subject);
        let own = pods.iter().filter(|(_, pod)| self.may_run(pod)).count();
        own + self.orphaned_pods(subject).len()
    }

    /// How many of these will not be gone in a moment.
    pub(super) fn lasting_pods(&self, subject: &Subject) -> usize {
        let pods = self.objects.pods_of(subject);
        let lasting = |pod: &PodRecord| self.may_run(pod) && !pod.is_soon_gone;
        pods.iter().filter(|(_, pod)| lasting(pod)).count()
    }

    /// How many pods of one of its pod sets may run, and may be of it: those that don't say which set
    /// they are of count for each.
    pub(super) fn live_pods_of_set(&self, subject: &Subject, pod_set: &str) -> LivePods {
        let mut live = LivePods::default();
        for (_, pod) in self.objects.pods_of(subject) {
            let is_of_set = pod.pod_set.as_deref().is_none_or(|set| set == pod_set);
            if is_of_set && self.may_run(pod) {
                live.all += 1;
                live.staying += usize::from(!pod.deleting);
            }
        }
        live
    }

    fn may_run(&self, pod: &PodRecord) -> bool {
        pod.is_released() || self.writes.may_be_released(&pod.uid)
    }

    /// How many pods of each pod set are bound to nodes.
    fn bound_pods(&self, subject: &Subject) -> HashMap<String, u32> {
        let mut bound: HashMap<String, u32> = HashMap::default();
        let left_behind = self.orphaned_pods(subject);
        let own = self.objects.pods_of(subject).into_iter();
        let pods = own.chain(left_behind).chain(self.detached_pods(subject));
        for (_, pod) in pods {
            if !(pod.is_released() && pod.is_bound) || self.replaced_pods.contains(&pod.uid) {
                continue;
            }
            if let Some(set) = pod_set_of(pod, subject) {
                let count = bound.entry(set.to_string()).or_default();
                *count = count.saturating_add(1);
            }
        }
        bound
    }

    /// Whether a job has usage.
    pub(in crate::controller) fn holds_quota(&self, subject: &Subject) -> bool {
        let workload = self.objects.workload_of(subject);
        workload.is_some_and(|(_, w)| w.status.admission.is_some() && !w.is_finished())
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
        let is_late = self.late.has_pod(uid);
        if (pod.queue_gate.is_some() || is_late) && self.writes.may_be_admitted(subject) {
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
        // A late admission is decided about once more. The pod runs: until that is decided, it has usage.
        let is_free = in_flight.is_none() && !self.writes.is_backing_off(subject);
        let is_undecided = is_late && is_free && !pod.deleting;
        let state = if is_undecided {
            WorkloadState::Pending
        } else if pod.queue_gate.is_none() {
            let recorded = pod.admitted.as_ref().and_then(|found| found.as_ref().ok());
            let admitted = (own.as_ref().or(recorded))
                .map(|admitted| {
                    let queue = admitted.cluster_queue.as_str();
                    ((queue, admitted.cohort.as_deref()), &admitted.flavors)
                })
                .or_else(|| {
                    let (queue, flavors) = self.cluster.first_choice(&queue)?;
                    Some(((queue, None), flavors))
                });
            match admitted {
                Some((queue, flavors)) => {
                    let admission = translate::pod_admission(queue, flavors, asks, pod.is_bound);
                    // Nothing waits for a pod that does not go.
                    let until = stall::pod_in_time_until(pod);
                    let is_waited_for = until.is_some_and(|until| {
                        (self.expected).note_terminating(subject, queue.0, until, self.now.wall)
                    });
                    if is_waited_for {
                        WorkloadState::Evicting(admission, None)
                    } else {
                        WorkloadState::Admitted(Admission {
                            since: unused_quota::pod_usage_since(pod).map_or(Time::default(), time),
                            unused_since: unused_quota::pod_unused_since(pod).map(time),
                            ..admission
                        })
                    }
                }
                None => WorkloadState::Inactive,
            }
        } else if pod.is_candidate()
            && in_flight.is_none()
            && !self.writes.is_backing_off(subject)
            && !self.unused.backs_off(pod, self.now.moment)
            && self.pod_priority(&key.namespace, pod).is_ok()
        {
            WorkloadState::Pending
        } else {
            WorkloadState::Inactive
        };
        if state == WorkloadState::Pending {
            self.pending_reasons.insert(subject, self.now);
        }
        let place_of = |gate: &Gate| self.place_of(gate);
        let created = place::taken(pod.into(), &place_of, self.now.wall);
        // Its owner's gates held it too.
        let depends = pod.owner.is_some() && self.cluster.gates.any_place_is_late();
        let owner = depends
            .then(|| self.job_of_pod(pod, &key.namespace))
            .flatten();
        let owner = owner.and_then(|job| place::lifted(job.into(), &place_of, self.now.wall));
        let created = created.max(owner);
        let created = created.map_or(i64::MAX, Timestamp::as_second);
        let priority = self.pod_priority_value(&key.namespace, pod);
        self.engine
            .apply(Event::UpsertWorkload(sluice_engine::Workload {
                priority,
                created,
                pod_sets: vec![translate::pod_set(asks, !is_kept)],
                evictable: !is_kept && !pod.deleting,
                state,
                ..sluice_engine::Workload::new(id, queue)
            }));
    }

    /// Whether the ClusterQueue of a pod that is admitted by itself keeps such as nobody would make again.
    pub(super) fn keeps_pod(&self, queue: &LocalQueueKey, pod: &PodRecord) -> bool {
        match &pod.admitted {
            Some(Ok(admitted)) => (self.cluster).keeps_not_restartable(&admitted.cluster_queue),
            Some(Err(_)) | None => self.cluster.local_queue_keeps_not_restartable(queue),
        }
    }
}

/// A moment as the engine is told it.
pub fn time(at: Timestamp) -> Time {
    Time::from_millis(at.as_millisecond())
}

/// Whether a job with a Workload may be admitted: its gates are gone and it asks for what is recorded.
fn may_wait(job: &JobRecord, workload: &WorkloadRecord) -> bool {
    use sluice_kinds::view::QueueName;
    let is_queued =
        matches!(&job.queue, QueueName::Named(queue) if *queue == workload.spec.queue_name);
    let reading = job.reading.as_ref();
    let is_held = job.is_held() || job.is_paused();
    let is_recorded = reading.is_ok_and(|reading| {
        reading.finished.is_none()
            && reading.refusals.is_empty()
            && (reading.suspended || job.hold == Hold::Pods)
            && reading
                .pod_sets
                .as_ref()
                .is_ok_and(|sets| crate::plan::workload::covers(workload, sets, Fit::Exact))
    });
    let can_be_held = job.hold == Hold::Suspend || job.is_gated;
    is_queued && is_recorded && !is_held && !job.deleting && can_be_held
}
