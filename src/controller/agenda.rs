//! What is to be looked at: subjects to be planned, subjects of which the engine is told anew, and what the clock
//! makes due. Each is looked at once, however often it is marked. What is done about it lies in `cycle.rs`.

use std::collections::BTreeSet;
use std::mem::take;

use super::wakes::{Wake, Wakes};
use crate::cache::{Subject, Template};
use crate::process::clock::Moment;

/// What is to be looked at.
#[derive(Default)]
pub struct Agenda {
    to_plan: BTreeSet<Subject>,
    /// Jobs and groups whose pods have changed.
    to_sync: BTreeSet<Subject>,
    /// Templates of claims by which jobs have to be counted anew.
    changed_templates: BTreeSet<Template>,
    wakes: Wakes,
}

impl Agenda {
    /// A job, group or pod is to be planned.
    pub fn plan(&mut self, subject: Subject) {
        self.to_plan.insert(subject);
    }

    /// All of these are to be planned.
    pub fn plan_all(&mut self, subjects: impl IntoIterator<Item = Subject>) {
        self.to_plan.extend(subjects);
    }

    /// Nothing is to be planned for a subject any more.
    pub fn unplan(&mut self, subject: &Subject) {
        self.to_plan.remove(subject);
    }

    /// The engine is to be told of a job or group anew, as its pods have changed.
    pub fn sync(&mut self, subject: Subject) {
        self.to_sync.insert(subject);
    }

    /// The engine is to be told of all of these anew.
    pub fn sync_all(&mut self, subjects: impl IntoIterator<Item = Subject>) {
        self.to_sync.extend(subjects);
    }

    /// The engine is being told of a job.
    pub fn synced(&mut self, subject: &Subject) {
        self.to_sync.remove(subject);
    }

    /// The jobs that claim by these templates are to be counted anew.
    pub fn recount_claims(&mut self, templates: impl IntoIterator<Item = Template>) {
        self.changed_templates.extend(templates);
    }

    /// Something is to be looked at at this time.
    pub fn wake_at(&mut self, at: Moment, wake: Wake) {
        self.wakes.set(at, wake);
    }

    /// Takes out what is to be planned.
    pub fn take_to_plan(&mut self) -> BTreeSet<Subject> {
        take(&mut self.to_plan)
    }

    /// Takes out of what the engine is to be told anew.
    pub fn take_to_sync(&mut self) -> BTreeSet<Subject> {
        take(&mut self.to_sync)
    }

    /// Takes out the templates that have changed.
    pub fn take_templates(&mut self) -> BTreeSet<Template> {
        take(&mut self.changed_templates)
    }

    /// When the next is due by the clock. None if nothing will be.
    pub fn next_wake(&self) -> Option<Moment> {
        self.wakes.next()
    }

    /// Takes out the next that is due by the clock.
    pub fn take_due(&mut self, now: Moment) -> Option<Wake> {
        self.wakes.take_due(now)
    }
}
