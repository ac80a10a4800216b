//! The wall to whoever counts what is done about objects.

use sluice_gates::Enforced;

/// Counts what is done about objects.
pub trait Observer: Send + Sync {
    /// An object that names no queue was created where one is required, and this was done or reported.
    fn enforced(&self, enforced: Enforced);
}
