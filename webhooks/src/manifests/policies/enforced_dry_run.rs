//! The policies for namespaces where it is only reported what would become of objects without a queue: they warn, and keep
//! nobody waiting. They send no events, and say nothing of what makes jobs or pods.

use k8s_openapi::api::admissionregistration::v1::Validation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_gates::Unlabelled;

use crate::manifests::cel::syntax::{field, filled, text, variable};
use crate::manifests::cel::{metadata, owners, queue, required};
use crate::manifests::conditions::entry::{any, condition, queue_names};
use crate::manifests::conditions::pods;
use crate::manifests::held::HeldKind;
use crate::manifests::options::{EnforcedNamespaces, Options};
use crate::manifests::policies::enforced::{JOB_IS_TOP, POD_IS_TOP, SELECTED};
use crate::manifests::policies::policy::{Rules, Validating};
use crate::manifests::webhook_rules::{job_rule, pod_rule};
use crate::rules::enforcement::required::{WOULD_BE, what_would_be_done};

/// The name of the policy.
const NAME: &str = "sluice-enforcement-dry-run";

/// The policies.
pub(super) fn validating(options: &Options, kinds: &[HeldKind]) -> Vec<Validating> {
    let labelled = (
        String::new(),
        EnforcedNamespaces::labelled_dry_run().namespaces,
    );
    let configured = EnforcedNamespaces::configured(&options.managed_namespaces);
    let selected = configured.filter(|configured| configured.is_dry_run);
    let selected = selected.map(|selected| (SELECTED.to_owned(), selected.namespaces));
    let of = |(suffix, namespaces): (String, LabelSelector)| {
        let mut rules = rules(options, kinds);
        rules.name.push_str(&suffix);
        let policy = rules.validating(options).that_warns();
        policy.in_namespaces(&namespaces)
    };
    let all = std::iter::once(labelled).chain(selected);
    all.map(of).collect()
}

fn rules(options: &Options, kinds: &[HeldKind]) -> Rules<Validation> {
    let managed = &options.managed_namespaces;
    let own: Vec<&HeldKind> = kinds.iter().collect();
    let mut variables = metadata::variables();
    variables.extend(queue::variables(options));
    variables.extend(owners::variables(&own, kinds));
    variables.extend(owners::author_of(&own, kinds));
    variables.push(owners::made_for_pod(&own, kinds));
    variables.push(variable("isOwned", "variables.owners.size() != 0"));
    let is_top = format!("request.kind.group == '' ? {POD_IS_TOP} : {JOB_IS_TOP}");
    let excepted = required::exceptions(managed).unwrap_or_else(|| "false".to_owned());
    variables.push(variable("isTop", is_top));
    variables.push(variable(
        "isReported",
        format!("variables.queue.size() == 0 && variables.isTop && !({excepted})"),
    ));
    let requests = kinds
        .iter()
        .map(|kind| job_rule(&kind.resource, &[], &["CREATE"]));
    let is_new = format!(
        "!({}) && (request.kind.group != '' || {})",
        any(queue_names(options), "object"),
        pods::stands_alone()
    );
    Rules {
        name: NAME.to_owned(),
        requests: requests.chain([pod_rule("pods", &["CREATE"])]).collect(),
        condition: condition("names-no-queue", is_new),
        judges_deleted: false,
        variables,
        outcomes: vec![Validation {
            expression: "!variables.isReported".to_owned(),
            message_expression: Some(message(options)),
            ..Validation::default()
        }],
    }
}

/// CEL: what is told. What would be done is what the configuration says; Hold, if it says nothing.
fn message(options: &Options) -> String {
    let managed = &options.managed_namespaces;
    let unlabelled = match managed.unlabelled {
        Unlabelled::Ignore => Unlabelled::Hold,
        configured => configured,
    };
    let queue = format!("{:?}", managed.default_local_queue);
    let done = text(&what_would_be_done(unlabelled, &queue));
    let at = field("labels", QUEUE_NAME_LABEL);
    filled(WOULD_BE, &["strings.quote(request.namespace)", &done, &at])
}
