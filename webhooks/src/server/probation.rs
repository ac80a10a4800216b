//! Connections that have not yet been served once. When there is no slot for another connection the
//! oldest of these goes: callers that connect and say nothing can't keep the API server out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The connections on probation, by their number; the lowest is the oldest.
#[derive(Debug, Default)]
pub(crate) struct Probation {
    /// Written by the accept loop (`enter`, `evict_oldest`) and by each connection for itself
    /// (`leave`). Held for a map operation, never across an await.
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<()>>>,
}

impl Probation {
    /// Puts connection `number` on probation. What is returned yields a value when the connection
    /// must end, and an error once it is off probation.
    pub(crate) fn enter(&self, number: u64) -> oneshot::Receiver<()> {
        let (evict, evicted) = oneshot::channel();
        self.waiting().insert(number, evict);
        evicted
    }

    /// Connection `number` was served, or has ended.
    pub(crate) fn leave(&self, number: u64) {
        self.waiting().remove(&number);
    }

    /// Ends the oldest connection on probation, if there is one.
    pub(crate) fn evict_oldest(&self) {
        let oldest = self.waiting().pop_first();
        if let Some((_, evict)) = oldest {
            let _ = evict.send(());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
