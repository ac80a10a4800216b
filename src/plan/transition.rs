//! The turns of a job's life, as its Workload shows them: what has changed between two observations. Whoever made the
//! change, and whether or not a write was answered: each turn is seen once by the process that leads. And the turns of
//! its gates, as the object itself shows them.

use k8s_openapi::jiff::Timestamp;
use sluice_crds::ConditionType;
use sluice_crds::reasons::eviction;

use crate::cache::WorkloadRecord;
use crate::cache::conditions;
use crate::cache::held::Gated;
use crate::plan::evictions::requeue_backoff::Backoff;
use crate::plan::progress::RECOVERED;

/// The reason of a deactivation after too many backoffs.
const LIMIT_EXCEEDED: &str = "RequeuingLimitExceeded";
/// The reason of any other deactivation.
const BY_USER: &str = "User";

/// A turn in the life of a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// It holds quota, and its job may run.
    Admitted,
    /// All its pods are ready.
    Ready,
    /// It is to stop.
    Evicted {
        /// Why, as its condition says.
        reason: String,
        /// By which rule, if it is preempted.
        preempted: Option<String>,
    },
    /// Its quota is free, and it waits again.
    Requeued {
        /// What it waits for, as its condition says.
        reason: String,
    },
    /// It is not queued any more.
    Deactivated {
        /// By whom.
        reason: &'static str,
    },
    /// It is queued again.
    Reactivated,
    /// Its job has ended.
    Finished {
        /// How, as its condition says.
        reason: String,
    },
}

impl Transition {
    /// The turn in one word, as logs have it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Ready => "ready",
            Self::Evicted { .. } => "evicted",
            Self::Requeued { .. } => "requeued",
            Self::Deactivated { .. } => "deactivated",
            Self::Reactivated => "reactivated",
            Self::Finished { .. } => "finished",
        }
    }

    /// Why, if there is more to say.
    pub fn reason(&self) -> &str {
        match self {
            Self::Admitted | Self::Ready | Self::Reactivated => "",
            Self::Deactivated { reason } => reason,
            Self::Evicted { reason, .. }
            | Self::Requeued { reason }
            | Self::Finished { reason } => reason,
        }
    }
}

/// What has become of a Workload between two observations of it. `backoff` is what was to become of it if it was evicted.
pub fn turns(before: &WorkloadRecord, after: &WorkloadRecord, backoff: Backoff) -> Vec<Transition> {
    let mut turns = Vec::new();
    match (before.spec.active, after.spec.active) {
        (true, false) => turns.push(Transition::Deactivated {
            reason: deactivated_by(before, backoff),
        }),
        (false, true) => turns.push(Transition::Reactivated),
        (true, true) | (false, false) => {}
    }
    let holds = |record: &WorkloadRecord| record.status.admission.is_some();
    if !holds(before) && holds(after) && !after.is_finished() {
        turns.push(Transition::Admitted);
    }
    // A pod that was replaced is no new start.
    let has_recovered = reason(after, ConditionType::PodsReady) == RECOVERED;
    if is_new(before, after, ConditionType::PodsReady) && !has_recovered && !after.is_evicting() {
        turns.push(Transition::Ready);
    }
    if !before.is_evicting() && after.is_evicting() {
        let preempted = reason(after, ConditionType::Evicted) == eviction::PREEMPTED;
        turns.push(Transition::Evicted {
            reason: reason(after, ConditionType::Evicted),
            preempted: preempted.then(|| reason(after, ConditionType::Preempted)),
        });
    }
    if holds(before) && !holds(after) && !after.is_finished() && before.is_evicting() {
        turns.push(Transition::Requeued {
            reason: reason(after, ConditionType::QuotaReserved),
        });
    }
    if is_new(before, after, ConditionType::Finished) {
        turns.push(Transition::Finished {
            reason: reason(after, ConditionType::Finished),
        });
    }
    turns
}

/// When it was evicted last.
pub fn evicted_at(record: &WorkloadRecord) -> Option<Timestamp> {
    record.true_since(ConditionType::Evicted)
}

/// When the condition Admitted last became true.
pub fn admitted_at(record: &WorkloadRecord) -> Option<Timestamp> {
    record.true_since(ConditionType::Admitted)
}

/// The flavors of an admission, each named once.
pub fn flavors(record: &WorkloadRecord) -> String {
    let admission = record.status.admission.iter();
    let sets = admission.flat_map(|admission| &admission.pod_set_assignments);
    let mut flavors: Vec<&str> = sets
        .flat_map(|set| set.flavors.values().map(String::as_str))
        .collect();
    flavors.sort_unstable();
    flavors.dedup();
    flavors.join(",")
}

