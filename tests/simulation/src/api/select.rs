//! Label and field selectors, as far as controllers use them.

use serde_json::Value;

/// What a list or watch asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Is(String, String),
    IsNot(String, String),
    Exists(String),
    IsMissing(String),
}

impl Requirement {
    fn parse(text: &str) -> Self {
        if let Some((key, value)) = text.split_once("!=") {
            Self::IsNot(key.to_owned(), value.to_owned())
        } else if let Some((key, value)) = text.split_once('=') {
            let value = value.strip_prefix('=').unwrap_or(value);
            Self::Is(key.to_owned(), value.to_owned())
        } else if let Some(key) = text.strip_prefix('!') {
            Self::IsMissing(key.to_owned())
        } else {
            Self::Exists(text.to_owned())
        }
    }

    fn holds<'a>(&self, find: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Self::Is(key, value) => find(key) == Some(value),
            Self::IsNot(key, value) => find(key) != Some(value),
            Self::Exists(key) => find(key).is_some(),
            Self::IsMissing(key) => find(key).is_none(),
        }
    }
}

impl Selector {
    /// Reads the parameters `labelSelector` and `fieldSelector`.
    pub fn parse(labels: &str, fields: &str) -> Self {
        let all = |text: &str| {
            let parts = text.split(',').filter(|part| !part.is_empty());
            parts.map(Requirement::parse).collect()
        };
        Self {
            labels: all(labels),
            fields: all(fields),
        }
    }

    /// Whether an object is asked for.
    pub fn selects(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"][key].as_str();
        // A field that is not there is as good as an empty one.
        let field = |path: &str| {
            let path = format!("/{}", path.replace('.', "/"));
            Some(object.pointer(&path).and_then(Value::as_str).unwrap_or(""))
        };
        self.labels.iter().all(|r| r.holds(label)) && self.fields.iter().all(|r| r.holds(field))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_understood() {
        let object = json!({
            "metadata": {"namespace": "a", "labels": {"x": "1"}}, "status": {"phase": "Running"},
        });
        for (labels, fields, expected) in [
            ("", "", true),
            ("x=1", "metadata.namespace!=kube-system", true),
            ("x==1,!y", "", true),
            ("y", "", false),
            ("x!=1", "", false),
            ("x", "status.phase!=Running", false),
            ("", "spec.nodeName!=", false),
            ("", "spec.nodeName=", true),
        ] {
            let selector = Selector::parse(labels, fields);
            assert_eq!(selector.selects(&object), expected, "{labels} {fields}");
        }
    }
}
