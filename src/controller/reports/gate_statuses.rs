//! The statuses of Gates. What gates hold of a LocalQueue is in `backlog.rs`; when statuses are written, in `statuses.rs`.

use k8s_openapi::jiff::Timestamp;
use kube::api::ApiResource;
use sluice_crds::{AppliesTo, ConditionType, GateSpec, GateStatus};

use super::statuses::Statuses;
use crate::cache::ObjectCache;
use crate::cache::cluster::Cluster;
use crate::cache::conditions::{self, ConditionUpdate};
use crate::controller::kinds::Kinds;
use crate::jobkinds::webhook_rules::Reach;
use crate::plan::gates::status::{self, Holdings, NAMED_MAX};
use crate::process::invariants::violated;
use crate::process::metrics::{GateLevels, Metrics};

impl Statuses {
    /// Has those statuses of Gates written that would say something else.
    pub(super) fn gates(
        &mut self,
        cluster: &Cluster,
        objects: &ObjectCache,
        kinds: &Kinds,
        metrics: &Metrics,
        now: Timestamp,
    ) {
        let kind_of = |name: &str| kinds.name_of_kind(name);
        let resource = ApiResource::erase::<sluice_crds::Gate>(&());
        for (gate, object) in cluster.gates.iter() {
            let Some(name) = gate.object_name() else {
                violated("a Gate is named for a gate that can be named so");
                continue;
            };
            let held = objects.held();
            let oldest = held.iter().flat_map(|held| held.of(gate).take(NAMED_MAX));
            let holdings = Holdings {
                count: held.iter().map(|held| held.count(gate)).sum(),
                passed: objects.passed(gate),
                oldest: oldest.collect(),
            };
            let after = object.compiled.as_ref().ok().and_then(|gate| gate.after());
            let trouble = after.map_or(Some(Ok(())), |after| cluster.dependencies.trouble(after));
            let applied = match &object.compiled {
                Ok(_) => applied(kinds.reach_of_gate(&name), &object.spec)
                    .map(|update| and_unmanaged(update, &object.spec, kinds)),
                Err(_) => Some(broken()),
            };
            let status = status::gate(object, &holdings, trouble, applied, &kind_of, now);
            metrics.gates.gate(&name, levels(&status));
            if status != object.status {
                self.write(&resource, "", &name, &object.status, &status);
            }
        }
    }
}

/// What metrics tell of a Gate.
fn levels(status: &GateStatus) -> GateLevels {
    let oldest = status.oldest_since.as_ref();
    GateLevels {
        held: u32::try_from(status.held).unwrap_or_default(),
        oldest: oldest.map_or(0, |since| since.0.as_second()),
        is_backlogged: conditions::is_true(&status.conditions, ConditionType::Backlogged),
    }
}

/// Whether objects that a Gate applies to are born with its gate; nothing while its webhook is being written, which
/// takes a moment.
fn applied(reach: Reach, spec: &GateSpec) -> Option<ConditionUpdate> {
    let (is_true, reason, message) = match reach {
        Reach::InPlace => (
            true,
            "InPlace",
            "Objects that match spec.appliesTo get the gate when they are created".to_owned(),
        ),
        Reach::NoWebhook(missing) => (
            false,
            "NoWebhook",
            format!("{}: there is no {missing}", without_webhook(spec)),
        ),
        Reach::Pending(None) => return None,
        Reach::Pending(Some(why)) => (
            false,
            "WebhookPending",
            format!(
                "Objects without a queue that match spec.appliesTo do not get the gate yet: {why}"
            ),
        ),
    };
    Some(ConditionUpdate {
        kind: ConditionType::Applied,
        is_true,
        reason,
        message,
    })
}

/// The same, where a Gate names kinds that no JobKind declares: a typo, or a JobKind that is still to come.
fn and_unmanaged(update: ConditionUpdate, spec: &GateSpec, kinds: &Kinds) -> ConditionUpdate {
    let applies_to = spec.applies_to.iter();
    let unmanaged = applies_to.flat_map(|applies_to| &applies_to.kinds);
    let unmanaged =
        unmanaged.filter(|kind| !kind.is_pod() && !kinds.is_read(&kind.group, &kind.kind));
    let unmanaged: Vec<_> = unmanaged
        .map(|kind| format!("{}.{}", kind.kind, kind.group))
        .map(|name| name.trim_end_matches('.').to_owned())
        .collect();
    if unmanaged.is_empty() {
        return update;
    }
    let reason = if update.is_true {
        "KindNotManaged"
    } else {
        update.reason
    };
    ConditionUpdate {
        is_true: false,
        reason,
        message: format!(
            "{}. No JobKind declares {}, so objects of such a kind do not get the gate",
            update.message,
            unmanaged.join(", ")
        ),
        ..update
    }
}

/// What becomes of a Gate where only admission policies can judge objects.
fn without_webhook(spec: &GateSpec) -> &'static str {
    let has_condition = |applies_to: &AppliesTo| applies_to.when.is_some();
    if spec.applies_to.as_ref().is_some_and(has_condition) {
        "Objects that match spec.appliesTo do not get the gate, as only the webhook evaluates spec.appliesTo.when"
    } else {
        "Objects that match spec.appliesTo do not get the gate; an admission policy may refuse those that do not name it"
    }
}

/// What of a Gate can't be followed matches every object that asks to be queued.
fn broken() -> ConditionUpdate {
    ConditionUpdate {
        kind: ConditionType::Applied,
        is_true: false,
        reason: "Invalid",
        message: "The Gate is not valid: objects get the gate if they match those parts of spec.appliesTo that can be followed, and objects without a queue do not".to_owned(),
    }
}
