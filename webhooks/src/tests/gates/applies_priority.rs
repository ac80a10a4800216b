//! The priority that Gates are told of an object: by its class, those of its templates, that of its pods, or the default of
//! its queue.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::{AppliesTo, QueuePriorityClasses};
use sluice_kinds::aliases::{KeyAliases, MetadataKey};

use crate::tests::gates::applies::{budget, gates_of, of_pods};
use crate::tests::*;
use crate::{ClusterQueueState, QueueStates};

const FAILURES: &str = "sluice.dev/gate-failures";
const PRIORITY: &str = "sluice.dev/priority-class";
const OF_KUEUE: &str = "kueue.x-k8s.io/priority-class";

fn when(source: &str) -> AppliesTo {
    AppliesTo {
        when: Some(source.to_owned()),
        ..AppliesTo::default()
    }
}

/// Pods that are queued by themselves have the class of their template, also by the key of another system.
#[rstest]
#[case::own(json!({PRIORITY: "low"}), true)]
#[case::alias(json!({OF_KUEUE: "low"}), true)]
#[case::the_own_key_goes_before_it(json!({PRIORITY: "low", OF_KUEUE: "none"}), true)]
#[case::none(json!({}), false)]
fn the_class_that_a_template_names_gives_a_priority(#[case] labels: Value, #[case] gated: bool) {
    let label = |key: &str| MetadataKey::Label(key.to_owned());
    let aliases = KeyAliases::new([(label(PRIORITY), vec![label(OF_KUEUE)])]);
    let policy = budget(when("priority == -10")).with_key_aliases(aliases);
    let metadata = json!({"labels": labels});
    let job = with(of_pods(Some("a"), 1), "/spec/template/metadata", metadata);
    let (stored, _) = created_by(USER, &job, &policy);
    assert_eq!(gates_of(&stored).is_some(), gated);
    assert!(
        stored["metadata"]["annotations"][FAILURES].is_null(),
        "{stored}"
    );
}

#[test]
fn the_default_of_the_queue_gives_a_priority() {
    let policy = budget(when("priority == -10"));
    let gated = |job: &Value, policy: &Policy| gates_of(&created_by(USER, job, policy).0).is_some();
    let job = of_pods(Some("a"), 1);
    assert!(!gated(&job, &policy));
    let mut states = QueueStates::clone(&policy.queue_states().load());
    let low = ClusterQueueState {
        priority_classes: Some(QueuePriorityClasses {
            allowed: None,
            default: Some("low".to_owned()),
        }),
        ..ClusterQueueState::default()
    };
    states.set_cluster_queue("of-a", low);
    policy.queue_states().store(Arc::new(states));
    assert!(gated(&job, &policy));
    // The class of its pods goes before it.
    let class = "/spec/template/spec/priorityClassName";
    assert!(!gated(&with(job.clone(), class, json!("high")), &policy));
    // While the queues are not known, it can't be told.
    policy.queue_states().store(Arc::default());
    assert!(gated(&job, &policy));
}

#[test]
fn the_class_of_pods_gives_a_priority() {
    let policy = budget(when("priority >= 1000"));
    let class = "/spec/template/spec/priorityClassName";
    let job = with(of_pods(Some("a"), 1), class, json!("high"));
    assert!(gates_of(&created_by(USER, &job, &policy).0).is_some());
}
