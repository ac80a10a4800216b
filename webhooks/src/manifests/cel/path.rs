//! The paths of fields, as a JobKind writes them (`.spec.template`), in CEL.

/// A path to one field. The empty path is the object itself.
#[derive(Clone, Default)]
pub(crate) struct Path(Vec<String>);

impl Path {
    pub(crate) fn parse(path: &str) -> Self {
        let segments = path.split('.').filter(|segment| !segment.is_empty());
        Self(segments.map(str::to_owned).collect())
    }

    /// The path as the API server writes it.
    pub(crate) fn field(&self) -> String {
        self.0.join(".")
    }

    /// The path and all above it but the object itself, from above.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = Self> {
        (1..=self.0.len()).map(|length| Self(self.0.iter().take(length).cloned().collect()))
    }

    /// The path above this one.
    pub(crate) fn parent(&self) -> Self {
        let above = self.0.split_last().map(|(_, above)| above.to_vec());
        Self(above.unwrap_or_default())
    }

    /// The path of `name` below this one.
    pub(crate) fn below(&self, name: &str) -> Self {
        let names = self.0.iter().map(String::as_str);
        Self(names.chain([name]).map(str::to_owned).collect())
    }

    /// The path as a JSON pointer.
    pub(crate) fn pointer(&self) -> String {
        let names = self
            .0
            .iter()
            .flat_map(|name| ["/".to_owned(), escape(name)]);
        names.collect()
    }

    /// CEL: the value there in `object`, or `default` where it or a field above is absent.
    pub(crate) fn or(&self, object: &str, default: &str) -> String {
        format!("{object}.?{}.orValue({default})", self.0.join(".?"))
    }

    /// CEL: whether there is something there in `object`.
    pub(crate) fn is_in(&self, object: &str) -> String {
        format!("{object}.?{}.hasValue()", self.0.join(".?"))
    }

    /// The name of the type there in an ApplyConfiguration.
    pub(crate) fn type_name(&self) -> String {
        let names: Vec<_> = std::iter::once("Object")
            .chain(self.0.iter().map(String::as_str))
            .collect();
        names.join(".")
    }

    /// An ApplyConfiguration with nothing but `value` there.
    pub(crate) fn set(&self, value: &str) -> String {
        match self.0.as_slice() {
            [] => value.to_owned(),
            _ => format!("Object{{{}}}", self.field_set(value)),
        }
    }

    /// The field of the `Object` of an ApplyConfiguration that has nothing but `value` there.
    pub(crate) fn field_set(&self, value: &str) -> String {
        let mut text = value.to_owned();
        let mut path = self.clone();
        while let Some(name) = path.0.pop() {
            text = format!("{name}: {text}");
            if !path.0.is_empty() {
                text = format!("{}{{{text}}}", path.type_name());
            }
        }
        text
    }
}

/// A name as part of a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
