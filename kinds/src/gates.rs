//! The gate annotation rules.
