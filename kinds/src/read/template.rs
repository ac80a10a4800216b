//! The part of a pod template that steers pods to nodes: reading it, and the flavor's share in it.
//! The engine decides which flavor a job gets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
use serde_json::Value;

use crate::field::problem::Problem;

/// Where pods may go: a nodeSelector and tolerations. The part of a template that Sluice writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
}

impl Placement {
    /// Reads the placement of the pod spec `pod`, which lies at `field`.
    pub(crate) fn read(pod: &Value, field: &str) -> Result<Self, Problem> {
        Ok(Self {
            node_selector: typed(pod, field, &["nodeSelector"], "a map of strings")?,
            tolerations: typed(pod, field, &["tolerations"], "a list of tolerations")?,
        })
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.node_selector.is_empty() && self.tolerations.is_empty()
    }

    /// This placement without what `other` says too.
    #[must_use]
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.node_selector
            .retain(|key, value| other.node_selector.get(key) != Some(value));
        let said: BTreeSet<_> = other.tolerations.iter().map(fields).collect();
        rest.tolerations
            .retain(|toleration| !said.contains(&fields(toleration)));
        rest
    }

    /// Whether pods placed so may run on nodes on which those placed by `was` may not.
    pub fn allows_other_nodes_than(&self, was: &Self) -> bool {
        let mut selected = was.node_selector.iter();
        let tolerated: BTreeSet<_> = was.tolerations.iter().map(fields).collect();
        selected.any(|(key, value)| self.node_selector.get(key) != Some(value))
            || self
                .tolerations
                .iter()
                .any(|toleration| !tolerated.contains(&fields(toleration)))
    }

    /// This placement with `more` added: labels of `more` win, tolerations that are there already
    /// are not repeated.
    #[must_use]
    pub fn with(&self, more: &Self) -> Self {
        let mut merged = self.clone();
        merged.node_selector.extend(more.node_selector.clone());
        let mut said: BTreeSet<_> = self.tolerations.iter().map(fields).collect();
        let new = more.tolerations.iter();
        let new = new.filter(|toleration| said.insert(fields(toleration)));
        merged.tolerations.extend(new.cloned());
        merged
    }
}

/// All that a toleration says, by which it is found among others: nobody bounds their number.
fn fields(toleration: &Toleration) -> ([&Option<String>; 4], Option<i64>) {
    let Toleration {
        key,
        operator,
        value,
        effect,
        toleration_seconds,
    } = toleration;
    ([key, operator, value, effect], *toleration_seconds)
}

/// The terms of the required node affinity of the pod spec `pod`.
pub(crate) fn required_affinity(
    pod: &Value,
    field: &str,
) -> Result<Vec<NodeSelectorTerm>, Problem> {
    typed(
        pod,
        field,
        &[
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        ],
        "a list of node selector terms",
    )
}

fn typed<T: serde::de::DeserializeOwned + Default>(
    pod: &Value,
    field: &str,
    path: &[&str],
    expected: &str,
) -> Result<T, Problem> {
    let found = path
        .iter()
        .try_fold(pod, |value, key| value.get(key))
        .filter(|v| !v.is_null());
    let Some(found) = found else {
        return Ok(T::default());
    };
    T::deserialize(found).map_err(|_| {
        Problem::invalid(
            format!("{field}.{}", path.join(".")),
            found.to_string(),
            format!("must be {expected}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn placement(value: &Value) -> Placement {
        Placement::read(value, "spec").unwrap()
    }

    #[test]
    fn adding_keeps_what_the_user_wrote() {
        let user = placement(
            &json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "a", "operator": "Exists"}]}),
        );
        let flavor = placement(&json!({
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}],
        }));
        let merged = user.with(&flavor);
        assert_eq!(merged.node_selector.len(), 2);
        assert_eq!(merged.tolerations.len(), 2);
        assert_eq!(merged.with(&flavor), merged, "adding twice adds nothing");
        assert_eq!(user.with(&Placement::default()), user);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let problem =
            Placement::read(&json!({"nodeSelector": ["x"]}), "spec.template.spec").unwrap_err();
        assert_eq!(
            problem.to_string(),
            "spec.template.spec.nodeSelector: Invalid value: \"[\\\"x\\\"]\": must be a map of strings"
        );
    }
}
