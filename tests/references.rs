//! Code, documents and tests say a rule in words. A reference by number, to a section of a design or a row
//! of a list, is of use only to those who have that document; this finds such references. Links and the
//! names of rules are not looked at. A path in back quotes, in a document or a comment of a source, exists, and so
//! does a function or type that a document names with its file.
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

use sluice_crds::reasons::{event, eviction, not_queued};

/// Words that refer to a place in another document when a number follows.
const WORDS: [&str; 11] = [
    "section",
    "sections",
    "row",
    "rows",
    "chapter",
    "chapters",
    "invariant",
    "invariants",
    "appendix",
    "design",
    "§",
];
/// Endings of files that are looked at.
const ENDINGS: [&str; 7] = [".rs", ".md", ".yaml", ".toml", ".sh", ".go", "Makefile"];

/// The line of each reference.
fn references(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate();
    let words = lines.flat_map(|(number, line)| {
        let words = line.split_whitespace().map(bare);
        // A comment goes on after its mark.
        let words = words.filter(|word| !word.is_empty());
        words.map(move |word| (number + 1, word))
    });
    let words: Vec<_> = words.collect();
    let pairs = words.iter().zip(words.iter().skip(1));
    let found = pairs.filter(|((_, word), (_, next))| {
        let word = word.to_lowercase();
        WORDS.contains(&word.as_str()) && is_number(next)
    });
    let signs = words.iter().filter(|(_, word)| {
        let number = word.strip_prefix('§');
        number.is_some_and(is_number)
    });
    let lines = found.map(|((line, _), _)| *line);
    lines.chain(signs.map(|(line, _)| *line)).collect()
}

/// A word without what encloses or ends it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c| "()[]\"'`,;/!#*".contains(c))
        .trim_end_matches('.')
}

/// Whether this is written as the number of a section (3.1) or of a row (D29).
fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix(|c: char| c.is_ascii_uppercase());
    let digits = digits.unwrap_or(word).trim_end_matches([')', ':']);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// All files and folders below `folder`, but for hidden ones and what is built.
fn entries(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') || name == "target" {
            continue;
        }
        found.push(entry.path());
        if entry.file_type()?.is_dir() {
            entries(&entry.path(), found)?;
        }
    }
    Ok(())
}

fn all() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    entries(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found)?;
    Ok(found)
}

/// The paths of sources that `text` names in back quotes, each with its line.
fn named_paths(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    let quoted = lines.flat_map(|(number, line)| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted.map(move |quoted| (number + 1, quoted))
    });
    quoted.filter(|(_, quoted)| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let is_source = has_ending(Path::new(quoted), ".rs") || quoted.contains("/src/");
        let is_path = is_source || quoted.ends_with('/') && !quoted.starts_with('/');
        is_path && quoted.chars().all(is_part)
    })
}

