//! Which objects are born with a gate: by namespace, kind, queue, and a CEL expression.
//!
//! Must not know how objects are read, or what follows for them. Uses no other folder.

pub(crate) mod applicant;
pub(crate) mod compiled;
pub(crate) mod selector;
#[cfg(test)]
mod tests;
mod values;
pub(crate) mod when;
