//! The house rules of `engine/src`, read from the sources: which way arrows go, and which words are used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Words that have another one in the glossary of docs/architecture.md. No identifier contains them.
const RETIRED: &str = "account accounts bid bids charge charged charges claim claimed claims contest door \
    doors fork forks forest gone judge ledger lineup look looks obstacle obstacles offer offered offers park \
    parked pass passed passes plant promise promised promises restless room rooms seat seats settle settled \
    shifty tournament uproot verdict victim victims woken";

/// Lines of a source file. Whoever exceeds it has more than one subject.
const LINES_MAX: usize = 450;

/// Arrows between nodes, by the node that they start from.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// A source file, by its module path below the crate, with and without comments, strings and unit tests.
struct Source {
    module: String,
    text: String,
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder of the crate");
            open.extend(entries.map(|entry| entry.expect("a file of the crate").path()));
            continue;
        }
        let relative = path.strip_prefix(&root).expect("a path below src");
        let module = relative.with_extension("").display().to_string();
        let text = fs::read_to_string(&path).expect("a source file");
        let code = code_of(text.split("#[cfg(test)]").next().unwrap_or_default());
        let module = module.trim_end_matches("/mod").to_owned();
        found.push(Source { module, text, code });
    }
    found.sort_by(|one, other| one.module.cmp(&other.module));
    found
}

/// The text without comments, string literals and character literals.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '/' if rest.peek() == Some(&'/') => {
                rest.by_ref().find(|c| *c == '\n');
                code.push('\n');
            }
            '"' => {
                while let Some(next) = rest.next().filter(|c| *c != '"') {
                    if next == '\\' {
                        rest.next();
                    }
                }
                code.push_str("\"\"");
            }
            other => code.push(other),
        }
    }
    // A quote as a character would have looked like the start of a string.
    assert!(!text.contains("'\"'"), "teach this test character literals");
    code
}

/// All identifiers.
fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.split(move |c| !is_part(c))
        .filter(|word| !word.is_empty())
}

/// The words of an identifier, in lower case.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in identifier.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c != '_') {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// The folder and the file of each path that begins with `crate::`, in groups too.
fn uses(code: &str) -> impl Iterator<Item = (String, String)> {
    code.split("crate::").skip(1).filter_map(|path| {
        let mut parts = path.split("::");
        let folder = identifiers(parts.next()?).next()?.to_owned();
        let file = identifiers(parts.next()?).next()?.to_owned();
        Some((folder, file))
    })
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

#[test]
fn arrows_between_folders_and_files_make_no_circle() {
    let (mut folders, mut files) = (Arrows::new(), Arrows::new());
    for source in sources() {
        let Some((folder, _)) = source.module.split_once('/') else {
            continue;
        };
        for (to_folder, to_file) in uses(&source.code) {
            let to = format!("{to_folder}/{to_file}");
            if to_folder != folder {
                let arrows = folders.entry(folder.to_owned()).or_default();
                arrows.insert(to_folder);
            } else if to != source.module {
                let arrows = files.entry(source.module.clone()).or_default();
                arrows.insert(to);
            }
        }
    }
    assert!(
        folders.len() > 5 && files.len() > 20,
        "the sources were not read"
    );
    assert_eq!(circle(&folders), None, "folders that use each other");
    assert_eq!(circle(&files), None, "files that use each other");
    assert!(!folders.contains_key("api"), "api uses no other folder");
    let explain = folders.get("explain").expect("explain uses others");
    assert!(!explain.contains("cycle"), "explain decides nothing");
}

#[test]
fn no_identifier_contains_a_retired_word() {
    let retired: BTreeSet<&str> = RETIRED.split_whitespace().collect();
    let mut found = BTreeSet::new();
    for source in sources() {
        for identifier in identifiers(&source.code) {
            let mut words = words(identifier).into_iter();
            if words.any(|word| retired.contains(word.as_str())) {
                found.insert(format!("{identifier} in {}", source.module));
            }
        }
    }
    assert!(found.is_empty(), "see the glossary: {found:#?}");
}

#[test]
fn the_name_of_a_type_is_given_once() {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for source in sources() {
        let code: Vec<&str> = identifiers(&source.code).collect();
        for pair in code.windows(2) {
            let is_type = matches!(pair[0], "struct" | "enum" | "trait");
            if is_type && let Some(other) = known.insert(pair[1].to_owned(), source.module.clone())
            {
                panic!("{} is in {other} and in {}", pair[1], source.module);
            }
        }
    }
    assert!(known.len() > 50, "the sources were not read");
}

#[test]
fn files_are_short_and_folders_say_what_lives_there() {
    for source in sources() {
        let lines = source.text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", source.module);
        assert!(
            source.text.starts_with("//!"),
            "{} says nothing",
            source.module
        );
        let is_folder = !source.module.contains('/') && source.module != "lib";
        let is_limited = source.text.contains("\n//! Must not") || source.module == "explain";
        assert!(!is_folder || is_limited, "{} has no limits", source.module);
    }
}
