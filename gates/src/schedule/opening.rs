//! The answer: whether a gate is lifted by itself, and if not, why and until when, in words for people.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sluice_kinds::Problem;

/// Whether a gate is to be lifted from an object at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// The Gate has no schedule: it is never lifted by itself.
    NotScheduled,
    /// It is to be lifted.
    Open,
    /// It is not to be lifted.
    Closed(Closed),
}

/// Why a gate is not lifted, and until when. Its text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// When the gate opens, if neither the Gate nor the object changes: the time to ask again. None: it does not open
    /// by itself.
    pub until: Option<Timestamp>,
    /// Why it is closed.
    pub why: Why,
    /// The time zone of the window that opens then.
    pub(crate) zone: Option<TimeZone>,
}

/// Why a gate is not lifted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The object lacks the annotation that names its time.
    NoTime {
        /// The key of the annotation.
        annotation: String,
    },
    /// The annotation names no time.
    BadTime(Problem),
    /// The time that the object names has not come.
    TooEarly {
        /// The key of the annotation.
        annotation: String,
        /// Its value.
        time: String,
    },
    /// An exception is under way.
    Exception {
        /// When it ends.
        to: Timestamp,
        /// Why it is.
        reason: Option<String>,
    },
    /// No window is open.
    NoWindow,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::NoTime { annotation } => write!(
                f,
                "metadata.annotations[{annotation}]: Required value: a time such as 2026-12-01T08:00:00Z"
            ),
            Why::BadTime(problem) => problem.fmt(f),
            Why::TooEarly { annotation, time } => {
                self.write_opens(f)?;
                write!(f, ": not before {time}, says annotation {annotation}")
            }
            Why::Exception { to, reason } => {
                self.write_opens(f)?;
                let to = InZone(*to, self.zone.as_ref());
                write!(f, ": an exception closes it until {to}")?;
                reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
            }
            Why::NoWindow => self.write_opens(f),
        }
    }
}

impl Closed {
    /// When it opens.
    fn write_opens(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(until) = self.until else {
            return f.write_str("does not open again: no window starts any more");
        };
        write!(f, "opens {}", InZone(until, self.zone.as_ref()))?;
        let name = self.zone.as_ref().and_then(TimeZone::iana_name);
        name.map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// A time, as clocks in a zone show it.
struct InZone<'a>(Timestamp, Option<&'a TimeZone>);

impl fmt::Display for InZone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(time, zone) = self;
        match zone {
            None => time.fmt(f),
            Some(zone) => time.display_with_offset(zone.to_offset(*time)).fmt(f),
        }
    }
}
