//! When it is written what admitted jobs tell of themselves: not at once, so that what comes together
//! is one write, what is over soon is none, and an object that changes its mind all the time makes few.

use std::time::Duration;

use crate::cache::Subject;
use crate::controller::Controller;
use crate::plan::{StatusPurpose, Write};
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// For so long a job has something new to tell before it is written; what it is then counts. So no
/// Workload has more than one such write in this time.
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// The jobs that have something new to tell, and since when.
#[derive(Debug, Default)]
pub struct Reports(HashMap<Subject, Moment>);

impl Reports {
    /// Whether a write for a job, if there is one, has to wait.
    pub fn hold_back(&mut self, subject: &Subject, write: Option<&Write>, now: Moment) -> bool {
        let since = self.0.get(subject);
        if since.is_some_and(|since| REPORT_AFTER <= now.since(*since)) {
            // This write says it, or there is nothing to say any more.
            self.0.remove(subject);
            return false;
        }
        let is_report = write.is_some_and(is_report);
        if is_report && since.is_none() {
            self.0.insert(subject.clone(), now);
        }
        is_report
    }

    fn overdue(&self, now: Moment) -> Vec<Subject> {
        let overdue = self.0.iter();
        let overdue = overdue.filter(|(_, since)| REPORT_AFTER <= now.since(**since));
        overdue.map(|(subject, _)| subject.clone()).collect()
    }
}

impl Controller {
    /// Whether a job's kind says when its pods are ready.
    pub(in crate::controller) fn tells_readiness(&self, subject: &Subject) -> bool {
        let job = self.objects.job_of(subject).map(|(_, job)| job);
        let reading = job.and_then(|job| job.reading.as_ref().ok());
        reading.is_some_and(|reading| !matches!(reading.ready, Ok(None)))
    }

    /// Plans the jobs again that have had something to tell for long enough.
    pub(in crate::controller) fn look_after_reports(&mut self) {
        for subject in self.reports.overdue(self.now.moment) {
            if self.objects.job_of(&subject).is_some() {
                self.agenda.plan(subject);
            } else {
                self.reports.0.remove(&subject);
            }
        }
    }
}

fn is_report(write: &Write) -> bool {
    matches!(
        write,
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::Report,
            ..
        }
    )
}
