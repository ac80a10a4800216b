//! Documents from files, directories and the standard input, as `kubectl -f` takes them: YAML or JSON,
//! several in a file, lists taken apart. What they say is the commands' matter.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

/// The name that stands for the standard input.
const STDIN: &str = "-";
/// The endings of files that are read from a directory.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The file that it is from.
    pub file: String,
    /// Where it is in the file: `document 2`, or `document 1, items[3]`.
    pub place: String,
    /// What it says.
    pub value: Value,
}

/// Why a file can't be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// There is no such file or directory.
    #[error("the path {0:?} does not exist")]
    Missing(String),
    /// The file or directory can't be read.
    #[error("can't read {file:?}: {source}")]
    Unreadable {
        /// Which.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// It is neither YAML nor JSON.
    #[error("can't parse {file:?}: {detail}")]
    Malformed {
        /// Which.
        file: String,
        /// Where and why.
        detail: String,
    },
    /// A document lacks what every object has.
    #[error("a document in {file:?} is not a Kubernetes object: {field} is missing")]
    NoObject {
        /// Which.
        file: String,
        /// What it lacks.
        field: &'static str,
    },
    /// A document is no schema.
    #[error("a document in {0:?} is neither an OpenAPI v3 document nor a CustomResourceDefinition")]
    NoSchema(String),
    /// There is nothing to look at.
    #[error("there is no JobKind in the files: at least one is required")]
    NoJobKind,
}

/// The objects in `paths`.
///
/// # Errors
/// All files that can't be read, and documents that are no objects.
pub fn objects(paths: &[PathBuf], recursive: bool) -> Result<Vec<Document>, Vec<InputError>> {
    taken_apart(documents(paths, recursive)?)
}

/// The objects in `text`, which is known as `file`.
///
/// # Errors
/// It can't be parsed, or has documents that are no objects.
pub fn objects_in(file: &str, text: &str) -> Result<Vec<Document>, Vec<InputError>> {
    taken_apart(parsed(file, text).map_err(|error| vec![error])?)
}

/// The objects that are `documents`, or in them if they are lists.
fn taken_apart(documents: Vec<Document>) -> Result<Vec<Document>, Vec<InputError>> {
    let mut errors = Vec::new();
    let mut objects = Vec::new();
    for document in documents {
        match items(document) {
            Ok(found) => objects.extend(found),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(objects)
    } else {
        Err(errors)
    }
}

/// All documents in `paths`, whatever they are.
///
/// # Errors
/// All files that can't be read.
pub fn documents(paths: &[PathBuf], recursive: bool) -> Result<Vec<Document>, Vec<InputError>> {
    let mut errors = Vec::new();
    let mut all = Vec::new();
    for path in paths {
        let read = files(path, recursive).and_then(|files| {
            let documents: Result<Vec<_>, _> = files.iter().map(|file| read(file)).collect();
            documents
        });
        match read {
            Ok(documents) => all.extend(documents.into_iter().flatten()),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(all)
    } else {
        Err(errors)
    }
}

/// The files that `path` names: itself, or those in the directory, in the order of their names.
fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, InputError> {
    if path == Path::new(STDIN) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |source| InputError::Unreadable {
        file: path.display().to_string(),
        source,
    };
    let entries: io::Result<Vec<_>> = fs::read_dir(path).map_err(unreadable)?.collect();
    let mut paths: Vec<_> = entries
        .map_err(unreadable)?
        .iter()
        .map(fs::DirEntry::path)
        .collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let has_ending = path
            .extension()
            .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        if path.is_dir() {
            if recursive {
                found.extend(files(&path, recursive)?);
            }
        } else if has_ending {
            found.push(path);
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<Document>, InputError> {
    let (file, text) = text(path)?;
    parsed(&file, &text)
}

/// What the file at `path` is called, and what is in it.
///
/// # Errors
/// It can't be read.
pub fn text(path: &Path) -> Result<(String, String), InputError> {
    let (file, text) = if path == Path::new(STDIN) {
        let mut text = String::new();
        let read = io::stdin().read_to_string(&mut text).map(|_| text);
        ("STDIN".to_owned(), read)
    } else {
        (path.display().to_string(), fs::read_to_string(path))
    };
    let text = text.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => InputError::Missing(file.clone()),
        _ => InputError::Unreadable {
            file: file.clone(),
            source,
        },
    })?;
    Ok((file, text))
}

fn parsed(file: &str, text: &str) -> Result<Vec<Document>, InputError> {
    let values = parse(text).map_err(|detail| InputError::Malformed {
        file: file.to_owned(),
        detail,
    })?;
    let document = |(index, value)| Document {
        file: file.to_owned(),
        place: format!("document {}", index + 1),
        value,
    };
    Ok(values.into_iter().enumerate().map(document).collect())
}

/// The documents in `text`: JSON, one object after the other, if it begins with a brace; else YAML.
fn parse(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string());
    }
    // Files with the CustomResourceDefinitions of a whole project are larger than most YAML.
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_nodes: 4_000_000,
            max_events: 16_000_000,
        },
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())
}

/// The document itself, or what is in it if it is a list of objects.
fn items(document: Document) -> Result<Vec<Document>, InputError> {
    for field in ["apiVersion", "kind"] {
        let text = document.value.get(field).and_then(Value::as_str);
        if text.is_none_or(str::is_empty) {
            return Err(InputError::NoObject {
                file: document.file,
                field,
            });
        }
    }
    let is_list = document
        .value
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.ends_with("List"));
    let Some(Value::Array(list)) = document.value.get("items").filter(|_| is_list) else {
        return Ok(vec![document]);
    };
    let item = |(index, value): (usize, &Value)| {
        items(Document {
            file: document.file.clone(),
            place: format!("{}, items[{index}]", document.place),
            value: value.clone(),
        })
    };
    let all: Result<Vec<_>, _> = list.iter().enumerate().map(item).collect();
    Ok(all?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn takes_what_kubectl_takes() {
        let cases = [
            ("nothing", "", vec![]),
            ("a comment", "# nothing\n---\n", vec![]),
            (
                "YAML",
                "a: 1\n---\nb: [x]\n",
                vec![json!({"a": 1}), json!({"b": ["x"]})],
            ),
            (
                "JSON",
                "\n{\"a\": 1} {\"b\": \"x\"}",
                vec![json!({"a": 1}), json!({"b": "x"})],
            ),
            (
                "an anchor",
                "a: &x {c: 1}\nb: *x\n",
                vec![json!({"a": {"c": 1}, "b": {"c": 1}})],
            ),
            (
                "what looks like a truth",
                "a: 'true'\nb: true\nc: \"1\"\nd: 1.5\n",
                vec![json!({"a": "true", "b": true, "c": "1", "d": 1.5})],
            ),
        ];
        for (name, text, expected) in cases {
            assert_eq!(parse(text).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn lists_are_taken_apart() {
        let job = |name: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}});
        let list = |items: Value| Document {
            file: "f".to_owned(),
            place: "document 1".to_owned(),
            value: json!({"apiVersion": "v1", "kind": "List", "items": items}),
        };
        let found = items(list(json!([job("a"), list(json!([job("b")])).value]))).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|document| {
                let name = document.value["metadata"]["name"].as_str().unwrap();
                (document.place.as_str(), name)
            })
            .collect();
        let expected = [
            ("document 1, items[0]", "a"),
            ("document 1, items[1], items[0]", "b"),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            items(list(json!([job("a"), {"kind": "Job"}])))
                .unwrap_err()
                .to_string(),
            "a document in \"f\" is not a Kubernetes object: apiVersion is missing"
        );
    }
}
