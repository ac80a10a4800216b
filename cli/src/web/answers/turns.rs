//! Whose turn it is to have starts estimated: that keeps a core busy for seconds, so there is one estimate at a time. Users
//! take turns, so that one who asks much does not keep others from theirs. Nobody waits here: who has to is told so, keeps
//! his place, and asks again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a place is kept for one who does not ask again. The page asks every five seconds, or more often.
const PLACE_AGE_MAX: Duration = Duration::from_secs(15);
/// Most users that have a place.
const PLACES_MAX: usize = 64;

/// Turns at the one estimate. A clone is the same turns.
#[derive(Clone)]
pub struct Turns {
    one: Arc<Semaphore>,
    /// The one object that is read as a whole at a time.
    object: Arc<Semaphore>,
    /// Who has to wait, and when he last asked; the next one first.
    waiting: Arc<Mutex<VecDeque<(String, Instant)>>>,
}

impl Turns {
    /// Nobody has a turn.
    pub fn new() -> Self {
        Self {
            one: Arc::new(Semaphore::new(1)),
            object: Arc::new(Semaphore::new(1)),
            waiting: Arc::default(),
        }
    }

    /// The turn to read an object as a whole, which takes a moment. Others wait for it.
    pub(super) async fn object(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.object.clone().acquire_owned().await.ok()
    }

    /// The turn of a user, which lasts until it is dropped; none if it is not his.
    pub(super) fn take(&self, user: &str, now: Instant) -> Option<OwnedSemaphorePermit> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|(_, asked)| now.duration_since(*asked) < PLACE_AGE_MAX);
        let is_next = waiting.front().is_none_or(|(next, _)| next == user);
        let turn = is_next.then(|| self.one.clone().try_acquire_owned().ok());
        if let Some(turn) = turn.flatten() {
            waiting.retain(|(other, _)| other != user);
            return Some(turn);
        }
        if let Some((_, asked)) = waiting.iter_mut().find(|(other, _)| other == user) {
            *asked = now;
        } else if waiting.len() < PLACES_MAX {
            waiting.push_back((user.to_owned(), now));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_much_makes_nobody_wait_for_more_than_a_turn() {
        let (turns, now) = (Turns::new(), Instant::now());
        let take = |user| turns.take(user, now);
        let first = take("greedy").unwrap();
        assert!(take("greedy").is_none() && take("jane").is_none() && take("kim").is_none());
        drop(first);
        // Both have asked before him.
        assert!(take("kim").is_none());
        let second = take("greedy").unwrap();
        assert!(take("greedy").is_none());
        drop(second);
        assert!(take("greedy").is_none());
        drop(take("jane").unwrap());
        drop(take("kim").unwrap());
        assert!(take("greedy").is_some());
    }

    #[test]
    fn who_does_not_ask_again_loses_his_place() {
        let (turns, now) = (Turns::new(), Instant::now());
        let first = turns.take("jane", now).unwrap();
        assert!(turns.take("gone", now).is_none());
        drop(first);
        assert!(turns.take("jane", now).is_none());
        assert!(turns.take("jane", now + PLACE_AGE_MAX).is_some());
    }
}
