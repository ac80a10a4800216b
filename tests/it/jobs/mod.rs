//! The life of a job from its creation to its deletion, and what stops it on its way.

mod aliases;
mod bad_objects;
mod being_deleted;
mod life;
mod life_additions;
mod orphans;
mod partial_admission;
mod pausing;
pub mod stalls;
mod suspension;
mod terminating_namespace;
