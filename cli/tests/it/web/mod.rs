//! `kubectl sluice web`: which requests it answers, what a tenant sees by it, and what it says where nobody answers.

mod cluster;
mod guard;
mod served;
mod tenants;
