//! Questions to the API server that wait for their turn: few are in flight at the same time, and one that was not answered
//! takes no place of others until it is asked again. What is asked, and how often, is for `owners.rs` and `rereads.rs`.

use std::collections::VecDeque;

use crate::process::clock::Moment;
use crate::process::invariants::violated;

/// Questions at the same time.
pub(super) const CONCURRENCY: usize = 8;

/// Questions of one kind.
#[derive(Debug)]
pub(super) struct Lookups<T> {
    waiting: VecDeque<T>,
    /// Those that were not answered, the next one first.
    later: VecDeque<(Moment, T)>,
    running: usize,
}

impl<T> Default for Lookups<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            later: VecDeque::new(),
            running: 0,
        }
    }
}

impl<T> Lookups<T> {
    /// Asks when it is its turn.
    pub(super) fn ask(&mut self, question: T) {
        self.waiting.push_back(question);
    }

    /// Asks once more, not before `due`: which is no earlier than that of the questions before it.
    pub(super) fn ask_again(&mut self, due: Moment, question: T) {
        self.later.push_back((due, question));
    }

    /// The next question, if there may be one more at the same time. One that is due again is dropped unless it
    /// `is_wanted` still.
    pub(super) fn start(
        &mut self,
        now: Moment,
        mut is_wanted: impl FnMut(&T) -> bool,
    ) -> Option<T> {
        if CONCURRENCY <= self.running {
            return None;
        }
        while let Some((_, question)) = self.later.pop_front_if(|(due, _)| *due <= now) {
            if is_wanted(&question) {
                self.waiting.push_back(question);
            }
        }
        let next = self.waiting.pop_front()?;
        self.running += 1;
        Some(next)
    }

    /// How many wait for their turn.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A question was answered, or nobody answers it.
    pub(super) fn ended(&mut self) {
        if self.running == 0 {
            violated("a look-up that ends was in flight");
        }
        self.running = self.running.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn few_are_asked_at_a_time_and_one_that_waits_takes_no_place() {
        let now = Moment::from_millis(5000);
        let due = now.after(Duration::from_secs(2));
        let mut lookups = Lookups::default();
        lookups.ask_again(due, 0);
        lookups.ask_again(due, 1);
        for number in 2..CONCURRENCY + 2 {
            lookups.ask(number);
        }
        let is_wanted = |number: &usize| *number != 1;
        let started = std::iter::from_fn(|| lookups.start(now, is_wanted)).count();
        assert_eq!(started, CONCURRENCY, "none that waits");
        assert_eq!(lookups.start(due, is_wanted), None);
        lookups.ended();
        assert_eq!(lookups.start(now, is_wanted), None);
        assert_eq!(lookups.start(due, is_wanted), Some(0));
        lookups.ended();
        assert_eq!(lookups.start(due, is_wanted), None, "nobody wants it");
    }
}
