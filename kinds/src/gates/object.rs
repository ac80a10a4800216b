//! Which Gate object belongs to which gate: their names. What a Gate says lies in `sluice_crds`; who follows it, in
//! the webhooks and the controller.

use super::gate_name::Gate;
use crate::field::names;

impl Gate {
    /// The name of the Gate object of this gate: `<path>.<domain>`. None if no object can be named so, as the path
    /// is no DNS label.
    pub fn object_name(&self) -> Option<String> {
        let (domain, path) = self.as_str().split_once('/')?;
        names::label(path, "")
            .is_empty()
            .then(|| format!("{path}.{domain}"))
    }

    /// The gate whose Gate object has this name. None if that is the name of none.
    ///
    /// ```
    /// use sluice_kinds::gates::Gate;
    /// let gate = Gate::of_object("budget.acme.io").unwrap();
    /// assert_eq!(gate.as_str(), "acme.io/budget");
    /// assert_eq!(gate.object_name().as_deref(), Some("budget.acme.io"));
    /// ```
    pub fn of_object(name: &str) -> Option<Self> {
        let (path, domain) = name.split_once('.')?;
        let gate = Self::parse(&format!("{domain}/{path}"), "metadata.name").ok()?;
        (gate.object_name().as_deref() == Some(name)).then_some(gate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_and_its_object_name_each_other() {
        let cases = [
            ("acme.io/budget", Some("budget.acme.io")),
            ("acme/foo", Some("foo.acme")),
            ("a.b.c/d-1", Some("d-1.a.b.c")),
            ("acme.io/Budget", None),
            ("acme.io/a.b", None),
            ("acme.io/a/b", None),
            ("acme.io/a_b", None),
            ("acme.io/-a", None),
        ];
        for (gate, object) in cases {
            let parsed = Gate::parse(gate, "").unwrap();
            assert_eq!(parsed.object_name().as_deref(), object, "{gate}");
            if let Some(object) = object {
                assert_eq!(Gate::of_object(object), Some(parsed), "{object}");
            }
        }
    }

    #[test]
    fn a_name_of_no_gate_is_refused() {
        let long = format!("{}.acme.io", "a".repeat(60));
        for name in [
            "budget",
            "budget.",
            ".acme.io",
            "Budget.acme.io",
            "budget.-acme.io",
            &long,
        ] {
            assert_eq!(Gate::of_object(name), None, "{name}");
        }
    }
}
