//! The webhooks for objects that name no queue, in the namespaces that require one: one for those with the label, and one
//! for those that the configuration selects. Each has the selector of its namespaces, so while no webhook server is there,
//! nothing is held up in any other. Where it is only reported what would be done, there are others, which hold up nothing.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};

use crate::manifests::applied::{AppliedWebhook, SUFFIX, is_managed, requests_for, selector};
use crate::manifests::conditions;
use crate::manifests::options::{EnforcedNamespaces, Options};
use crate::manifests::webhook_rules::{job_rule, pod_rule};
use crate::rules::applies::makers;

/// What judges objects without a queue, and what makes such objects.
pub(super) fn validating(options: &Options) -> impl Iterator<Item = AppliedWebhook> {
    options.enforced.iter().map(|enforced| {
        let makers = makers::that_need_queues().filter(|maker| !is_managed(maker, options));
        let rules = objects(options, &["CREATE", "UPDATE"])
            .chain(makers.map(requests_for))
            .collect();
        webhook(
            enforced,
            options,
            rules,
            conditions::enforced::validate(options),
        )
    })
}

/// What gives them the label, or the gate.
pub(super) fn mutating(options: &Options) -> impl Iterator<Item = AppliedWebhook> {
    options.enforced.iter().map(|enforced| {
        let rules = objects(options, &["CREATE"]).collect();
        webhook(
            enforced,
            options,
            rules,
            conditions::enforced::hold(options),
        )
    })
}

/// Requests for objects that JobKinds declare, by these operations, and for new pods.
fn objects(options: &Options, operations: &[&str]) -> impl Iterator<Item = RuleWithOperations> {
    let is_edited = operations.contains(&"UPDATE");
    let jobs = options.managed();
    let jobs = jobs.map(move |resource| {
        // What has an object start, such as the mark of Sluice, or a lost controller, may be written by the status.
        let below: &[String] = if is_edited {
            &resource.subresources
        } else {
            &[]
        };
        job_rule(resource, below, operations)
    });
    jobs.chain([pod_rule("pods", &["CREATE"])])
}

fn webhook(
    enforced: &EnforcedNamespaces,
    options: &Options,
    rules: Vec<RuleWithOperations>,
    last: MatchCondition,
) -> AppliedWebhook {
    AppliedWebhook {
        name: format!("{}{SUFFIX}", enforced.name),
        rules,
        match_conditions: vec![
            conditions::entry::not_by(&options.username()),
            conditions::entry::not_being_deleted(),
            last,
        ],
        namespace_selector: selector(&enforced.namespaces, options),
        may_be_missed: enforced.is_dry_run,
    }
}
