//! What the fuzzer has found worth keeping of quantities. The fuzz targets are in `engine/fuzz`.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::path::Path;

/// Where the fuzz target has it.
mod quantity {
    pub(crate) use sluice_crds::Quantity;
}

#[path = "../../engine/fuzz/src/quantities.rs"]
mod quantities;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/fuzz/corpus/quantities");
    let mut played = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        // Shown only if it fails.
        eprintln!("{}", path.display());
        quantities::check(&std::fs::read(path).unwrap());
        played += 1;
    }
    assert!(played > 0, "there is a corpus");
}
