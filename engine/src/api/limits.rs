//! All limits of the engine, each with its reason.

/// Levels of a cohort tree, the ClusterQueue included. Adding usage walks from a queue to its root, so this
/// bounds the cost of one check. No organisation is 64 levels deep. A deeper tree is inactive, with a
/// reason.
pub const TREE_DEPTH_MAX: usize = 64;

/// Flavors named in one explanation; the rest is counted. A flavor takes about 150 bytes of text,
/// and a condition message may have 1024.
pub const EXPLAINED_FLAVORS_MAX: usize = 4;

const _: () = assert!(EXPLAINED_FLAVORS_MAX * 150 < 1024);

/// Names listed in one message; the rest is counted. A name takes at most 253 bytes and two
/// quotes, so that three of them leave room in a message of 1024 bytes.
pub const NAMES_SHOWN_MAX: usize = 3;

const _: () = assert!(NAMES_SHOWN_MAX * 255 < 1024);
