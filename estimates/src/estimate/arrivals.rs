//! Jobs that are yet to come, as those came that were seen: the same sorts, as many in as much time, at the same times
//! of the day.

use std::time::Duration;

use sluice_engine::Time;

use super::chance::Chance;
use crate::durations::FOREVER;
use crate::standing::StandingJob;

/// After this time they come again.
const DAY: i64 = 24 * 3600 * 1000;
/// How far back it is looked.
const DAYS_MAX: i64 = 7;
/// From fewer nothing follows.
const SEEN_MIN: usize = 10;
/// From a shorter time neither.
const WINDOW_MIN: i64 = 60 * 1000;
/// Jobs that come in one play, and periods in which they do: what waits for longer is not estimated better by more.
const COMING_MAX: usize = 2000;
const PERIODS_MAX: i64 = 14;

/// When jobs came.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The times with the numbers of the jobs that came.
    seen: Vec<(i64, usize)>,
    now: i64,
    /// The length of a period, and how many were seen.
    period: i64,
    periods: i64,
}

impl Arrivals {
    /// Those of `jobs` until now; none if too few are known. What came before `known_since` is not known as a whole.
    pub(super) fn of(jobs: &[&StandingJob], now: Time, known_since: Option<Time>) -> Option<Self> {
        let now = now.as_millis();
        let earliest = now.saturating_sub(DAYS_MAX * DAY);
        let earliest = known_since.map_or(earliest, |since| since.as_millis().max(earliest));
        // What never ends does not keep coming: there would be ever more of it.
        let all = jobs.iter().enumerate();
        let all = all.filter(|(_, job)| job.said != Some(FOREVER));
        let seen: Vec<(i64, usize)> = all
            .map(|(index, job)| (job.created.as_millis(), index))
            .filter(|(at, _)| (earliest..now).contains(at))
            .collect();
        let first = seen.iter().map(|(at, _)| *at).min()?;
        let window = now.saturating_sub(first);
        if seen.len() < SEEN_MIN || window < WINDOW_MIN {
            return None;
        }
        let period = window.min(DAY);
        Some(Self {
            seen,
            now,
            period,
            periods: (window / period).max(1),
        })
    }

    /// Jobs that may come, by their numbers and times: each period is like one of those seen, and each job of that comes
    /// not at all, once, or twice. How many come in all is not known either: from half as many as were seen to half
    /// more.
    pub(super) fn coming(&self, chance: &mut Chance) -> Vec<(usize, Time)> {
        let mut coming = Vec::new();
        let half_as_often = 250 + chance.thousandths() / 2;
        for period in 0..PERIODS_MAX {
            let back = 1 + i64::from(chance.thousandths()) * self.periods / 1000;
            let begin = self.now - back * self.period;
            for (at, index) in &self.seen {
                if !(begin..begin + self.period).contains(at) {
                    continue;
                }
                let comes = [chance.thousandths(), chance.thousandths()];
                let times = comes.iter().filter(|drawn| **drawn < half_as_often);
                let times = times.count();
                let later = u64::try_from(at - begin + period * self.period).unwrap_or_default();
                let at = Time::from_millis(self.now).after(Duration::from_millis(later));
                coming.extend(std::iter::repeat_n((*index, at), times));
            }
            if COMING_MAX <= coming.len() {
                break;
            }
        }
        coming.truncate(COMING_MAX);
        coming
    }
}
