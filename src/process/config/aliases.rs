//! The aliases of queue labels and queue gates. They go into match conditions and selectors, and a key
//! that means something else already would have objects held, or read, by mistake.

use sluice_crds::GROUP;
use sluice_kinds::Problem;
use sluice_kinds::gates::GATE_ANNOTATIONS;
use sluice_kinds::names::is_qualified_name;

/// What is wrong with these aliases, each with its place in the configuration.
pub(super) fn check(labels: &[String], gates: &[String]) -> Vec<Problem> {
    let label = Aliases {
        field: "queueLabelAliases",
        form: "must be the key of a label (such as \"kueue.x-k8s.io/queue-name\")",
        values: labels,
    };
    let gate = Aliases {
        field: "queueGateAliases",
        form: "must be the name of a scheduling gate, and the key of an annotation (such as \
               \"scheduling.volcano.sh/queue-allocation-gate\")",
        values: gates,
    };
    let mut problems = label.problems();
    problems.extend(gate.problems());
    for (index, value) in gates.iter().enumerate() {
        if labels.contains(value) {
            let field = format!("{}[{index}]", gate.field);
            let rule = "may not also be one of queueLabelAliases";
            problems.push(Problem::invalid(field, value.clone(), rule));
        }
    }
    problems
}

/// The aliases in one field.
struct Aliases<'a> {
    field: &'static str,
    form: &'static str,
    values: &'a [String],
}

impl Aliases<'_> {
    fn problems(&self) -> Vec<Problem> {
        let values = self.values.iter().enumerate();
        values
            .filter_map(|(index, value)| self.problem(index, value))
            .collect()
    }

    fn problem(&self, index: usize, value: &str) -> Option<Problem> {
        let field = format!("{}[{index}]", self.field);
        let domain = value.split_once('/').map_or("", |(domain, _)| domain);
        let is_own = domain == GROUP || domain.ends_with(&format!(".{GROUP}"));
        let rule = if !is_qualified_name(value) {
            self.form.to_owned()
        } else if is_own {
            format!("may not be a key of {GROUP}: Sluice's own need no alias")
        } else if GATE_ANNOTATIONS.contains(&value) {
            "is a gate annotation".to_owned()
        } else if is_of_kubernetes(domain) {
            "may not be a key of Kubernetes itself".to_owned()
        } else if self.values.iter().take(index).any(|other| other == value) {
            return Some(Problem::duplicate(field, value));
        } else {
            return None;
        };
        Some(Problem::invalid(field, value, rule))
    }
}

/// The domains that Kubernetes keeps for itself: nobody's queues are named there.
fn is_of_kubernetes(domain: &str) -> bool {
    domain == "kubernetes.io" || domain == "k8s.io" || domain.ends_with(".kubernetes.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(labels: &[&str], gates: &[&str]) -> Vec<String> {
        let owned =
            |texts: &[&str]| -> Vec<String> { texts.iter().map(|&t| t.to_owned()).collect() };
        let problems = check(&owned(labels), &owned(gates));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn aliases_that_are_used_elsewhere_are_accepted() {
        let labels = ["kueue.x-k8s.io/queue-name", "queue", "acme.io/Team_Queue"];
        let gates = ["scheduling.volcano.sh/queue-allocation-gate"];
        assert!(told(&labels, &gates).is_empty());
    }

    #[test]
    fn aliases_that_can_not_be_meant_are_told_by_place_and_value() {
        for (label, expected) in [
            ("", "must be the key of a label"),
            ("a b", "must be the key of a label"),
            ("acme.io/", "must be the key of a label"),
            ("Acme.io/x", "must be the key of a label"),
            ("acme.io/a/b", "must be the key of a label"),
            ("a'] || true", "must be the key of a label"),
            ("sluice.dev/queue-name", "may not be a key of sluice.dev"),
            ("sluice.dev/managed", "may not be a key of sluice.dev"),
            (
                "kubernetes.io/metadata.name",
                "may not be a key of Kubernetes itself",
            ),
            ("kueue.x-k8s.io/scheduling-gated-by", "is a gate annotation"),
        ] {
            let told = told(&["acme.io/queue", label], &[]);
            assert_eq!(told.len(), 1, "{told:?}");
            let start = format!("queueLabelAliases[1]: Invalid value: {label:?}: {expected}");
            assert!(told[0].starts_with(&start), "{told:?}");
        }
        assert_eq!(
            told(&["acme.io/q", "acme.io/q"], &[]),
            ["queueLabelAliases[1]: Duplicate value: \"acme.io/q\""]
        );
        assert_eq!(
            told(&["acme.io/q"], &["acme.io/q"]),
            [
                "queueGateAliases[0]: Invalid value: \"acme.io/q\": may not also be one of queueLabelAliases"
            ]
        );
        let own = told(&[], &["sluice.dev/queue-allocation-gate"]);
        assert!(
            own[0].starts_with("queueGateAliases[0]: Invalid value"),
            "{own:?}"
        );
    }
}
