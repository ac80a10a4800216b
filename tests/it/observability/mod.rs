//! What people, dashboards and programs see: status, metrics, logs, warnings and the visibility API.

mod alerts;
mod api;
mod blocked_log;
mod estimates;
mod explanation;
mod logs;
mod metrics;
mod openapi;
mod status;
mod warnings;
mod what_if;
