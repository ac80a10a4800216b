//! Reads any Job-like object: its gates, pod sets, requests, whether it is suspended and finished;
//! and says which patch holds it or lets it go. Pure: object in, view or patch out. No client, no
//! clock, no decisions about quota.
#![deny(missing_docs)]

pub mod gates;
pub mod problem;
