//! The structure of the crates, read from their sources: which folders there are, what they say of themselves, and
//! which way the arrows between folders and files go.
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod io;
mod sources;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use sources::{Source, of_crate};

/// The crates, by their folders.
const CRATES: [&str; 10] = [
    "engine",
    "kinds",
    "crds",
    "gates",
    "translate",
    "estimates",
    "configuration",
    "webhooks",
    PLUGIN,
    PROCESS,
];
/// The plugin: a binary, whose two folders know nothing of each other.
const PLUGIN: &str = "cli";
/// The crate of the process, at the top of the workspace.
const PROCESS: &str = "";
/// Objects whose methods are spread over the files of their folders: the files name the object through its folder.
const OBJECTS: [&[&str]; 2] = [&["controller"], &["controller", "kinds"]];
/// Lines of a source file. Whoever exceeds it has more than one subject.
const LINES_MAX: usize = 450;
/// Files and folders in a folder, besides its `mod.rs`.
const ENTRIES_MAX: usize = 16;

/// Arrows between nodes, by the node that they start from.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows between the files and folders of each folder: for each the folder, and what a file below one
/// entry names below another.
fn arrows(sources: &[Source]) -> BTreeMap<String, Arrows> {
    let modules: BTreeSet<&[String]> = sources.iter().map(|source| &*source.module).collect();
    let mut folders: BTreeMap<String, Arrows> = BTreeMap::new();
    for source in sources {
        let has_below =
            |module: &&[String]| module.starts_with(&source.module) && **module != *source.module;
        let is_folder = source.is_folder || modules.iter().any(has_below);
        for used in source.uses(&modules) {
            if OBJECTS.iter().any(|object| used == *object) && source.module.starts_with(&used) {
                continue;
            }
            let pairs = source.module.iter().zip(&used);
            let shared = pairs.take_while(|(one, other)| one == other).count();
            let (Some(from), Some(to)) = (source.module.get(shared), used.get(shared)) else {
                // A folder names what it has. A file names the file that has a thing, never a folder around itself.
                let is_own = is_folder && used.starts_with(&source.module);
                assert!(is_own, "{} names {:?}", source.path, used.join("::"));
                continue;
            };
            let folder = folders.entry(source.module[..shared].join("/"));
            let arrows = folder.or_default().entry(from.clone()).or_default();
            arrows.insert(to.clone());
        }
    }
    folders
}

/// A circle of arrows, if there is one.
fn circle(arrows: &Arrows) -> Option<Vec<String>> {
    let mut left = arrows.clone();
    loop {
        let ends: Vec<String> = (left.iter())
            .filter(|(_, to)| to.iter().all(|node| !left.contains_key(node)))
            .map(|(from, _)| from.clone())
            .collect();
        if ends.is_empty() {
            return (!left.is_empty()).then(|| left.into_keys().collect());
        }
        for end in ends {
            left.remove(&end);
        }
    }
}

/// The folders in the table of `lib.rs`, from the bottom up.
fn listed(sources: &[Source]) -> Vec<String> {
    let library = sources.iter().find(|source| source.module.is_empty());
    let lines = library.expect("a lib.rs").text.lines();
    let rows = lines.filter_map(|line| line.strip_prefix("//! | `")?.split_once('`'));
    rows.map(|(folder, _)| folder.to_owned()).collect()
}

#[test]
fn arrows_make_no_circle() {
    for folder in CRATES {
        for (inside, arrows) in arrows(&of_crate(folder)) {
            assert_eq!(circle(&arrows), None, "a circle in {folder}/src/{inside}");
        }
    }
}

#[test]
fn arrows_between_folders_go_down() {
    for folder in CRATES.into_iter().filter(|folder| *folder != PLUGIN) {
        let sources = of_crate(folder);
        let listed = listed(&sources);
        let place = |name: &String| listed.iter().position(|other| other == name);
        let folders = sources.iter().filter(|source| source.is_folder);
        for source in folders.filter(|source| source.module.len() == 1) {
            let name = &source.module[0];
            assert!(
                place(name).is_some(),
                "lib.rs of {folder} does not list {name}"
            );
        }
        let arrows = arrows(&sources);
        for (from, to) in arrows.get("").into_iter().flatten() {
            for to in to {
                let is_down = place(from) > place(to) || place(from).is_none();
                assert!(
                    is_down,
                    "{folder}: {from} uses {to}, which lib.rs lists below it"
                );
            }
        }
    }
}

#[test]
fn explain_decides_nothing() {
    let arrows = arrows(&of_crate("engine"));
    let explain = arrows[""].get("explain").expect("explain uses others");
    assert!(!explain.contains("cycle"));
}

/// Users select events by their reasons, so the reasons stand in one list.
#[test]
fn reasons_of_events_are_named() {
    for source in of_crate(PROCESS) {
        let code: String = source.code.split_whitespace().collect();
        for literal in ["Note::normal(\"\"", "Note::warning(\"\""] {
            let is_said = code.contains(literal);
            assert!(
                !is_said,
                "{}: name the reason in crds/src/reasons.rs",
                source.path
            );
        }
    }
}

#[test]
fn files_are_short_and_folders_say_what_lives_there() {
    for folder in CRATES {
        let mut entries: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
        for Source {
            path,
            module,
            is_folder,
            text,
            ..
        } in of_crate(folder)
        {
            let lines = text.lines().count();
            assert!(lines <= LINES_MAX, "{folder}/src/{path} has {lines} lines");
            assert!(text.starts_with("//!"), "{folder}/src/{path} says nothing");
            let is_limited = text.contains("\n//! Must not") || path == "explain/mod.rs";
            let is_limited = is_limited || !is_folder || module.is_empty();
            assert!(
                is_limited,
                "{folder}/src/{path} does not say what must not live there"
            );
            if let Some((name, above)) = module.split_last() {
                entries
                    .entry(above.to_vec())
                    .or_default()
                    .insert(name.clone());
            }
        }
        for (inside, entries) in entries {
            let (inside, count) = (inside.join("/"), entries.len());
            assert!(
                count <= ENTRIES_MAX,
                "{folder}/src/{inside} has {count} entries"
            );
        }
    }
}
