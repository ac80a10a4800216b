use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use sluice_engine::LocalQueueKey;
use tokio::time::{advance, sleep};

use super::*;
use crate::visibility::pending::positions::tests::{mk_taken, mk_waiting};
use crate::visibility::pending::queue_ref::Taken;
use crate::visibility::question::{ASK_EVERY, ASKED_MAX};

/// A controller with one ClusterQueue, which counts how often it is asked.
struct FakeController {
    view_cache: ViewCache,
    asked: mpsc::UnboundedReceiver<QueueRef>,
}

impl FakeController {
    fn start(taken: Option<Taken>) -> Self {
        let (asks, mut questions) = mpsc::channel::<Asked>(ASKED_MAX);
        let (counted, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(asked) = questions.recv().await {
                let Asked::Pending { place, reply } = asked else {
                    continue;
                };
                let _ = (counted.send(place), reply.send(taken.clone()));
            }
        });
        Self {
            view_cache: ViewCache::open(Asker::new(asks), CancellationToken::new()),
            asked,
        }
    }

    fn asked(&mut self) -> usize {
        std::iter::from_fn(|| self.asked.try_recv().ok()).count()
    }

    /// Lets a refresh in the background end.
    async fn settle(&self) {
        sleep(ASK_EVERY * 4).await;
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
    }
}

fn mk_queue(names: &[&str]) -> Taken {
    let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
    let waiting = keys.iter().map(|key| mk_waiting(key, &key.name, 0, 0));
    let waiting = waiting.collect();
    mk_taken(keys, waiting)
}

fn key(name: &str) -> LocalQueueKey {
    LocalQueueKey::new("a", name)
}

fn of(name: &str) -> QueueRef {
    QueueRef::LocalQueue(key(name))
}

#[tokio::test(start_paused = true)]
async fn the_controller_is_asked_once_a_second_however_many_read() {
    let mut controller = FakeController::start(Some(mk_queue(&["q", "r"])));
    sleep(KEPT_FOR * 3).await;
    assert_eq!(controller.asked(), 0, "nobody has read");
    // All at once, about both LocalQueues and the ClusterQueue of both.
    let places = [of("q"), of("r"), QueueRef::ClusterQueue("cq".into())];
    let readers = places.iter().cycle().take(60).cloned();
    let read = readers.map(|place| controller.view_cache.view(place));
    for view in futures::future::join_all(read).await {
        assert_eq!(view.unwrap().len(), 2);
    }
    assert_eq!(controller.asked(), 1);
    advance(FRESH_FOR / 2).await;
    controller.view_cache.view(of("q")).await.unwrap();
    assert_eq!(controller.asked(), 0, "it is fresh");
    advance(FRESH_FOR).await;
    let stale = controller.view_cache.view(of("q")).await.unwrap();
    controller.settle().await;
    assert_eq!(controller.asked(), 1, "the next one is taken meanwhile");
    let next = controller.view_cache.view(of("q")).await.unwrap();
    assert!(stale.taken < next.taken);
    sleep(KEPT_FOR * 3).await;
    assert_eq!(controller.asked(), 0, "nobody reads any more");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_not_there_is_not_found() {
    let controller = FakeController::start(None);
    let told = controller.view_cache.view(of("q")).await.unwrap_err();
    assert_eq!(told, of("q").not_found());
    // It points to another ClusterQueue than the one that was answered with.
    let controller = FakeController::start(Some(mk_queue(&["r"])));
    let told = controller.view_cache.view(of("q")).await.unwrap_err();
    assert_eq!(told, of("q").not_found());
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_hangs_keeps_nobody_waiting_for_ever() {
    let (asks, _questions) = mpsc::channel(ASKED_MAX);
    let view_cache = ViewCache::open(Asker::new(asks), CancellationToken::new());
    let begun = Instant::now();
    let readers = (0..1000).map(|n| view_cache.view(of(&format!("q-{n}"))));
    for answer in futures::future::join_all(readers).await {
        assert_eq!(answer.unwrap_err(), Problem::Busy);
    }
    assert_eq!(begun.elapsed(), DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn more_than_is_kept_is_not_listed() {
    let mut taken = mk_queue(&["q"]);
    let one = taken.waiting.first().unwrap().clone();
    taken.waiting = vec![one; WAITING_MAX + 1];
    let mut controller = FakeController::start(Some(taken));
    for place in [of("q"), of("q"), QueueRef::ClusterQueue("cq".into())] {
        let told = controller.view_cache.view(place).await.unwrap_err();
        assert_eq!(
            told.message(),
            "more than 300000 wait in this queue, which is more than is listed; see its status"
        );
        // Clients try again what is not available.
        assert_eq!(told.into_response().status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(controller.asked(), 1, "it is known for a second");
}

#[tokio::test]
async fn the_oldest_views_go_when_there_are_too_many() {
    let mut views = Views {
        asker: Asker::new(mpsc::channel(1).0),
        kept: Vec::new(),
        readers: BTreeMap::new(),
        to_ask: VecDeque::new(),
        asking: JoinSet::new(),
    };
    let mk = |name: &str, count: usize| {
        let mut taken = mk_queue(&["q"]);
        taken.cluster_queue = name.into();
        taken.waiting = vec![mk_waiting(&key("q"), "job", 0, 0); count];
        Arc::new(View::new(taken, clock::wall()))
    };
    let names = |views: &Views| -> Vec<String> {
        let kept = views.kept.iter().map(|kept| &kept.view.cluster_queue);
        kept.map(ToString::to_string).collect()
    };
    for (name, count) in [("a", 1), ("b", WAITING_MAX / 2), ("a", 2), ("c", 3)] {
        views.keep(mk(name, count));
    }
    assert_eq!(names(&views), ["c", "a", "b"]);
    views.keep(mk("d", WAITING_MAX - 4));
    assert_eq!(names(&views), ["d", "c"]);
    for n in 0..VIEWS_MAX {
        views.keep(mk(&n.to_string(), 0));
    }
    assert_eq!(views.kept.len(), VIEWS_MAX);
}
