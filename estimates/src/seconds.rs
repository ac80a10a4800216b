//! Times as figures for people and programs.

use serde::{Serialize, Serializer};

/// Milliseconds, written as seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub i64);

impl Serialize for Seconds {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1000 == 0 {
            serializer.serialize_i64(self.0 / 1000)
        } else {
            serializer.serialize_f64(self.0 as f64 / 1000.0)
        }
    }
}
