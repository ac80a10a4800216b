//! A time in which the gate is not lifted.

use jiff::Timestamp;
use sluice_crds::Exception;
use sluice_kinds::Problem;

/// An exception whose fields were checked.
#[derive(Debug, Clone)]
pub(crate) struct CompiledScheduleException {
    from: Timestamp,
    to: Timestamp,
    reason: Option<String>,
}

impl CompiledScheduleException {
    /// Checks the exception at `field`.
    pub(crate) fn compile(exception: &Exception, field: &str) -> Result<Self, Problem> {
        let Exception { from, to, reason } = exception;
        if to.0 <= from.0 {
            let field = format!("{field}.to");
            return Err(Problem::invalid(
                field,
                to.0.to_string(),
                "must be after from",
            ));
        }
        Ok(Self {
            from: from.0,
            to: to.0,
            reason: reason.clone().filter(|reason| !reason.is_empty()),
        })
    }

    /// Whether it is under way: from its beginning, and until before its end.
    pub(crate) fn covers(&self, time: Timestamp) -> bool {
        (self.from..self.to).contains(&time)
    }

    /// Its end.
    pub(crate) fn to(&self) -> Timestamp {
        self.to
    }

    /// Why it is.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}
