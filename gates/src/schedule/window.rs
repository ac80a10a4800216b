//! A window: when it opens, by the clocks of its time zone, and for how long. Clocks that are put forward and back are
//! dealt with here and nowhere else.
//!
//! The start follows CronJob: it comes where the clock shows a time of the schedule. A time that is skipped in spring
//! does not come. A time that is shown twice in autumn comes once, the first time, as a window is no job that could
//! run twice; only where the schedule names every hour it comes in both, so that no hour is left out.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use sluice_crds::{WINDOW_SECONDS_MAX, Window};
use sluice_kinds::Problem;

use super::time_zone;
use crate::cron::{Cron, YEARS_MAX};

/// What an unknown time zone gets to hear.
const UNKNOWN_ZONE: &str =
    "unknown time zone; use a name of the IANA database such as \"Europe/Berlin\"";

/// A window whose fields were checked.
#[derive(Debug, Clone)]
pub(crate) struct CompiledWindow {
    start: Cron,
    duration: SignedDuration,
    zone: TimeZone,
}

impl CompiledWindow {
    /// Checks the window at `field`.
    pub(crate) fn compile(window: &Window, field: &str) -> Result<Self, Vec<Problem>> {
        let Window {
            start,
            duration_seconds,
            time_zone,
        } = window;
        let mut problems = Vec::new();
        let cron = Cron::parse(start).map_err(|error| {
            let field = format!("{field}.start");
            problems.push(Problem::invalid(field, start, error.to_string()));
        });
        if !(1..=WINDOW_SECONDS_MAX).contains(duration_seconds) {
            let detail = format!("must be from 1 to {WINDOW_SECONDS_MAX}, which is 31 days");
            let field = format!("{field}.durationSeconds");
            problems.push(Problem::invalid(
                field,
                duration_seconds.to_string(),
                detail,
            ));
        }
        let zone = time_zone::find(time_zone);
        if zone.is_none() {
            let field = format!("{field}.timeZone");
            problems.push(Problem::invalid(field, time_zone, UNKNOWN_ZONE));
        }
        match (cron, zone) {
            (Ok(start), Some(zone)) if problems.is_empty() => Ok(Self {
                start,
                duration: SignedDuration::from_secs(i64::from(*duration_seconds)),
                zone,
            }),
            _ => Err(problems),
        }
    }

    /// The time zone of its start.
    pub(crate) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Whether it is open: whether it has started no longer ago than it stays open.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        let closed = now.saturating_sub(self.duration).unwrap_or(Timestamp::MIN);
        self.next_start(closed).is_some_and(|start| start <= now)
    }

    /// The first start after `after`. None if there is none in [`YEARS_MAX`] years.
    pub(crate) fn next_start(&self, after: Timestamp) -> Option<Timestamp> {
        let last = after
            .saturating_add((24 * 366 * i32::from(YEARS_MAX)).hours())
            .ok()?;
        let mut from = after.checked_add(1.nanosecond()).ok()?;
        // Between two transitions of the zone, local time and time go on alike.
        while from <= last {
            let offset = self.zone.to_offset(from);
            let transition = self.zone.following(from).next();
            let transition = transition.map(|transition| transition.timestamp());
            let local = self.start.first_from(offset.to_datetime(from));
            let start = local.and_then(|local| offset.to_timestamp(local).ok().zip(Some(local)));
            match (start, transition) {
                (Some((start, local)), _) if transition.is_none_or(|end| start < end) => {
                    if !self.has_come(local, offset) {
                        return Some(start);
                    }
                    from = start.checked_add(1.minute()).ok()?;
                }
                (_, Some(transition)) => from = transition,
                (_, None) => return None,
            }
        }
        None
    }

    /// Whether clocks have shown this time of the schedule before, and once is enough.
    fn has_come(&self, local: DateTime, offset: Offset) -> bool {
        let shown = self.zone.to_ambiguous_timestamp(local).offset();
        let is_second = matches!(shown, AmbiguousOffset::Fold { after, .. } if after == offset);
        is_second && !self.start.is_every_hour()
    }
}
