//! Who writes, by the name that the API server keeps.

/// The name under which our fields are recorded in managedFields.
pub const FIELD_MANAGER: &str = "sluice";
