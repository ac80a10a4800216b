//! `Gate` objects: owners, deadlines, policies, and what Sluice lifts by itself.

mod after;
mod after_faults;
mod applied;
mod bad;
mod counter;
mod deadline;
mod deadline_faults;
mod escapes;
mod examples;
mod outage;
mod owners;
mod policy;
mod reads;
mod schedule;
mod templates;
