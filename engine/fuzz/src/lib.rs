//! What the fuzz targets do with bytes. Tests on a stable compiler include these files too
//! (`engine/tests/fuzz_corpus.rs`, `crds/tests/fuzz_corpus.rs`), to replay the corpus.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod events;
pub mod history;
pub mod quantities;
#[path = "../../../crds/src/quantity.rs"]
pub mod quantity;
pub mod quota;
