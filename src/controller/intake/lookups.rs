//! Questions to the API server that wait for their turn: few are in flight at the same time, and one that was not answered
//! takes no place of others until it is asked again. Each namespace has its turn. What is asked, and how often, is for `owners.rs` and `rereads.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::api::fair_queue::FairQueue;
use crate::process::clock::Moment;
use crate::process::invariants::violated;

/// Questions at the same time.
pub(super) const CONCURRENCY: usize = 8;

/// What is asked about.
pub(super) trait InNamespace {
    /// The namespace of the object that the answer is for.
    fn namespace(&self) -> &Arc<str>;
}

/// Questions of one kind.
#[derive(Debug)]
pub(super) struct Lookups<T> {
    waiting: FairQueue<T>,
    /// Those that were not answered, the next one first.
    later: VecDeque<(Moment, T)>,
    running: usize,
}

impl<T> Default for Lookups<T> {
    fn default() -> Self {
        Self {
            waiting: FairQueue::default(),
            later: VecDeque::new(),
            running: 0,
        }
    }
}

impl<T: InNamespace> Lookups<T> {
    /// Asks when it is its turn.
    pub(super) fn ask(&mut self, question: T) {
        self.waiting.push(question.namespace().clone(), question);
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
                self.ask(question);
            }
        }
        let next = self.waiting.pop()?;
        self.running += 1;
        Some(next)
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

    /// A question by the namespace and a number.
    type Numbered = (Arc<str>, usize);

    impl InNamespace for Numbered {
        fn namespace(&self) -> &Arc<str> {
            &self.0
        }
    }

    fn mk_question(namespace: &str, number: usize) -> Numbered {
        (namespace.into(), number)
    }

    #[test]
    fn few_are_asked_at_a_time_and_one_that_waits_takes_no_place() {
        let now = Moment::from_millis(5000);
        let due = now.after(Duration::from_secs(2));
        let mut lookups = Lookups::default();
        lookups.ask_again(due, mk_question("blue", 0));
        lookups.ask_again(due, mk_question("blue", 1));
        for number in 2..CONCURRENCY + 2 {
            lookups.ask(mk_question("blue", number));
        }
        let is_wanted = |(_, number): &Numbered| *number != 1;
        let started = std::iter::from_fn(|| lookups.start(now, is_wanted)).count();
        assert_eq!(started, CONCURRENCY, "none that waits");
        assert_eq!(lookups.start(due, is_wanted), None);
        lookups.ended();
        assert_eq!(lookups.start(now, is_wanted), None);
        assert_eq!(lookups.start(due, is_wanted), Some(mk_question("blue", 0)));
        lookups.ended();
        assert_eq!(lookups.start(due, is_wanted), None, "nobody wants it");
    }

    #[test]
    fn the_many_questions_of_one_namespace_delay_no_other() {
        let now = Moment::from_millis(5000);
        let mut lookups = Lookups::default();
        for number in 0..1000 {
            lookups.ask(mk_question("blue", number));
        }
        lookups.ask(mk_question("green", 0));
        let first = [lookups.start(now, |_| true), lookups.start(now, |_| true)];
        let expected = [mk_question("blue", 0), mk_question("green", 0)];
        assert_eq!(first, expected.map(Some));
    }
}
