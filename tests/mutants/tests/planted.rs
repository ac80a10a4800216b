//! Whether the tests find what they are there to find: faults that are planted in a copy of the repository,
//! one after the other. That takes hours; `make mutants` does it, and `MUTANT=WORDS` plants those alone whose
//! text, file, or suite (such as `Seeds`) contains the words. Each `make test` only makes sure that the place of each fault is still
//! there, and the test that has to find it.
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]
#![allow(clippy::print_stdout, reason = "a table is printed")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed assumption is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sluice_mutants::{FoundBy, Mutant, all};

/// Seeds that are played against each fault at most.
const SEEDS: &str = "1000";
/// Longest time for the tests of one fault, in seconds: with some faults a test never ends.
const TIME: &str = "1200";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn each_fault_has_its_place() {
    for mutant in all() {
        let text = fs::read_to_string(repository().join(mutant.file)).unwrap();
        let planted = mutant.plant(&text);
        assert!(planted.is_some(), "{}: {}", mutant.file, mutant.what);
        assert_ne!(planted.as_deref(), Some(&*text), "{}", mutant.what);
    }
}

#[test]
fn each_fault_names_a_test_that_is_there() {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for mutant in all() {
        let (folder, test) = match mutant.found_by {
            FoundBy::Seeds => continue,
            FoundBy::Engine(test) => ("engine/tests/it", test),
            FoundBy::Unit(folder, test) => (folder, test),
            FoundBy::Shipped(test) => ("kinds/tests", test),
            FoundBy::Cluster(test) => ("tests/it", test),
            FoundBy::Round(test) => ("tests/faults/rounds", test),
        };
        let text = texts.entry(folder).or_insert_with(|| {
            let mut text = String::new();
            read_all(&repository().join(folder), &mut text);
            text
        });
        let (_, name) = test.rsplit_once("::").unwrap_or_default();
        let declared = format!("fn {}(", if name.is_empty() { test } else { name });
        assert!(text.contains(&declared), "{test}: {}", mutant.what);
    }
}

fn read_all(path: &Path, text: &mut String) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            read_all(&entry.unwrap().path(), text);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        text.push_str(&fs::read_to_string(path).unwrap());
    }
}

/// A copy of the repository.
struct Copied {
    root: PathBuf,
    /// The executables of tests from outside, by their targets.
    outside: BTreeMap<&'static str, PathBuf>,
}

