//! Whether the simulation finds what it is there to find: faults that are planted in a copy of the repository,
//! one after the other. That takes an hour; `make mutants` does it. Each `make test` only makes sure that
//! the place of each fault is still there.
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]
#![allow(clippy::print_stdout, reason = "a table is printed")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed assumption is a failed test"
)]
#![allow(unreachable_pub, reason = "a test binary offers nothing to anybody")]

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use table::{MUTANTS, Mutant};

/// Seeds that are played against each fault at most.
const SEEDS: &str = "1000";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Mutant {
    /// The text with the fault in it; none if its place is not there once.
    fn plant(&self, text: &str) -> Option<String> {
        let is_there_once = text.matches(self.from).count() == 1;
        is_there_once.then(|| text.replacen(self.from, self.to, 1))
    }
}

#[test]
fn each_fault_has_its_place() {
    for mutant in &MUTANTS {
        let text = fs::read_to_string(repository().join(mutant.file)).unwrap();
        let planted = mutant.plant(&text);
        assert!(planted.is_some(), "{}: {}", mutant.file, mutant.what);
        assert_ne!(planted.as_deref(), Some(&*text), "{}", mutant.what);
    }
}

/// The first seed that finds a fault in this copy of the repository.
fn first_seed(copy: &Path) -> Option<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(copy)
        .args([
            "test",
            "--locked",
            "--profile",
            "oracle",
            "-p",
            "sluice-simulation",
        ])
        .args(["--test", "seeds", "--", "--exact", "seeds", "--nocapture"])
        .env("SEEDS", SEEDS)
        .env("FIRST_FAILURE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!errors.contains("could not compile"), "{errors}");
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix("seed "));
    found.map(str::to_owned)
}

#[test]
#[ignore = "takes an hour: make mutants"]
fn each_fault_is_found() {
    let copy = repository().join("target/mutants");
    let script = r#"mkdir -p "$1" && git -C "$0" ls-files -z | tar -C "$0" --null -T - -cf - | tar -C "$1" -xf -"#;
    let copied = Command::new("sh")
        .args(["-c", script])
        .args([repository(), copy.clone()])
        .status();
    assert!(copied.unwrap().success());
    assert_eq!(first_seed(&copy), None, "without a fault");
    let mut survivors = Vec::new();
    for mutant in &MUTANTS {
        let path = copy.join(mutant.file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, mutant.plant(&text).unwrap()).unwrap();
        let found = first_seed(&copy);
        fs::write(&path, text).unwrap();
        println!(
            "| {} | {} |",
            mutant.what,
            found.as_deref().unwrap_or("not found")
        );
        if found.is_none() {
            survivors.push(mutant.what);
        }
    }
    assert!(survivors.is_empty(), "not found: {survivors:#?}");
}
