//! The next time of a schedule, by the calendar.

use jiff::civil::{Date, DateTime, DateTimeRound, Time};
use jiff::{RoundMode, ToSpan, Unit};

use super::expression::Cron;

/// How far the search goes. The rarest day is 29 February: eight years pass without one around the year 2100.
pub(crate) const YEARS_MAX: i16 = 16;

impl Cron {
    /// The first of its times that is not before `from`. None if there is none in [`YEARS_MAX`] years.
    pub(crate) fn first_from(&self, from: DateTime) -> Option<DateTime> {
        let to_the_minute = DateTimeRound::new()
            .smallest(Unit::Minute)
            .mode(RoundMode::Ceil);
        let from = from.round(to_the_minute).ok()?;
        let last = from.date().saturating_add(YEARS_MAX.years());
        let (mut date, mut time) = (from.date(), from.time());
        while date <= last {
            if !self.months.contains(date.month()) {
                date = next_month(date)?;
                time = Time::midnight();
                continue;
            }
            if self.is_on(date)
                && let Some(time) = self.first_time_from(time)
            {
                return Some(date.to_datetime(time));
            }
            date = date.tomorrow().ok()?;
            time = Time::midnight();
        }
        None
    }

    /// The first of its times of day that is not before `from`.
    fn first_time_from(&self, from: Time) -> Option<Time> {
        let this_hour = self.hours.contains(from.hour());
        let minute = self.minutes.first_from(from.minute());
        let (hour, minute) = match minute.filter(|_| this_hour) {
            Some(minute) => (from.hour(), minute),
            None => (
                self.hours.first_from(from.hour() + 1)?,
                self.minutes.first_from(0)?,
            ),
        };
        Time::new(hour, minute, 0, 0).ok()
    }
}

fn next_month(date: Date) -> Option<Date> {
    date.first_of_month().checked_add(1.month()).ok()
}
