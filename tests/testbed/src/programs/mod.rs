//! The programs that a control plane and its operators are: built from source and kept. How they run is in
//! `controlplane`, `operators` and `sluice`.

pub(crate) mod assets;
pub(crate) mod go;
