//! Pods that wait themselves: single pods, groups, and those of kinds whose pods are admitted one by one.

mod deployments;
mod detached;
mod faults;
mod gangs;
mod groups;
mod jobs;
mod not_restartable;
mod priority_classes;
mod quota;
mod races;
mod ready;
mod rules;
mod single;
pub mod whole;
