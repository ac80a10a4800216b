//! How many of something a test makes that is about many.

/// So many with `make test SCALE=full`, and a fifth otherwise: what is wrong with many mostly shows with fewer, and the
/// whole suite shares two cores.
pub fn scaled(full: usize) -> usize {
    let is_full = std::env::var("SCALE").is_ok_and(|scale| scale == "full");
    if is_full { full } else { full.div_ceil(5) }
}
