//! Entries that are forgotten after a while. Each insertion takes out those whose time is over, and looks at no others:
//! many at once cost no more than they would one by one.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// Entries with a deadline. One that is over may still be there until the next insertion.
#[derive(Debug)]
pub struct Expiring<K, V> {
    by_key: HashMap<K, Entry<V>>,
    /// Each key once, by its deadline.
    by_deadline: BTreeSet<(Moment, K)>,
}

#[derive(Debug)]
struct Entry<V> {
    until: Moment,
    value: V,
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self {
            by_key: HashMap::default(),
            by_deadline: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord, V> Expiring<K, V> {
    /// Forgets what is over, and keeps what is at `key` for so long from now on: what was there before, or else `new`.
    pub fn keep(&mut self, key: K, now: Moment, lasting: Duration, new: V) -> &mut V {
        self.forget_overdue(now);
        let until = now.after(lasting);
        let new = Entry { until, value: new };
        let entry = self.by_key.entry(key.clone()).or_insert(new);
        let mut place = (entry.until, key);
        self.by_deadline.remove(&place);
        place.0 = until;
        self.by_deadline.insert(place);
        entry.until = until;
        &mut entry.value
    }

    /// What is at `key`, also if it is over: whoever needs to know asks for what is left.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.by_key.get(key).map(|entry| &entry.value)
    }

    /// For how long it is kept; none if it is not there, or over.
    pub fn left(&self, key: &K, now: Moment) -> Option<Duration> {
        let left = self.by_key.get(key)?.until.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Takes out what is at `key`.
    pub fn remove(&mut self, key: &K) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_deadline.remove(&(entry.until, key.clone()));
        }
    }

    fn forget_overdue(&mut self, now: Moment) {
        while self
            .by_deadline
            .first()
            .is_some_and(|(until, _)| *until <= now)
            && let Some((_, key)) = self.by_deadline.pop_first()
        {
            self.by_key.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTING: Duration = Duration::from_secs(10);

    fn at(second: u64) -> Moment {
        Moment::from_millis(second * 1000)
    }

    #[test]
    fn what_is_over_goes_with_the_next_insertion() {
        let mut entries = Expiring::default();
        for (second, key) in [(0, "a"), (1, "b"), (2, "c"), (9, "a")] {
            entries.keep(key, at(second), LASTING, second);
        }
        entries.remove(&"c");
        assert_eq!(entries.get(&"a"), Some(&0), "it was kept for longer");
        assert_eq!(entries.left(&"b", at(11)), None);
        assert_eq!(entries.get(&"b"), Some(&1), "nothing was inserted since");
        entries.keep("d", at(11), LASTING, 11);
        assert_eq!(entries.get(&"b"), None);
        assert_eq!(entries.left(&"a", at(11)), Some(Duration::from_secs(8)));
        entries.keep("a", at(19), LASTING, 19);
        assert_eq!(entries.get(&"a"), Some(&19), "its time was over");
        assert_eq!((entries.by_key.len(), entries.by_deadline.len()), (2, 2));
    }
}
