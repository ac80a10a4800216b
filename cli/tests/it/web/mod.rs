//! `kubectl sluice web`: which requests it answers, what a tenant sees by it, and the page in a real browser.

mod browser;
mod chromium;
mod cluster;
mod guard;
mod lists;
mod served;
mod stage;
mod tenants;
mod times;
