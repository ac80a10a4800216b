//! The five fields together: reading, and what they say of a day. Follows `ParseStandard` of robfig/cron v3, which
//! CronJobs use, but refuses what that accepts without a meaning here: time zones, `@every`, empty list elements.

use jiff::civil::Date;

use super::field::{Field, FieldError, FieldRule};
use super::numbers::Numbers;

const MINUTE: FieldRule = FieldRule {
    name: "minute",
    accepted: "0-59",
    min: 0,
    max: 59,
    names: &[],
};
const HOUR: FieldRule = FieldRule {
    name: "hour",
    accepted: "0-23",
    min: 0,
    max: 23,
    names: &[],
};
const DAY: FieldRule = FieldRule {
    name: "day of month",
    accepted: "1-31",
    min: 1,
    max: 31,
    names: &[],
};
const MONTH: FieldRule = FieldRule {
    name: "month",
    accepted: "1-12 or JAN-DEC",
    min: 1,
    max: 12,
    names: &[
        "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
    ],
};
const WEEKDAY: FieldRule = FieldRule {
    name: "day of week",
    accepted: "0-6 (Sunday is 0) or SUN-SAT",
    min: 0,
    max: 6,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

/// Days of the months, in a leap year.
const MONTH_DAYS: [i8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Times of the calendar that come again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cron {
    pub(super) minutes: Numbers,
    pub(super) hours: Numbers,
    days: Field,
    pub(super) months: Numbers,
    weekdays: Field,
}

/// What is wrong with a schedule. The texts continue "Invalid value: …: ".
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum CronError {
    /// It has more or fewer fields than five.
    #[error(
        "must have five fields (minute, hour, day of month, month, day of week), such as \"0 18 * * MON-FRI\"; it has {0}"
    )]
    FieldCount(usize),
    /// It begins with an @, and with no known name.
    #[error(
        "must be one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually, or have five fields"
    )]
    UnknownName,
    /// It says how often and not when.
    #[error(
        "must say when a window opens: @every says only how often; use a step such as \"*/30 * * * *\""
    )]
    Every,
    /// It names a time zone.
    #[error("must not name a time zone: use timeZone")]
    TimeZone,
    /// A field can't be read.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// There is no such day.
    #[error("never comes: none of its months has such a day")]
    Never,
}

impl Cron {
    /// Reads a schedule, and makes sure that its time comes.
    pub(crate) fn parse(text: &str) -> Result<Self, CronError> {
        if text.contains("TZ=") {
            return Err(CronError::TimeZone);
        }
        let text = text.trim();
        let text = if text.starts_with('@') {
            meaning(text)?
        } else {
            text
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(CronError::FieldCount(fields.len()));
        };
        let cron = Self {
            minutes: MINUTE.parse(minutes)?.numbers,
            hours: HOUR.parse(hours)?.numbers,
            days: DAY.parse(days)?,
            months: MONTH.parse(months)?.numbers,
            weekdays: WEEKDAY.parse(weekdays)?,
        };
        if cron.comes() {
            Ok(cron)
        } else {
            Err(CronError::Never)
        }
    }

    /// Whether it names every hour of the day.
    pub(crate) fn is_every_hour(&self) -> bool {
        self.hours == Numbers::steps(HOUR.min, HOUR.max, 1)
    }

    /// Whether its times come on this day. If both the day of month and the day of week are restricted, one is
    /// enough.
    pub(super) fn is_on(&self, date: Date) -> bool {
        let day = self.days.numbers.contains(date.day());
        let weekday = date.weekday().to_sunday_zero_offset();
        let weekday = self.weekdays.numbers.contains(weekday);
        if self.days.is_any || self.weekdays.is_any {
            day && weekday
        } else {
            day || weekday
        }
    }

    /// Whether there is such a day. Every month has every day of the week, so only a day of month can be missing.
    fn comes(&self) -> bool {
        let mut months = (MONTH.min..=MONTH.max).zip(MONTH_DAYS);
        let first = self.days.numbers.first_from(DAY.min);
        let has_day = |days: i8| first.is_some_and(|first| first <= days);
        !self.weekdays.is_any
            || months.any(|(month, days)| self.months.contains(month) && has_day(days))
    }
}

/// The five fields that a name stands for.
fn meaning(name: &str) -> Result<&'static str, CronError> {
    match name {
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@monthly" => Ok("0 0 1 * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@hourly" => Ok("0 * * * *"),
        _ if name.starts_with("@every") => Err(CronError::Every),
        _ => Err(CronError::UnknownName),
    }
}
