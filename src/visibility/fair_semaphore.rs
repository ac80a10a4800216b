//! Turns at what only one may have at a time. Callers take turns, each with its oldest question first, so that one who
//! asks much makes nobody wait for longer than one turn of each caller. Who has hung up gets no turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::caller::Caller;
use super::problem::Problem;

/// Where callers wait for their turns.
#[derive(Debug, Clone)]
pub struct Turns {
    waiting: Arc<Mutex<Waiting>>,
    /// Most that may wait.
    max: usize,
}

/// A turn, which lasts until it is dropped.
#[derive(Debug)]
pub struct Turn(Option<Turns>);

#[derive(Debug, Default)]
struct Waiting {
    is_taken: bool,
    /// Never empty for a caller.
    by_caller: BTreeMap<Caller, VecDeque<oneshot::Sender<Turn>>>,
    /// Each caller once, the next one first.
    order: VecDeque<Caller>,
}

impl Turns {
    /// Nobody waits, and no more than `max` will.
    pub fn new(max: usize) -> Self {
        Self {
            waiting: Arc::default(),
            max,
        }
    }

    /// Waits for a turn, no longer than this.
    ///
    /// # Errors
    /// It did not come in time, or too many wait.
    pub async fn turn(&self, caller: &Caller, deadline: Duration) -> Result<Turn, Problem> {
        let turn = {
            let mut waiting = self.lock();
            if !std::mem::replace(&mut waiting.is_taken, true) {
                return Ok(Turn(Some(self.clone())));
            }
            waiting.wait(caller, self.max)?
        };
        let turn = timeout(deadline, turn).await;
        turn.ok().and_then(Result::ok).ok_or(Problem::Busy)
    }

    /// The turn is over: it is that of the next who waits.
    fn pass_on(&self) {
        loop {
            let next = self.lock().next();
            let Some(next) = next else {
                return;
            };
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // Hung up a moment ago: the turn goes on.
                Err(mut turn) => turn.0 = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.pass_on();
        }
    }
}

impl Waiting {
    /// One more waits. If too many do, it takes the place of the last one of whoever has the most.
    fn wait(&mut self, caller: &Caller, max: usize) -> Result<oneshot::Receiver<Turn>, Problem> {
        self.forget_those_who_hung_up();
        let all: usize = self.by_caller.values().map(VecDeque::len).sum();
        if max <= all {
            let own = self.by_caller.get(caller).map_or(0, VecDeque::len);
            let most = self.by_caller.values_mut().max_by_key(|of| of.len());
            let most = most.filter(|of| own + 1 < of.len());
            // Its receiver hears that there is no turn.
            most.and_then(VecDeque::pop_back).ok_or(Problem::Busy)?;
        }
        let (sender, receiver) = oneshot::channel();
        if !self.by_caller.contains_key(caller) {
            self.order.push_back(caller.clone());
        }
        let of_caller = self.by_caller.entry(caller.clone()).or_default();
        of_caller.push_back(sender);
        Ok(receiver)
    }

    /// Who has the next turn; nobody has it if nobody waits.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        self.forget_those_who_hung_up();
        let next = self.order.pop_front();
        let next = next.and_then(|caller| {
            let of_caller = self.by_caller.get_mut(&caller)?;
            let next = of_caller.pop_front();
            if of_caller.is_empty() {
                self.by_caller.remove(&caller);
            } else {
                self.order.push_back(caller);
            }
            next
        });
        self.is_taken = next.is_some();
        next
    }

    fn forget_those_who_hung_up(&mut self) {
        self.by_caller.retain(|_, of_caller| {
            of_caller.retain(|sender| !sender.is_closed());
            !of_caller.is_empty()
        });
        let by_caller = &self.by_caller;
        self.order.retain(|caller| by_caller.contains_key(caller));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    /// Waits for a turn, and notes when it has come.
    fn wait(turns: &Turns, caller: &str, had: &Arc<Mutex<Vec<String>>>) -> JoinHandle<bool> {
        let (turns, had, caller) = (turns.clone(), had.clone(), caller.to_owned());
        tokio::spawn(async move {
            let turn = turns.turn(&Caller::of(&caller), LONG).await;
            if turn.is_ok() {
                had.lock().unwrap().push(caller);
            }
            turn.is_ok()
        })
    }

    #[tokio::test]
    async fn callers_take_turns() {
        let (turns, had) = (Turns::new(64), Arc::default());
        let first = turns.turn(&Caller::of("z"), LONG).await.unwrap();
        let mut all = Vec::new();
        for caller in ["a", "a", "a", "b", "c", "b"] {
            all.push(wait(&turns, caller, &had));
            yield_now().await;
        }
        drop(first);
        for waiting in all {
            assert!(waiting.await.unwrap());
        }
        assert_eq!(*had.lock().unwrap(), ["a", "b", "c", "a", "b", "a"]);
        turns.turn(&Caller::of("a"), LONG).await.unwrap();
    }

    #[tokio::test]
    async fn who_has_the_most_makes_place() {
        let (turns, had) = (Turns::new(3), Arc::default());
        let first = turns.turn(&Caller::of("z"), LONG).await.unwrap();
        let mut of_a = Vec::new();
        for _ in 0..3 {
            of_a.push(wait(&turns, "a", &had));
            yield_now().await;
        }
        let again = turns.turn(&Caller::of("a"), LONG).await;
        assert_eq!(again.unwrap_err(), Problem::Busy);
        let of_b = wait(&turns, "b", &had);
        yield_now().await;
        assert!(!of_a.pop().unwrap().await.unwrap(), "the last of a");
        drop(first);
        assert!(of_b.await.unwrap());
    }

    #[tokio::test]
    async fn who_has_hung_up_gets_no_turn() {
        let (turns, had) = (Turns::new(64), Arc::default());
        let first = turns.turn(&Caller::of("z"), LONG).await.unwrap();
        let gone = wait(&turns, "a", &had);
        yield_now().await;
        let stays = wait(&turns, "b", &had);
        yield_now().await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(first);
        assert!(stays.await.unwrap());
        assert_eq!(*had.lock().unwrap(), ["b"]);
        turns.turn(&Caller::of("a"), LONG).await.unwrap();
    }
}
