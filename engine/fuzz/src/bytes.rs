//! Bytes as a source of choices. When they have run out, every choice is the first.

/// The bytes that are left.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// The same choice for nearly all bytes, so that what is rare stays so.
    pub fn rarely(&mut self) -> bool {
        self.byte() >= 240
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub fn below(&mut self, bound: u8) -> u8 {
        self.byte() % bound
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    pub fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    /// Up to `most` of them.
    pub fn several<T>(&mut self, most: u8, make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.below(most + 1);
        self.exactly(count, make)
    }

    pub fn exactly<T>(&mut self, count: u8, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..count).map(|_| make(self)).collect()
    }
}
