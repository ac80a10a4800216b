//! What the engine says of queues and of those that wait: small scripts. Whether it is true in random histories is in
//! `histories`.

mod outlook;
mod pending;
mod questions;
