//! The shipped webhook configurations: which requests the API server asks about. What depends on JobKinds, Gates and
//! namespaces of a cluster stands in configurations of Sluice's own making (`declared.rs`).
//!
//! As few as can be. Match conditions, which the API server evaluates by itself, leave out every
//! object without a queue label or gate annotation (of a new one also in its pod template), every edit that touches none
//! of these nor the spec, everything Sluice does, and everything that is being deleted. So with no webhook server
//! there, jobs that don't concern Sluice, status, finalizers and deletions are not held up. Of pods
//! only those are asked about that wait by themselves: neither pods without a label, annotation or
//! gate of Sluice's, nor those that a controller made of a held template, nor those of Jobs; and of
//! edits only those of what Sluice wrote, and gates and queues that come too late.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
    ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::{Value, json};

use crate::manifests::conditions;
use crate::manifests::options::{ManagedResource, Options, metadata, namespace_selector};
use crate::manifests::webhook_rules::{job_rule, own_rule, pod_rule};

/// Name of both shipped configurations.
pub const CONFIGURATION: &str = "sluice";
/// The webhook that judges objects of managed kinds.
pub const VALIDATE_JOBS: &str = "validate.jobs.sluice.dev";
/// The webhook that judges Sluice's own objects.
pub const VALIDATE_OBJECTS: &str = "validate.objects.sluice.dev";
/// The webhook that judges pods.
pub const VALIDATE_PODS: &str = "validate.pods.sluice.dev";
/// The webhook that holds objects of managed kinds at their creation, and keeps on them which gates were lifted.
pub const MUTATE_JOBS: &str = "mutate.jobs.sluice.dev";
/// The webhook that makes pods wait at their creation, and keeps on bare ones which gates were lifted.
pub const MUTATE_PODS: &str = "mutate.pods.sluice.dev";

/// Argo CD applies what has no wave first, and what is of the next one when all of that is healthy. Kinds that it does not know
/// it sorts by their names: webhooks would come before half of the JobKinds, and refuse them, as nobody answers yet.
const SYNC_WAVE: (&str, &str) = ("argocd.argoproj.io/sync-wave", "1");

/// The failure policy of a webhook without which a request goes on.
pub(crate) const IGNORE: &str = "Ignore";

/// What is asked about is counted, and told by events where something is only reported; not in a dry run.
const SIDE_EFFECTS: &str = "NoneOnDryRun";

/// A verdict takes milliseconds; whoever waits longer waits for a dead server.
const TIMEOUT_SECONDS: i32 = 3;

/// The shipped configuration of the validating webhooks.
pub fn validating(options: &Options) -> ValidatingWebhookConfiguration {
    let webhooks = [
        (
            VALIDATE_JOBS,
            job_rules(&options.resources),
            validate_job_conditions(options),
        ),
        (
            VALIDATE_OBJECTS,
            vec![own_rule()],
            vec![
                conditions::entry::not_by(&options.username()),
                conditions::entry::own_not_being_deleted(),
                conditions::entry::spec_is_new(),
            ],
        ),
        (
            VALIDATE_PODS,
            validate_pod_rules(),
            validate_pod_conditions(options),
        ),
    ];
    let webhooks = webhooks.map(|(name, rules, conditions)| {
        validating_webhook(options, name.to_owned(), rules, conditions)
    });
    ValidatingWebhookConfiguration {
        metadata: shipped_metadata(),
        webhooks: Some(webhooks.into()),
    }
}

/// The shipped configuration of the mutating webhooks.
pub fn mutating(options: &Options) -> MutatingWebhookConfiguration {
    let webhooks = [
        (
            MUTATE_JOBS,
            job_rules(&options.resources),
            mutate_job_conditions(options),
        ),
        (
            MUTATE_PODS,
            mutate_pod_rules(),
            mutate_pod_conditions(options),
        ),
    ];
    let webhooks = webhooks.map(|(name, rules, conditions)| {
        mutating_webhook(options, name.to_owned(), rules, conditions)
    });
    MutatingWebhookConfiguration {
        metadata: shipped_metadata(),
        webhooks: Some(webhooks.into()),
    }
}

fn shipped_metadata() -> ObjectMeta {
    let (key, value) = SYNC_WAVE;
    ObjectMeta {
        annotations: Some([(key.to_owned(), value.to_owned())].into()),
        ..metadata(CONFIGURATION)
    }
}

/// What becomes of a request that nobody answers.
pub(super) fn failure_policy(may_be_missed: bool) -> &'static str {
    if may_be_missed { IGNORE } else { "Fail" }
}

