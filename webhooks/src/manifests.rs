//! The webhook configurations: which requests the API server asks about.
//!
//! As few as can be. Match conditions, which the API server evaluates by itself, leave out every
//! object without a queue label or gate annotation, every edit that touches none of these nor the
//! spec, everything Sluice does, and everything that is being deleted. So with no webhook server
//! there, jobs that don't concern Sluice, status, finalizers and deletions are not held up. Of pods
//! only those are asked about that wait by themselves: neither pods without a label, annotation or
//! gate of Sluice's, nor those that a controller made of a held template, nor those of Jobs; and of
//! edits only those of what Sluice wrote, and gates and queues that come too late.

mod conditions;
pub mod jail;
pub mod policies;
pub mod step;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
    ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta,
};
use serde_json::{Value, json};
use sluice_crds::{QUEUE_GATE, QUEUE_NAME_LABEL};

/// Name of both configurations.
pub const CONFIGURATION: &str = "sluice";
/// The webhook that judges objects of managed kinds.
pub const VALIDATE_JOBS: &str = "validate.jobs.sluice.dev";
/// The webhook that judges Sluice's own objects.
pub const VALIDATE_OBJECTS: &str = "validate.objects.sluice.dev";
/// The webhook that judges pods.
pub const VALIDATE_PODS: &str = "validate.pods.sluice.dev";
/// The webhook that holds objects of managed kinds at their creation.
pub const MUTATE_JOBS: &str = "mutate.jobs.sluice.dev";
/// The webhook that makes pods wait at their creation.
pub const MUTATE_PODS: &str = "mutate.pods.sluice.dev";

/// A verdict takes milliseconds; whoever waits longer waits for a dead server.
const TIMEOUT_SECONDS: i32 = 3;

/// What a generated configuration depends on.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where Sluice runs. Requests from here are never asked about, so that it can be repaired.
    pub namespace: String,
    /// The service of the webhook server.
    pub service: String,
    /// The port of the service.
    pub port: i32,
    /// Sluice's own service account.
    pub service_account: String,
    /// The labels that name a queue.
    pub queue_labels: Vec<String>,
    /// The names of the queue gate, and of the annotation by which a pod asks for it.
    pub queue_gates: Vec<String>,
    /// The resources of the managed kinds.
    pub resources: Vec<ManagedResource>,
}

/// The resource of a managed kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedResource {
    /// Its API group.
    pub group: String,
    /// The version that its JobKind reads.
    pub version: String,
    /// The plural name.
    pub resource: String,
    /// Subresources by which annotations, labels or the spec can be edited, such as `status`.
    pub subresources: Vec<String>,
}

impl Default for Options {
    /// What `config/webhook` is generated from.
    fn default() -> Self {
        Self {
            namespace: "sluice-system".to_owned(),
            service: "sluice-webhook".to_owned(),
            port: 443,
            service_account: "sluice".to_owned(),
            queue_labels: vec![QUEUE_NAME_LABEL.to_owned()],
            queue_gates: vec![QUEUE_GATE.to_owned()],
            resources: [
                ("batch", "jobs"),
                ("apps", "deployments"),
                ("apps", "statefulsets"),
            ]
            .map(|(group, resource)| ManagedResource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
                subresources: vec!["status".to_owned()],
            })
            .to_vec(),
        }
    }
}

impl Options {
    /// Sluice's own user name.
    pub fn username(&self) -> String {
        format!(
            "system:serviceaccount:{}:{}",
            self.namespace, self.service_account
        )
    }
}

/// The configuration of the validating webhooks.
pub fn validating(options: &Options) -> ValidatingWebhookConfiguration {
    let webhook = |name: &str, rules, match_conditions| ValidatingWebhook {
        name: name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(options, "/validate"),
        failure_policy: Some("Fail".to_owned()),
        match_conditions: Some(match_conditions),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(namespace_selector(options)),
        rules: Some(rules),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..ValidatingWebhook::default()
    };
    let jobs = options
        .resources
        .iter()
        .map(|r| job_rule(r, &r.subresources, &["CREATE", "UPDATE"]))
        .collect();
    let pods = vec![
        pod_rule("pods", &["CREATE", "UPDATE"]),
        pod_rule("pods/status", &["UPDATE"]),
        pod_rule("pods/resize", &["UPDATE"]),
    ];
    let webhooks = [
        (
            VALIDATE_JOBS,
            jobs,
            conditions(options, conditions::validate_job(options)),
        ),
        (
            VALIDATE_OBJECTS,
            vec![own_rule()],
            conditions(options, conditions::spec_is_new()),
        ),
        (
            VALIDATE_PODS,
            pods,
            // A pod runs on while it is being deleted, and its usage is read from it.
            vec![
                conditions::not_by(&options.username()),
                conditions::validate_pod(options),
            ],
        ),
    ];
    ValidatingWebhookConfiguration {
        metadata: metadata(CONFIGURATION),
        webhooks: Some(
            webhooks
                .into_iter()
                .map(|(name, rules, conditions)| webhook(name, rules, conditions))
                .collect(),
        ),
    }
}

