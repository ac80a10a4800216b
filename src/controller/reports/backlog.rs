//! What gates hold of a LocalQueue, as its status says. What a Gate holds in all is in `gate_statuses.rs`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use sluice_crds::GatedObject;
use sluice_engine::LocalQueueKey;

use crate::cache::ObjectCache;
use crate::cache::cluster::Cluster;
use crate::cache::conditions::ConditionUpdate;
use crate::controller::kinds::Kinds;
use crate::plan::gates::status::{self, NAMED_MAX};

/// The oldest objects that gates hold of a LocalQueue.
pub(super) fn oldest_gated(
    objects: &ObjectCache,
    kinds: &Kinds,
    queue: &LocalQueueKey,
) -> Vec<GatedObject> {
    let held = objects.held().into_iter();
    let held = held.flat_map(|held| held.of_queue(queue).take(NAMED_MAX));
    let oldest = status::oldest(held);
    let named = oldest.into_iter();
    named
        .map(|held| GatedObject {
            kind: status::kind_of(held, &|name| kinds.name_of_kind(name)),
            name: held.name.to_string(),
            gates: objects
                .gates_of(&held.subject)
                .map_or_else(Vec::new, |gated| {
                    gated.gates.names().map(ToString::to_string).collect()
                }),
            since: Time(held.created.unwrap_or_default()),
        })
        .collect()
}

/// Which gates hold more of a LocalQueue than their Gates say, if there is such a gate.
pub(super) fn queue_backlog(
    cluster: &Cluster,
    objects: &ObjectCache,
    queue: &LocalQueueKey,
    now: Timestamp,
) -> Option<ConditionUpdate> {
    let held = objects.held_of_queue(queue).into_iter();
    let with_threshold = held.filter_map(|(gate, held)| {
        let object = cluster.gates.get(gate)?;
        let backlog = object.spec.backlog.as_ref()?;
        Some((gate.object_name()?, backlog, held))
    });
    status::queue_backlog(with_threshold, now)
}
