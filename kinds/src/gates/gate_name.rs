//! The name of a gate: which names are valid, and the domain they are in. How a gate is called on a
//! pod is `scheduling.rs`; where names stand on an object, and which edits are allowed, `annotations.rs`.

use std::fmt;

use sluice_crds::QUEUE_REQUIRED_GATE;

use crate::field::names;
use crate::field::problem::Problem;

/// Longest gate name in bytes, that of `Job.spec.managedBy`.
pub const GATE_BYTES_MAX: usize = 63;

/// What an empty name gets to hear.
pub(super) const NAMES_NO_GATE: &str = "must name a gate, a domain-prefixed path (such as \"acme.io/foo\"); leave the annotation out \
     to have no gate";

/// The name of one gate: `<RFC 1123 subdomain>/<RFC 3986 path>`, at most 63 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gate(String);

impl Gate {
    /// Checks `name` as Kubernetes checks `Job.spec.managedBy`; `field` is where it stands.
    pub fn parse(name: &str, field: &str) -> Result<Self, Vec<Problem>> {
        if name.is_empty() {
            return Err(vec![Problem::invalid(field, name, NAMES_NO_GATE)]);
        }
        let mut problems = names::domain_prefixed_path(name, field);
        if GATE_BYTES_MAX < name.len() {
            problems.push(Problem::too_long(field, GATE_BYTES_MAX));
        }
        if problems.is_empty() {
            Ok(Self(name.to_owned()))
        } else {
            Err(problems)
        }
    }

    /// The name as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The gate of an object that names no queue, in a namespace that requires one.
    pub fn queue_required() -> Self {
        Self(QUEUE_REQUIRED_GATE.to_owned())
    }

    /// Whether it is that gate.
    pub fn is_queue_required(&self) -> bool {
        self.0 == QUEUE_REQUIRED_GATE
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::valid("acme.io/foo", "acme.io/foo")]
    #[case::dots_and_dashes("acme.io/a-b_c.d", "acme.io/a-b_c.d")]
    #[case::capitals("acme.io/Foo", "acme.io/Foo")]
    #[case::deeper_path("acme.io/foo/bar", "sluice.dev/gate-bb8b9c9bfb2e3326")]
    #[case::tilde("acme.io/~", "sluice.dev/gate-2da8cade6fed587e")]
    #[case::dash_at_the_end("acme.io/a-", "sluice.dev/gate-834e6af8306cd466")]
    #[case::called_like_the_queue_gate(sluice_crds::QUEUE_GATE, "sluice.dev/gate-449c527bb45934d6")]
    fn stands_on_a_pod_as(#[case] gate: &str, #[case] expected: &str) {
        // The names are stored on pods: they may never change.
        let gate = Gate::parse(gate, "x").unwrap();
        assert_eq!(gate.scheduling_gate(), expected);
    }

    proptest! {
        #[test]
        fn stands_on_a_pod_under_a_valid_name(name in "[a-z.-]{1,8}/[A-Za-z0-9/\\-._~%!$&'()*+,;=:]{1,60}") {
            let Ok(gate) = Gate::parse(&name, "x") else {
                return Ok(());
            };
            let stands = gate.scheduling_gate().into_owned();
            let (prefix, rest) = stands.split_once('/').unwrap();
            prop_assert!(names::subdomain(prefix, "x").is_empty(), "{}", stands);
            prop_assert!(names::is_qualified_name_part(rest), "{}", stands);
            prop_assert!(stands == name || stands.starts_with("sluice.dev/gate-"));
        }
    }
}
