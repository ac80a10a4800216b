//! A schedule as a whole: what windows, exceptions and the named time say together.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sluice_crds::Schedule;
use sluice_kinds::Problem;

use super::exception::CompiledScheduleException;
use super::not_before::TimeAnnotation;
use super::opening::{Closed, Opening, Why};
use super::window::CompiledWindow;

/// Where a schedule stands.
const FIELD: &str = "spec.schedule";
/// What a schedule gets to hear that says nothing.
const EMPTY: &str =
    "must have notBefore, windows, or both: without them the gate is never lifted by itself";

/// A schedule whose fields were checked.
#[derive(Debug, Clone)]
pub(crate) struct CompiledSchedule {
    not_before: Option<TimeAnnotation>,
    /// Empty: windows do not matter.
    windows: Vec<CompiledWindow>,
    exceptions: Vec<CompiledScheduleException>,
}

impl CompiledSchedule {
    /// The key of the annotation in which held objects name a time, if they do.
    pub(crate) fn annotation(&self) -> Option<&str> {
        self.not_before.as_ref().map(TimeAnnotation::key)
    }

    /// Checks a schedule.
    pub(crate) fn compile(schedule: &Schedule) -> Result<Self, Vec<Problem>> {
        let Schedule {
            not_before,
            windows,
            exceptions,
        } = schedule;
        if not_before.is_none() && windows.is_empty() {
            return Err(vec![Problem::required(FIELD, EMPTY)]);
        }
        let mut problems = Vec::new();
        let mut compiled = Self {
            not_before: None,
            windows: Vec::new(),
            exceptions: Vec::new(),
        };
        if let Some(rule) = not_before {
            match TimeAnnotation::compile(rule, &format!("{FIELD}.notBefore")) {
                Ok(rule) => compiled.not_before = Some(rule),
                Err(problem) => problems.push(problem),
            }
        }
        for (index, window) in windows.iter().enumerate() {
            match CompiledWindow::compile(window, &format!("{FIELD}.windows[{index}]")) {
                Ok(window) => compiled.windows.push(window),
                Err(found) => problems.extend(found),
            }
        }
        for (index, exception) in exceptions.iter().enumerate() {
            match CompiledScheduleException::compile(
                exception,
                &format!("{FIELD}.exceptions[{index}]"),
            ) {
                Ok(exception) => compiled.exceptions.push(exception),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            Ok(compiled)
        } else {
            Err(problems)
        }
    }

    /// Whether windows and exceptions let objects through at `now`.
    pub(crate) fn lets_any_through(&self, now: Timestamp) -> bool {
        let in_window = self.windows.is_empty() || self.open_window(now).is_some();
        in_window && self.exception(now).is_none()
    }

    /// Whether the time has come that an object with these annotations has to name, if it has to.
    pub(crate) fn has_come(&self, annotations: &BTreeMap<String, String>, now: Timestamp) -> bool {
        let named = self.not_before.as_ref().map(|rule| rule.read(annotations));
        named.is_none_or(|named| named.is_ok_and(|named| named.time <= now))
    }

    /// What it says of an object with these annotations at `now`.
    pub(crate) fn opening(
        &self,
        annotations: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Opening {
        let named = self.not_before.as_ref().map(|rule| rule.read(annotations));
        let named = match named.transpose() {
            Ok(named) => named,
            Err(why) => {
                let (until, zone) = (None, None);
                return Opening::Closed(Closed { until, why, zone });
            }
        };
        let named = named.filter(|named| now < named.time);
        let from = named.as_ref().map_or(now, |named| named.time);
        let why = if let Some(named) = named {
            Why::TooEarly {
                annotation: named.annotation,
                time: named.value,
            }
        } else if let Some(exception) = self.exception(now) {
            Why::Exception {
                to: exception.to(),
                reason: exception.reason().map(str::to_owned),
            }
        } else if !self.windows.is_empty() && self.open_window(now).is_none() {
            Why::NoWindow
        } else {
            return Opening::Open;
        };
        let (until, zone) = match self.opens(from) {
            Some((until, zone)) => (Some(until), zone.cloned()),
            None => (None, None),
        };
        Opening::Closed(Closed { until, why, zone })
    }

    /// When it is first open, at `from` or later, and in which time zone a window opens then.
    fn opens(&self, from: Timestamp) -> Option<(Timestamp, Option<&TimeZone>)> {
        let mut time = from;
        // Ends: `time` only grows, and a window that starts is open then unless one of the exceptions covers it,
        // which it does only once.
        loop {
            if let Some(exception) = self.exception(time) {
                time = exception.to();
            } else if self.windows.is_empty() {
                return Some((time, None));
            } else if let Some(window) = self.open_window(time) {
                return Some((time, Some(window.zone())));
            } else {
                let starts = self.windows.iter();
                time = starts.filter_map(|window| window.next_start(time)).min()?;
            }
        }
    }

    /// The exception that is under way; of several, the one that ends last.
    fn exception(&self, time: Timestamp) -> Option<&CompiledScheduleException> {
        let covering = self.exceptions.iter();
        let covering = covering.filter(|exception| exception.covers(time));
        covering.max_by_key(|exception| exception.to())
    }

    fn open_window(&self, time: Timestamp) -> Option<&CompiledWindow> {
        self.windows.iter().find(|window| window.is_open(time))
    }
}
