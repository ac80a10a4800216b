//! The time that the estimate of a start may take, and how its user is told how far it is.

use std::time::{Duration, Instant};

use crate::cluster::{Tell, Told};
use crate::simulate::PLAYS;

/// How long an estimate may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often it is told how far it is.
const PROGRESS: Duration = Duration::from_secs(1);

/// When the time of an estimate is up, and how far it is.
pub struct EstimateClock {
    began: Instant,
    told: Instant,
}

impl EstimateClock {
    /// It begins now.
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            told: now,
        }
    }

    /// Whether there is time for another play. The jobs of each tree of cohorts have time of their own, from their first play
    /// on.
    pub fn has_time(&mut self, plays: u32) -> bool {
        if plays == 0 {
            self.began = Instant::now();
        }
        self.began.elapsed() < DEADLINE
    }

    /// Whether there is time for another play. Tells once a second how many were played.
    pub fn goes_on(&mut self, plays: u32, tell: &mut Tell<'_>) -> bool {
        if PROGRESS < self.told.elapsed() {
            self.told = Instant::now();
            let text = format!("estimating the start: {plays} of {PLAYS} simulations");
            // Whoever can't be told how far it is may still get the result.
            let _ = tell(Told::Note(text));
        }
        self.has_time(plays)
    }
}
