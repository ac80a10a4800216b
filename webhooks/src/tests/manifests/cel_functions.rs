//! The CEL that is shipped names no function that the oldest Kubernetes doesn't know: its API server would refuse the
//! policy, and Sluice would run without it. The tests `versions` have such an API server compile it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rstest::rstest;
use serde_json::Value;
use sluice_crds::kubernetes::{OLDEST_MINOR, OLDEST_MINOR_WITHOUT_WEBHOOKS};

/// Functions and macros, by the minor version in which Kubernetes has learned them
/// (`pkg/cel/environment/base.go` of its module apiserver). What an expression may use that is new to an API server
/// is what its predecessor knew.
const KNOWN: [(u32, &[&str]); 6] = [
    (
        0,
        &[
            "all",
            "bool",
            "bytes",
            "contains",
            "double",
            "dyn",
            "endsWith",
            "exists",
            "exists_one",
            "filter",
            "has",
            "indexOf",
            "int",
            "join",
            "lowerAscii",
            "map",
            "matches",
            "replace",
            "size",
            "split",
            "startsWith",
            "string",
            "timestamp",
            "substring",
            "sum",
            "trim",
            "type",
        ],
    ),
    (
        27,
        &[
            "allowed",
            "check",
            "group",
            "name",
            "namespace",
            "resource",
            "subresource",
        ],
    ),
    (
        28,
        &[
            "asApproximateFloat",
            "compareTo",
            "hasValue",
            "isGreaterThan",
            "none",
            "of",
            "optMap",
            "or",
            "orValue",
            "quantity",
            "value",
        ],
    ),
    (29, &["format", "quote"]),
    (
        32,
        &[
            "escapeKey",
            "transformList",
            "transformMap",
            "transformMapEntry",
        ],
    ),
    (34, &["distinct", "flatten", "range", "slice", "sort"]),
];

/// The expressions of a file, whatever they are for.
fn expressions(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let documents = text.split("\n---\n").filter(|document| {
        let mut lines = document.lines();
        lines.any(|line| !line.is_empty() && !line.starts_with('#') && line != "---")
    });
    let mut found = Vec::new();
    for document in documents {
        collect(&serde_saphyr::from_str(document).unwrap(), &mut found);
    }
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text)
                        if matches!(&**key, "expression" | "messageExpression" | "rule") =>
                    {
                        found.push(text.clone());
                    }
                    other => collect(other, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// What an expression calls: the names before a bracket, outside of string literals.
fn calls(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut name = String::new();
    let mut letters = expression.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                name.clear();
                while let Some(inner) = letters.next() {
                    match inner {
                        '\\' => drop(letters.next()),
                        inner if inner == letter => break,
                        _ => {}
                    }
                }
            }
            letter if letter.is_ascii_alphanumeric() || letter == '_' => name.push(letter),
            '(' if !name.is_empty() => drop(found.insert(std::mem::take(&mut name))),
            _ => name.clear(),
        }
    }
    found
}

fn is_known_before(function: &str, minor: u32) -> bool {
    let mut known = KNOWN.iter().filter(|(since, _)| *since < minor);
    known.any(|(_, functions)| functions.contains(&function))
}

fn files(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(folder);
    let entries = std::fs::read_dir(root).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_manifest = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
            && !path.ends_with("kustomization.yaml")
    };
    paths.filter(is_manifest).collect()
}

#[rstest]
#[case("config/enforcement", OLDEST_MINOR)]
#[case("config/jail", OLDEST_MINOR)]
#[case("config/webhook", OLDEST_MINOR)]
#[case("crds", OLDEST_MINOR)]
#[case("config/policies", OLDEST_MINOR_WITHOUT_WEBHOOKS)]
fn the_oldest_kubernetes_knows_each_function(#[case] folder: &str, #[case] minor: u32) {
    let all: Vec<_> = files(folder)
        .iter()
        .flat_map(|path| expressions(path))
        .collect();
    assert!(!all.is_empty(), "{folder} has no expressions");
    let called: BTreeSet<_> = all
        .iter()
        .flat_map(|expression| calls(expression))
        .collect();
    let too_new: Vec<_> = called
        .iter()
        .filter(|function| !is_known_before(function, minor))
        .collect();
    assert!(
        too_new.is_empty(),
        "{folder} calls what new policies on Kubernetes 1.{minor} may not: {too_new:?}"
    );
}

#[test]
fn what_is_called_is_found() {
    let called = calls(r#"a.?b.orValue([]).flatten() + size ('x(\'y(') in (z) ? "q(" : sort(1)"#);
    let expected = ["flatten", "orValue", "sort"];
    assert_eq!(called, expected.map(str::to_owned).into());
    assert!(!is_known_before("flatten", 34) && is_known_before("flatten", 35));
}