/// What has become of the gates of an object since it was seen last; `gated` if they hold it and it is new. One that
/// is deleted, or runs though it is gated, is held no longer, but its gates are not lifted. One that is deactivated, as a
/// gate was not lifted in time, is held until it is reactivated.
pub fn gate_turns(before: Option<Gated<'_>>, after: &Gated<'_>) -> Vec<&'static str> {
    let Some(before) = before else {
        return Vec::from_iter(after.is_held.then_some("gated"));
    };
    if after.has_ended {
        return Vec::new();
    }
    let (was_deactivated, is_deactivated) =
        (before.kept.is_deactivated(), after.kept.is_deactivated());
    let mut turns = Vec::new();
    match (was_deactivated, is_deactivated) {
        (false, true) => turns.push("deactivated"),
        (true, false) => turns.push("reactivated"),
        (true, true) | (false, false) => {}
    }
    let was_held = before.is_held || was_deactivated;
    if was_held && !is_deactivated && !after.gates.is_held() {
        turns.push("lifted");
    }
    turns
}

/// Sluice deactivates only what is evicted and has given its quota back too often.
fn deactivated_by(before: &WorkloadRecord, backoff: Backoff) -> &'static str {
    if before.is_evicting() && backoff == Backoff::Deactivate {
        LIMIT_EXCEEDED
    } else {
        BY_USER
    }
}

fn is_new(before: &WorkloadRecord, after: &WorkloadRecord, kind: ConditionType) -> bool {
    let is = |record: &WorkloadRecord| conditions::is_true(&record.status.conditions, kind);
    !is(before) && is(after)
}

