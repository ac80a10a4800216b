//! One policy and its binding, from what it says about which requests.

use k8s_openapi::api::admissionregistration::v1::{
    ApplyConfiguration, JSONPatch, MatchCondition, MatchResources, MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBindingSpec,
    MutatingAdmissionPolicySpec, Mutation, NamedRuleWithOperations, ParamKind, ParamRef,
    RuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation, Variable,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Serialize;
use sluice_crds::{GROUP, VERSION};

use crate::manifests::conditions::entry;
use crate::manifests::options::{Options, is_sluice, metadata, namespace_selector};

/// A validating policy and where it counts.
#[derive(Debug, Clone)]
pub struct Validating {
    /// The rules.
    pub policy: ValidatingAdmissionPolicy,
    /// Everywhere.
    pub binding: ValidatingAdmissionPolicyBinding,
}

/// A mutating policy and where it counts.
#[derive(Debug, Clone)]
pub struct Mutating {
    /// What it changes.
    pub policy: MutatingAdmissionPolicy,
    /// Everywhere.
    pub binding: MutatingAdmissionPolicyBinding,
}

pub(crate) fn document(object: &impl Serialize) -> Result<String, serde_saphyr::ser::Error> {
    let text = serde_saphyr::to_string(object)?;
    Ok(format!("---\n{}\n", text.trim_end()))
}

/// What a policy says, whichever it is.
pub(crate) struct Rules<Outcome> {
    pub(crate) name: String,
    pub(super) requests: Vec<RuleWithOperations>,
    /// Besides that Sluice did not do it.
    pub(super) condition: MatchCondition,
    /// Whether edits of an object that is being deleted are judged too.
    pub(super) judges_deleted: bool,
    pub(super) variables: Vec<Variable>,
    pub(super) outcomes: Vec<Outcome>,
}

impl<Outcome> Rules<Outcome> {
    fn match_resources(&self, options: &Options) -> MatchResources {
        let named = |rule: &RuleWithOperations| NamedRuleWithOperations {
            api_groups: rule.api_groups.clone(),
            api_versions: rule.api_versions.clone(),
            operations: rule.operations.clone(),
            resources: rule.resources.clone(),
            scope: rule.scope.clone(),
            ..NamedRuleWithOperations::default()
        };
        MatchResources {
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(namespace_selector(options)),
            resource_rules: Some(self.requests.iter().map(named).collect()),
            ..MatchResources::default()
        }
    }

    fn metadata(&self) -> ObjectMeta {
        metadata(&self.name)
    }

    /// Sluice is known without its namespace here: nobody keeps policies in step with it, and an overlay
    /// may install it anywhere.
    fn conditions(&self, options: &Options) -> Vec<MatchCondition> {
        let not_by_sluice = MatchCondition {
            name: "not-by-sluice".to_owned(),
            expression: format!("!({})", is_sluice(options)),
        };
        let not_deleted = (!self.judges_deleted).then(entry::not_being_deleted);
        let conditions = std::iter::once(not_by_sluice).chain(not_deleted);
        conditions.chain([self.condition.clone()]).collect()
    }
}

impl Mutating {
    /// The same, only in those of its namespaces that `selector` selects too.
    pub(super) fn in_namespaces(mut self, selector: &LabelSelector) -> Self {
        let spec = self.policy.spec.as_mut();
        narrow(
            spec.and_then(|spec| spec.match_constraints.as_mut()),
            selector,
        );
        self
    }
}

/// Narrows the namespaces of a policy to those that `selector` selects too.
fn narrow(resources: Option<&mut MatchResources>, selector: &LabelSelector) {
    let selected = resources.and_then(|resources| resources.namespace_selector.as_mut());
    if let Some(selected) = selected {
        let expressions = selected.match_expressions.get_or_insert_default();
        expressions.extend(selector.match_expressions.iter().flatten().cloned());
        if let Some(labels) = &selector.match_labels {
            let own = selected.match_labels.get_or_insert_default();
            own.extend(labels.clone());
        }
    }
}

impl Validating {
    /// The same, only in those of its namespaces that `selector` selects too.
    pub(super) fn in_namespaces(mut self, selector: &LabelSelector) -> Self {
        let spec = self.policy.spec.as_mut();
        narrow(
            spec.and_then(|spec| spec.match_constraints.as_mut()),
            selector,
        );
        self
    }

    /// The same, which warns where it would refuse. It keeps nobody waiting.
    pub(super) fn that_warns(mut self) -> Self {
        if let Some(spec) = &mut self.policy.spec {
            spec.failure_policy = Some("Ignore".to_owned());
        }
        self.binding.spec.validation_actions = vec!["Warn".to_owned()];
        self
    }

    /// The same, evaluated once for each Gate, with the Gate as `params`.
    pub(super) fn for_each_gate(mut self) -> Self {
        if let Some(spec) = &mut self.policy.spec {
            // An API server that doesn't know the kind fails before it looks at the conditions: without the CRD, and
            // for the half minute in which it doesn't see a new one, nobody could edit any job at all, nor its
            // controller write its status. Without Gates no gate has owners, and none applies. Nothing that an edit
            // holds makes an expression fail: they tolerate what is missing, and the largest object stays far below
            // the budget for their cost.
            // <https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go>
            spec.failure_policy = Some("Ignore".to_owned());
            spec.param_kind = Some(ParamKind {
                api_version: Some(format!("{GROUP}/{VERSION}")),
                kind: Some("Gate".to_owned()),
            });
        }
        // Where there is no Gate, there is nothing to judge.
        self.binding.spec.param_ref = Some(ParamRef {
            selector: Some(LabelSelector::default()),
            parameter_not_found_action: Some("Allow".to_owned()),
            ..ParamRef::default()
        });
        self
    }
}

impl Rules<Validation> {
    pub(super) fn validating(self, options: &Options) -> Validating {
        let binding = ValidatingAdmissionPolicyBinding {
            metadata: self.metadata(),
            spec: ValidatingAdmissionPolicyBindingSpec {
                policy_name: self.name.clone(),
                validation_actions: vec!["Deny".to_owned()],
                ..ValidatingAdmissionPolicyBindingSpec::default()
            },
        };
        let policy = ValidatingAdmissionPolicy {
            metadata: self.metadata(),
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_conditions: Some(self.conditions(options)),
                match_constraints: Some(self.match_resources(options)),
                variables: (!self.variables.is_empty()).then_some(self.variables),
                validations: Some(self.outcomes),
                ..ValidatingAdmissionPolicySpec::default()
            }),
            status: None,
        };
        Validating { policy, binding }
    }
}

