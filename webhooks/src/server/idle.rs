//! Connections without a request under way. When there is no slot for another connection one of these goes: first those
//! that have never been answered, then those that are idle the longest. So callers that hold connections, whether they say
//! nothing or ask now and then, can't keep the API server out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Whether a connection was answered before, and a number that grows: the lowest goes first.
type Place = (bool, u64);

/// The idle connections.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    /// Written by the accept loop (`enter`, `evict`) and by each connection for itself. Held for a map operation, never
    /// across an await.
    order: Mutex<Order>,
}

#[derive(Debug, Default)]
struct Order {
    next: u64,
    idle: BTreeMap<Place, Arc<Notify>>,
}

impl Order {
    fn add(&mut self, was_answered: bool, end: &Arc<Notify>) -> Place {
        self.next += 1;
        let place = (was_answered, self.next);
        self.idle.insert(place, end.clone());
        place
    }
}

/// One connection, which leaves when it is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    connections: Arc<IdleConnections>,
    end: Arc<Notify>,
    /// Locked before `order`.
    requests: Mutex<Requests>,
}

#[derive(Debug)]
struct Requests {
    under_way: usize,
    /// None while a request is under way.
    place: Option<Place>,
}

impl IdleConnections {
    /// A connection that was not answered yet.
    pub(crate) fn enter(self: &Arc<Self>) -> Guest {
        let end = Arc::new(Notify::new());
        let place = Some(self.order().add(false, &end));
        Guest {
            connections: self.clone(),
            end,
            requests: Mutex::new(Requests {
                under_way: 0,
                place,
            }),
        }
    }

    /// Ends the connection that goes first, if one is idle.
    pub(crate) fn evict(&self) {
        if let Some((_, end)) = self.order().idle.pop_first() {
            end.notify_one();
        }
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// A request begins.
    pub(crate) fn begin(&self) {
        let mut requests = self.requests();
        requests.under_way += 1;
        if let Some(place) = requests.place.take() {
            self.connections.order().idle.remove(&place);
        }
    }

    /// A request was answered, or given up.
    pub(crate) fn end(&self) {
        let mut requests = self.requests();
        requests.under_way = requests.under_way.saturating_sub(1);
        if requests.under_way == 0 {
            requests.place = Some(self.connections.order().add(true, &self.end));
        }
    }

    /// How many requests are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.requests().under_way
    }

    /// Waits until the connection has to end for another one.
    pub(crate) async fn evicted(&self) {
        self.end.notified().await;
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(place) = self.requests().place.take() {
            self.connections.order().idle.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_evicted(guest: &Guest) -> bool {
        guest.evicted().now_or_never().is_some()
    }

    #[test]
    fn who_was_never_answered_goes_first_and_who_is_busy_never() {
        let connections = Arc::new(IdleConnections::default());
        let [early, busy, silent, late] = [(); 4].map(|()| connections.enter());
        for guest in [&early, &busy, &late] {
            guest.begin();
        }
        early.end();
        late.end();
        early.begin();
        busy.begin();
        early.end();
        busy.end();
        assert_eq!(busy.under_way(), 1);
        for (expected, name) in [(&silent, "silent"), (&late, "late"), (&early, "early")] {
            connections.evict();
            assert!(is_evicted(expected), "{name} goes");
        }
        connections.evict();
        assert!(!is_evicted(&busy));
    }

    #[test]
    fn who_has_left_is_not_evicted() {
        let connections = Arc::new(IdleConnections::default());
        let [gone, stays] = [(); 2].map(|()| connections.enter());
        drop(gone);
        connections.evict();
        assert!(is_evicted(&stays));
    }
}
