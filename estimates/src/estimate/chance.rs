//! Chance that is the same each time.

/// Numbers as if by chance: SplitMix64.
pub(super) struct Chance(u64);

impl Chance {
    /// The same numbers for the same seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to 999.
    pub(super) fn thousandths(&mut self) -> u16 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u16::try_from((mixed ^ (mixed >> 31)) % 1000).unwrap_or_default()
    }
}
