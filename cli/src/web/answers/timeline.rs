//! The life of a job, from what its object keeps of its gates, the conditions of its Workload, and what Sluice told in
//! events while these are kept. Pure.

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sluice_crds::reasons::{event, eviction};
use sluice_crds::{Admission, ConditionType, Workload, conditions};
use sluice_kinds::gates::{self, GateRecord, GateState};

use crate::live::explain::told_at;

/// An event this close to a condition of the same reason tells the same.
const SAME_WITHIN: SignedDuration = SignedDuration::from_secs(3);

/// A turn of a job's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// When, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// What happened.
    pub what: What,
    /// In a few words.
    pub title: String,
    /// Who did it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How often it was told, if more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

/// What kind of turn it is. The order is that of a life, for turns of the same second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum What {
    /// The object was created.
    Created,
    /// Gates hold it.
    Gated,
    /// A gate was lifted.
    Lifted,
    /// It has a Workload.
    Queued,
    /// It was evicted.
    Evicted,
    /// It is queued again.
    Requeued,
    /// It waits.
    Waiting,
    /// It got quota.
    Admitted,
    /// Its pods are ready.
    Ready,
    /// It has ended.
    Finished,
    /// Something that Sluice told.
    Told,
    /// Something that Sluice warned of.
    Warned,
}

/// The turns of a job, the first one first.
pub fn turns(
    object: Option<(&str, &ObjectMeta)>,
    workload: Option<&Workload>,
    events: &[Event],
) -> Vec<Turn> {
    let mut turns = Vec::new();
    if let Some((kind, metadata)) = object {
        of_object(kind, metadata, &mut turns);
    }
    if let Some(workload) = workload {
        of_workload(workload, &mut turns);
    }
    let known = turns.clone();
    let told = events.iter().map(of_event);
    turns.extend(told.filter(|told| !known.iter().any(|known| is_same(known, told))));
    for turn in &mut turns {
        if turn.message == turn.title {
            turn.message.clear();
        }
    }
    let created = |metadata: &ObjectMeta| metadata.creation_timestamp.as_ref().map(|at| at.0);
    let queued = workload.and_then(|workload| created(&workload.metadata));
    let lifted = queued.or_else(|| object.and_then(|(_, metadata)| created(metadata)));
    turns.sort_by_key(|turn| {
        (
            turn.at.unwrap_or_else(|| place(turn.what, lifted)),
            turn.what,
        )
    });
    turns
}

/// Where a turn stands of which nobody knows when it was. With admission policies no lift has a time: it came before the
/// object was queued, or else after its gates. What is told of it otherwise is the latest that is known.
fn place(what: What, lifted: Option<Timestamp>) -> Timestamp {
    match what {
        What::Created | What::Gated | What::Queued => Timestamp::MIN,
        What::Lifted => lifted.unwrap_or(Timestamp::MIN),
        _ => Timestamp::MAX,
    }
}

impl Turn {
    fn new(what: What, at: Option<Timestamp>, title: impl Into<String>) -> Self {
        Self {
            at,
            what,
            title: title.into(),
            by: None,
            reason: String::new(),
            message: String::new(),
            count: None,
        }
    }

    fn of(condition: &Condition, what: What, title: impl Into<String>) -> Self {
        Self {
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            ..Self::new(what, Some(condition.last_transition_time.0), title)
        }
    }
}

