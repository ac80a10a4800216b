//! When a gate is lifted by itself: windows in their time zones, exceptions, and the time that an object names.
//!
//! Must not know the clock, the time zones of the system, or who may lift a gate. Uses `cron`.

pub(crate) mod compiled;
mod exception;
mod not_before;
pub(crate) mod opening;
#[cfg(test)]
mod tests;
mod time_zone;
mod window;
