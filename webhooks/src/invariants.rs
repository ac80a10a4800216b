//! States that must not occur outside of the engine, which counts its own. Each is logged and counted in
//! `sluice_invariant_violations_total`; builds with debug assertions panic. What to do instead is the caller's. The
//! controller counts its own here too, and once more apart.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::error;

/// One for the process, as at most one controller runs in it.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// A state has been found that `invariant` rules out.
pub fn violated(invariant: &str) {
    FOUND.fetch_add(1, Ordering::Relaxed);
    error!(
        invariant,
        "an invariant was violated: report this with the log"
    );
    debug_assert!(false, "violated: {invariant}");
}

/// How many such states have been found.
pub fn found() -> u64 {
    FOUND.load(Ordering::Relaxed)
}
