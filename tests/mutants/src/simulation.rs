//! What seeds of the simulation find: order, loss and restarts.

use crate::{FoundBy, Mutant};

const fn mutant(
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
) -> Mutant {
    Mutant {
        what,
        file,
        from,
        to,
        found_by: FoundBy::Seeds,
    }
}

/// All of them.
pub(crate) static MUTANTS: &[Mutant] = &[
    mutant(
        "a Lease has expired when it is first seen",
        "src/process/lease/election.rs",
        "since.elapsed() > Duration::from_secs(seconds)",
        "since.elapsed() >= Duration::from_secs(seconds.min(0))",
    ),
    mutant(
        "an acquisition of the Lease has no term of its own",
        "src/process/lease/election.rs",
        "transitions.saturating_add(1)",
        "transitions",
    ),
    mutant(
        "a leader whose Lease is deleted makes it again",
        "src/process/lease/election.rs",
        "if self.held.is_some() {\n                return Ok(Outcome::NotHeld);",
        "if false {\n                return Ok(Outcome::NotHeld);",
    ),
    mutant(
        "an admission of an ended term counts",
        "src/plan/workload/ended_term_admissions.rs",
        "!self.has_listed || term == self.own || self.before == Some(term)",
        "true",
    ),
    mutant(
        "decisions begin before all is listed",
        "src/controller/lists.rs",
        "self.awaited.remove(source) && self.awaited.is_empty()",
        "self.awaited.remove(source)",
    ),
    mutant(
        "what is older replaces what is newer",
        "src/cache/revisions.rs",
        "known.is_some_and(|known| told < known)",
        "known.is_some_and(|known| told < known && false)",
    ),
    mutant(
        "a release takes whatever the job has become since",
        "kinds/src/patch/release.rs",
        "if let Some(generation) = target.generation {",
        "if let Some(generation) = target.generation.filter(|_| false) {",
    ),
    mutant(
        "the deletion of a pod is forgotten",
        "src/controller/observe.rs",
        "return self.pod_deleted(&PodKey { namespace, name }, &object);",
        "return;",
    ),
    mutant(
        "the deletion of a Workload is forgotten",
        "src/controller/observe.rs",
        "self.workload_gone(&key, uid);",
        "drop(key);",
    ),
    mutant(
        "what a list lacks stays known",
        "src/controller/observe.rs",
        "if !seen.contains(&(namespace.clone(), name.clone())) {",
        "if false {",
    ),
    mutant(
        "a job that is gone keeps its usage",
        "src/controller/engine_sync.rs",
        "if !may_have_pods {",
        "if false {",
    ),
    mutant(
        "an admission without an answer counts as failed",
        "src/controller/writes/reply.rs",
        "if !write.kind().happens_once() {\n            self.take_back(&sent);",
        "if true {\n            self.take_back(&sent);",
    ),
    mutant(
        "an admission that is refused when it is sent again counts as failed",
        "src/controller/writes/reply.rs",
        "if sent.kind().happens_once() && self.writes.is_in_doubt(&sent.subject, now) {",
        "if false {",
    ),
    mutant(
        "nobody is woken after a failure",
        "src/controller/writes/retries.rs",
        "self.wake_after(wait, Wake::Retry(subject.clone()));\n        self.sync(subject);",
        "drop(wait);\n        self.sync(subject);",
    ),
    mutant(
        "nothing is unseen that has happened",
        "src/cache/mod.rs",
        "WATCH_LAG: Duration = Duration::from_secs(5)",
        "WATCH_LAG: Duration = Duration::ZERO",
    ),
    mutant(
        "gates are not looked at",
        "src/plan/job.rs",
        "None if job.is_held() => gated",
        "None if job.is_held() && job.released => gated",
    ),
    mutant(
        "a finished job keeps its quota",
        "src/plan/job.rs",
        "Some((key, record)) if !record.is_finished() => {\n                let status = workload::finished(",
        "Some((key, record)) if !record.is_finished() && job.released => {\n                let status = workload::finished(",
    ),
    mutant(
        "an evicted job has no usage while it stops",
        "src/plan/engine_state.rs",
        "_ if workload.is_finished() => WorkloadState::Finished,",
        "_ if workload.is_finished() || workload.is_evicting() => WorkloadState::Finished,",
    ),
    mutant(
        "an evicted job frees its quota while its controller is active",
        "src/plan/eviction_steps.rs",
        "let is_active = reading.may_have_pods() && !is_left_alone && !is_ignored;",
        "let is_active = reading.may_have_pods() && is_left_alone && !is_ignored;",
    ),
    mutant(
        "an evicted job is not suspended",
        "src/plan/eviction_steps.rs",
        "if kind.suspend_path().is_some() && !reading.suspended {",
        "if false {",
    ),
    mutant(
        "a job that grew keeps what it was admitted with",
        "src/plan/job/admitted.rs",
        "let is_covered = workload::covers(record, pod_sets, fit);",
        "let is_covered = true;",
    ),
    mutant(
        "Workloads whose job is gone are not looked at again",
        "src/controller/housekeeping.rs",
        "self.look_after_orphans();",
        "",
    ),
    mutant(
        "statuses are written whatever the revision is",
        "src/api/write/patches.rs",
        "\"metadata\": {\"resourceVersion\": revision.0.to_string()},\n        \"status\"",
        "\"metadata\": {},\n        \"status\"",
    ),
    mutant(
        "borrowing limits are not looked at",
        "engine/src/quota/availability.rs",
        "Some(_) => cell.borrowing_ceiling(),",
        "Some(_) => None,",
    ),
    mutant(
        "lent quota is not counted in the cohort",
        "engine/src/quota/availability.rs",
        "rest = rest.minus(local).at_least_zero();\n            Some(RaisedNode {",
        "rest = rest.minus(local).min(Amount::ZERO);\n            Some(RaisedNode {",
    ),
    mutant(
        "a pod that is admitted by itself has no usage",
        "src/controller/engine_sync.rs",
        "pod.is_live() && (is_single || own.is_some()),",
        "pod.queue_gate.is_some() && (is_single || own.is_some()),",
    ),
    mutant(
        "a job that is gone gives its quota back while its pods run",
        "src/controller/engine_sync.rs",
        "if !may_have_pods {",
        "if true {",
    ),
    mutant(
        "an admission on its way is forgotten when its job changes",
        "src/plan/engine_state.rs",
        "None if situation.admission_in_flight || situation.awaits_reply => return",
        "None if situation.awaits_reply => return",
    ),
    mutant(
        "lending limits are not looked at",
        "engine/src/quota/quota_tree.rs",
        "match self.quota.lending_limit {",
        "match self.quota.lending_limit.filter(|_| false) {",
    ),
];
