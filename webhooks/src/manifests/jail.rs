//! The jail: what Sluice's own account may do, enforced by the API server. RBAC names resources; these
//! policies name fields. Whoever steals the account's token can hold and release jobs, and no more.
//!
//! Part of every variant of the manifests. Each policy looks at requests of that account only, so that
//! a policy which can't be evaluated refuses nobody else's request. The account is known without its
//! namespace (`is_sluice`), so an overlay may install Sluice anywhere.
//!
//! Of the shipped kinds exactly the paths that their JobKinds name may change (`kinds`). A kind of one's
//! own has no policy of its own, and needs none: its objects are bounded by the names and types of fields
//! (`requests`), so that a new JobKind works at once and is never a way out.

mod difference;
mod entries;
mod kinds;
mod pods;
mod requests;
mod webhook_configurations;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Variable,
};
use sluice_crds::JobKindSpec;

use super::policies::{Validating, cel, document};
use super::{Options, metadata};

/// Namespaces that Sluice never writes to, whoever queues what there.
pub const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// What one policy of the jail says.
struct Cell {
    name: &'static str,
    rules: Vec<NamedRuleWithOperations>,
    excluded: Vec<NamedRuleWithOperations>,
    /// Ends with `problems`.
    variables: Vec<Variable>,
}

/// The policies, with the paths of these kinds.
pub fn policies(options: &Options, kinds: &[JobKindSpec]) -> Vec<Validating> {
    [
        requests::cell(kinds),
        pods::cell(),
        webhook_configurations::cell(kinds),
    ]
    .into_iter()
    .map(|cell| cell.lock(options))
    .collect()
}

/// The text of `config/jail/manifests.yaml`.
pub fn yaml(options: &Options, kinds: &[JobKindSpec]) -> Result<String, serde_saphyr::ser::Error> {
    let mut text =
        "# What Sluice's own account may do, enforced by the API server: docs/threat-model.md.\n\
                    # Generated from webhooks/src/manifests/jail.rs by\n\
                    # UPDATE_GENERATED=1 cargo test -p sluice-webhooks. Do not edit.\n"
            .to_owned();
    for Validating { policy, binding } in policies(options, kinds) {
        text += &document(&policy)?;
        text += &document(&binding)?;
    }
    Ok(text)
}

/// CEL: whether Sluice's own account asks, whatever namespace it is in. The name alone can be had by
/// anybody who makes service accounts in a namespace of their own; writing the status of Workloads
/// everywhere is what only Sluice's role allows.
pub(super) fn is_sluice(options: &Options) -> String {
    let (group, account) = (sluice_crds::GROUP, &options.service_account);
    format!(
        "request.userInfo.username.startsWith('system:serviceaccount:') &&\n\
         request.userInfo.username.endsWith(':{account}') &&\n\
         authorizer.group('{group}').resource('workloads').subresource('status').check('patch').allowed()"
    )
}

impl Cell {
    fn lock(self, options: &Options) -> Validating {
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
                validations: Some(vec![cel::no_problems()]),
                variables: Some(self.variables),
                ..ValidatingAdmissionPolicySpec::default()
            }),
            status: None,
        };
        Validating { policy, binding }
    }
}

/// A rule for these resources of a group.
fn rule(group: &str, operations: &[&str], resources: &[&str]) -> NamedRuleWithOperations {
    let list = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
    NamedRuleWithOperations {
        api_groups: list(&[group]),
        api_versions: list(&["*"]),
        operations: list(operations),
        resources: list(resources),
        ..NamedRuleWithOperations::default()
    }
}
