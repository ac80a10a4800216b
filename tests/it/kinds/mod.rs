//! JobKinds, shipped and made up, and the objects that their owners make.

mod admission;
mod children;
mod children_without_label;
mod hooks;
mod life;
mod made_up_kind;
mod moved;
mod operators;
mod owners;
mod reclaimable;
mod shipped;
