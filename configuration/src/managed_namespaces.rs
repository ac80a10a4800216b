//! The namespaces where objects need a queue, as the configuration file says it. What follows from it is in
//! `sluice-gates`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_gates::{Exception, ManagedNamespaces, ManagedNamespacesSpec, Unlabelled};
use sluice_kinds::Problem;

const FIELD: &str = "managedNamespaces";

/// The section `managedNamespaces`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ManagedNamespacesSection {
    /// The namespaces, by their labels. Empty: all. Absent: only those with the label `sluice.dev/enforcement`.
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<SelectorSection>,
    /// What becomes of an object without a queue label there: Default, Hold, Refuse or Ignore. Absent: Hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    unlabelled: Option<UnlabelledName>,
    /// The LocalQueue that Default names. Absent: default.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_local_queue: Option<String>,
    /// Whether what becomes of it is only reported.
    dry_run: bool,
    /// Who, and which objects, need no queue in any managed namespace.
    exceptions: Vec<ExceptionSection>,
}

/// The names of [`Unlabelled`] in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum UnlabelledName {
    Default,
    Hold,
    Ignore,
    Refuse,
}

/// A LabelSelector. That of Kubernetes passes over a field that it does not know, and would then select everything.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SelectorSection {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<RequirementSection>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequirementSection {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Option<Vec<String>>,
}

/// The operators of Kubernetes, by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// All that is there must match.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ExceptionSection {
    /// One of these users asks for the object.
    users: Vec<String>,
    /// The user is in one of these groups.
    groups: Vec<String>,
    /// A CEL expression, over the variables of `spec.appliesTo.when` of a Gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
}

impl ManagedNamespacesSection {
    /// What it says, checked.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(crate) fn compile(&self) -> Result<ManagedNamespaces, Vec<Problem>> {
        ManagedNamespaces::compile(&self.spec(), FIELD)
    }

    /// The same, unchecked.
    pub(crate) fn spec(&self) -> ManagedNamespacesSpec {
        let default = ManagedNamespacesSpec::default();
        let exceptions = self.exceptions.iter().map(|exception| Exception {
            users: exception.users.clone(),
            groups: exception.groups.clone(),
            when: exception.when.clone(),
        });
        let queue = self.default_local_queue.clone();
        ManagedNamespacesSpec {
            selector: self.selector.as_ref().map(SelectorSection::selector),
            unlabelled: self.unlabelled.map_or(default.unlabelled, Unlabelled::from),
            default_local_queue: queue.unwrap_or(default.default_local_queue),
            dry_run: self.dry_run,
            exceptions: exceptions.collect(),
        }
    }
}

impl From<UnlabelledName> for Unlabelled {
    fn from(name: UnlabelledName) -> Self {
        match name {
            UnlabelledName::Default => Self::Default,
            UnlabelledName::Hold => Self::Hold,
            UnlabelledName::Ignore => Self::Ignore,
            UnlabelledName::Refuse => Self::Refuse,
        }
    }
}

impl Operator {
    fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }
}

impl SelectorSection {
    fn selector(&self) -> LabelSelector {
        let expressions = self.match_expressions.iter();
        let expressions = expressions.map(|expression| LabelSelectorRequirement {
            key: expression.key.clone(),
            operator: expression.operator.name().to_owned(),
            values: expression.values.clone(),
        });
        LabelSelector {
            match_labels: Some(self.match_labels.clone()),
            match_expressions: Some(expressions.collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_gates::Enforced;
    use sluice_kinds::problem::summarize;

    use super::*;

    fn compiled(text: &str) -> Result<ManagedNamespaces, String> {
        let section: ManagedNamespacesSection =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        section.compile().map_err(|problems| summarize(&problems))
    }

    #[test]
    fn namespaces_are_selected_by_labels() {
        let text = "{selector: {matchLabels: {team: a}, matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}, unlabelled: Refuse}";
        let managed = compiled(text).unwrap();
        let of = |labels: &[(&str, &str)]| {
            let labels = labels.iter();
            let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            managed.of_namespace("n", &labels.collect()).unlabelled
        };
        assert_eq!(of(&[("team", "a")]), Unlabelled::Refuse);
        assert_eq!(of(&[("team", "a"), ("env", "dev")]), Unlabelled::Ignore);
        assert_eq!(of(&[]), Unlabelled::Ignore);
    }

    #[test]
    fn what_is_absent_has_a_default() {
        let managed = compiled("{selector: {}, dryRun: true}").unwrap();
        let enforced = Enforced {
            unlabelled: Unlabelled::Hold,
            is_dry_run: true,
        };
        assert_eq!(managed.of_namespace("n", &BTreeMap::new()), enforced);
        assert_eq!(managed.default_local_queue(), "default");
        let managed = compiled("{}").unwrap();
        let ignored = managed.of_namespace("n", &BTreeMap::new());
        assert_eq!(ignored.unlabelled, Unlabelled::Ignore);
    }

    #[test]
    fn names_are_those_of_kubernetes_and_of_the_label() {
        for name in Unlabelled::NAMES {
            let text = format!("{{selector: {{}}, unlabelled: {name}}}");
            let found = compiled(&text).unwrap().of_namespace("n", &BTreeMap::new());
            assert_eq!(found.unlabelled.name(), name);
        }
        for (operator, values, is_managed) in [
            ("In", "[a]", true),
            ("NotIn", "[a]", false),
            ("Exists", "[]", true),
            ("DoesNotExist", "[]", false),
        ] {
            let requirement = format!("{{key: team, operator: {operator}, values: {values}}}");
            let text = format!("{{selector: {{matchExpressions: [{requirement}]}}}}");
            let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
            let found = compiled(&text).unwrap().of_namespace("n", &labels);
            assert_eq!(found.unlabelled.is_judged(), is_managed, "{operator}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_field() {
        let cases = [
            (
                "{defaultLocalQueue: My_Queue}",
                "managedNamespaces.defaultLocalQueue: Invalid value: \"My_Queue\": ",
            ),
            (
                "{selector: {matchExpressions: [{key: team, operator: In}]}}",
                "managedNamespaces.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
            (
                "{exceptions: [{}]}",
                "managedNamespaces.exceptions[0]: Required value: must have at least one of users, groups and when",
            ),
            (
                "{exceptions: [{users: [ann, ann]}]}",
                "managedNamespaces.exceptions[0].users[1]: Duplicate value: \"ann\"",
            ),
            (
                "{exceptions: [{when: 'user =='}]}",
                "managedNamespaces.exceptions[0].when: Invalid value: \"user ==\": ",
            ),
            (
                "{selector: {matchLabel: {a: b}}}",
                "unknown field `matchLabel`",
            ),
        ];
        for (text, expected) in cases {
            let told = compiled(text).unwrap_err();
            assert!(told.contains(expected), "{text}: {told}");
        }
    }
}
