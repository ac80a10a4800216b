//! The webhooks for objects that ask for nothing of Sluice, in namespaces that a Gate selects: they may be born with its
//! gate all the same. One for each Gate, in both configurations, with the Gate's own namespaceSelector and kinds: while
//! no webhook server is there, nothing is held up that no Gate selects.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::manifests::conditions;
use crate::manifests::options::{AppliedGate, Options, namespace_selector};
use crate::manifests::webhook_rules::{job_rule, pod_rule};

/// What the names of these webhooks end with. They begin with the name of the Gate.
pub(super) const SUFFIX: &str = ".gates.sluice.dev";
/// Most Gates that have such webhooks: each is one more question about each new object in its namespaces.
pub const APPLIED_MAX: usize = 32;

/// A webhook of a Gate.
pub(super) struct AppliedWebhook {
    pub(super) name: String,
    pub(super) rules: Vec<RuleWithOperations>,
    pub(super) match_conditions: Vec<MatchCondition>,
    pub(super) namespace_selector: LabelSelector,
}

/// Whether the webhook of this name is one of a Gate.
pub(super) fn is_applied(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

/// What judges objects that ask for nothing.
pub(super) fn validating(options: &Options) -> impl Iterator<Item = AppliedWebhook> {
    options.applied.iter().map(|gate| {
        let jobs = gate.resources.iter();
        let jobs = jobs.map(|r| job_rule(r, &r.subresources, &["CREATE", "UPDATE"]));
        let pods = gate.pods.then(|| {
            [
                pod_rule("pods", &["CREATE"]),
                pod_rule("pods/resize", &["UPDATE"]),
            ]
        });
        webhook(
            gate,
            options,
            jobs.chain(pods.into_iter().flatten()).collect(),
            conditions::applied::validate(options),
        )
    })
}

/// What gates objects that ask for nothing.
pub(super) fn mutating(options: &Options) -> impl Iterator<Item = AppliedWebhook> {
    options.applied.iter().map(|gate| {
        let jobs = gate.resources.iter();
        let jobs = jobs.map(|r| job_rule(r, &[], &["CREATE"]));
        let pods = gate.pods.then(|| pod_rule("pods", &["CREATE"]));
        webhook(
            gate,
            options,
            jobs.chain(pods).collect(),
            conditions::applied::hold(options),
        )
    })
}

fn webhook(
    gate: &AppliedGate,
    options: &Options,
    rules: Vec<RuleWithOperations>,
    last: MatchCondition,
) -> AppliedWebhook {
    AppliedWebhook {
        name: format!("{}{SUFFIX}", gate.name),
        rules,
        match_conditions: vec![
            conditions::entry::not_by(&options.username()),
            conditions::entry::not_being_deleted(),
            last,
        ],
        namespace_selector: selector(&gate.namespaces, options),
    }
}

/// Those of the namespaces whose requests are asked about at all.
pub(super) fn selector(namespaces: &LabelSelector, options: &Options) -> LabelSelector {
    let labels = namespaces.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| LabelSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: Some(vec![value.clone()]),
    });
    let all = namespace_selector(options);
    let expressions = all.match_expressions.into_iter().flatten();
    let own = namespaces.match_expressions.iter().flatten().cloned();
    // As the API server stores it, which leaves empty lists out.
    let own = own.map(|expression| LabelSelectorRequirement {
        values: expression.values.filter(|values| !values.is_empty()),
        ..expression
    });
    LabelSelector {
        match_expressions: Some(expressions.chain(labels).chain(own).collect()),
        match_labels: all.match_labels,
    }
}
