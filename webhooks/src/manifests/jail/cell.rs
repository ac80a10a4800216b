//! One policy of the jail, from what it says about which requests.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Variable,
};

use crate::manifests::cel::syntax;
use crate::manifests::options::{Options, is_sluice, metadata};
use crate::manifests::policies::policy::Validating;

/// What one policy of the jail says.
pub(crate) struct Cell {
    pub(super) name: &'static str,
    pub(super) rules: Vec<NamedRuleWithOperations>,
    pub(super) excluded: Vec<NamedRuleWithOperations>,
    /// Ends with `problems`.
    pub(super) variables: Vec<Variable>,
}

impl Cell {
    pub(super) fn lock(self, options: &Options) -> Validating {
        let binding = ValidatingAdmissionPolicyBinding {
            metadata: metadata(self.name),
            spec: ValidatingAdmissionPolicyBindingSpec {
                policy_name: self.name.to_owned(),
                validation_actions: vec!["Deny".to_owned()],
                ..ValidatingAdmissionPolicyBindingSpec::default()
            },
        };
        let condition = MatchCondition {
            name: "by-sluice".to_owned(),
            expression: is_sluice(options),
        };
        let policy = ValidatingAdmissionPolicy {
            metadata: metadata(self.name),
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_conditions: Some(vec![condition]),
                match_constraints: Some(MatchResources {
                    match_policy: Some("Exact".to_owned()),
                    resource_rules: Some(self.rules),
                    exclude_resource_rules: (!self.excluded.is_empty()).then_some(self.excluded),
                    ..MatchResources::default()
                }),
                validations: Some(vec![syntax::no_problems()]),
                variables: Some(self.variables),
                ..ValidatingAdmissionPolicySpec::default()
            }),
            status: None,
        };
        Validating { policy, binding }
    }
}

/// A rule for these resources of a group.
pub(crate) fn rule(
    group: &str,
    operations: &[&str],
    resources: &[&str],
) -> NamedRuleWithOperations {
    let list = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
    NamedRuleWithOperations {
        api_groups: list(&[group]),
        api_versions: list(&["*"]),
        operations: list(operations),
        resources: list(resources),
        ..NamedRuleWithOperations::default()
    }
}
