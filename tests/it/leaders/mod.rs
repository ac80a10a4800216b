//! Several replicas, crashes, restarts and lost answers: what is written, and by whom.

mod crash;
pub mod failover;
mod hostile_lists;
mod late_objects;
mod races;
mod recovery;
mod stop;
mod terms;
pub mod writes;