fn of_object(kind: &str, metadata: &ObjectMeta, turns: &mut Vec<Turn>) {
    let created = metadata.creation_timestamp.as_ref().map(|at| at.0);
    turns.push(Turn::new(What::Created, created, format!("{kind} created")));
    let none = std::collections::BTreeMap::new();
    let annotations = metadata.annotations.as_ref().unwrap_or(&none);
    let record = GateRecord::read(annotations);
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let lifted: Vec<_> = record.lifted_from(uid).collect();
    let mut names: Vec<String> = match gates::read(annotations) {
        GateState::Held(held) => held.iter().map(ToString::to_string).collect(),
        GateState::None => Vec::new(),
        GateState::Invalid(problems) => problems.iter().map(ToString::to_string).collect(),
    };
    let is_held = !names.is_empty();
    names.extend(lifted.iter().map(|lifted| lifted.gate.clone()));
    names.dedup();
    if !names.is_empty() {
        let title = if is_held {
            "Held by gates"
        } else {
            "Was held by gates"
        };
        turns.push(Turn {
            message: names.join(", "),
            ..Turn::new(What::Gated, created, title)
        });
    }
    for lifted in lifted {
        turns.push(Turn {
            by: Some(lifted.by.clone()),
            message: lifted.reason.clone().unwrap_or_default(),
            ..Turn::new(
                What::Lifted,
                lifted.at,
                format!("Gate {} lifted", lifted.gate),
            )
        });
    }
    if let Some(gate) = &record.deactivated_by {
        let title = format!("Deactivated by the gate {gate}");
        turns.push(Turn::new(What::Warned, None, title));
    }
}

fn of_workload(workload: &Workload, turns: &mut Vec<Turn>) {
    let created = workload.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let queue = &workload.spec.queue_name;
    let title = format!("Queued in LocalQueue {queue}");
    turns.push(Turn::new(What::Queued, created, title));
    let Some(status) = &workload.status else {
        return;
    };
    let is_preempted = conditions::is_true(&status.conditions, ConditionType::Preempted);
    for condition in &status.conditions {
        let is_true = condition.status == "True";
        let Some(kind) = ConditionType::named(&condition.type_) else {
            continue;
        };
        let turn = match (kind, is_true) {
            (ConditionType::QuotaReserved, false) if status.admission.is_none() => {
                Turn::of(condition, What::Waiting, "Waits for quota")
            }
            (ConditionType::Admitted, true) => {
                let mut turn = Turn::of(condition, What::Admitted, "Admitted");
                if let Some(admission) = &status.admission {
                    turn.title = format!("Admitted to ClusterQueue {}", admission.cluster_queue);
                    turn.message = [turn.message, flavors(admission)]
                        .into_iter()
                        .filter(|part| !part.is_empty())
                        .collect::<Vec<_>>()
                        .join("; ");
                }
                turn
            }
            (ConditionType::PodsReady, true) => Turn::of(condition, What::Ready, "Pods are ready"),
            // The other condition tells more of it.
            (ConditionType::Evicted, true)
                if is_preempted && condition.reason == eviction::PREEMPTED =>
            {
                continue;
            }
            (ConditionType::Evicted, true) => Turn::of(condition, What::Evicted, "Evicted"),
            (ConditionType::Preempted, true) => Turn::of(condition, What::Evicted, "Preempted"),
            (ConditionType::Requeued, true) => Turn::of(condition, What::Requeued, "Queued again"),
            (ConditionType::Finished, true) => Turn::of(condition, What::Finished, "Finished"),
            _ => continue,
        };
        turns.push(turn);
    }
}

/// Which flavors it got.
fn flavors(admission: &Admission) -> String {
    let sets = admission.pod_set_assignments.iter();
    let sets = sets.map(|set| {
        let flavors = set.flavors.iter();
        let flavors = flavors.map(|(resource, flavor)| format!("{resource} from {flavor}"));
        format!(
            "{} × {}: {}",
            set.count,
            set.name,
            flavors.collect::<Vec<_>>().join(", ")
        )
    });
    sets.collect::<Vec<_>>().join("; ")
}

fn of_event(event: &Event) -> Turn {
    let reason = event.reason.clone().unwrap_or_default();
    let is_warning = event.type_.as_deref() == Some("Warning");
    let (what, title) = match reason.as_str() {
        event::GATED => (What::Gated, "Held by gates".to_owned()),
        event::GATE_LIFTED => (What::Lifted, "Gate lifted".to_owned()),
        event::PENDING | event::INADMISSIBLE => (What::Waiting, "Waits for quota".to_owned()),
        event::ADMITTED => (What::Admitted, "Admitted".to_owned()),
        event::EVICTED | event::PREEMPTED => (What::Evicted, reason.clone()),
        event::REQUEUED => (What::Requeued, "Queued again".to_owned()),
        event::FINISHED => (What::Finished, "Finished".to_owned()),
        _ if is_warning => (What::Warned, reason.clone()),
        _ => (What::Told, reason.clone()),
    };
    Turn {
        reason,
        message: event.message.clone().unwrap_or_default(),
        count: event
            .series
            .as_ref()
            .and_then(|series| series.count)
            .filter(|count| 1 < *count),
        ..Turn::new(what, told_at(event), title)
    }
}

