//! How one workload stands, for readers of `visibility.sluice.dev`: who holds what it lacks is gathered a part at a time, so
//! that no decision waits for it. What has to end for it is worked out by whoever has asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::{ConditionType, workload_name};
use sluice_engine::{ClusterQueueName, Explanation, LocalQueueKey, WorkloadId};
use sluice_gates::GroupKind;
use sluice_kinds::gates::{Gate, GateState};
use sluice_kinds::pod::PodMode;
use sluice_kinds::view;

use crate::cache::conditions;
use crate::cache::held::Gated;
use crate::cache::{JobKey, JobRecord, PodKey, PodRecord, Subject, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::plan::gates::held_note;
use crate::plan::workload::pending_reason::NotReserved;
use crate::process::hashing::HashMap;
use crate::visibility::{Findings, Found, HOLDERS_MAX, JobRef, State, Stated, Why, WorkloadRef};

/// What is found of a workload, as far as it is gathered.
pub struct Finding {
    findings: Findings,
    /// How many of those who hold anything have been looked at for their names.
    named: usize,
}

impl Finding {
    /// All of it.
    pub fn end(self) -> Findings {
        self.findings
    }
}

impl Controller {
    /// Begins to find out how a workload stands. None if there is no such workload.
    pub(in crate::controller) fn begin_finding(&self, named: &WorkloadRef) -> Option<Finding> {
        let stated = self.stated_of(named)?;
        let pending = Some(&stated.id).filter(|_| stated.state == State::Pending);
        Some(Finding {
            findings: Findings {
                trials: pending.and_then(|id| self.engine.trials(id)),
                holders: pending.and_then(|id| self.engine.begin_holders(id)),
                names: HashMap::default(),
                stated,
            },
            named: 0,
        })
    }

    /// Looks at so many of those who hold something more. Returns whether that was the end.
    pub(in crate::controller) fn go_on_finding(&self, finding: &mut Finding, left: usize) -> bool {
        let Findings {
            stated,
            holders,
            names,
            ..
        } = &mut finding.findings;
        let Some(holders) = holders else {
            return true;
        };
        let is_end = self.engine.go_on_holders(holders, left);
        for holder in holders.found().iter().skip(finding.named) {
            if holder.local_queue.namespace == stated.namespace
                && let Some(found) = self.found(holder.id())
            {
                names.insert(holder.id().clone(), found);
            }
        }
        finding.named = holders.found().len();
        is_end || HOLDERS_MAX < finding.named
    }

    /// How far a workload has come, and why.
    pub(in crate::controller) fn stated_of(&self, named: &WorkloadRef) -> Option<Stated> {
        match named {
            WorkloadRef::Workload { namespace, name } => self.stated_workload(namespace, name),
            WorkloadRef::Pod { namespace, name } => self.stated_pod(namespace, name),
        }
    }

    fn stated_workload(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Stated> {
        let key = WorkloadKey {
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let Some(record) = self.objects.workload(&key) else {
            return self.stated_job(namespace, name);
        };
        // One that a user made stands for nothing.
        let subject = record.owner.as_ref()?.subject.clone();
        let (state, why) = self.how_it_stands(&subject, &key, record);
        let since = match state {
            State::Pending | State::Gated => record.waits_since(),
            _ => record
                .since(ConditionType::QuotaReserved)
                .or(record.created),
        };
        let gates = match state {
            State::Gated => self.gates_of_pods(&subject),
            _ => Vec::new(),
        };
        let queue = LocalQueueKey::new(namespace.clone(), record.spec.queue_name.as_str());
        Some(self.stated(Stated {
            found: found_of(&key, record),
            id: subject.id(),
            namespace: namespace.clone(),
            made: record.created,
            since,
            why,
            gates,
            local_queue: Some(queue),
            ..nothing_of(state)
        }))
    }

    /// What gates hold the pods of a job or group.
    fn gates_of_pods(&self, subject: &Subject) -> Vec<String> {
        let pods = self.objects.pods_of(subject).into_iter();
        let gates: BTreeSet<String> = pods.flat_map(|(_, pod)| gates_of_pod(pod)).collect();
        gates.into_iter().collect()
    }

    /// How far a Workload has come, and why.
    fn how_it_stands(
        &self,
        subject: &Subject,
        key: &WorkloadKey,
        record: &WorkloadRecord,
    ) -> (State, Option<Why>) {
        let told = |kind| {
            let found = conditions::find(&record.status.conditions, kind);
            let found = found.filter(|condition| condition.status == "True");
            found.map(|condition| why(&condition.reason, &condition.message))
        };
        if record.is_finished() {
            return (State::Finished, told(ConditionType::Finished));
        }
        let explanation = self.engine.explain(&subject.id());
        match explanation {
            Some(Explanation::Evicting { .. }) => {
                return (State::Evicted, told(ConditionType::Evicted));
            }
            Some(Explanation::Admitted { .. }) => {
                return (State::Admitted, told(ConditionType::Admitted));
            }
            _ if record.status.admission.is_some() => {
                return (State::Admitted, told(ConditionType::Admitted));
            }
            _ => {}
        }
        let Some((reason, message)) = self.why_pending(subject, key, record) else {
            return (State::Pending, None);
        };
        let state = match reason {
            NotReserved::Pending(_)
            | NotReserved::NoPriority(_)
            | NotReserved::Uncountable(_)
            | NotReserved::KindNotDeclared
            | NotReserved::KindNotReady
            | NotReserved::GroupIncomplete => State::Pending,
            NotReserved::SchedulingGated => State::Gated,
            NotReserved::OnHold => State::OnHold,
            NotReserved::Deactivated | NotReserved::Deleted => State::Inactive,
        };
        (state, Some(why(reason.as_str(), &message)))
    }

    /// A job that has no Workload yet, by the name that its Workload will have.
    fn stated_job(&self, namespace: &Arc<str>, workload: &str) -> Option<Stated> {
        let (name, _) = workload.rsplit_once('-')?;
        let name: Arc<str> = name.into();
        let (key, job) = self.kinds.names().find_map(|kind| {
            let key = JobKey {
                kind: kind.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            };
            let job = self.objects.job(&key)?;
            (workload_name(&name, &job.uid) == workload).then_some((key, job))
        })?;
        let GroupKind { group, kind } = self.kinds.group_kind(&key.kind)?;
        let subject = Subject::Job(job.uid.clone());
        let (state, told) = if let Some(state) = state_of_job(job) {
            (state, self.why_held(&subject, namespace, job.into()))
        } else {
            let (state, note) = self.how_unqueued_stands(&key, job)?;
            (state, why(note.reason, &note.message))
        };
        let gates = gate_names(&job.gates);
        Some(self.stated(Stated {
            found: Found {
                name: workload.into(),
                job: Some(JobRef { group, kind, name }),
            },
            id: subject.id(),
            namespace: namespace.clone(),
            since: job.created,
            why: Some(told),
            gates,
            local_queue: local_queue(namespace, &job.queue),
            ..nothing_of(state)
        }))
    }

    fn stated_pod(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Stated> {
        let key = PodKey {
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let pod = self.objects.pods.get(&key)?;
        let subject = Subject::Pod(pod.uid.clone());
        let id = subject.id();
        let gates = gates_of_pod(pod);
        let (state, why) = self.how_pod_stands(&key, pod, &id, &gates)?;
        let admitted = pod.recorded_admission();
        let admitted = admitted.filter(|_| matches!(state, State::Admitted | State::Evicted));
        Some(self.stated(Stated {
            found: found_of_pod(&key),
            id,
            namespace: namespace.clone(),
            made: pod.created,
            since: admitted.map(|admitted| admitted.at.0).or(pod.created),
            why,
            gates,
            local_queue: local_queue(namespace, &pod.queue),
            ..nothing_of(state)
        }))
    }

    /// None for a pod that is not admitted by itself.
    fn how_pod_stands(
        &self,
        key: &PodKey,
        pod: &PodRecord,
        id: &WorkloadId,
        gates: &[String],
    ) -> Option<(State, Option<Why>)> {
        let is_single = matches!(pod.mode, PodMode::Single);
        let explanation = self.engine.explain(id);
        if !is_single && explanation.is_none() {
            return None;
        }
        if !pod.is_live() {
            return Some((State::Finished, None));
        }
        if !gates.is_empty() {
            return Some(self.how_gated_pod_stands(key, pod, gates));
        }
        let state = match &explanation {
            Some(Explanation::Evicting { .. }) => State::Evicted,
            Some(Explanation::Admitted { .. }) => State::Admitted,
            Some(Explanation::Finished) => State::Finished,
            Some(Explanation::Inactive) | None if pod.is_released() => State::Admitted,
            Some(Explanation::Inactive) | None if pod.deleting => State::Inactive,
            // It backs off, can't be queued, or is written to.
            Some(_) | None => State::Pending,
        };
        let told = self.why_pod_pending(key, pod);
        let told = told.map(|(reason, message)| why(reason.as_str(), &message));
        let told = told.or_else(|| {
            let note = self.complaint(&key.namespace, pod);
            let note = note.filter(|_| pod.waits_for_quota_alone())?;
            Some(why(note.reason, &note.message))
        });
        Some((state, told))
    }

    /// A pod that gates hold: by its own annotations, or by those of the object that it belongs to.
    fn how_gated_pod_stands(
        &self,
        key: &PodKey,
        pod: &PodRecord,
        gates: &[String],
    ) -> (State, Option<Why>) {
        let job = self.job_of_pod(pod, &key.namespace);
        let (subject, holder) = match job.filter(|_| pod.owner.is_some()) {
            Some(job) => (Subject::Job(job.uid.clone()), Gated::from(job)),
            None => (Subject::Pod(pod.uid.clone()), Gated::from(pod)),
        };
        if holder.kept.is_deactivated() {
            let told = self.why_held(&subject, &key.namespace, holder);
            return (State::Inactive, Some(told));
        }
        // Others have gates, too, of which no annotation tells.
        let held = gate_names(holder.gates);
        let told = if let Some(note) = self.gates_left(pod, &key.namespace) {
            why(note.reason, &note.message)
        } else if holder.is_held && gates.iter().all(|gate| held.contains(gate)) {
            self.why_held(&subject, &key.namespace, holder)
        } else {
            let text = format!("Held until these gates are removed: {}", gates.join(", "));
            why("Gated", &text)
        };
        (State::Gated, Some(told))
    }

    /// Why gates hold an object, or that it is deactivated.
    fn why_held(&self, subject: &Subject, namespace: &str, gated: Gated<'_>) -> Why {
        let gate = |gate: &Gate| self.gate_now(gate, subject, namespace, gated.kept);
        let note = held_note::of(gated, &gate);
        why(note.reason, &note.message)
    }

    /// Adds what the engine knows.
    fn stated(&self, stated: Stated) -> Stated {
        let id = &stated.id;
        let admission = self.engine.admission(id).cloned();
        let asked = self.engine.asked_for(id);
        let pointed = |key: &LocalQueueKey| {
            self.cluster
                .cluster_queue_of(key)
                .map(ClusterQueueName::from)
        };
        let cluster_queue = match &admission {
            Some(admission) => Some(admission.queue.clone()),
            None => stated.local_queue.as_ref().and_then(pointed),
        };
        Stated {
            cluster_queue,
            priority: asked.as_ref().map(|(_, asked)| asked.priority),
            requests: asked.map_or_else(Vec::new, |(_, asked)| asked.requests.to_vec()),
            admission,
            ..stated
        }
    }

    /// Who a workload of the engine is.
    fn found(&self, id: &WorkloadId) -> Option<Found> {
        match Subject::from(id) {
            Subject::Pod(uid) => self.objects.pods.key(&uid).map(found_of_pod),
            subject @ (Subject::Job(_) | Subject::Group(_)) => {
                let (key, record) = self.objects.workload_of(&subject)?;
                Some(found_of(key, record))
            }
        }
    }
}

/// In this state, and nothing else known.
fn nothing_of(state: State) -> Stated {
    Stated {
        found: Found {
            name: "".into(),
            job: None,
        },
        id: WorkloadId::from(""),
        namespace: "".into(),
        made: None::<Timestamp>,
        state,
        why: None,
        gates: Vec::new(),
        local_queue: None,
        cluster_queue: None,
        priority: None,
        since: None,
        requests: Vec::new(),
        admission: None,
    }
}

fn found_of(key: &WorkloadKey, record: &WorkloadRecord) -> Found {
    let owner = record.owner.as_ref().filter(|owner| !owner.is_nameless());
    Found {
        name: key.name.clone(),
        job: owner.map(|owner| JobRef {
            group: owner.group_kind.group.clone(),
            kind: owner.group_kind.kind.clone(),
            name: owner.name.as_str().into(),
        }),
    }
}

fn found_of_pod(key: &PodKey) -> Found {
    Found {
        name: key.name.clone(),
        job: Some(JobRef {
            group: "".into(),
            kind: "Pod".into(),
            name: key.name.clone(),
        }),
    }
}

/// How a job stands that has no Workload by its gates. None if none holds it.
fn state_of_job(job: &JobRecord) -> Option<State> {
    if job.finished().is_some() {
        return None;
    }
    // It stays so when its gates are lifted.
    if job.gate_record.is_deactivated() {
        return Some(State::Inactive);
    }
    job.is_held_by_gates().then_some(State::Gated)
}

/// The gates that hold something, or none if its annotation can't be read.
fn gate_names(gates: &GateState) -> Vec<String> {
    match gates {
        GateState::Held(gates) => gates.iter().map(ToString::to_string).collect(),
        GateState::None | GateState::Invalid(_) => Vec::new(),
    }
}

/// The gates that a pod has besides the queue gate, by the names in its annotation if it has one.
fn gates_of_pod(pod: &PodRecord) -> Vec<String> {
    let mut gates = gate_names(&pod.gates);
    if !pod.is_held_by_gates() {
        gates.clear();
    }
    let listed: BTreeSet<&str> = pod.propagated.iter().map(|name| &**name).collect();
    let others = pod.other_gates.iter();
    let others = others.filter(|gate| gates.is_empty() || !listed.contains(&***gate));
    let others: Vec<String> = others.map(ToString::to_string).collect();
    gates.extend(others);
    gates.sort();
    gates.dedup();
    gates
}

fn why(reason: &str, message: &str) -> Why {
    Why {
        reason: reason.into(),
        message: Some(message.into()),
    }
}

fn local_queue(namespace: &Arc<str>, queue: &view::LabelledQueue) -> Option<LocalQueueKey> {
    match queue {
        view::LabelledQueue::Named(name) => {
            Some(LocalQueueKey::new(namespace.clone(), name.as_str()))
        }
        view::LabelledQueue::None | view::LabelledQueue::Invalid(_) => None,
    }
}
