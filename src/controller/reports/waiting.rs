//! Who waits in a queue, for readers of `visibility.sluice.dev`: taken a part at a time, so that no decision waits for it.
//! Order and pages are made by whoever has asked.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::ConditionType;
use sluice_engine::{Amount, ClusterQueueName, LocalQueueKey, Pending, ResourceName, WorkloadId};

use crate::cache::conditions;
use crate::cache::{Subject, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::process::hashing::HashSet;
use crate::visibility::{JobRef, QueueRef, Taken, WAITING_MAX, Waiting, Why};

/// Texts that are shared by those who wait: reasons and kinds are few, and names of namespaces are shared already.
const TEXTS_MAX: usize = 1000;

/// A list of those who wait in a ClusterQueue, as far as it is taken.
pub struct Taking {
    taken: Taken,
    /// The LocalQueue that is being taken, by its place among them, and its workload that was taken last.
    at: usize,
    last: Option<WorkloadId>,
    texts: HashSet<Arc<str>>,
    /// The requests of the one before: those of equal jobs are shared.
    requests: Arc<[(ResourceName, Amount)]>,
}

impl Taking {
    /// All of it.
    pub fn end(self) -> Taken {
        self.taken
    }

    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        if self.texts.len() < TEXTS_MAX {
            self.texts.insert(text.clone());
        }
        text
    }

    fn share_requests(
        &mut self,
        requests: &[(ResourceName, Amount)],
    ) -> Arc<[(ResourceName, Amount)]> {
        if *self.requests != *requests {
            self.requests = requests.into();
        }
        self.requests.clone()
    }
}

impl Controller {
    /// Whether what is known is complete, so that readers can be told.
    pub(in crate::controller) fn has_listed(&self) -> bool {
        self.phase.has_listed()
    }

    /// Begins to list those who wait in a queue. None if there is no such queue.
    pub(in crate::controller) fn begin_taking(&self, place: &QueueRef) -> Option<Taking> {
        let cluster_queue: ClusterQueueName = match place {
            QueueRef::ClusterQueue(name) => name.clone(),
            QueueRef::LocalQueue(key) => self.cluster.cluster_queue_of(key)?.into(),
        };
        let local_queues = self.engine.local_queues_of(&cluster_queue).cloned();
        let local_queues: Vec<LocalQueueKey> = local_queues.collect();
        let exists = self.cluster.queues.contains_key(cluster_queue.as_str());
        (exists || !local_queues.is_empty()).then(|| Taking {
            taken: Taken {
                cluster_queue,
                exists,
                local_queues,
                waiting: Vec::new(),
            },
            at: 0,
            last: None,
            texts: HashSet::default(),
            requests: Arc::default(),
        })
    }

    /// Looks at so many workloads more. Returns whether that was the end.
    pub(in crate::controller) fn go_on_taking(&self, taking: &mut Taking, left: usize) -> bool {
        let mut left = left;
        while let Some(key) = taking.taken.local_queues.get(taking.at).cloned() {
            if left == 0 {
                return false;
            }
            let after = taking.last.take();
            let workloads = self.engine.workloads_of(&key, after.as_ref());
            for (id, pending) in workloads {
                if left == 0 || WAITING_MAX < taking.taken.waiting.len() {
                    taking.last = taking.last.take().or(after);
                    // It is not zero if there are too many.
                    return left > 0;
                }
                left -= 1;
                let waiting = pending.and_then(|pending| self.waiting(taking, &key, id, pending));
                taking.taken.waiting.extend(waiting);
                taking.last = Some(id.clone());
            }
            taking.last = None;
            taking.at += 1;
            // A LocalQueue without workloads costs a look too.
            left = left.saturating_sub(1);
        }
        true
    }

    /// What is known of one who waits. None of one that is gone in a moment.
    fn waiting(
        &self,
        taking: &mut Taking,
        local_queue: &LocalQueueKey,
        id: &WorkloadId,
        pending: Pending<'_>,
    ) -> Option<Waiting> {
        let subject = Subject::from(id);
        let shown = match &subject {
            Subject::Pod(uid) => {
                let (key, pod) = self.objects.pods.of(uid)?;
                Shown {
                    name: key.name.clone(),
                    made: pod.created,
                    since: pod.created,
                    job: Some(JobRef {
                        group: taking.share(""),
                        kind: taking.share("Pod"),
                        name: key.name.clone(),
                    }),
                    why: self.pending_reasons.of_pod(uid).map(|reason| Why {
                        reason: taking.share(reason),
                        message: None,
                    }),
                }
            }
            Subject::Job(_) | Subject::Group(_) => {
                let (key, record) = self.objects.workload_of(&subject)?;
                Shown::of(key, record, taking)
            }
        };
        Some(Waiting {
            id: id.clone(),
            local_queue: local_queue.clone(),
            priority: pending.priority,
            created: pending.created,
            name: shown.name,
            made: shown.made,
            since: shown.since,
            job: shown.job,
            requests: taking.share_requests(pending.requests),
            why: shown.why,
        })
    }
}

/// What an object says of one who waits.
struct Shown {
    name: Arc<str>,
    made: Option<Timestamp>,
    since: Option<Timestamp>,
    job: Option<JobRef>,
    why: Option<Why>,
}

impl Shown {
    fn of(key: &WorkloadKey, record: &WorkloadRecord, taking: &mut Taking) -> Self {
        let owner = record.owner.as_ref().filter(|owner| !owner.is_nameless());
        let told = conditions::find(&record.status.conditions, ConditionType::QuotaReserved);
        let told = told.filter(|condition| condition.status == "False");
        Self {
            name: key.name.clone(),
            made: record.created,
            since: record.waits_since(),
            job: owner.map(|owner| JobRef {
                group: taking.share(&owner.group_kind.group),
                kind: taking.share(&owner.group_kind.kind),
                name: owner.name.as_str().into(),
            }),
            why: told.map(|condition| Why {
                reason: taking.share(&condition.reason),
                message: Some(taking.share(&condition.message)),
            }),
        }
    }
}
