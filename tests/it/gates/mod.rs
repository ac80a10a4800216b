//! Gates as annotations: who may set them, who takes them off, and where they are seen.

mod applied_again;
mod create;
pub mod kubectl;
mod life;
mod marks;
mod place;
mod restored;
pub mod roads;