fn reason(record: &WorkloadRecord, kind: ConditionType) -> String {
    let found = conditions::find(&record.status.conditions, kind);
    found.map_or_else(String::new, |condition| condition.reason.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use sluice_crds::DEACTIVATED_BY_ANNOTATION;
    use sluice_kinds::gates::{self, ADMISSION_GATED_BY};
    use sluice_kinds::view::LabelledQueue;

    use k8s_openapi::jiff::SignedDuration;

    use super::*;
    use crate::cache::kept_gates::KeptGates;
    use crate::plan::fixtures::mk_group_workload;
    use crate::plan::workload;
    use crate::process::recorded_times::Sight;

    fn mk_record(conditions: &[(&str, bool, &str)], holds: bool) -> WorkloadRecord {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, is_true, reason)| {
                json!({"type": kind, "status": if *is_true { "True" } else { "False" },
                    "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let mut status = json!({ "conditions": conditions });
        if holds {
            status["admission"] = json!({"clusterQueue": "team-a", "podSetAssignments": [
                {"name": "main", "count": 1, "flavors": {"memory": "b", "cpu": "a", "pods": "a"}},
            ]});
        }
        mk_group_workload(&json!([]), &status).1
    }

    #[test]
    fn each_change_is_a_turn() {
        let waits = || mk_record(&[("QuotaReserved", false, "WaitingForQuota")], false);
        let runs = || mk_record(&[("Admitted", true, "Admitted")], true);
        let ready = || mk_record(&[("PodsReady", true, "PodsReady")], true);
        let recovers = || mk_record(&[("PodsReady", false, "WaitForRecovery")], true);
        let recovered = mk_record(&[("PodsReady", true, "Recovered")], true);
        let evicted = |reason| mk_record(&[("Evicted", true, reason)], true);
        let preempted = mk_record(
            &[
                ("Evicted", true, "Preempted"),
                ("Preempted", true, "InClusterQueue"),
            ],
            true,
        );
        let requeued = mk_record(
            &[
                ("Evicted", true, "Preempted"),
                ("QuotaReserved", false, "PendingEvaluation"),
            ],
            false,
        );
        let finished = mk_record(&[("Finished", true, "Failed")], true);
        let cases = vec![
            ("nothing", waits(), waits(), ""),
            ("admission", waits(), runs(), "admitted"),
            ("admission again", requeued.clone(), runs(), "admitted"),
            ("taken over", runs(), runs(), ""),
            ("ready", runs(), ready(), "ready"),
            ("ready already", ready(), ready(), ""),
            ("ready again", recovers(), recovered, ""),
            (
                "stopped",
                runs(),
                evicted("ClusterQueueStopped"),
                "evicted ClusterQueueStopped",
            ),
            (
                "preempted",
                ready(),
                preempted.clone(),
                "evicted Preempted InClusterQueue",
            ),
            ("stalled", preempted.clone(), preempted.clone(), ""),
            (
                "requeued",
                preempted,
                requeued,
                "requeued PendingEvaluation",
            ),
            ("taken back", runs(), waits(), ""),
            ("finished", runs(), finished.clone(), "finished Failed"),
            ("finished at once", waits(), finished, "finished Failed"),
        ];
        for (name, before, after, expected) in cases {
            let seen: Vec<String> = turns(&before, &after, Backoff::None)
                .iter()
                .map(|turn| {
                    let right = match turn {
                        Transition::Evicted { preempted, .. } => {
                            preempted.as_deref().unwrap_or_default()
                        }
                        _ => "",
                    };
                    let text = [turn.as_str(), turn.reason(), right].join(" ");
                    text.trim_end().to_owned()
                })
                .collect();
            assert_eq!(seen.join(", "), expected, "{name}");
        }
        assert_eq!(flavors(&runs()), "a,b");
    }

    #[test]
    fn a_deactivation_is_sluices_or_its_users() {
        let evicted = mk_record(&[("Evicted", true, "ReservationTimeout")], true);
        let runs = mk_record(&[("Admitted", true, "Admitted")], true);
        let some_time = Backoff::For(SignedDuration::from_secs(60));
        let cases = [
            (&evicted, Backoff::None, BY_USER),
            (&evicted, some_time, BY_USER),
            (&evicted, Backoff::Deactivate, LIMIT_EXCEEDED),
            (&runs, Backoff::Deactivate, BY_USER),
        ];
        for (known, backoff, reason) in cases {
            let mut before = known.clone();
            // It has given its quota back before.
            before.status.requeue_state = Some(sluice_crds::RequeueState::default());
            let mut after = before.clone();
            after.spec.active = false;
            let told = turns(&before, &after, backoff);
            assert_eq!(told, [Transition::Deactivated { reason }], "{backoff:?}");
            assert_eq!(turns(&after, &before, backoff), [Transition::Reactivated]);
        }
    }

    /// An object with this gate annotation, which is held if it says so, and by what it is deactivated.
    struct Object(Option<&'static str>, bool, Option<&'static str>);

    impl Object {
        fn read<T>(&self, ask: impl FnOnce(Gated<'_>) -> T) -> T {
            let annotations = [
                (ADMISSION_GATED_BY, self.0),
                (DEACTIVATED_BY_ANNOTATION, self.2),
            ];
            let annotations: BTreeMap<_, _> = annotations
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
                .collect();
            ask(Gated {
                uid: &"u1".into(),
                created: None,
                exists_since: None,
                gates: &gates::read(&annotations),
                kept: &KeptGates::read(&annotations),
                is_held: self.1,
                has_ended: false,
                queue: &LabelledQueue::None,
            })
        }
    }

    #[test]
    fn a_gate_is_lifted_only_when_it_is_gone() {
        const GATE: Option<&str> = Some("acme.io/a");
        let (held, free) = (|| Object(GATE, true, None), || Object(None, false, None));
        let deactivated = || Object(GATE, true, GATE);
        let cases = [
            ("new and held", None, held(), "gated"),
            ("new and free", None, free(), ""),
            ("nothing has changed", Some(held()), held(), ""),
            (
                "one of two gates is lifted",
                Some(Object(Some("acme.io/a, acme.io/b"), true, None)),
                held(),
                "",
            ),
            ("the last gate is lifted", Some(held()), free(), "lifted"),
            // It is deleted, runs all the same, or has got an owner.
            (
                "it waits no longer",
                Some(held()),
                Object(GATE, false, None),
                "",
            ),
            (
                "it waits no longer, and names no gate",
                Some(held()),
                Object(Some(""), false, None),
                "",
            ),
            (
                "its deadline has passed",
                Some(held()),
                deactivated(),
                "deactivated",
            ),
            (
                "its gate is lifted while it is deactivated",
                Some(deactivated()),
                Object(None, false, GATE),
                "",
            ),
            (
                "its gate holds it again",
                Some(deactivated()),
                held(),
                "reactivated",
            ),
            (
                "it goes on, as its gate is lifted already",
                Some(Object(None, false, GATE)),
                free(),
                "reactivated, lifted",
            ),
        ];
        for (name, before, after, expected) in cases {
            let turns = after.read(|after| match &before {
                Some(before) => before.read(|before| gate_turns(Some(before), &after)),
                None => gate_turns(None, &after),
            });
            assert_eq!(turns.join(", "), expected, "{name}");
        }
    }

    /// What was evicted before waits since that eviction, also when its conditions speak of its new admission.
    #[test]
    fn an_admission_keeps_since_when_it_was_waited_for() {
        let at = |second: i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        let sight = |second| Sight {
            now: at(second),
            ahead: SignedDuration::ZERO,
        };
        let mut waits = mk_record(&[("Evicted", true, "Preempted")], false);
        waits.see_times(None, sight(0));
        let mut admitted = waits.clone();
        let admission = mk_record(&[], true).status.admission.unwrap();
        admitted.status = workload::admitted(&waits, admission, true, at(500));
        let readmitted = admitted.clone();
        admitted.see_times(Some(&waits), sight(500));
        let mut ready = admitted.clone();
        ready.see_times(Some(&admitted), sight(900));
        assert_eq!(ready.waits_since(), Some(at(0)));
        assert_eq!(readmitted.waits_since(), Some(at(500)), "after a restart");
    }
}
