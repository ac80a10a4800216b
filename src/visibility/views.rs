//! The views that are kept for readers. A reader gets one that is at most a second old, or a little older while the next
//! one is taken. However many read, the controller is asked for one queue at a time and for each once a second; nobody
//! reads, and it is not asked at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::pending::positions::View;
use super::pending::queue_ref::{QueueRef, WAITING_MAX};
use super::problem::Problem;
use super::question::{Asked, Asker, DEADLINE};
use crate::process::clock;

/// A view of this age is taken anew when somebody reads it.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// A view of this age is read by nobody any more: who reads seldom waits for a new one.
const KEPT_FOR: Duration = Duration::from_secs(3);
/// Requests that may wait for this task, and readers that may wait for a view.
const REQUESTS_MAX: usize = 64;
const READERS_MAX: usize = 256;
/// Views that are kept.
const VIEWS_MAX: usize = 256;

type Answer = Result<Arc<View>, Problem>;

/// Where readers ask for a view.
#[derive(Debug, Clone)]
pub struct ViewCache(mpsc::Sender<Request>);

#[derive(Debug)]
struct Request {
    place: QueueRef,
    reply: oneshot::Sender<Answer>,
}

impl ViewCache {
    /// Keeps views until `stop`.
    pub fn open(asker: Asker, stop: CancellationToken) -> Self {
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        let views = Views {
            asker,
            kept: Vec::new(),
            readers: BTreeMap::new(),
            to_ask: VecDeque::new(),
            asking: JoinSet::new(),
        };
        tokio::spawn(views.run(requests, stop));
        Self(sender)
    }

    /// A view that a queue is in.
    ///
    /// # Errors
    /// There is no such queue, or it can't be told in time.
    pub async fn view(&self, place: QueueRef) -> Answer {
        let (reply, answer) = oneshot::channel();
        let request = Request { place, reply };
        self.0.try_send(request).map_err(|_| Problem::Busy)?;
        match timeout(DEADLINE, answer).await {
            Ok(Ok(Ok(view))) if view.has_too_many() => Err(Problem::TooMany { max: WAITING_MAX }),
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(Problem::Busy),
        }
    }
}

struct Kept {
    view: Arc<View>,
    since: Instant,
}

struct Views {
    asker: Asker,
    kept: Vec<Kept>,
    /// Those who wait for a view, by the queue that they asked for.
    readers: BTreeMap<QueueRef, Vec<oneshot::Sender<Answer>>>,
    to_ask: VecDeque<QueueRef>,
    /// The one question that is under way.
    asking: JoinSet<(QueueRef, Answer)>,
}

impl Views {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>, stop: CancellationToken) {
        let mut sweep = interval(FRESH_FOR);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                request = requests.recv() => match request {
                    Some(request) => self.request(request),
                    None => return,
                },
                Some(Ok((place, answer))) = self.asking.join_next() => self.answered(&place, answer),
                _ = sweep.tick() => self.kept.retain(|kept| kept.since.elapsed() < KEPT_FOR),
            }
            if self.asking.is_empty()
                && let Some(place) = self.next()
            {
                self.asking.spawn(ask(self.asker.clone(), place));
            }
        }
    }

    fn request(&mut self, request: Request) {
        let Request { place, reply } = request;
        let known = self.kept.iter().find(|kept| kept.view.is_about(&place));
        if let Some(Kept { view, since }) = known
            && since.elapsed() < KEPT_FOR
        {
            let _ = reply.send(Ok(view.clone()));
            if FRESH_FOR <= since.elapsed() {
                let place = QueueRef::ClusterQueue(view.cluster_queue.clone());
                self.ask_for(place);
            }
            return;
        }
        self.readers
            .retain(|_, readers| readers.iter().any(|reader| !reader.is_closed()));
        let readers: usize = self.readers.values().map(Vec::len).sum();
        if READERS_MAX <= readers {
            let _ = reply.send(Err(Problem::Busy));
            return;
        }
        self.readers.entry(place.clone()).or_default().push(reply);
        self.ask_for(place);
    }

    /// The next queue to ask about. Where all have hung up who asked for it, nobody is asked.
    fn next(&mut self) -> Option<QueueRef> {
        while let Some(place) = self.to_ask.pop_front() {
            let readers = self.readers.get(&place);
            if readers.is_none_or(|readers| readers.iter().any(|reader| !reader.is_closed())) {
                return Some(place);
            }
            self.readers.remove(&place);
        }
        None
    }

    fn ask_for(&mut self, place: QueueRef) {
        if !self.to_ask.contains(&place) {
            self.to_ask.push_back(place);
        }
    }

    fn answered(&mut self, place: &QueueRef, answer: Answer) {
        let view = match answer {
            Ok(view) => view,
            Err(problem) => {
                for reader in self.readers.remove(place).unwrap_or_default() {
                    let _ = reader.send(Err(problem.clone()));
                }
                self.to_ask.retain(|other| other != place);
                return;
            }
        };
        self.keep(view.clone());
        // Whoever asked for another LocalQueue of it has the same view.
        let about = |place: &QueueRef| view.is_about(place);
        self.to_ask.retain(|place| !about(place));
        let served: Vec<QueueRef> = self.readers.keys().filter(|p| about(p)).cloned().collect();
        for place in served {
            for reader in self.readers.remove(&place).unwrap_or_default() {
                let _ = reader.send(Ok(view.clone()));
            }
        }
        // It was deleted meanwhile.
        for reader in self.readers.remove(place).unwrap_or_default() {
            let _ = reader.send(Err(place.not_found()));
        }
    }

    /// Keeps a view, in place of the one before it, and of the oldest ones if there are too many.
    fn keep(&mut self, view: Arc<View>) {
        let name = &view.cluster_queue;
        let before = self.kept.iter().position(|k| k.view.cluster_queue == *name);
        if let Some(before) = before.map(|at| self.kept.remove(at)) {
            // To free 100,000 of them takes a while, for which no reader waits.
            tokio::task::spawn_blocking(move || drop(before));
        }
        let mut free = WAITING_MAX.saturating_sub(view.len());
        let since = Instant::now();
        self.kept.insert(0, Kept { view, since });
        self.kept.truncate(VIEWS_MAX);
        let others = self.kept.split_off(1).into_iter().take_while(|kept| {
            let left = free.checked_sub(kept.view.len());
            free = left.unwrap_or_default();
            left.is_some()
        });
        let others: Vec<Kept> = others.collect();
        self.kept.extend(others);
    }
}

/// Asks the controller, and sorts what it says where that holds nobody up.
async fn ask(asker: Asker, place: QueueRef) -> (QueueRef, Answer) {
    let answer = async {
        let asked = |reply| Asked::Pending {
            place: place.clone(),
            reply,
        };
        let taken = asker.ask(asked).await?;
        let taken = taken.ok_or_else(|| place.not_found())?;
        let at = clock::wall();
        let sorted = tokio::task::spawn_blocking(move || Arc::new(View::new(taken, at)));
        sorted.await.map_err(|_| Problem::Busy)
    };
    let answer = answer.await;
    (place, answer)
}

#[cfg(test)]
mod tests;