/// Tests that are run together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suite {
    Seeds,
    /// Of this package.
    Unit(&'static str),
    /// Of this package and this target.
    Target(&'static str, &'static str),
    /// Tests of the executable: built once, as they run whichever executable is there.
    Outside(&'static str),
}

fn suite(found_by: FoundBy) -> (Suite, &'static str) {
    match found_by {
        FoundBy::Seeds => (Suite::Seeds, "seeds"),
        FoundBy::Engine(test) => (Suite::Target("sluice-engine", "it"), test),
        FoundBy::Unit("kinds", test) => (Suite::Unit("sluice-kinds"), test),
        FoundBy::Unit("webhooks", test) => (Suite::Unit("sluice-webhooks"), test),
        FoundBy::Unit("configuration", test) => (Suite::Unit("sluice-configuration"), test),
        FoundBy::Unit(_, test) => (Suite::Unit("sluice"), test),
        FoundBy::Shipped(test) => (Suite::Target("sluice-kinds", "shipped"), test),
        FoundBy::Cluster(test) => (Suite::Outside("it"), test),
        FoundBy::Round(test) => (Suite::Outside("faults"), test),
    }
}

impl Copied {
    fn make() -> Self {
        let copy = repository().join("target/mutants");
        let script = r#"mkdir -p "$1" && git -C "$0" ls-files -z | tar -C "$0" --null -T - -cf - | tar -C "$1" -xf - &&
            ln -sfn "$(realpath "$0")/.cache" "$1/.cache""#;
        let copied = Command::new("sh")
            .args(["-c", script])
            .args([repository(), copy.clone()])
            .status();
        assert!(copied.unwrap().success());
        Self {
            root: fs::canonicalize(copy).unwrap(),
            outside: BTreeMap::new(),
        }
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        let inherited = std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG"));
        for (name, _) in inherited {
            cargo.env_remove(name);
        }
        cargo.env_remove("CARGO_MANIFEST_DIR");
        cargo.current_dir(&self.root).args(args);
        cargo
    }

    /// Builds what runs the tests from outside, once: they start whichever executable is there.
    fn build_outside(&mut self, target: &'static str) {
        let args = ["test", "--locked", "-p", "sluice", "--no-run", "--test"];
        let (_, errors) = run(self.cargo(&args).arg(target));
        let path = errors.lines().find_map(|line| {
            let (_, path) = line.trim().strip_prefix("Executable ")?.split_once(" (")?;
            path.strip_suffix(')')
        });
        let path = path.unwrap_or_else(|| panic!("{errors}"));
        self.outside.insert(target, self.root.join(path));
    }

    /// What builds a suite, and what runs it.
    fn commands(&self, suite: Suite) -> (Command, Command) {
        let tests = |args: &[&str]| {
            let args = [&["test", "--locked"], args].concat();
            let (mut build, mut tests) = (self.cargo(&args), self.cargo(&args));
            build.arg("--no-run");
            tests.arg("--");
            (build, tests)
        };
        match suite {
            Suite::Seeds => {
                let package = ["-p", "sluice-simulation", "--test", "seeds"];
                let (build, mut seeds) = tests(&[&["--profile", "oracle"], &package[..]].concat());
                seeds.args(["--exact", "--nocapture"]);
                seeds.env("SEEDS", SEEDS).env("FIRST_FAILURE", "1");
                (build, seeds)
            }
            Suite::Unit(package) => tests(&["-p", package, "--lib"]),
            Suite::Target(package, target) => tests(&["-p", package, "--test", target]),
            Suite::Outside(target) => {
                // With a test, so that the dependencies have the features that they have for tests.
                let build = ["build", "--locked", "-p", "sluice", "--bin", "sluice"];
                let build = self.cargo(&[&build[..], &["--test", "words"]].concat());
                let mut outside = Command::new(self.outside.get(target).unwrap());
                outside.current_dir(&self.root).arg("--test-threads=4");
                (build, outside)
            }
        }
    }

    /// The tests of a suite that fail, out of these; or what went wrong before any was run.
    fn failing(&self, suite: Suite, tests: &BTreeSet<&str>) -> Result<Vec<String>, String> {
        let (mut build, mut command) = self.commands(suite);
        let (_, errors) = run(&mut build);
        if errors.contains("could not compile") {
            return Err(errors);
        }
        let (text, errors) = run(&mut in_time(command.args(tests)));
        if !text.contains("test result: ") {
            // Nothing but the end of its time ends it without a result.
            return if text.contains("running ") {
                Ok(vec!["a test that does not end".to_owned()])
            } else {
                Err(format!("{text}\n{errors}"))
            };
        }
        let failed = text.lines().filter_map(|line| match suite {
            Suite::Seeds => Some(format!("seed {}", line.strip_prefix("seed ")?)),
            _ => Some(
                line.strip_prefix("test ")?
                    .strip_suffix(" ... FAILED")?
                    .to_owned(),
            ),
        });
        Ok(failed.collect())
    }
}

fn run(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The same, ended after [`TIME`].
fn in_time(command: &Command) -> Command {
    let mut timed = Command::new("timeout");
    timed.arg(TIME).arg(command.get_program());
    timed.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => timed.env(name, value),
            None => timed.env_remove(name),
        };
    }
    timed.current_dir(command.get_current_dir().unwrap());
    timed
}

#[test]
#[ignore = "takes hours: make mutants"]
fn each_fault_is_found() {
    let words = std::env::var("MUTANT").unwrap_or_default();
    let is_chosen = |mutant: &&Mutant| {
        let found_by = format!("{:?}", mutant.found_by);
        [mutant.what, mutant.file, &found_by]
            .iter()
            .any(|text| text.contains(&words))
    };
    let chosen: Vec<&Mutant> = all().filter(is_chosen).collect();
    assert!(!chosen.is_empty(), "no fault is about {words:?}");
    let mut copy = Copied::make();
    let mut suites: BTreeMap<Suite, BTreeSet<&str>> = BTreeMap::new();
    for mutant in &chosen {
        let (suite, test) = suite(mutant.found_by);
        suites.entry(suite).or_default().insert(test);
    }
    for (suite, tests) in &suites {
        if let Suite::Outside(target) = suite {
            copy.build_outside(target);
        }
        let failing = copy.failing(*suite, tests);
        assert_eq!(failing, Ok(Vec::new()), "without a fault");
    }
    let mut survivors = Vec::new();
    for mutant in chosen {
        let path = copy.root.join(mutant.file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, mutant.plant(&text).unwrap()).unwrap();
        let (suite, test) = suite(mutant.found_by);
        let found = copy.failing(suite, &BTreeSet::from([test]));
        fs::write(&path, text).unwrap();
        let by = match &found {
            Ok(found) => found.first().map_or("not found", String::as_str),
            Err(told) => {
                println!("{told}");
                "was not played"
            }
        };
        println!("| {} | {by} |", mutant.what);
        if found.is_ok_and(|found| !found.is_empty()) {
            continue;
        }
        survivors.push(mutant.what);
    }
    assert!(survivors.is_empty(), "not found: {survivors:#?}");
}
