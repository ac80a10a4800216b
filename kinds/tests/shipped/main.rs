//! The JobKinds in `config/jobkinds`, read over the objects in `config/samples/jobkinds` and over what
//! the kinds' own controllers write into their status. No API server: that the paths are those of the
//! real CRDs is seen elsewhere.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assumption is a failed test, and says where"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "what is made with json!() is given away where it is made"
)]
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]

mod files;
mod life;
mod pod_sets;
mod refusals;

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use sluice_crds::JobKind;
use sluice_kinds::CompiledKind;

/// A folder of `config`.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../config")
        .join(name)
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The shipped JobKind of this name.
fn kind(name: &str) -> CompiledKind {
    let text = read(folder("jobkinds").join(format!("{name}.yaml")));
    let kind: JobKind = serde_saphyr::from_str(&text).unwrap();
    CompiledKind::compile(&kind).unwrap_or_else(|problems| panic!("{name}: {problems:?}"))
}

/// The object that is shipped for this JobKind.
fn sample(name: &str) -> Value {
    let text = read(folder("samples/jobkinds").join(format!("{name}.yaml")));
    serde_saphyr::from_str(&text).unwrap()
}

/// `object` with the field at the JSON pointer set, and the objects above it made; gone, if `value` is
/// null.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (above, last) = pointer.rsplit_once('/').unwrap();
    let mut here = &mut object;
    for token in above.split('/').skip(1) {
        here = below(here, token);
    }
    if value.is_null() {
        here.as_object_mut().unwrap().remove(last);
    } else {
        *below(here, last) = value;
    }
    object
}

fn below<'a>(value: &'a mut Value, token: &str) -> &'a mut Value {
    match token.parse::<usize>() {
        Ok(index) => &mut value[index],
        Err(_) => &mut value[token],
    }
}