/// Whether an event tells what is known otherwise.
fn is_same(known: &Turn, told: &Turn) -> bool {
    let (Some(known_at), Some(told_at)) = (known.at, told.at) else {
        return known.what == told.what && known.message == told.message;
    };
    let apart = told_at.duration_since(known_at).abs();
    match known.what {
        // These are kept exactly, and an event only repeats them.
        What::Gated => told.what == What::Gated,
        What::Waiting => told.what == What::Waiting && known.message == told.message,
        What::Lifted => told.what == What::Lifted && apart <= SAME_WITHIN,
        _ => known.what == told.what && apart <= SAME_WITHIN,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::{Value, json};

    use super::*;

    fn metadata(annotations: &Value) -> ObjectMeta {
        let metadata = json!({"name": "train", "uid": "u-1", "creationTimestamp": "2026-03-01T09:00:00Z",
            "annotations": annotations});
        serde_json::from_value(metadata).unwrap()
    }

    fn workload(status: &Value) -> Workload {
        let workload = json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
            "metadata": {"name": "train-1", "creationTimestamp": "2026-03-01T09:10:00Z"},
            "spec": {"queueName": "main", "podSets": [], "priority": 0, "active": true}, "status": status});
        serde_json::from_value(workload).unwrap()
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str, minute: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": format!("2026-03-01T09:{minute}:00Z")})
    }

    fn event(reason: &str, message: &str, time: &str) -> Event {
        let event = json!({"metadata": {}, "involvedObject": {}, "reason": reason, "message": message,
            "eventTime": format!("2026-03-01T09:{time}.000000Z")});
        serde_json::from_value(event).unwrap()
    }

    fn lines(turns: &[Turn]) -> String {
        let line = |turn: &Turn| {
            let at = turn.at.map_or_else(|| "?".to_owned(), |at| at.to_string());
            let by = turn
                .by
                .as_ref()
                .map_or_else(String::new, |by| format!(" by {by}"));
            let line = format!(
                "{at} {:?}: {}{by} [{}] {}",
                turn.what, turn.title, turn.reason, turn.message
            );
            format!("{}\n", line.trim_end())
        };
        turns.iter().map(line).collect()
    }

    #[test]
    fn a_life_is_told_in_order_and_nothing_twice() {
        let lifted = json!([
            {"gate": "acme.io/budget", "by": "jane", "at": "2026-03-01T09:10:00Z", "uid": "u-1"},
            {"gate": "acme.io/copied", "by": "eve", "at": "2026-03-01T08:00:00Z", "uid": "another"},
        ]);
        let metadata = metadata(&json!({"sluice.dev/lifted-gates": lifted.to_string()}));
        let workload = workload(&json!({
            "admission": {"clusterQueue": "research", "podSetAssignments": [
                {"name": "main", "count": 2, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "2"}}]},
            "conditions": [
                condition("QuotaReserved", "True", "QuotaReserved", "", "40"),
                condition("Admitted", "True", "Admitted", "", "40"),
                condition("Evicted", "False", "Requeued", "", "31"),
                condition("Requeued", "True", "Preempted", "", "31"),
            ],
        }));
        let events = [
            event("Gated", "The gate \"acme.io/budget\" holds it", "00:01"),
            event(
                "GateLifted",
                "The gate \"acme.io/budget\" was lifted by \"jane\"",
                "10:01",
            ),
            event("Admitted", "Admitted to research", "20:00"),
            event(
                "Preempted",
                "Preempted by Job \"urgent\" in the same ClusterQueue (higher priority)",
                "30:00",
            ),
            event("Admitted", "Admitted to research", "40:01"),
        ];
        let turns = turns(Some(("Job", &metadata)), Some(&workload), &events);
        assert_snapshot!(lines(&turns), @r#"
        2026-03-01T09:00:00Z Created: Job created []
        2026-03-01T09:00:00Z Gated: Was held by gates [] acme.io/budget
        2026-03-01T09:10:00Z Lifted: Gate acme.io/budget lifted by jane []
        2026-03-01T09:10:00Z Queued: Queued in LocalQueue main []
        2026-03-01T09:20:00Z Admitted: Admitted [Admitted] Admitted to research
        2026-03-01T09:30:00Z Evicted: Preempted [Preempted] Preempted by Job "urgent" in the same ClusterQueue (higher priority)
        2026-03-01T09:31:00Z Requeued: Queued again [Preempted]
        2026-03-01T09:40:00Z Admitted: Admitted to ClusterQueue research [Admitted] 2 × main: cpu from spot
        "#);
    }

    /// Two conditions are about it.
    #[test]
    fn a_preemption_is_told_once() {
        let by = "Preempted by Job \"urgent\"";
        let workload = workload(&json!({"conditions": [
            condition("QuotaReserved", "False", "WaitingForQuota", "no quota is free", "31"),
            condition("Evicted", "True", "Preempted", by, "30"),
            condition("Preempted", "True", "InClusterQueue", by, "30"),
            condition("Requeued", "True", "Evicted", "Queued again", "31"),
        ]}));
        assert_snapshot!(lines(&turns(None, Some(&workload), &[])), @r#"
        2026-03-01T09:10:00Z Queued: Queued in LocalQueue main []
        2026-03-01T09:30:00Z Evicted: Preempted [InClusterQueue] Preempted by Job "urgent"
        2026-03-01T09:31:00Z Requeued: Queued again [Evicted]
        2026-03-01T09:31:00Z Waiting: Waits for quota [WaitingForQuota] no quota is free
        "#);
    }

    /// The record of admission policies has no times.
    #[test]
    fn what_has_no_time_stands_where_it_can_have_been() {
        let lifted = json!([{"gate": "acme.io/budget", "by": "jane", "uid": "u-1"}]);
        let metadata = metadata(&json!({"sluice.dev/lifted-gates": lifted.to_string(),
            "sluice.dev/deactivated-by": "acme.io/deadline"}));
        let admitted = condition("Admitted", "True", "Admitted", "", "40");
        let workload = workload(&json!({"conditions": [admitted]}));
        let job = Some(("Job", &metadata));
        assert_snapshot!(lines(&turns(job, Some(&workload), &[])), @r"
        2026-03-01T09:00:00Z Created: Job created []
        2026-03-01T09:00:00Z Gated: Was held by gates [] acme.io/budget
        ? Lifted: Gate acme.io/budget lifted by jane []
        2026-03-01T09:10:00Z Queued: Queued in LocalQueue main []
        2026-03-01T09:40:00Z Admitted: Admitted [Admitted]
        ? Warned: Deactivated by the gate acme.io/deadline []
        ");
        assert_snapshot!(lines(&turns(job, None, &[])), @r"
        2026-03-01T09:00:00Z Created: Job created []
        2026-03-01T09:00:00Z Gated: Was held by gates [] acme.io/budget
        ? Lifted: Gate acme.io/budget lifted by jane []
        ? Warned: Deactivated by the gate acme.io/deadline []
        ");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let waits = condition(
            "QuotaReserved",
            "False",
            "WaitingForQuota",
            "2 more cpu is needed",
            "12",
        );
        let workload = workload(&json!({"conditions": [waits]}));
        assert_snapshot!(lines(&turns(None, Some(&workload), &[])), @r"
        2026-03-01T09:10:00Z Queued: Queued in LocalQueue main []
        2026-03-01T09:12:00Z Waiting: Waits for quota [WaitingForQuota] 2 more cpu is needed
        ");
        let held = metadata(&json!({"kueue.x-k8s.io/scheduling-gated-by": "acme.io/budget"}));
        assert_snapshot!(lines(&turns(Some(("Job", &held)), None, &[])), @r"
        2026-03-01T09:00:00Z Created: Job created []
        2026-03-01T09:00:00Z Gated: Held by gates [] acme.io/budget
        ");
    }
}
