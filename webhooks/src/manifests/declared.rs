//! The webhook configurations of Sluice's own making: what follows from what is declared in a cluster. That are the kinds
//! that the shipped manifests don't name, Gates that apply to objects which ask for nothing, and namespaces that require a
//! queue. So the shipped configurations stay as they were applied, and whoever applies them again takes no rule away.
//!
//! Where aliases are configured, they ask about objects that carry only these, too, which no shipped webhook knows.
//!
//! Who is asked, and what becomes of a request that nobody answers, is taken from the shipped webhooks when they are
//! stored, and so is whether the one for pods is needed (`own.rs`).

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ValidatingWebhook,
    ValidatingWebhookConfiguration,
};

use crate::manifests::options::{Options, metadata};
use crate::manifests::webhooks::{
    failure_policy, job_rules, mutate_job_conditions, mutate_pod_conditions, mutate_pod_rules,
    mutating_webhook, validate_job_conditions, validate_pod_conditions, validate_pod_rules,
    validating_webhook,
};
use crate::manifests::{applied, enforced};

/// Name of both configurations.
pub const DECLARED: &str = "sluice-declared";
/// The webhook that judges objects of declared kinds.
pub const VALIDATE_DECLARED: &str = "validate.jobkinds.sluice.dev";
/// The webhook that holds objects of declared kinds at their creation.
pub const MUTATE_DECLARED: &str = "mutate.jobkinds.sluice.dev";

/// The webhook that judges pods that the shipped one is not asked about.
pub(super) const VALIDATE_DECLARED_PODS: &str = "validate.pods.aliases.sluice.dev";
/// The webhook that holds such pods.
pub(super) const MUTATE_DECLARED_PODS: &str = "mutate.pods.aliases.sluice.dev";

/// Whether the webhook of this name is for pods that the shipped one is not asked about.
pub(super) fn is_for_pods(name: &str) -> bool {
    [VALIDATE_DECLARED_PODS, MUTATE_DECLARED_PODS].contains(&name)
}

/// Whether the webhook of this name is for declared kinds.
pub(super) fn is_for_declared_kinds(name: &str) -> bool {
    [VALIDATE_DECLARED, MUTATE_DECLARED].contains(&name)
}

/// The configuration of the validating webhooks.
pub fn declared_validating(options: &Options) -> ValidatingWebhookConfiguration {
    let kinds = validating_webhook(
        options,
        VALIDATE_DECLARED.to_owned(),
        job_rules(&options.declared),
        validate_job_conditions(options),
    );
    let pods = validating_webhook(
        options,
        VALIDATE_DECLARED_PODS.to_owned(),
        validate_pod_rules(),
        validate_pod_conditions(options),
    );
    let others = applied::validating(options).chain(enforced::validating(options));
    let others = others.map(|webhook| ValidatingWebhook {
        namespace_selector: Some(webhook.namespace_selector),
        failure_policy: Some(failure_policy(webhook.may_be_missed).to_owned()),
        ..validating_webhook(
            options,
            webhook.name,
            webhook.rules,
            webhook.match_conditions,
        )
    });
    ValidatingWebhookConfiguration {
        metadata: metadata(DECLARED),
        webhooks: Some([kinds, pods].into_iter().chain(others).collect()),
    }
}

/// The configuration of the mutating webhooks.
pub fn declared_mutating(options: &Options) -> MutatingWebhookConfiguration {
    let kinds = mutating_webhook(
        options,
        MUTATE_DECLARED.to_owned(),
        job_rules(&options.declared),
        mutate_job_conditions(options),
    );
    let pods = mutating_webhook(
        options,
        MUTATE_DECLARED_PODS.to_owned(),
        mutate_pod_rules(),
        mutate_pod_conditions(options),
    );
    let others = applied::mutating(options).chain(enforced::mutating(options));
    let others = others.map(|webhook| MutatingWebhook {
        namespace_selector: Some(webhook.namespace_selector),
        failure_policy: Some(failure_policy(webhook.may_be_missed).to_owned()),
        ..mutating_webhook(
            options,
            webhook.name,
            webhook.rules,
            webhook.match_conditions,
        )
    });
    MutatingWebhookConfiguration {
        metadata: metadata(DECLARED),
        webhooks: Some([kinds, pods].into_iter().chain(others).collect()),
    }
}