/// The configuration of the mutating webhooks.
pub fn mutating(options: &Options) -> MutatingWebhookConfiguration {
    let webhook = |name: &str, rules, match_conditions| MutatingWebhook {
        name: name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(options, "/mutate"),
        failure_policy: Some("Fail".to_owned()),
        match_conditions: Some(match_conditions),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(namespace_selector(options)),
        reinvocation_policy: Some("IfNeeded".to_owned()),
        rules: Some(rules),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..MutatingWebhook::default()
    };
    let jobs = options
        .resources
        .iter()
        .map(|r| job_rule(r, &[], &["CREATE", "UPDATE"]))
        .collect();
    let pods = vec![pod_rule("pods", &["CREATE"])];
    MutatingWebhookConfiguration {
        metadata: metadata(CONFIGURATION),
        webhooks: Some(vec![
            webhook(
                MUTATE_JOBS,
                jobs,
                conditions(options, conditions::hold_job(options)),
            ),
            webhook(
                MUTATE_PODS,
                pods,
                conditions(options, conditions::hold_pod(options)),
            ),
        ]),
    }
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
        "# Generated from webhooks/src/manifests.rs by\n\
         # UPDATE_GENERATED=1 cargo test -p sluice-webhooks. Do not edit.\n\
         ---\n{}\n---\n{}\n",
        validating.trim_end(),
        mutating.trim_end()
    ))
}

/// Named so, and with the label by which all of Sluice is found, such as by who takes it away.
fn metadata(name: &str) -> ObjectMeta {
    let label = ("app.kubernetes.io/name".to_owned(), "sluice".to_owned());
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([label].into()),
        ..ObjectMeta::default()
    }
}

/// What leaves out most requests, and `last`, which sees the rest.
fn conditions(options: &Options, last: MatchCondition) -> Vec<MatchCondition> {
    vec![
        conditions::not_by(&options.username()),
        conditions::not_being_deleted(),
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

/// By the label that no tenant can set.
fn namespace_selector(options: &Options) -> LabelSelector {
    // Sluice sees nothing of the namespaces of the system: what was held there would wait for ever.
    let namespaces = jail::SYSTEM_NAMESPACES.into_iter();
    let namespaces = namespaces.chain([options.namespace.as_str()]);
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "kubernetes.io/metadata.name".to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(namespaces.map(str::to_owned).collect()),
        }]),
        ..LabelSelector::default()
    }
}

fn job_rule(
    resource: &ManagedResource,
    subresources: &[String],
    operations: &[&str],
) -> RuleWithOperations {
    let name = &resource.resource;
    let below = subresources.iter().map(|sub| format!("{name}/{sub}"));
    let resources = std::iter::once(name.clone()).chain(below).collect();
    rule(
        &resource.group,
        &resource.version,
        operations,
        resources,
        "Namespaced",
    )
}

fn pod_rule(resource: &str, operations: &[&str]) -> RuleWithOperations {
    rule(
        "",
        "v1",
        operations,
        vec![resource.to_owned()],
        "Namespaced",
    )
}

fn own_rule() -> RuleWithOperations {
    let resources = ["clusterqueues", "cohorts", "jobkinds"]
        .map(str::to_owned)
        .to_vec();
    let (group, version) = (sluice_crds::GROUP, sluice_crds::VERSION);
    rule(group, version, &["CREATE", "UPDATE"], resources, "Cluster")
}

fn rule(
    group: &str,
    version: &str,
    operations: &[&str],
    resources: Vec<String>,
    scope: &str,
) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![group.to_owned()]),
        api_versions: Some(vec![version.to_owned()]),
        operations: Some(operations.iter().map(|&o| o.to_owned()).collect()),
        resources: Some(resources),
        scope: Some(scope.to_owned()),
    }
}
