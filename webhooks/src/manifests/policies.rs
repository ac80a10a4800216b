//! Admission without a webhook: what the webhooks do to jobs and pods, as ValidatingAdmissionPolicy
//! and MutatingAdmissionPolicy objects that the API server (1.36 or newer) evaluates by itself.
//!
//! They hold the same objects, follow the same rules and refuse with the same words; the texts come
//! from the code that judges for the webhooks. What CEL can't do is said where it is missing, and
//! in `docs/`. A policy is made for each managed kind, because the paths of its fields differ; kinds
//! that are held by nothing but a suspend field, and by the same, share one.
//!
//! The mutating policies use ApplyConfiguration, and JSONPatch where a schema would let nothing be
//! merged: what is there stays, and applying one to its own outcome changes nothing.

pub(super) mod cel;
mod gate_pods;
mod gates;
mod gating;
mod held;
mod hold;
mod jobs;
mod marking;
mod marks;
mod metadata;
mod owners;
mod path;
mod pods;
mod queue;
mod refuse;
mod resize;
mod suspending;
mod workloads;

use k8s_openapi::api::admissionregistration::v1::{
    ApplyConfiguration, JSONPatch, MatchCondition, MatchResources, MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBindingSpec,
    MutatingAdmissionPolicySpec, Mutation, NamedRuleWithOperations, RuleWithOperations,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation, Variable,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::{Options, conditions, jail, metadata, namespace_selector};

pub use held::HeldKind;
use held::Subject;

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

/// The policies that refuse.
pub fn validating(options: &Options, kinds: &[HeldKind]) -> Vec<Validating> {
    let jobs = held::subjects(kinds).into_iter();
    jobs.map(|subject| match subject {
        Subject::Templates(kind) => jobs::policy(options, kind, kinds),
        Subject::Metadata(kind) => marking::validating(options, kind, kinds),
        Subject::Suspended(group) => suspending::validating(options, &group, kinds),
    })
    .chain([pods::policy(options, kinds), workloads::policy()])
    .map(|rules| rules.validating(options))
    .collect()
}

/// The policies that hold.
pub fn mutating(options: &Options, kinds: &[HeldKind]) -> Vec<Mutating> {
    let jobs = held::subjects(kinds).into_iter();
    jobs.map(|subject| match subject {
        Subject::Templates(kind) => hold::policy(options, kind, kinds),
        Subject::Metadata(kind) => marking::mutating(options, kind, kinds),
        Subject::Suspended(group) => suspending::mutating(options, &group, kinds),
    })
    .chain([gate_pods::policy(options, kinds)])
    .map(|rules| rules.mutating(options))
    .collect()
}

/// The text of `config/policies/manifests.yaml`.
pub fn yaml(options: &Options, kinds: &[HeldKind]) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = "# Generated from webhooks/src/manifests/policies.rs by\n\
                    # UPDATE_GENERATED=1 cargo test -p sluice-webhooks. Do not edit.\n"
        .to_owned();
    for Validating { policy, binding } in validating(options, kinds) {
        text += &document(&policy)?;
        text += &document(&binding)?;
    }
    for Mutating { policy, binding } in mutating(options, kinds) {
        text += &document(&policy)?;
        text += &document(&binding)?;
    }
    Ok(text)
}

pub(super) fn document(object: &impl Serialize) -> Result<String, serde_saphyr::ser::Error> {
    let text = serde_saphyr::to_string(object)?;
    Ok(format!("---\n{}\n", text.trim_end()))
}

/// What a policy says, whichever it is.
struct Rules<Outcome> {
    name: String,
    requests: Vec<RuleWithOperations>,
    /// Besides that Sluice did not do it.
    condition: MatchCondition,
    /// Whether edits of an object that is being deleted are judged too.
    judges_deleted: bool,
    variables: Vec<Variable>,
    outcomes: Vec<Outcome>,
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
            expression: format!("!({})", jail::is_sluice(options)),
        };
        let not_deleted = (!self.judges_deleted).then(conditions::not_being_deleted);
        let conditions = std::iter::once(not_by_sluice).chain(not_deleted);
        conditions.chain([self.condition.clone()]).collect()
    }
}

impl Rules<Validation> {
    fn validating(self, options: &Options) -> Validating {
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
fn apply(expression: String) -> Mutation {
    Mutation {
        patch_type: "ApplyConfiguration".to_owned(),
        apply_configuration: Some(ApplyConfiguration {
            expression: Some(expression),
        }),
        ..Mutation::default()
    }
}

/// A change by operations: also where a schema lets nothing be merged.
fn json_patch(expression: String) -> Mutation {
    Mutation {
        patch_type: "JSONPatch".to_owned(),
        json_patch: Some(JSONPatch {
            expression: Some(expression),
        }),
        ..Mutation::default()
    }
}

impl Rules<Mutation> {
    fn mutating(self, options: &Options) -> Mutating {
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
