//! The source files of a crate, and which modules their code names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A source file that is no test.
pub(crate) struct Source {
    /// Its path below `src`, for a person.
    pub(crate) path: String,
    /// Its module path; that of `lib.rs` is empty.
    pub(crate) module: Vec<String>,
    /// Whether it is the `mod.rs` of a folder, or `lib.rs`.
    pub(crate) is_folder: bool,
    pub(crate) text: String,
    /// The text without comments, strings and unit tests.
    pub(crate) code: String,
}

/// The source files of the crate in this folder of the workspace.
pub(crate) fn of_crate(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join("src");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder of the crate");
            open.extend(entries.map(|entry| entry.expect("a file of the crate").path()));
            continue;
        }
        let relative = path.strip_prefix(&root).expect("a path below src");
        let parts = relative.with_extension("");
        let mut module: Vec<String> = parts
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let is_test = |part: &String| part == "tests" || part == "fixtures";
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if !is_source || module.iter().any(is_test) {
            continue;
        }
        let is_folder = matches!(module.last().map(String::as_str), Some("mod" | "lib"));
        if is_folder {
            module.pop();
        }
        let text = fs::read_to_string(&path).expect("a source file");
        let code = code_of(
            text.split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default(),
        );
        let path = relative.display().to_string();
        found.push(Source {
            path,
            module,
            is_folder,
            text,
            code,
        });
    }
    assert!(found.len() > 5, "{folder} was not read");
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

impl Source {
    /// The modules of the crate that the code names.
    pub(crate) fn uses(&self, modules: &BTreeSet<&[String]>) -> BTreeSet<Vec<String>> {
        let paths = paths(&self.code);
        // `crate` alone is a visibility, `self` a value.
        let paths = paths.iter().filter(|path| path.len() > 1);
        let named = paths.filter_map(|path| self.resolve(path, modules));
        named.filter(|module| *module != self.module).collect()
    }

    /// The module in which a path ends; none if it begins in another crate, or at something that was imported.
    fn resolve(&self, path: &[&str], modules: &BTreeSet<&[String]>) -> Option<Vec<String>> {
        let mut path = path.iter().copied().peekable();
        let mut module = self.module.clone();
        match *path.peek()? {
            "crate" => module.clear(),
            "super" | "self" => {}
            first => {
                let child = [&*module, &[first.to_owned()]].concat();
                if !modules.contains(&*child) {
                    return None;
                }
            }
        }
        while let Some(step) = path.next_if(|step| matches!(*step, "crate" | "super" | "self")) {
            if step == "super" {
                module.pop();
            }
        }
        for part in path {
            let child = [&*module, &[part.to_owned()]].concat();
            if !modules.contains(&*child) {
                break;
            }
            module = child;
        }
        Some(module)
    }
}

/// The text without comments, string literals and quotes as characters.
fn code_of(text: &str) -> String {
    assert!(!text.contains("r##"), "teach this test such literals");
    let text = text.replace("'\"'", "' '").replace("'\\''", "' '");
    let mut code = String::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '/' if rest.peek() == Some(&'/') => {
                rest.by_ref().find(|c| *c == '\n');
                code.push('\n');
            }
            'r' if rest.clone().take(2).eq(['#', '"']) => {
                let mut before = ' ';
                let ends =
                    |next: &char| std::mem::replace(&mut before, *next) == '"' && *next == '#';
                rest.by_ref().skip(2).find(ends);
                code.push_str("\"\"");
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
    code
}

/// All identifiers.
pub(crate) fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.split(move |c| !is_part(c))
        .filter(|word| !word.is_empty())
}

/// All paths, those in groups (`a::{b, c::d}`) too.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let mut tokens = tokens(code).into_iter().peekable();
    let mut found = Vec::new();
    while let Some(token) = tokens.next() {
        if is_identifier(token) {
            tree(vec![token], &mut tokens, &mut found);
        }
    }
    found
}

/// The paths that begin with `path`, whose last part was read.
fn tree<'a>(
    mut path: Vec<&'a str>,
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    found: &mut Vec<Vec<&'a str>>,
) {
    while tokens.next_if_eq(&"::").is_some() {
        match tokens.peek().copied() {
            Some("{") => {
                tokens.next();
                while let Some(token) = tokens.next().filter(|token| *token != "}") {
                    if is_identifier(token) {
                        tree([&*path, &[token]].concat(), tokens, found);
                    }
                }
                return;
            }
            Some(token) if is_identifier(token) => {
                tokens.next();
                path.push(token);
            }
            Some(_) | None => break,
        }
    }
    found.push(path);
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Identifiers, `::`, and all other characters one by one.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let len = match first {
            ':' if rest.starts_with("::") => 2,
            first if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        let (token, left) = rest.split_at(len);
        tokens.push(token);
        rest = left.trim_start();
    }
    tokens
}

#[test]
fn paths_are_found() {
    let code = code_of(
        "use a::b::{self, C, d::{E, f}}; // g::h\nfn x() { \"i::j\"; r#\"o \"h::j\"#; k::l::<M>(super::n) }",
    );
    let found: Vec<String> = paths(&code).iter().map(|path| path.join("::")).collect();
    for path in [
        "a::b::self",
        "a::b::C",
        "a::b::d::E",
        "a::b::d::f",
        "k::l",
        "super::n",
    ] {
        assert!(
            found.iter().any(|other| other == path),
            "{path} in {found:?}"
        );
    }
    assert!(
        !found
            .iter()
            .any(|path| path.contains('h') || path.contains('j'))
    );
}
