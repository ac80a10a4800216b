//! What is said of nodes: flavors, taints and tolerations, affinity.

use k8s_openapi::api::core::v1 as core;
use sluice_crds as crds;
use sluice_engine as engine;

/// A ResourceFlavor for the engine.
pub fn flavor(name: &str, spec: &crds::ResourceFlavorSpec) -> engine::Flavor {
    engine::Flavor {
        name: name.into(),
        node_labels: spec.node_labels.clone(),
        node_taints: spec
            .node_taints
            .iter()
            .filter_map(|taint| {
                Some(engine::Taint {
                    key: taint.key.clone(),
                    value: taint.value.clone().unwrap_or_default(),
                    effect: taint_effect(&taint.effect)?,
                })
            })
            .collect(),
        tolerations: spec.tolerations.iter().filter_map(toleration).collect(),
    }
}

/// A toleration for the engine. None if it says what Sluice does not know: it may tolerate less than it seems to.
pub(crate) fn toleration(toleration: &core::Toleration) -> Option<engine::Toleration> {
    Some(engine::Toleration {
        key: toleration.key.clone(),
        operator: match toleration.operator.as_deref() {
            Some("Exists") => engine::TolerationOperator::Exists,
            Some("Equal" | "") | None => engine::TolerationOperator::Equal,
            Some(_) => return None,
        },
        value: toleration.value.clone().unwrap_or_default(),
        effect: match toleration.effect.as_deref() {
            Some("") | None => None,
            Some(effect) => Some(taint_effect(effect)?),
        },
    })
}

fn taint_effect(effect: &str) -> Option<engine::TaintEffect> {
    match effect {
        "NoSchedule" => Some(engine::TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(engine::TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(engine::TaintEffect::NoExecute),
        _ => None,
    }
}

/// A term of a required node affinity for the engine. An operator that Sluice does not know matches no node: one that it
/// left out would match all.
pub(crate) fn affinity_term(term: &core::NodeSelectorTerm) -> engine::NodeSelectorTerm {
    let expressions = term.match_expressions.iter().flatten().map(|expression| {
        let operator = label_operator(&expression.operator);
        engine::LabelExpression {
            key: expression.key.clone(),
            operator: operator.unwrap_or(engine::LabelOperator::In),
            values: match operator {
                Some(_) => expression.values.clone().unwrap_or_default(),
                None => Vec::new(),
            },
        }
    });
    engine::NodeSelectorTerm {
        expressions: expressions.collect(),
    }
}

fn label_operator(operator: &str) -> Option<engine::LabelOperator> {
    Some(match operator {
        "In" => engine::LabelOperator::In,
        "NotIn" => engine::LabelOperator::NotIn,
        "Exists" => engine::LabelOperator::Exists,
        "DoesNotExist" => engine::LabelOperator::DoesNotExist,
        "Gt" => engine::LabelOperator::Gt,
        "Lt" => engine::LabelOperator::Lt,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_tolerates_nothing() {
        let read = |operator: Option<&str>, effect: Option<&str>| {
            let toleration = toleration(&core::Toleration {
                key: Some("spot".to_owned()),
                operator: operator.map(str::to_owned),
                effect: effect.map(str::to_owned),
                ..core::Toleration::default()
            });
            toleration.map(|toleration| (toleration.operator, toleration.effect))
        };
        let (equal, exists) = (
            engine::TolerationOperator::Equal,
            engine::TolerationOperator::Exists,
        );
        let no_schedule = Some(engine::TaintEffect::NoSchedule);
        assert_eq!(read(None, None), Some((equal, None)));
        assert_eq!(read(Some(""), Some("")), Some((equal, None)));
        assert_eq!(
            read(Some("Exists"), Some("NoSchedule")),
            Some((exists, no_schedule))
        );
        assert_eq!(read(Some("Gt"), None), None, "it would be Equal");
        assert_eq!(
            read(None, Some("Sometimes")),
            None,
            "it would be every effect"
        );
    }

    #[test]
    fn an_operator_that_is_not_known_matches_nothing() {
        let read = |operator: &str| {
            let term = affinity_term(&core::NodeSelectorTerm {
                match_expressions: Some(vec![core::NodeSelectorRequirement {
                    key: "zone".to_owned(),
                    operator: operator.to_owned(),
                    values: Some(vec!["a".to_owned()]),
                }]),
                ..core::NodeSelectorTerm::default()
            });
            let [expression] = &term.expressions[..] else {
                panic!("{term:?}")
            };
            (expression.operator, expression.values.len())
        };
        assert_eq!(read("NotIn"), (engine::LabelOperator::NotIn, 1));
        assert_eq!(read("Like"), (engine::LabelOperator::In, 0));
    }
}
