//! Does a pod set go with a flavor? Labels, affinity, taints and tolerations, with the meaning
//! that they have for the scheduler. Nothing here knows quota.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::model::{Flavor, PodSet};

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
    /// They are rather scheduled elsewhere. Never a reason against a flavor.
    PreferNoSchedule,
    /// They are not scheduled here, and leave.
    NoExecute,
}

/// Taints that a pod puts up with.
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

/// What a node's label must be like.
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
    /// The label is there.
    Exists,
    /// The label is missing.
    DoesNotExist,
    /// The label is an integer greater than the one value.
    Gt,
    /// The label is an integer less than the one value.
    Lt,
}

/// Why a flavor's nodes are not for a pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The flavor has this taint, and nothing tolerates it.
    Taint(Taint),
    /// The node selector wants this label, and the flavor's nodes don't have it.
    Label {
        /// The label's key.
        key: String,
        /// The value that is wanted.
        value: String,
    },
    /// No term of the required node affinity matches the flavor's labels.
    Affinity,
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
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
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
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

/// Checks a pod set against a flavor. Of the node selector and the affinity only what concerns
/// `keys` is looked at: the label keys that tell the flavors of one resource group apart. All
/// other labels are the scheduler's business.
pub(crate) fn check(
    pod_set: &PodSet,
    flavor: &Flavor,
    keys: &BTreeSet<&str>,
) -> Result<(), Mismatch> {
    let tolerated = |taint: &Taint| {
        taint.effect == TaintEffect::PreferNoSchedule
            || pod_set
                .tolerations
                .iter()
                .chain(&flavor.tolerations)
                .any(|t| t.tolerates(taint))
    };
    if let Some(taint) = flavor.node_taints.iter().find(|taint| !tolerated(taint)) {
        return Err(Mismatch::Taint(taint.clone()));
    }
    for (key, value) in &pod_set.node_selector {
        if keys.contains(key.as_str()) && flavor.node_labels.get(key) != Some(value) {
            return Err(Mismatch::Label {
                key: key.clone(),
                value: value.clone(),
            });
        }
    }
    // A term of which nothing is left concerns no flavor, and so it matches every flavor.
    let term_matches = |term: &NodeSelectorTerm| {
        let mut concerned = term
            .expressions
            .iter()
            .filter(|e| keys.contains(e.key.as_str()));
        concerned.all(|expression| expression.matches(&flavor.node_labels))
    };
    if pod_set.affinity.is_empty() || pod_set.affinity.iter().any(term_matches) {
        Ok(())
    } else {
        Err(Mismatch::Affinity)
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
mod tests {
    use super::*;

    fn expression(key: &str, operator: LabelOperator, values: &[&str]) -> LabelExpression {
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

    fn mk_flavor(effect: TaintEffect) -> Flavor {
        Flavor {
            name: "f".into(),
            node_labels: BTreeMap::from([("zone".into(), "a".into()), ("gen".into(), "7".into())]),
            node_taints: vec![Taint {
                key: "spot".into(),
                value: String::new(),
                effect,
            }],
            tolerations: Vec::new(),
        }
    }

    #[test]
    fn of_the_affinity_one_term_has_to_match_in_what_tells_flavors_apart() {
        use LabelOperator::{Gt, In};
        let keys = BTreeSet::from(["zone", "gen"]);
        let in_zone = |zone| expression("zone", In, &[zone]);
        let (newer, elsewhere) = (expression("gen", Gt, &["7"]), in_zone("b"));
        let on_disk = expression("disk", In, &["ssd"]);
        for (name, terms, matches) in [
            ("no terms", vec![], true),
            ("an empty term", vec![vec![]], true),
            ("the zone", vec![vec![in_zone("a")]], true),
            ("another zone", vec![vec![elsewhere.clone()]], false),
            (
                "the zone, but newer",
                vec![vec![in_zone("a"), newer.clone()]],
                false,
            ),
            (
                "the second term",
                vec![vec![elsewhere.clone()], vec![in_zone("a")]],
                true,
            ),
            (
                "neither term",
                vec![vec![elsewhere.clone()], vec![newer]],
                false,
            ),
            ("what no flavor says", vec![vec![on_disk.clone()]], true),
            (
                "that and another zone",
                vec![vec![on_disk, elsewhere]],
                false,
            ),
        ] {
            let terms = terms.into_iter();
            let pod_set = PodSet {
                affinity: terms
                    .map(|expressions| NodeSelectorTerm { expressions })
                    .collect(),
                ..PodSet::new("main".into(), 1)
            };
            let found = check(&pod_set, &mk_flavor(TaintEffect::PreferNoSchedule), &keys);
            let expected = if matches {
                Ok(())
            } else {
                Err(Mismatch::Affinity)
            };
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(
            Mismatch::Affinity.to_string(),
            "its nodes don't match the required node affinity"
        );
    }

    #[test]
    fn a_taint_that_only_asks_to_stay_away_keeps_nobody_away() {
        let pod_set = PodSet::new("main".into(), 1);
        for (effect, text) in [
            (TaintEffect::PreferNoSchedule, None),
            (
                TaintEffect::NoSchedule,
                Some("its taint spot:NoSchedule isn't tolerated"),
            ),
            (
                TaintEffect::NoExecute,
                Some("its taint spot:NoExecute isn't tolerated"),
            ),
        ] {
            let found = check(&pod_set, &mk_flavor(effect), &BTreeSet::new());
            let found = found.err().map(|mismatch| mismatch.to_string());
            assert_eq!(found.as_deref(), text, "{effect:?}");
        }
    }
}
