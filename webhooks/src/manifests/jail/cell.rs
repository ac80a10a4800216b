//! One policy of the jail, from what it says about which requests.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ParamKind, ParamRef,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Variable,
};

use crate::manifests::cel::syntax;
use crate::manifests::options::{Options, is_sluice, metadata};
use crate::manifests::policies::policy::Validating;

/// What one policy of the jail says.
pub(crate) struct Cell {
    pub(super) name: &'static str,
    pub(super) rules: Vec<NamedRuleWithOperations>,
    pub(super) excluded: Vec<NamedRuleWithOperations>,
    /// The object that requests are compared with, as `params`. Without it all are denied, whoever makes them.
    pub(super) compared_with: Option<Param>,
    /// Ends with `problems`.
    pub(super) variables: Vec<Variable>,
}

/// An object of the cluster, by its name.
pub(super) struct Param {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
}

impl Cell {
    pub(super) fn lock(self, options: &Options) -> Validating {
        let binding = ValidatingAdmissionPolicyBinding {
            metadata: metadata(self.name),
            spec: ValidatingAdmissionPolicyBindingSpec {
                policy_name: self.name.to_owned(),
                validation_actions: vec!["Deny".to_owned()],
                param_ref: self.compared_with.as_ref().map(|param| ParamRef {
                    name: Some(param.name.to_owned()),
                    parameter_not_found_action: Some("Deny".to_owned()),
                    ..ParamRef::default()
                }),
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
                param_kind: self.compared_with.map(|param| ParamKind {
                    api_version: Some(param.api_version.to_owned()),
                    kind: Some(param.kind.to_owned()),
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
        // The API server's default, written out: who applies this again changes nothing.
        scope: Some("*".to_owned()),
        ..NamedRuleWithOperations::default()
    }
}

/// The same for the object of this name only, whoever asks for it.
pub(crate) fn of(name: &str, rule: NamedRuleWithOperations) -> NamedRuleWithOperations {
    NamedRuleWithOperations {
        resource_names: Some(vec![name.to_owned()]),
        ..rule
    }
}
