//! A LabelSelector that was checked.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use sluice_kinds::{Problem, names};

/// The operators of a requirement.
const OPERATORS: [&str; 4] = ["DoesNotExist", "Exists", "In", "NotIn"];

/// A LabelSelector that was checked. An empty one selects everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Checks `selector`, which stands at `field`.
    pub(crate) fn compile(
        selector: &LabelSelector,
        field: &str,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let labels = selector.match_labels.iter().flatten();
        for (key, value) in labels.clone() {
            let field = format!("{field}.matchLabels");
            problems.extend(check(key, [value], &field));
        }
        let mut requirements: Vec<_> = labels
            .map(|(key, value)| Requirement {
                key: key.clone(),
                rule: Rule::In(BTreeSet::from([value.clone()])),
            })
            .collect();
        let expressions = selector.match_expressions.iter().flatten().enumerate();
        for (index, expression) in expressions {
            let field = format!("{field}.matchExpressions[{index}]");
            match compile(expression, &field) {
                Ok(requirement) => requirements.push(requirement),
                Err(problem) => problems.push(problem),
            }
        }
        Self { requirements }
    }

    /// Whether it selects what has these labels.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let holds = |requirement: &Requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.rule {
                Rule::In(values) => value.is_some_and(|value| values.contains(value)),
                // As Kubernetes has it: what lacks the label is not in the values.
                Rule::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Rule::Exists => value.is_some(),
                Rule::DoesNotExist => value.is_none(),
            }
        };
        self.requirements.iter().all(holds)
    }
}

/// What an API server would not take: it would take no webhook with such a selector.
fn check<'a>(
    key: &str,
    values: impl IntoIterator<Item = &'a String>,
    field: &str,
) -> Option<Problem> {
    if !names::is_qualified_name(key) {
        let rule = "must be the key of a label (such as \"acme.io/team\")";
        return Some(Problem::invalid(field, key, rule));
    }
    let is_value =
        |value: &str| value.is_empty() || !value.contains('/') && names::is_qualified_name(value);
    let value = values.into_iter().find(|value| !is_value(value))?;
    let rule = "must be the value of a label (such as \"my-team\")";
    Some(Problem::invalid(field, value.clone(), rule))
}

fn compile(expression: &LabelSelectorRequirement, field: &str) -> Result<Requirement, Problem> {
    let LabelSelectorRequirement {
        key,
        operator,
        values,
    } = expression;
    if let Some(problem) = check(key, values.iter().flatten(), field) {
        return Err(problem);
    }
    let values: BTreeSet<_> = values.iter().flatten().cloned().collect();
    let at = || format!("{field}.values");
    if matches!(operator.as_str(), "In" | "NotIn") && values.is_empty() {
        let detail = "must be specified when `operator` is 'In' or 'NotIn'";
        return Err(Problem::required(at(), detail));
    }
    if matches!(operator.as_str(), "Exists" | "DoesNotExist") && !values.is_empty() {
        let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        return Err(Problem::forbidden(at(), detail));
    }
    let rule = match operator.as_str() {
        "In" => Rule::In(values),
        "NotIn" => Rule::NotIn(values),
        "Exists" => Rule::Exists,
        "DoesNotExist" => Rule::DoesNotExist,
        other => {
            let field = format!("{field}.operator");
            return Err(Problem::not_supported(field, other, &OPERATORS));
        }
    };
    Ok(Requirement {
        key: key.clone(),
        rule,
    })
}
