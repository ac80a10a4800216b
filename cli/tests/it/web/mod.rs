//! `kubectl sluice web`: which requests it answers, what a tenant sees by it, and the page in a real browser; and the page
//! and the commands on a cluster on which Sluice works.

mod browser;
mod chromium;
mod cluster;
mod end_to_end;
mod governed;
mod guard;
mod in_cluster;
mod lists;
mod served;
mod stage;
mod tenants;
mod times;
