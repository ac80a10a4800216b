//! A schedule in five fields, as in the schedule of a CronJob: read, and asked for its next time of the calendar.
//!
//! Must not know time zones: the same calendar serves all of them.

mod calendar;
mod expression;
mod field;
mod numbers;

pub(crate) use calendar::YEARS_MAX;
pub(crate) use expression::Cron;