/// A change by what there is to be, which an ApplyConfiguration says.
pub(crate) fn apply(expression: String) -> Mutation {
    Mutation {
        patch_type: "ApplyConfiguration".to_owned(),
        apply_configuration: Some(ApplyConfiguration {
            expression: Some(expression),
        }),
        ..Mutation::default()
    }
}

/// A change by operations: also where a schema lets nothing be merged.
pub(crate) fn json_patch(expression: String) -> Mutation {
    Mutation {
        patch_type: "JSONPatch".to_owned(),
        json_patch: Some(JSONPatch {
            expression: Some(expression),
        }),
        ..Mutation::default()
    }
}

impl Rules<Mutation> {
    pub(super) fn mutating(self, options: &Options) -> Mutating {
        let binding = MutatingAdmissionPolicyBinding {
            metadata: self.metadata(),
            spec: Some(MutatingAdmissionPolicyBindingSpec {
                policy_name: Some(self.name.clone()),
                ..MutatingAdmissionPolicyBindingSpec::default()
            }),
        };
        let policy = MutatingAdmissionPolicy {
            metadata: self.metadata(),
            spec: Some(MutatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_conditions: Some(self.conditions(options)),
                match_constraints: Some(self.match_resources(options)),
                mutations: Some(self.outcomes),
                reinvocation_policy: Some("IfNeeded".to_owned()),
                variables: Some(self.variables),
                ..MutatingAdmissionPolicySpec::default()
            }),
        };
        Mutating { policy, binding }
    }
}
