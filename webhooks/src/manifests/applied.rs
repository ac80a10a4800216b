//! The webhooks for objects that ask for nothing of Sluice, in namespaces that a Gate selects: they may be born with its
//! gate all the same. One for each Gate, in both configurations, with the Gate's own namespaceSelector and kinds: while
//! no webhook server is there, nothing is held up that no Gate selects. And the one for objects whose pod templates alone
//! name a queue.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::manifests::conditions;
use crate::manifests::options::{AppliedGate, ManagedResource, Options, namespace_selector};
use crate::manifests::webhook_rules::{job_rule, pod_rule, rule};
use crate::rules::applies::makers::{self, Maker};

/// What the names of these webhooks end with. They begin with the name of the Gate.
pub(super) const SUFFIX: &str = ".gates.sluice.dev";
/// What the name of the webhook for pod templates begins with: none that a Gate could have.
const TEMPLATES: &str = "pod-templates";
/// Most Gates that have such webhooks: each is one more question about each new object in its namespaces.
pub const APPLIED_MAX: usize = 32;

/// A webhook of a Gate.
pub(super) struct AppliedWebhook {
    pub(super) name: String,
    pub(super) rules: Vec<RuleWithOperations>,
    pub(super) match_conditions: Vec<MatchCondition>,
    pub(super) namespace_selector: LabelSelector,
    /// Whether a request goes on that nobody answers.
    pub(super) may_be_missed: bool,
}

/// Whether the webhook of this name is one of a Gate.
pub(super) fn is_applied(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

/// What judges objects that ask for nothing.
pub(super) fn validating(options: &Options) -> impl Iterator<Item = AppliedWebhook> {
    let of_gates = options.applied.iter().map(|gate| {
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
    });
    of_gates.chain(validating_templates(options))
}

/// What gates objects that ask for nothing.
pub(super) fn mutating(options: &Options) -> impl Iterator<Item = AppliedWebhook> {
    let of_gates = options.applied.iter().map(|gate| {
        let jobs = gate.resources.iter();
        let jobs = jobs.map(|r| job_rule(r, &[], &["CREATE"]));
        let pods = gate.pods.then(|| pod_rule("pods", &["CREATE"]));
        webhook(
            gate,
            options,
            jobs.chain(pods).collect(),
            conditions::applied::hold(options),
        )
    });
    of_gates.chain(mutating_templates(options))
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
        may_be_missed: false,
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

/// What judges objects whose pod templates alone name a queue, and those that make pods and are not managed. The webhook
/// is there while a Gate applies to objects: the pods would take quota in that queue, and nobody would be asked about
/// them.
fn validating_templates(options: &Options) -> Option<AppliedWebhook> {
    let kinds = with_templates(options);
    let kinds = kinds.map(|r| job_rule(r, &r.subresources, &["CREATE", "UPDATE"]));
    let makers = makers::of_pods().filter(|maker| !is_managed(maker, options));
    let rules = kinds.chain(makers.map(requests_for)).collect();
    of_templates(options, rules, conditions::templates::validate(options))
}

/// What gives such objects the gates.
fn mutating_templates(options: &Options) -> Option<AppliedWebhook> {
    let kinds = with_templates(options);
    let rules = kinds.map(|r| job_rule(r, &[], &["CREATE"])).collect();
    of_templates(options, rules, conditions::templates::hold(options))
}

fn with_templates(options: &Options) -> impl Iterator<Item = &ManagedResource> {
    let managed = options.managed();
    managed.filter(|resource| !resource.pod_metadata.is_empty())
}

/// Whether a JobKind declares its kind: then it is judged as an object that is queued.
pub(super) fn is_managed(maker: &Maker, options: &Options) -> bool {
    options
        .managed()
        .any(|known| known.group == maker.group && known.resource == maker.resource)
}

/// Requests for objects that make others.
pub(super) fn requests_for(maker: &Maker) -> RuleWithOperations {
    let resources = vec![maker.resource.to_owned()];
    let operations = ["CREATE", "UPDATE"];
    rule(maker.group, "v1", &operations, resources, "Namespaced")
}

fn of_templates(
    options: &Options,
    rules: Vec<RuleWithOperations>,
    last: MatchCondition,
) -> Option<AppliedWebhook> {
    options.judges_templates.then(|| AppliedWebhook {
        name: format!("{TEMPLATES}{SUFFIX}"),
        rules,
        match_conditions: vec![
            conditions::entry::not_by(&options.username()),
            conditions::entry::not_being_deleted(),
            last,
        ],
        namespace_selector: namespace_selector(options),
        may_be_missed: false,
    })
}
