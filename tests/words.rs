//! What Kubernetes, Kueue or the glossary in docs/architecture.md have a word for is called by that word. This
//! finds the words that were used for it before: in identifiers, messages, comments and documents. The engine
//! has a list of its own in `tests/architecture/words.rs`.
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]

use std::fs;
use std::io::Result;
use std::path::Path;

/// Retired words and phrases, and the words to say. `let go` is found in `let_go_at` and `LetGo`, too.
const RETIRED: &[(&str, &str)] = &[
    ("bid", "preemptor"),
    ("bids", "preemptors"),
    ("charge", "usage"),
    ("charged", "in use, or with usage"),
    ("charges", "usage"),
    ("charging", "usage"),
    ("contest", "assignment"),
    ("door", "LocalQueue"),
    ("doors", "LocalQueues"),
    ("flight", "in-flight write"),
    ("flights", "in-flight writes"),
    ("goes its way", "what it does"),
    ("had to go", "was evicted, or was deleted"),
    ("has to go", "is evicted, or is deleted"),
    ("have to go", "are evicted, or are deleted"),
    ("its way out", "is evicted, is stopping, or is terminating"),
    ("landed", "ended, or the outcome"),
    ("landing", "the outcome of a write"),
    ("ledger", "usage"),
    ("let go", "release, ungate, or evict"),
    ("lets go", "releases, ungates, or evicts"),
    ("letting go", "release, or eviction"),
    ("lineup", "heads"),
    ("made room", "was preempted, or freed quota"),
    ("make room", "be preempted, or free quota"),
    ("makes room", "is preempted, or frees quota"),
    ("making room", "preemption"),
    ("obstacle", "blocking usage"),
    ("obstacles", "blocking usage"),
    ("parked", "inadmissible"),
    ("promise", "reserve, or nominate"),
    ("promised", "reserved, or nominated"),
    ("promises", "reservations, or nominations"),
    ("restless", "inadmissible, or not"),
    ("room", "quota, slot, or folder"),
    ("rooms", "quota, slots, or folders"),
    ("seat", "quota"),
    ("seats", "quota"),
    ("shifty", "inadmissible, or not"),
    ("stand back", "back off"),
    ("standing back", "backing off"),
    ("stands back", "backs off"),
    ("stood back", "backed off"),
    (
        "their way out",
        "are evicted, are stopping, or are terminating",
    ),
    ("told to go", "is evicted, or is deleted"),
    ("uproot", "invalidate"),
    ("victim", "target"),
    ("victims", "targets"),
    ("world", "ObjectCache, or cluster"),
    ("worlds", "caches, or clusters"),
];
/// Phrases in which a retired word is right: `status.makesRoomFor` keeps its name, and `go.mod` is a file.
const RIGHT: [&str; 3] = ["makes room for", "let go mod", "in flight"];
/// Endings of files that are looked at.
const ENDINGS: [&str; 7] = [".rs", ".md", ".yaml", ".toml", ".sh", ".go", "Makefile"];

/// The words of a text in lower case, those of an identifier apart, each with its line.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut was_lower = false;
        // A space at the end completes the last word.
        for c in line.chars().chain([' ']) {
            let begins = c.is_uppercase() && was_lower;
            if (begins || !c.is_alphabetic()) && !word.is_empty() {
                words.push((index + 1, std::mem::take(&mut word)));
            }
            if c.is_alphabetic() {
                word.extend(c.to_lowercase());
            }
            was_lower = c.is_lowercase();
        }
    }
    words
}

/// Whether `words` begin with `phrase`.
fn begins(words: &[(usize, String)], phrase: &str) -> bool {
    let mut rest = words.iter();
    phrase
        .split(' ')
        .all(|part| rest.next().is_some_and(|(_, word)| word == part))
}

/// Each retired word, with its line and the word to say.
fn retired(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let words = words(text);
    let mut found = Vec::new();
    let mut rest = words.as_slice();
    while let [(line, word), tail @ ..] = rest {
        let right = RIGHT.iter().find(|phrase| begins(rest, phrase));
        let first = RETIRED
            .iter()
            .filter(|(phrase, _)| phrase.starts_with(word));
        if let Some(phrase) = right {
            rest = rest.get(phrase.split(' ').count()..).unwrap_or(&[]);
            continue;
        }
        for (phrase, instead) in first.filter(|(phrase, _)| begins(rest, phrase)) {
            found.push((*line, *phrase, *instead));
        }
        rest = tail;
    }
    found
}

/// Looks at all files below `folder`.
fn search(folder: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_list = path.ends_with(file!()) || path.ends_with("architecture/words.rs");
        let is_other = ["target", "engine"].contains(&&*name) || is_list;
        if name.starts_with('.') || is_other {
            continue;
        }
        if entry.file_type()?.is_dir() {
            search(&path, found)?;
        } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            let text = fs::read_to_string(&path)?;
            found.extend(retired(&text).into_iter().map(|(line, word, instead)| {
                format!("{}:{line}: {word:?}: say {instead}", path.display())
            }));
        }
    }
    Ok(())
}

#[test]
fn no_file_says_a_retired_word() -> Result<()> {
    let mut found = Vec::new();
    search(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found)?;
    assert!(
        found.is_empty(),
        "see the glossary in docs/architecture.md: {found:#?}"
    );
    Ok(())
}

#[test]
fn retired_words_are_found_in_identifiers_and_across_lines() {
    for (text, expected) in [
        ("fn let_go_at() {}", vec![(1, "let go")]),
        ("struct LetGo;", vec![(1, "let go")]),
        ("// Nothing is let\n// go here.", vec![(1, "let go")]),
        (
            "the Victims\nof KEPT_ROOM",
            vec![(1, "victims"), (2, "room")],
        ),
        ("let goes = 1; // a mushroom", vec![]),
        ("makesRoomFor, makes_room_for, go.mod", vec![]),
    ] {
        let found: Vec<_> = (retired(text).into_iter())
            .map(|(line, word, _)| (line, word))
            .collect();
        assert_eq!(found, expected, "{text}");
    }
}
