//! Plays jobs through the engine in virtual time, and estimates from that when pending jobs will start.
//!
//! Pure: no I/O, no clock, no Kubernetes types. What is played, and from which moment on, is handed in; chance comes from a
//! fixed seed. The controller and the plugin ask here, each with what it knows of a cluster.
//!
//! | file | what it holds |
//! |---|---|
//! | `seconds` | times as they are written |
//! | `play` | jobs through the engine in virtual time: what became of each |
//! | `durations` | how long jobs run that have finished, and what follows for jobs like them |
//! | `standing` | the jobs of a cohort tree as they stand |
//! | `finished` | jobs that have finished, as far as they are kept |
//! | `estimate` | when some of them will start, by many plays |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod durations;
pub mod estimate;
pub mod finished;
pub mod play;
pub mod seconds;
pub mod standing;
