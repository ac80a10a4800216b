//! Whether the nodes of a flavor suit a pod set: labels, affinity, taints and tolerations. Knows no
//! quota.

use std::collections::BTreeSet;

use crate::api::flavor::Flavor;
use crate::api::node_selection::{Mismatch, NodeSelectorTerm, Taint, TaintEffect};
use crate::api::quota::ResourceGroup;
use crate::api::workload::PodSet;
use crate::quota::config::Config;

/// Checks a pod set against a flavor: its taints, and the labels that distinguish the flavors of the group.
/// If no flavor of the group matches, only the flavor's own labels are checked. A flavor that does not
/// declare a label says nothing about its nodes, and no workload should wait for ever for a label that
/// nobody declares.
pub(super) fn check_nodes(
    config: &Config,
    group: &ResourceGroup,
    flavor: &Flavor,
    pod_set: &PodSet,
) -> Result<(), Mismatch> {
    check_taints(pod_set, flavor)?;
    let keys = label_keys(config, group);
    let Err(mismatch) = check_labels(pod_set, flavor, &keys) else {
        return Ok(());
    };
    let flavors = group.flavors.iter();
    let mut flavors = flavors.filter_map(|flavor| config.flavors.get(&flavor.name));
    if flavors.any(|flavor| check_labels(pod_set, flavor, &keys).is_ok()) {
        return Err(mismatch);
    }
    let own = flavor.node_labels.keys().map(String::as_str).collect();
    check_labels(pod_set, flavor, &own)
}

/// The label keys that distinguish the flavors of a group.
fn label_keys<'a>(config: &'a Config, group: &ResourceGroup) -> BTreeSet<&'a str> {
    let flavors = group
        .flavors
        .iter()
        .filter_map(|flavor| config.flavors.get(&flavor.name));
    flavors
        .flat_map(|flavor| flavor.node_labels.keys().map(String::as_str))
        .collect()
}

/// Checks whether a pod set tolerates the taints of a flavor.
fn check_taints(pod_set: &PodSet, flavor: &Flavor) -> Result<(), Mismatch> {
    let tolerated = |taint: &Taint| {
        taint.effect == TaintEffect::PreferNoSchedule
            || pod_set
                .tolerations
                .iter()
                .chain(&flavor.tolerations)
                .any(|t| t.tolerates(taint))
    };
    match flavor.node_taints.iter().find(|taint| !tolerated(taint)) {
        Some(taint) => Err(Mismatch::Taint(taint.clone())),
        None => Ok(()),
    }
}

/// Checks a pod set against the labels of a flavor. Only the parts of node selector and affinity that
/// concern `keys` count. All other labels are the scheduler's business.
fn check_labels(pod_set: &PodSet, flavor: &Flavor, keys: &BTreeSet<&str>) -> Result<(), Mismatch> {
    for (key, value) in &pod_set.node_selector {
        if keys.contains(key.as_str()) && flavor.node_labels.get(key) != Some(value) {
            return Err(Mismatch::Label {
                key: key.clone(),
                value: value.clone(),
            });
        }
    }
    // A term without remaining expressions concerns no flavor, so it matches every flavor.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::node_selection::LabelOperator;
    use crate::api::node_selection::tests::expression;
    use std::collections::BTreeMap;

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
            let found = check_labels(&pod_set, &mk_flavor(TaintEffect::PreferNoSchedule), &keys);
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
            let found = check_taints(&pod_set, &mk_flavor(effect));
            let found = found.err().map(|mismatch| mismatch.to_string());
            assert_eq!(found.as_deref(), text, "{effect:?}");
        }
    }
}
