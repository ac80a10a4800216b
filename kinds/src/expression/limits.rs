//! The bounds of an expression: of its text, of what it reads, and of the time that it takes.

/// Longest expression in bytes; the CRD has the same limit.
pub(super) const SOURCE_BYTES_MAX: usize = 2048;
/// Deepest nesting, of brackets, operators in a row, and fields of fields. Unoptimised, the evaluator
/// takes 40 KiB of the stack for each, of 2 MiB that a worker has.
pub(super) const NESTING_MAX: usize = 40;
/// Deepest nesting of `all`, `exists`, `map` and the like: each one multiplies the work.
pub(super) const MACRO_DEPTH_MAX: u32 = 2;
/// Most steps of one evaluation: the nodes of the expression within macros, for each element of the
/// longest list, once more for each nested macro, and for each [`TEXT_STEP_BYTES`] of the longest text.
/// A step takes about a microsecond.
pub(super) const STEPS_MAX: usize = 250_000;
/// How much text is compared or copied in a step.
pub(super) const TEXT_STEP_BYTES: usize = 1024;
/// Most values that one evaluation may be handed. The conditions of a job are a few dozen.
pub(super) const VALUES_MAX: usize = 20_000;
/// Most text that one evaluation may be handed, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 128 * 1024;
