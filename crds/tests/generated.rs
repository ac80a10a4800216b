//! Keeps `crds/*.yaml` equal to the types. `UPDATE_GENERATED=1` (`make generate`) writes them.

use std::fs;
use std::path::Path;

use sluice_crds::crd_files;

#[test]
fn yaml_files_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let update = std::env::var_os("UPDATE_GENERATED").is_some();
    for file in crd_files() {
        let path = folder.join(&file.name);
        let body = serde_saphyr::to_string(&file.definition).unwrap();
        let expected =
            format!("# Generated from crds/src by `make generate`. Do not edit.\n{body}");
        if update {
            fs::write(&path, &expected).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "{} is stale: run `make generate`",
            file.name
        );
    }
}
