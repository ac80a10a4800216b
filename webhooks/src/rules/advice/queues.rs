//! Queues that are missing or stopped: what names one waits.

use sluice_kinds::problem::fill;

use crate::admission::policy::Policy;
use crate::admission::queue_states::Idle;

const NO_LOCAL_QUEUE: &str =
    "{}: there is no LocalQueue {} in namespace {}; the object waits until there is";
const NO_CLUSTER_QUEUE: &str =
    "{}: there is no ClusterQueue {}, which LocalQueue {} names; the object waits until there is";
const STOPPED: &str = "{}: {} is stopped (stopPolicy); the object waits until it is not";

/// What is told of the LocalQueue that `field` names in `namespace`, if nothing is admitted there.
pub(super) fn idle(field: &str, queue: &str, namespace: &str, policy: &Policy) -> Option<String> {
    let quoted = |text: &str| format!("{text:?}");
    let states = policy.queue_states().load();
    let idle = states.check(namespace, queue)?;
    let queue = &quoted(queue);
    Some(match idle {
        Idle::Missing => fill(NO_LOCAL_QUEUE, &[field, queue, &quoted(namespace)]),
        Idle::WithoutClusterQueue(name) => fill(NO_CLUSTER_QUEUE, &[field, &quoted(&name), queue]),
        Idle::Stopped => fill(STOPPED, &[field, &format!("LocalQueue {queue}")]),
        Idle::InStoppedClusterQueue(name) => {
            fill(STOPPED, &[field, &format!("ClusterQueue {name:?}")])
        }
    })
}
