//! What is to be looked at later, by time. When that time has come is for the caller to say.

use std::collections::BTreeMap;

use crate::cache::{Subject, Uid};
use crate::process::clock::Moment;

/// What the clock makes due.
#[derive(Debug, PartialEq, Eq)]
pub enum Wake {
    /// A job, group or pod whose write has failed may be written to again.
    Retry(Subject),
    /// A job or group is to be planned, as time has passed. A failed write of it still backs off.
    Plan(Subject),
    /// The pods of a controller have backed off.
    PodsOf(Uid),
}

/// All wakes to come.
#[derive(Debug, Default)]
pub struct Wakes {
    /// By time, then in the order in which they were set.
    by_time: BTreeMap<(Moment, u64), Wake>,
    count: u64,
}

impl Wakes {
    /// Sets a wake.
    pub fn set(&mut self, at: Moment, wake: Wake) {
        self.count += 1;
        self.by_time.insert((at, self.count), wake);
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Moment> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next one that is due.
    pub fn take_due(&mut self, now: Moment) -> Option<Wake> {
        let next = self.by_time.first_entry()?;
        (next.key().0 <= now).then(|| next.remove())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn wakes_come_by_time_and_then_by_order() {
        let now = Moment::from_millis(5000);
        let pods_of = |uid: &str| Wake::PodsOf(uid.into());
        let mut wakes = Wakes::default();
        wakes.set(now.after(Duration::from_secs(1)), pods_of("later"));
        wakes.set(now, pods_of("first"));
        wakes.set(now, pods_of("second"));
        assert_eq!(wakes.next(), Some(now));
        let due: Vec<_> = std::iter::from_fn(|| wakes.take_due(now)).collect();
        assert_eq!(due, [pods_of("first"), pods_of("second")]);
        assert_eq!(wakes.next(), Some(now.after(Duration::from_secs(1))));
    }
}
