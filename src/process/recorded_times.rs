//! What the times that objects record say on the clock of this process: whoever recorded them had a clock of its own.
//! All that waits because of a recorded time asks here, so that a wrong clock of a leader delays or hurries nothing
//! for longer than the wait itself.
//!
//! * What has happened did not happen after it was first seen.
//! * What the leader before this one recorded is moved by as much as the two clocks differ (`lease`). The time in
//!   which nobody led is a part of that: it does not count.
//! * A wait ends no later than its longest time after it was first seen.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// When recorded times are seen.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// The present.
    pub now: Timestamp,
    /// By how much the clock of this process is ahead of that of whoever recorded them, as far as that is known.
    pub ahead: SignedDuration,
}

impl Sight {
    /// What API servers record, such as creation times, is seen so: nothing is known of their clocks.
    pub fn of_server(now: Timestamp) -> Self {
        let ahead = SignedDuration::ZERO;
        Self { now, ahead }
    }
}

/// Recorded times of one object that are not believed as they are. Empty for most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedTimes(Box<[Seen]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    recorded: Timestamp,
    /// When it was first seen.
    at: Timestamp,
    /// The recorded time by the clock of this process.
    moved: Timestamp,
}

impl RecordedTimes {
    /// Looks at the times that an object records. What was `known` of it stays so.
    pub fn see(
        recorded: impl IntoIterator<Item = Timestamp>,
        known: Option<&Self>,
        sight: Sight,
    ) -> Self {
        let mut seen: Vec<Seen> = Vec::new();
        for recorded in recorded {
            if seen.iter().any(|seen| seen.recorded == recorded) {
                continue;
            }
            let known = known.and_then(|known| known.find(recorded));
            let moved = recorded.saturating_add(sight.ahead).unwrap_or(recorded);
            if let Some(known) = known {
                seen.push(*known);
            } else if sight.now < recorded || moved != recorded {
                seen.push(Seen {
                    recorded,
                    at: sight.now,
                    moved,
                });
            }
        }
        Self(seen.into())
    }

    /// These times, and others that another clock has recorded.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        let mut seen = self.0.into_vec();
        seen.extend(others.0);
        Self(seen.into())
    }

    /// When that happened which is recorded so.
    pub fn since(&self, recorded: Timestamp) -> Timestamp {
        self.find(recorded)
            .map_or(recorded, |seen| seen.moved.min(seen.at))
    }

    /// When a wait ends that is recorded to end then, and that lasts no longer than `longest`.
    pub fn until(&self, recorded: Timestamp, longest: SignedDuration) -> Timestamp {
        let Some(seen) = self.find(recorded) else {
            return recorded;
        };
        let latest = seen.at.saturating_add(longest).unwrap_or(Timestamp::MAX);
        recorded.min(seen.moved).min(latest)
    }

    fn find(&self, recorded: Timestamp) -> Option<&Seen> {
        self.0.iter().find(|seen| seen.recorded == recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn seen(recorded: i64, known: Option<&RecordedTimes>, now: i64, ahead: i64) -> RecordedTimes {
        let ahead = SignedDuration::from_secs(ahead);
        let sight = Sight {
            now: at(now),
            ahead,
        };
        RecordedTimes::see([at(recorded)], known, sight)
    }

    /// Recorded, seen first at 0 by a clock that is so far ahead; since and until when that is believed, where a
    /// wait lasts 60 s at most.
    #[test]
    fn a_recorded_time_says_this_on_the_own_clock() {
        let rows = [
            ("both clocks agree", -10, 0, (-10, -10)),
            ("a wait under way", 40, 0, (0, 40)),
            (
                "an hour fast, and nothing is known of that",
                HOUR,
                0,
                (0, 60),
            ),
            ("an hour fast, as is known", HOUR - 10, -HOUR, (-10, -10)),
            (
                "an hour fast, as is known, a wait",
                HOUR + 40,
                -HOUR,
                (0, 40),
            ),
            (
                "an hour slow, as is known",
                -HOUR - 10,
                HOUR,
                (-10, -HOUR - 10),
            ),
            (
                "an hour slow, as is known, a wait",
                -HOUR + 40,
                HOUR,
                (0, -HOUR + 40),
            ),
            ("in a year, by a broken clock", 365 * 24 * HOUR, 0, (0, 60)),
        ];
        let longest = SignedDuration::from_secs(60);
        for (name, recorded, ahead, (since, until)) in rows {
            let times = seen(recorded, None, 0, ahead);
            assert_eq!(times.since(at(recorded)), at(since), "{name}: since");
            assert_eq!(
                times.until(at(recorded), longest),
                at(until),
                "{name}: until"
            );
            // It is seen again later, also when the clock has passed it, and not as what a former leader recorded.
            let again = seen(recorded, Some(&times), 2 * HOUR, 0);
            assert_eq!(again.since(at(recorded)), at(since), "{name}: again");
            assert_eq!(
                again.until(at(recorded), longest),
                at(until),
                "{name}: again"
            );
        }
    }

    #[test]
    fn only_what_is_not_believed_is_kept() {
        assert_eq!(seen(-1, None, 0, 0), RecordedTimes::default());
        let times = seen(10, None, 0, 0);
        assert_eq!(seen(20, Some(&times), 30, 0), RecordedTimes::default());
        let far = Sight {
            now: at(0),
            ahead: SignedDuration::MAX,
        };
        let times = RecordedTimes::see([Timestamp::MAX], None, far);
        assert_eq!(times.since(Timestamp::MAX), at(0));
        let longest = SignedDuration::MAX;
        assert_eq!(times.until(Timestamp::MAX, longest), Timestamp::MAX);
    }
}
