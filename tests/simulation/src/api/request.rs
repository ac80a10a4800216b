//! What a request asks for, read from its method, path, query and body.

use http::Method;
use http::request::Parts;
use serde_json::Value;

use super::answer::Refusal;
use super::resource::{Place, RESOURCES, Resource};
use super::rules::Part;
use super::select::Selector;

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Verb {
    /// One object.
    Get,
    /// A page of objects: how many, and after which one.
    List {
        /// How many at most; 0: all.
        limit: usize,
        /// Where the page before ended, and at which revision.
        after: Option<String>,
    },
    /// Changes from a revision on, for so many seconds.
    Watch {
        /// The revision.
        from: u64,
        /// For so long.
        seconds: u64,
        /// Whether bookmarks are wanted.
        bookmarks: bool,
    },
    /// A new object.
    Create(Value),
    /// An object in place of another one.
    Update(Part, Value),
    /// A patch of this content type.
    Patch(Part, String, Value),
    /// No object any more; with the options.
    Delete(Value),
}

/// A request for objects.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where: without a name for lists and watches.
    pub place: Place,
    /// What.
    pub verb: Verb,
    /// Which objects.
    pub selector: Selector,
    /// Whether metadata is enough.
    pub metadata_only: bool,
}

/// What a path is.
#[derive(Debug)]
pub(super) enum Asked {
    /// A request for objects.
    Objects(Box<Request>),
    /// What is served: answered with this document.
    Document(Value),
}

/// Reads a request.
pub(super) fn parse(head: &Parts, body: &[u8]) -> Result<Asked, Refusal> {
    let path: Vec<&str> = head.uri.path().trim_matches('/').split('/').collect();
    let unknown = || Refusal::new(404, "the server could not find the requested resource");
    let (group, version, rest) = match path.as_slice() {
        ["openapi", "v3", rest @ ..] => {
            let document = super::discovery::published(rest);
            return document.map(Asked::Document).ok_or_else(unknown);
        }
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        ["apis", group] => {
            let document = super::discovery::group(group);
            return document.map(Asked::Document).ok_or_else(unknown);
        }
        _ => return Err(unknown()),
    };
    // A namespace is an object, and a part of the path of others.
    let (namespace, rest) = match rest {
        [] => {
            let document = super::discovery::resources(group, version);
            return document.map(Asked::Document).ok_or_else(unknown);
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, name, below) = match rest {
        [plural] => (*plural, "", None),
        [plural, name] => (*plural, *name, None),
        [plural, name, below] => (*plural, *name, Some(*below)),
        _ => return Err(unknown()),
    };
    let resource = Resource::find(group, version, plural).ok_or_else(unknown)?;
    let part = match below {
        None => Part::Main,
        Some("status") if resource.has_status => Part::Status,
        Some(_) => return Err(unknown()),
    };
    let body: Value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body).map_err(|error| Refusal::new(400, error.to_string()))?
    };
    let query = Query::of(head);
    let verb = match (&head.method, name) {
        (&Method::GET, "") if query.is("watch") => Verb::Watch {
            from: query.get("resourceVersion").parse().unwrap_or(0),
            seconds: query.get("timeoutSeconds").parse().unwrap_or(1800),
            bookmarks: query.is("allowWatchBookmarks"),
        },
        (&Method::GET, "") => Verb::List {
            limit: query.get("limit").parse().unwrap_or(0),
            after: Some(query.get("continue")).filter(|token| !token.is_empty()),
        },
        (&Method::GET, _) => Verb::Get,
        (&Method::POST, "") => Verb::Create(body),
        (&Method::PUT, name) if !name.is_empty() => Verb::Update(part, body),
        (&Method::PATCH, name) if !name.is_empty() => {
            let content_type = head.headers.get(http::header::CONTENT_TYPE);
            let content_type = content_type.and_then(|value| value.to_str().ok());
            Verb::Patch(part, content_type.unwrap_or_default().to_owned(), body)
        }
        (&Method::DELETE, name) if !name.is_empty() => Verb::Delete(body),
        _ => return Err(Refusal::new(405, "the server does not allow this method")),
    };
    let accept = head.headers.get(http::header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or("");
    Ok(Asked::Objects(Box::new(Request {
        place: Place {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        verb,
        selector: Selector::parse(&query.get("labelSelector"), &query.get("fieldSelector")),
        metadata_only: accept.contains("as=PartialObjectMetadata"),
    })))
}

/// Whether there are resources of this group and version.
pub(super) fn is_served(group: &str, version: &str) -> bool {
    RESOURCES
        .iter()
        .any(|resource| (resource.group, resource.version) == (group, version))
}

/// The parameters of a request.
struct Query(Vec<(String, String)>);

impl Query {
    fn of(head: &Parts) -> Self {
        let query = head.uri.query().unwrap_or_default();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .map(|(key, value)| (key.to_owned(), decoded(value)))
                .collect(),
        )
    }

    fn get(&self, key: &str) -> String {
        let found = self.0.iter().find(|(other, _)| other == key);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    fn is(&self, key: &str) -> bool {
        ["true", "1"].contains(&self.get(key).as_str())
    }
}

/// Without percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(if *first == b'+' { b' ' } else { *first });
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
