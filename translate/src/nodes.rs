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
        tolerations: spec.tolerations.iter().map(toleration).collect(),
    }
}

pub(crate) fn toleration(toleration: &core::Toleration) -> engine::Toleration {
    engine::Toleration {
        key: toleration.key.clone(),
        operator: match toleration.operator.as_deref() {
            Some("Exists") => engine::TolerationOperator::Exists,
            _ => engine::TolerationOperator::Equal,
        },
        value: toleration.value.clone().unwrap_or_default(),
        effect: toleration.effect.as_deref().and_then(taint_effect),
    }
}

fn taint_effect(effect: &str) -> Option<engine::TaintEffect> {
    match effect {
        "NoSchedule" => Some(engine::TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(engine::TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(engine::TaintEffect::NoExecute),
        _ => None,
    }
}

pub(crate) fn affinity_term(term: &core::NodeSelectorTerm) -> engine::NodeSelectorTerm {
    let expressions = term
        .match_expressions
        .iter()
        .flatten()
        .filter_map(|expression| {
            Some(engine::LabelExpression {
                key: expression.key.clone(),
                operator: match expression.operator.as_str() {
                    "In" => engine::LabelOperator::In,
                    "NotIn" => engine::LabelOperator::NotIn,
                    "Exists" => engine::LabelOperator::Exists,
                    "DoesNotExist" => engine::LabelOperator::DoesNotExist,
                    "Gt" => engine::LabelOperator::Gt,
                    "Lt" => engine::LabelOperator::Lt,
                    _ => return None,
                },
                values: expression.values.clone().unwrap_or_default(),
            })
        });
    engine::NodeSelectorTerm {
        expressions: expressions.collect(),
    }
}
