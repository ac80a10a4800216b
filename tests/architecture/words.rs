//! The words of the code: identifiers of the engine use those of the glossary, the name of a type is given once, and a
//! name that asks a question changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{identifiers, of_crate};
use crate::{CRATES, PLUGIN};

/// Words that have another one in the glossary of docs/architecture.md. No identifier contains them.
const RETIRED: &str = "account accounts bid bids charge charged charges claim claimed claims contest door \
    doors fork forks forest gone judge ledger lineup look looks obstacle obstacles offer offered offers park \
    parked pass passed passes plant promise promised promises restless room rooms seat seats settle settled \
    shifty tournament uproot verdict victim victims woken";

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

#[test]
fn no_identifier_contains_a_retired_word() {
    let retired: BTreeSet<&str> = RETIRED.split_whitespace().collect();
    let mut found = BTreeSet::new();
    for source in of_crate("engine") {
        for identifier in identifiers(&source.code) {
            let mut words = words(identifier).into_iter();
            if words.any(|word| retired.contains(word.as_str())) {
                found.insert(format!("{identifier} in {}", source.path));
            }
        }
    }
    assert!(found.is_empty(), "see the glossary: {found:#?}");
}

#[test]
fn the_name_of_a_type_is_given_once() {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for source in of_crate("engine") {
        let code: Vec<&str> = identifiers(&source.code).collect();
        for pair in code.windows(2) {
            let is_type = matches!(pair[0], "struct" | "enum" | "trait");
            if is_type && let Some(other) = known.insert(pair[1].to_owned(), source.path.clone()) {
                panic!("{} is in {other} and in {}", pair[1], source.path);
            }
        }
    }
    assert!(known.len() > 50, "the sources were not read");
}

/// What a file offers to others has a name that nothing else in its crate has. The plugin's subcommands share some.
#[test]
fn the_name_of_a_type_for_others_is_given_once() {
    for folder in CRATES.into_iter().filter(|folder| *folder != PLUGIN) {
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for source in of_crate(folder) {
            let lines = source.code.lines().map(str::trim_start);
            for line in lines.filter(|line| line.starts_with("pub")) {
                let words: Vec<&str> = identifiers(line).collect();
                let is_type = |word: &&str| matches!(*word, "struct" | "enum" | "trait" | "type");
                let name = words.iter().position(is_type);
                let Some(name) = name.and_then(|at| words.get(at + 1)) else {
                    continue;
                };
                if let Some(other) = known.insert((*name).to_owned(), source.path.clone()) {
                    panic!("{folder}: {name} is in {other} and in {}", source.path);
                }
            }
        }
    }
}

/// `is_ready(&mut self)` that begins something is not read as what it does.
#[test]
fn a_question_changes_nothing() {
    let mut found = BTreeSet::new();
    for source in of_crate("") {
        for (at, _) in source.code.match_indices("fn ") {
            let rest = &source.code[at + 3..];
            let name = rest.split('(').next().unwrap_or_default();
            let asks = ["is", "has", "may", "can", "are", "was", "had", "were"]
                .contains(&name.split('_').next().unwrap_or_default());
            let arguments = rest
                .split_once('(')
                .map_or("", |(_, rest)| rest.trim_start());
            if asks && arguments.starts_with("&mut self") {
                found.insert(format!("{name} in {}", source.path));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
