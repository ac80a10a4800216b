//! Taints, tolerations and node affinity, with the meaning that they have for the scheduler. Whether a
//! flavor suits a pod set is `flavor/node_affinity.rs`.

use std::collections::BTreeMap;
use std::fmt;

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
    /// What it does to pods that don't tolerate it.
    pub effect: TaintEffect,
}

/// What a taint does to pods that don't tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// They are not scheduled here.
    NoSchedule,
    /// They are scheduled elsewhere if possible. Never a reason against a flavor.
    PreferNoSchedule,
    /// They are not scheduled here, and evicted.
    NoExecute,
}

/// Taints that a pod tolerates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// The taint's key; none, with [`TolerationOperator::Exists`], means every key.
    pub key: Option<String>,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The taint's value, for [`TolerationOperator::Equal`].
    pub value: String,
    /// The taint's effect; none means every effect.
    pub effect: Option<TaintEffect>,
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TolerationOperator {
    /// The value must be equal.
    #[default]
    Equal,
    /// Any value will do.
    Exists,
}

/// One alternative of a required node affinity: all of its expressions must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSelectorTerm {
    /// The expressions on labels.
    pub expressions: Vec<LabelExpression>,
}

/// A condition on a label of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelExpression {
    /// The label's key.
    pub key: String,
    /// How it is compared.
    pub operator: LabelOperator,
    /// What it is compared with.
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelOperator {
    /// The label has one of the values.
    In,
    /// The label is missing or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is missing.
    DoesNotExist,
    /// The label is an integer greater than the one value.
    Gt,
    /// The label is an integer less than the one value.
    Lt,
}

/// Why the nodes of a flavor do not suit a pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The flavor has this taint, and nothing tolerates it.
    Taint(Taint),
    /// The node selector requires this label, and the flavor's nodes don't have it.
    Label {
        /// The label's key.
        key: String,
        /// The required value.
        value: String,
    },
    /// No term of the required node affinity matches the flavor's labels.
    Affinity,
}

impl Toleration {
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_none_or(|effect| effect == taint.effect);
        let key = match self.key.as_deref() {
            None | Some("") => self.operator == TolerationOperator::Exists,
            Some(key) => key == taint.key,
        };
        let value = self.operator == TolerationOperator::Exists || self.value == taint.value;
        effect && key && value
    }
}

impl LabelExpression {
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let label = labels.get(&self.key);
        match self.operator {
            LabelOperator::In => label.is_some_and(|label| self.values.contains(label)),
            LabelOperator::NotIn => label.is_none_or(|label| !self.values.contains(label)),
            LabelOperator::Exists => label.is_some(),
            LabelOperator::DoesNotExist => label.is_none(),
            LabelOperator::Gt => self
                .compare(label)
                .is_some_and(|(label, bound)| label > bound),
            LabelOperator::Lt => self
                .compare(label)
                .is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, label: Option<&String>) -> Option<(i64, i64)> {
        let [bound] = self.values.as_slice() else {
            return None;
        };
        Some((label?.parse().ok()?, bound.parse().ok()?))
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        f.write_str(match self.effect {
            TaintEffect::NoSchedule => ":NoSchedule",
            TaintEffect::PreferNoSchedule => ":PreferNoSchedule",
            TaintEffect::NoExecute => ":NoExecute",
        })
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taint(taint) => write!(f, "its taint {taint} isn't tolerated"),
            Self::Label { key, value } => {
                write!(
                    f,
                    "its nodes don't have the label {key}={value} of the node selector"
                )
            }
            Self::Affinity => write!(f, "its nodes don't match the required node affinity"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn expression(
        key: &str,
        operator: LabelOperator,
        values: &[&str],
    ) -> LabelExpression {
        LabelExpression {
            key: key.into(),
            operator,
            values: values.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn label_expressions_mean_what_the_scheduler_means() {
        use LabelOperator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        let labels = BTreeMap::from([
            ("zone".to_string(), "a".to_string()),
            ("gen".to_string(), "7".to_string()),
        ]);
        for (key, operator, values, matches) in [
            ("zone", In, &["a", "b"][..], true),
            ("zone", In, &["b"], false),
            ("disk", In, &["ssd"], false),
            ("zone", NotIn, &["a"], false),
            ("disk", NotIn, &["ssd"], true),
            ("zone", Exists, &[], true),
            ("disk", Exists, &[], false),
            ("zone", DoesNotExist, &[], false),
            ("disk", DoesNotExist, &[], true),
            ("gen", Gt, &["6"], true),
            ("gen", Gt, &["7"], false),
            ("gen", Lt, &["8"], true),
            ("zone", Lt, &["8"], false),
            ("gen", Gt, &["6", "5"], false),
            ("gen", Gt, &["six"], false),
            ("disk", Gt, &["6"], false),
        ] {
            let found = expression(key, operator, values).matches(&labels);
            assert_eq!(found, matches, "{key} {operator:?} {values:?}");
        }
    }

    #[test]
    fn tolerations_mean_what_the_scheduler_means() {
        use TolerationOperator::{Equal, Exists};
        let taint = Taint {
            key: "spot".into(),
            value: "yes".into(),
            effect: TaintEffect::NoSchedule,
        };
        for (key, operator, value, effect, tolerates) in [
            (Some("spot"), Equal, "yes", None, true),
            (
                Some("spot"),
                Equal,
                "yes",
                Some(TaintEffect::NoSchedule),
                true,
            ),
            (
                Some("spot"),
                Equal,
                "yes",
                Some(TaintEffect::NoExecute),
                false,
            ),
            (Some("spot"), Equal, "no", None, false),
            (Some("spot"), Exists, "", None, true),
            (Some("gpu"), Exists, "", None, false),
            (None, Exists, "", None, true),
            (None, Equal, "yes", None, false),
        ] {
            let toleration = Toleration {
                key: key.map(Into::into),
                operator,
                value: value.into(),
                effect,
            };
            assert_eq!(toleration.tolerates(&taint), tolerates, "{toleration:?}");
        }
    }
}
