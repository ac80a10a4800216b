//! The time that timeouts are counted by. It goes on while the machine sleeps, and no change of the wall
//! clock moves it. The wall clock itself is read once, at the start. In a simulation both follow the clock of
//! the runtime, which runs as fast as there is something to do.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// Linux stops CLOCK_MONOTONIC while the machine sleeps: a leader that was suspended for an hour would
/// find its term still valid. Elsewhere the monotonic clock goes on.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The wall clock at a moment: see [`now`].
static ORIGIN: LazyLock<(Timestamp, Moment)> = LazyLock::new(|| (Timestamp::now(), Moment::now()));

thread_local! {
    /// In a simulation: when it began, by its own wall clock and by the clock of the runtime.
    static SIMULATED: Cell<Option<(Timestamp, tokio::time::Instant)>> = const { Cell::new(None) };
}

/// When a simulated machine was started, before the simulation: a [`Moment`] of zero is one that has passed.
const UP_BEFORE: Duration = Duration::from_hours(1);

/// Has all that runs on this thread follow the clock of its runtime, with `wall` as the present.
pub fn simulate(wall: Timestamp) {
    SIMULATED.set(Some((wall, tokio::time::Instant::now())));
}

/// Whether this thread runs a simulation.
pub fn is_simulated() -> bool {
    SIMULATED.get().is_some()
}

/// The wall clock of a process. That of a simulated one may be wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock {
    fast: SignedDuration,
}

impl WallClock {
    /// One that is fast by so much; slow if that is negative.
    pub fn fast_by(fast: SignedDuration) -> Self {
        Self { fast }
    }

    /// The wall clock as it is now, for what others compare with theirs.
    pub fn wall(self) -> Timestamp {
        self.read(wall())
    }

    fn read(self, right: Timestamp) -> Timestamp {
        right.saturating_add(self.fast).unwrap_or(right)
    }
}

/// A point in time of this machine, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The present.
    pub fn now() -> Self {
        if let Some((_, began)) = SIMULATED.get() {
            return Self(UP_BEFORE.saturating_add(began.elapsed()));
        }
        let read = clock_gettime(CLOCK);
        let seconds = u64::try_from(read.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(read.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanos))
    }

    /// How long ago it was; nothing for one to come.
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    /// How long it is until then; nothing for one that has passed.
    pub fn remaining(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }

    /// How long before this one `earlier` was; nothing for one that came later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment this much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// In milliseconds since the machine's start.
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// From milliseconds since the machine's start.
    pub fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

/// The present as an argument of what must not read a clock itself.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For what is due, and how long ago something was.
    pub moment: Moment,
    /// For what is recorded: see [`now`].
    pub wall: Timestamp,
}

impl Now {
    /// Reads the clocks.
    pub fn read(clock: WallClock) -> Self {
        Self {
            moment: Moment::now(),
            wall: clock.read(now()),
        }
    }

    /// How long ago it was.
    pub fn since(self, earlier: Moment) -> Duration {
        self.moment.since(earlier)
    }
}

/// The present, for what is recorded and for what is due: the wall clock as it was at the start of the
/// process, and the time that has passed since. A wall clock that is set forward would let every timeout
/// expire at once, and one that is set back would stretch them; so both follow from this, and a process
/// that starts after the change reads the new time.
pub fn now() -> Timestamp {
    if SIMULATED.get().is_some() {
        return wall();
    }
    let (wall, moment) = *ORIGIN;
    wall.saturating_add(moment.elapsed())
        .unwrap_or(Timestamp::MAX)
}

/// The wall clock as it is now, for what others compare with theirs.
pub fn wall() -> Timestamp {
    match SIMULATED.get() {
        Some((wall, began)) => wall
            .saturating_add(began.elapsed())
            .unwrap_or(Timestamp::MAX),
        None => Timestamp::now(),
    }
}

/// When the wall clock was read at the start of the process.
pub fn started() -> Timestamp {
    let (wall, _) = *ORIGIN;
    wall
}

/// Reads the wall clock now. To be called once, at the start of the process.
pub fn start() {
    LazyLock::force(&ORIGIN);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_ordered_and_counted() {
        let early = Moment::now();
        let late = early.after(Duration::from_mins(1));
        assert!(early < late && early.remaining() == Duration::ZERO);
        assert!(Duration::from_secs(59) < late.remaining());
        assert_eq!(late.elapsed(), Duration::ZERO);
        assert_eq!(Moment::from_millis(1234).as_millis(), 1234);
    }

    #[test]
    fn the_present_goes_with_the_wall_clock_it_started_from() {
        start();
        let difference = Timestamp::now().duration_since(now()).abs();
        assert!(difference.as_secs() < 60, "{difference}");
        let before = now();
        assert!(before <= now());
    }
}