/// A webhook that judges.
pub(super) fn validating_webhook(
    options: &Options,
    name: String,
    rules: Vec<RuleWithOperations>,
    match_conditions: Vec<MatchCondition>,
) -> ValidatingWebhook {
    ValidatingWebhook {
        name,
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(options, "/validate"),
        failure_policy: Some(failure_policy(false).to_owned()),
        match_conditions: Some(match_conditions),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(namespace_selector(options)),
        object_selector: Some(LabelSelector::default()),
        rules: Some(rules),
        side_effects: SIDE_EFFECTS.to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
    }
}

/// A webhook that holds.
pub(super) fn mutating_webhook(
    options: &Options,
    name: String,
    rules: Vec<RuleWithOperations>,
    match_conditions: Vec<MatchCondition>,
) -> MutatingWebhook {
    MutatingWebhook {
        name,
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(options, "/mutate"),
        failure_policy: Some(failure_policy(false).to_owned()),
        match_conditions: Some(match_conditions),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(namespace_selector(options)),
        object_selector: Some(LabelSelector::default()),
        reinvocation_policy: Some("IfNeeded".to_owned()),
        rules: Some(rules),
        side_effects: SIDE_EFFECTS.to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
    }
}

/// Which requests about objects of managed kinds are asked about.
pub(super) fn job_rules(resources: &[ManagedResource]) -> Vec<RuleWithOperations> {
    let rules = resources.iter();
    let rules = rules.map(|r| job_rule(r, &r.subresources, &["CREATE", "UPDATE"]));
    rules.collect()
}

/// Which of them are judged.
pub(super) fn validate_job_conditions(options: &Options) -> Vec<MatchCondition> {
    conditions(options, conditions::templates::validate_job(options))
}

/// Which of them are held.
pub(super) fn mutate_job_conditions(options: &Options) -> Vec<MatchCondition> {
    conditions(options, conditions::jobs::mutate_job(options))
}

/// Which requests about pods are asked about to be judged.
pub(super) fn validate_pod_rules() -> Vec<RuleWithOperations> {
    vec![
        pod_rule("pods", &["CREATE", "UPDATE"]),
        pod_rule("pods/status", &["UPDATE"]),
        pod_rule("pods/resize", &["UPDATE"]),
    ]
}

/// Which of them are judged.
pub(super) fn validate_pod_conditions(options: &Options) -> Vec<MatchCondition> {
    // A pod runs on while it is being deleted, and its usage is read from it.
    vec![
        conditions::entry::not_by(&options.username()),
        conditions::pods::validate_pod(options),
    ]
}

/// Which requests about pods are asked about to be held.
pub(super) fn mutate_pod_rules() -> Vec<RuleWithOperations> {
    vec![
        pod_rule("pods", &["CREATE", "UPDATE"]),
        pod_rule("pods/status", &["UPDATE"]),
    ]
}

/// Which of them are held.
pub(super) fn mutate_pod_conditions(options: &Options) -> Vec<MatchCondition> {
    conditions(options, conditions::pods::mutate_pod(options))
}

/// A strategic merge patch that makes the API server trust `bundle_pem` for these webhooks and
/// leaves the rest of a configuration as it is.
pub fn ca_bundle_patch(webhooks: &[&str], bundle_pem: &str) -> Value {
    let bundle = ByteString(bundle_pem.as_bytes().to_vec());
    let webhooks: Vec<_> = webhooks
        .iter()
        .map(|name| json!({"name": name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    json!({"webhooks": webhooks})
}

/// The text of `config/webhook/manifests.yaml`.
pub fn yaml(options: &Options) -> Result<String, serde_saphyr::ser::Error> {
    let validating = serde_saphyr::to_string(&validating(options))?;
    let mutating = serde_saphyr::to_string(&mutating(options))?;
    Ok(format!(
        "# Generated from webhooks/src/manifests by\n\
         # UPDATE_GENERATED=1 cargo test -p sluice-webhooks. Do not edit.\n\
         ---\n{}\n---\n{}\n",
        validating.trim_end(),
        mutating.trim_end()
    ))
}

/// What leaves out most requests, and `last`, which sees the rest.
fn conditions(options: &Options, last: MatchCondition) -> Vec<MatchCondition> {
    vec![
        conditions::entry::not_by(&options.username()),
        conditions::entry::not_being_deleted(),
        last,
    ]
}

fn client_config(options: &Options, path: &str) -> WebhookClientConfig {
    WebhookClientConfig {
        service: Some(ServiceReference {
            name: options.service.clone(),
            namespace: options.namespace.clone(),
            path: Some(path.to_owned()),
            port: Some(options.port),
        }),
        ..WebhookClientConfig::default()
    }
}
