//! The order in which requests to the API server wait, and objects that are to be looked at: each namespace has its
//! turn, so that the many of one don't delay the few of another, as the API server's own priority and fairness does it
//! for its clients. Who takes them, and how many at a time, does not live here.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::process::hashing::HashMap;
use crate::process::invariants::violated;

/// Items that wait, by namespace. The items of a namespace keep their order.
#[derive(Debug)]
pub struct FairQueue<T> {
    by_namespace: HashMap<Arc<str>, VecDeque<T>>,
    /// The namespaces that have items, the next one first.
    turns: VecDeque<Arc<str>>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            by_namespace: HashMap::default(),
            turns: VecDeque::new(),
        }
    }
}

impl<T> FairQueue<T> {
    /// Puts an item behind the others of its namespace.
    pub fn push(&mut self, namespace: Arc<str>, item: T) {
        if let Some(items) = self.by_namespace.get_mut(&namespace) {
            return items.push_back(item);
        }
        self.turns.push_back(namespace.clone());
        self.by_namespace.insert(namespace, VecDeque::from([item]));
    }

    /// Takes the first item of the namespace whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let namespace = self.turns.pop_front()?;
        let Some(items) = self.by_namespace.get_mut(&namespace) else {
            violated("a namespace that has its turn has items");
            return None;
        };
        let item = items.pop_front();
        if items.is_empty() {
            self.by_namespace.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        item
    }

    /// Takes an item out before its turn.
    pub fn remove(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut queues = self.by_namespace.iter_mut();
        let (namespace, items, at) = queues.find_map(|(namespace, items)| {
            let at = items.iter().position(&is_wanted)?;
            Some((namespace.clone(), items, at))
        })?;
        let item = items.remove(at);
        if items.is_empty() {
            self.by_namespace.remove(&namespace);
            self.turns.retain(|waits| *waits != namespace);
        }
        item
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain<T>(queue: &mut FairQueue<T>) -> Vec<T> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn the_many_of_one_namespace_delay_no_other() {
        let mut queue = FairQueue::default();
        for number in 0..10_000 {
            queue.push("blue".into(), ("blue", number));
        }
        assert_eq!(queue.pop(), Some(("blue", 0)));
        queue.push("green".into(), ("green", 0));
        assert_eq!(queue.pop(), Some(("blue", 1)));
        assert_eq!(queue.pop(), Some(("green", 0)));
        assert_eq!(drain(&mut queue).len(), 9_998);
    }

    #[test]
    fn an_item_that_is_removed_takes_no_turn() {
        let mut queue = FairQueue::default();
        queue.push("blue".into(), 1);
        queue.push("green".into(), 2);
        queue.push("green".into(), 3);
        assert_eq!(queue.remove(|item| *item == 1), Some(1));
        assert_eq!(queue.remove(|item| *item == 1), None, "it is gone");
        assert_eq!(drain(&mut queue), [2, 3]);
        assert!(queue.is_empty() && queue.by_namespace.is_empty());
    }

    /// All orders in which up to six items of three namespaces may come.
    #[test]
    fn between_two_items_of_a_namespace_comes_at_most_one_of_each_other() {
        for code in 0..3_usize.pow(6) {
            let pushed: Vec<usize> = (0..6).map(|at| code / 3_usize.pow(at) % 3).collect();
            let mut queue = FairQueue::default();
            for (number, namespace) in pushed.iter().enumerate() {
                queue.push(namespace.to_string().into(), (*namespace, number));
            }
            let popped = drain(&mut queue);
            assert_eq!(popped.len(), pushed.len(), "{pushed:?}");
            for own in 0..3 {
                let places = (popped.iter().enumerate()).filter(|(_, (of, _))| *of == own);
                let places: Vec<(usize, usize)> = places
                    .map(|(place, (_, number))| (place, *number))
                    .collect();
                for pair in places.windows(2) {
                    assert!(pair[0].1 < pair[1].1, "{pushed:?}: {popped:?}");
                    let mut between: Vec<usize> = (popped[pair[0].0 + 1..pair[1].0].iter())
                        .map(|(of, _)| *of)
                        .collect();
                    let all = between.len();
                    between.sort_unstable();
                    between.dedup();
                    assert_eq!(between.len(), all, "{pushed:?}: {popped:?}");
                }
            }
        }
    }
}