#[test]
fn every_path_that_is_named_exists() -> Result<()> {
    let all = all()?;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let is_source = |path: &Path| path.iter().any(|part| part == "src") && has_ending(path, ".rs");
    let mut missing = Vec::new();
    for path in &all {
        if !path.starts_with(&docs) && !is_source(path) || !path.is_file() {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
        for (line, named) in named_paths(&text) {
            // A path may be told from below the folder that the text is about.
            if !all.iter().any(|other| other.ends_with(named)) {
                missing.push(format!("{}:{line}: {named}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "no such file or folder: {missing:#?}");
    Ok(())
}

/// The places that `text` names in back quotes as `file.rs::item`, each with its line, its file and its item.
fn named_places(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    text.lines().enumerate().flat_map(|(number, line)| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted.filter_map(move |quoted| {
            let (path, item) = quoted.split_once("::")?;
            has_ending(Path::new(path), ".rs").then_some((number + 1, path, item))
        })
    })
}

/// Whether a source declares a function or type of this name.
fn declares(text: &str, item: &str) -> bool {
    let keywords = ["fn", "struct", "enum", "trait", "const", "static", "type"];
    let ends = ["(", "<", " ", ";", ":"];
    keywords.iter().any(|keyword| {
        let mut declared = ends.iter().map(|end| format!("{keyword} {item}{end}"));
        declared.any(|declared| text.contains(&declared))
    })
}

#[test]
fn every_place_where_something_is_decided_exists() -> Result<()> {
    let all = all()?;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let (mut missing, mut count) = (Vec::new(), 0);
    for page in all.iter().filter(|path| path.starts_with(&docs)) {
        if !has_ending(page, ".md") {
            continue;
        }
        let text = fs::read_to_string(page)?;
        for (line, path, item) in named_places(&text) {
            count += 1;
            let mut is_there = false;
            for file in all.iter().filter(|file| file.ends_with(path)) {
                is_there |= declares(&fs::read_to_string(file)?, item);
            }
            if !is_there {
                missing.push(format!("{}:{line}: {path}::{item}", page.display()));
            }
        }
    }
    assert!(20 < count, "the tables are not read: {count}");
    assert!(missing.is_empty(), "no such function or type: {missing:#?}");
    Ok(())
}

/// The names of tests in the last column of the tables of `text`, each with its line; and the lines of rows that name
/// none.
fn named_tests(text: &str) -> (Vec<(usize, &str)>, Vec<usize>) {
    let (mut named, mut without) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let last = line
            .strip_prefix("| ")
            .and_then(|row| row.rsplit('|').nth(1));
        let Some(last) = last.filter(|last| !["test", "---"].contains(&last.trim())) else {
            continue;
        };
        let tests: Vec<_> = last.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            without.push(number + 1);
        }
        named.extend(tests.into_iter().map(|test| (number + 1, test)));
    }
    (named, without)
}

#[test]
fn every_rule_of_the_keps_has_a_test() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/keps.md"))?;
    let (named, without) = named_tests(&text);
    assert!(without.is_empty(), "rows without a test: {without:?}");
    assert!(20 < named.len(), "the tables are not read: {named:?}");
    let mut tests = String::new();
    let folder = root.join("tests/it");
    for path in all()?.iter().filter(|path| path.starts_with(&folder)) {
        if path.is_file() {
            tests += &fs::read_to_string(path)?;
        }
    }
    let missing = named.iter().filter(|(_, test)| {
        let declared = ["(", "<", "\n"].map(|end| format!("fn {test}{end}"));
        !declared.iter().any(|declared| tests.contains(declared))
    });
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "no such test: {missing:#?}");
    Ok(())
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.to_string_lossy().ends_with(ending)
}

#[test]
fn every_reason_is_in_the_documents() -> Result<()> {
    let mut documents = String::new();
    for path in all()?.iter().filter(|path| has_ending(path, ".md")) {
        documents += &fs::read_to_string(path)?;
    }
    let all = [event::ALL, eviction::ALL, not_queued::ALL];
    let missing = all
        .into_iter()
        .flatten()
        .filter(|reason| !documents.contains(&format!("`{reason}`")));
    let missing: Vec<_> = missing.collect();
    assert!(
        missing.is_empty(),
        "say what they mean in docs: {missing:?}"
    );
    Ok(())
}

#[test]
fn no_rule_is_told_by_a_number_of_another_document() -> Result<()> {
    let mut found = Vec::new();
    for path in all()? {
        let is_read = ENDINGS.iter().any(|ending| has_ending(&path, ending));
        if is_read && path.is_file() && !path.ends_with(file!()) {
            let lines = references(&fs::read_to_string(&path)?).into_iter();
            found.extend(lines.map(|line| format!("{}:{line}", path.display())));
        }
    }
    assert!(found.is_empty(), "say the rule in words: {found:#?}");
    Ok(())
}

#[test]
fn references_are_told_from_other_numbers() {
    for (text, lines) in [
        (
            "/// Names are not trusted (design, section 8, 10).",
            vec![1],
        ),
        ("//! Edits of gates (design, 3.1):", vec![1]),
        ("// Nobody may\n/// say so (row\n/// D29).", vec![2]),
        ("Invariants 2, 3 and 5: nothing is released.", vec![1]),
        ("See § 4 or §5.", vec![1, 1]),
        ("each row by each road; rows: 8, `row[0]`", vec![]),
        ("in 3 sections, as the design of 2024 says", vec![]),
    ] {
        assert_eq!(references(text), lines, "{text}");
    }
}
