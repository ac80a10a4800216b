use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_engine::WorkloadId;

use super::*;

pub fn mk_waiting(local_queue: &LocalQueueKey, name: &str, priority: i32, created: i64) -> Waiting {
    Waiting {
        id: WorkloadId::from(name),
        local_queue: local_queue.clone(),
        priority,
        created,
        name: name.into(),
        made: None,
        since: None,
        job: None,
        requests: Arc::default(),
        why: None,
    }
}

pub fn mk_taken(local_queues: Vec<LocalQueueKey>, waiting: Vec<Waiting>) -> Taken {
    Taken {
        cluster_queue: ClusterQueueName::from("cq"),
        exists: true,
        local_queues,
        waiting,
    }
}

fn page(offset: usize, limit: usize) -> Page {
    Page { offset, limit }
}

#[test]
fn pages_are_in_order_and_places_are_counted_in_both_queues() {
    let [a, b, empty] = ["a", "b", "c"].map(|namespace| LocalQueueKey::new(namespace, "q"));
    let waiting = vec![
        mk_waiting(&b, "late", 0, 9),
        mk_waiting(&a, "urgent", 5, 9),
        mk_waiting(&a, "y", 0, 3),
        mk_waiting(&b, "x", 0, 3),
        mk_waiting(&a, "first", 0, 1),
    ];
    let local_queues = vec![a.clone(), b.clone(), empty.clone()];
    let view = View::new(mk_taken(local_queues, waiting), Timestamp::UNIX_EPOCH);
    let all = QueueRef::ClusterQueue("cq".into());
    let [of_a, of_b, of_none] = [a, b, empty].map(QueueRef::LocalQueue);
    for (case, place, page, total, expected) in [
        (
            "the whole ClusterQueue",
            &all,
            page(0, 9),
            5,
            vec![
                ("urgent", 0, 0),
                ("first", 1, 1),
                ("x", 2, 0),
                ("y", 3, 2),
                ("late", 4, 1),
            ],
        ),
        (
            "a part",
            &all,
            page(1, 2),
            5,
            vec![("first", 1, 1), ("x", 2, 0)],
        ),
        ("the end", &all, page(4, 9), 5, vec![("late", 4, 1)]),
        ("beyond the end", &all, page(5, 9), 5, vec![]),
        (
            "a LocalQueue",
            &of_a,
            page(0, 9),
            3,
            vec![("urgent", 0, 0), ("first", 1, 1), ("y", 3, 2)],
        ),
        ("a part of one", &of_b, page(1, 1), 2, vec![("late", 4, 1)]),
        ("nobody waits", &of_none, page(0, 9), 0, vec![]),
    ] {
        let (count, placed) = view.page(place, page);
        let placed: Vec<_> = placed
            .iter()
            .map(|one| (&*one.waiting.name, one.in_cluster_queue, one.in_local_queue))
            .collect();
        assert_eq!((count, placed), (total, expected), "{case}");
        assert!(view.is_about(place), "{case}");
    }
    let other = QueueRef::LocalQueue(LocalQueueKey::new("a", "other"));
    assert!(!view.is_about(&other));
    assert!(!view.is_about(&QueueRef::ClusterQueue("other".into())));
}

/// The bound is many times what it takes in a debug build, and fails if each page looked at all who wait.
#[test]
fn a_page_of_a_long_queue_costs_what_is_on_it() {
    let key = LocalQueueKey::new("a", "q");
    let waiting = (0..100_000_i64).map(|n| mk_waiting(&key, &format!("job-{n:06}"), 0, n));
    let view = View::new(
        mk_taken(vec![key.clone()], waiting.collect()),
        Timestamp::UNIX_EPOCH,
    );
    let begun = Instant::now();
    for offset in (0..100_000).step_by(100) {
        let (_, placed) = view.page(&QueueRef::LocalQueue(key.clone()), page(offset, 10));
        assert_eq!(placed.len(), 10);
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "1000 pages took {took:?}");
}
