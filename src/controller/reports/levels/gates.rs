//! What gates hold of queues, as metrics have it. What a Gate holds in all lies in `gate_statuses.rs`.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use sluice_kinds::gates::Gate;

use crate::cache::ObjectCache;
use crate::cache::cluster::Cluster;
use crate::cache::held::HeldOfQueue;
use crate::process::metrics::Gathered;
use crate::process::metrics::definitions::{self, Definition};

/// Gathers what gates hold of each ClusterQueue, and of each LocalQueue if these have metrics.
pub(super) fn gather(
    gathered: &mut Gathered,
    cluster: &Cluster,
    objects: &ObjectCache,
    local_queue_metrics: bool,
) {
    let mut by_cluster_queue = BTreeMap::<(&str, String), HeldOfQueue>::new();
    for key in cluster.local_queues.keys() {
        let mut by_gate = BTreeMap::<String, HeldOfQueue>::new();
        for (gate, held) in objects.held_of_queue(key) {
            let of_gate = by_gate.entry(label(cluster, gate)).or_default();
            *of_gate = of_gate.and(held);
        }
        for (gate, held) in by_gate {
            if local_queue_metrics {
                let labels = [&*key.namespace, &*key.name, &gate];
                gathered.count(&definitions::LOCAL_GATE_HELD, &labels, held.count);
                oldest(
                    gathered,
                    &definitions::LOCAL_GATE_OLDEST,
                    &labels,
                    held.oldest,
                );
            }
            // A tenant may name one that is not there.
            let queue = cluster.cluster_queue_of(key);
            let queue = queue.filter(|queue| cluster.queues.contains_key(*queue));
            if let Some(queue) = queue {
                let of_queue = by_cluster_queue.entry((queue, gate)).or_default();
                *of_queue = of_queue.and(held);
            }
        }
    }
    for ((queue, gate), held) in by_cluster_queue {
        let labels = [queue, &gate];
        gathered.count(&definitions::QUEUE_GATE_HELD, &labels, held.count);
        oldest(
            gathered,
            &definitions::QUEUE_GATE_OLDEST,
            &labels,
            held.oldest,
        );
    }
}

/// The name of the Gate of a gate. Any user can think of gates without one, so those have no series of their own.
fn label(cluster: &Cluster, gate: &Gate) -> String {
    let name = cluster.gates.get(gate).and_then(|_| gate.object_name());
    name.unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^53")]
fn oldest(
    gathered: &mut Gathered,
    definition: &'static Definition,
    labels: &[&str],
    created: Option<Timestamp>,
) {
    if let Some(created) = created {
        gathered.set(definition, labels, created.as_second() as f64);
    }
}
