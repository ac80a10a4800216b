//! The webhook configurations of Sluice's own making: its account may make them, under one name. Their webhooks ask whoever
//! the shipped webhook for jobs or pods asks, in no more namespaces, about managed kinds and pods; and they are owned by
//! the shipped configuration, so they go with it.
//!
//! The shipped configuration is what requests are compared with. Without it nothing may be made: nobody has applied that
//! webhooks are asked at all.

use crate::manifests::applied::SUFFIX;
use crate::manifests::cel::syntax::{forbidden, text, texts, variable};
use crate::manifests::conditions::{applied, jobs, pods};
use crate::manifests::declared::{
    DECLARED, MUTATE_DECLARED, MUTATE_DECLARED_PODS, VALIDATE_DECLARED, VALIDATE_DECLARED_PODS,
};
use crate::manifests::jail::cell::{Cell, Param, of, rule};
use crate::manifests::jail::{entries, webhook_rules};
use crate::manifests::options::{DRY_RUNS, OWN_LABEL, Options};
use crate::manifests::webhooks::{
    CONFIGURATION, IGNORE, MUTATE_JOBS, MUTATE_PODS, VALIDATE_JOBS, VALIDATE_PODS,
};

const API_VERSION: &str = "admissionregistration.k8s.io/v1";
/// The webhooks for managed kinds, as the shipped ones for jobs.
const FOR_KINDS: [&str; 2] = [VALIDATE_DECLARED, MUTATE_DECLARED];
/// The webhooks for pods, as the shipped ones for pods.
const FOR_PODS: [&str; 2] = [VALIDATE_DECLARED_PODS, MUTATE_DECLARED_PODS];

/// The policies, one for each kind of webhook configuration.
pub(super) fn cells() -> [Cell; 2] {
    [
        cell(
            "sluice-jail-declared-validating",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        ),
        cell(
            "sluice-jail-declared-mutating",
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
        ),
    ]
}

fn cell(name: &'static str, kind: &'static str, resource: &'static str) -> Cell {
    let shipped_webhook = |names: [&str; 2]| {
        format!(
            "params.?webhooks.orValue([]).filter(w, w.name in {})",
            texts(names)
        )
    };
    let variables = vec![
        variable("jobs", shipped_webhook([VALIDATE_JOBS, MUTATE_JOBS])),
        variable("pods", shipped_webhook([VALIDATE_PODS, MUTATE_PODS])),
        // What was allowed once is not judged again when it trusts another certificate.
        variable(
            "known",
            "request.operation == 'CREATE' ? [] : oldObject.?webhooks.orValue([])",
        ),
        variable(
            "webhooks",
            format!(
                "object.?webhooks.orValue([]).filter(w, !variables.known.exists(o, o.name == w.name &&\n\
                 {}.all(k, k == 'clientConfig') &&\n{}.all(k, k == 'caBundle')))",
                entries::changed("w", "o"),
                entries::changed("w.clientConfig", "o.clientConfig")
            ),
        ),
        variable(
            "pairs",
            format!(
                "variables.webhooks.map(w, {{'new': w, 'shipped': dyn(w.name in {} ? variables.pods : variables.jobs)}})",
                texts(FOR_PODS)
            ),
        ),
        variable(
            "problems",
            format!("{} +\n{} +\n{}", metadata(), owner(kind), webhooks()),
        ),
    ];
    Cell {
        name,
        rules: vec![of(
            DECLARED,
            rule(
                "admissionregistration.k8s.io",
                &["CREATE", "UPDATE"],
                &[resource],
            ),
        )],
        excluded: Vec::new(),
        compared_with: Some(Param {
            api_version: API_VERSION,
            kind,
            name: CONFIGURATION,
        }),
        variables,
    }
}

/// It is made with the label by which all of Sluice is found, and nothing else.
fn metadata() -> String {
    let (key, value) = OWN_LABEL;
    format!(
        "(request.operation != 'CREATE' ? {} :\n\
         object.metadata.?labels.orValue({{}}) == {{{}: {}}} && object.metadata.?annotations.orValue({{}}) == {{}} &&\n\
         object.metadata.?finalizers.orValue([]) == [] ? [] : [{}])",
        entries::metadata_problems_but(&["ownerReferences"]),
        text(key),
        text(value),
        forbidden(
            "'metadata'",
            &text(
                "must have the label by which Sluice is found, and no other label, annotation or finalizer"
            )
        )
    )
}

fn owner(kind: &str) -> String {
    format!(
        "(request.operation != 'CREATE' && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences ||\n\
         object.metadata.?ownerReferences.orValue([]).size() == 1 &&\n\
         object.metadata.ownerReferences.all(o, o.apiVersion == {} && o.kind == {} && o.name == {} &&\n\
         o.uid == params.metadata.uid && !o.?controller.orValue(false) && !o.?blockOwnerDeletion.orValue(false)) ? [] : [{}])",
        text(API_VERSION),
        text(kind),
        text(CONFIGURATION),
        forbidden(
            "'metadata.ownerReferences'",
            &text("must name the shipped webhook configuration of the same kind, and nothing else")
        )
    )
}

/// Each is as the shipped webhook but for what follows from what is declared.
fn webhooks() -> String {
    let others = [
        "name",
        "rules",
        "matchConditions",
        "namespaceSelector",
        "clientConfig",
        "failurePolicy",
    ];
    let as_shipped = format!(
        "{}.all(k, k in {})",
        entries::changed("p.new", "p.shipped[0]"),
        texts(others)
    );
    // The certificate is renewed in one configuration after the other.
    let same_server = format!(
        "{}.all(k, k == 'caBundle')",
        entries::changed("p.new.clientConfig", "p.shipped[0].clientConfig")
    );
    let selector = |of: &str, field: &str| format!("p.{of}.?namespaceSelector.?{field}");
    let fewer_namespaces = format!(
        "{} == {} &&\n{}.orValue([]).all(e, e in {}.orValue([]))",
        selector("new", "matchLabels"),
        selector("shipped[0]", "matchLabels"),
        selector("shipped[0]", "matchExpressions"),
        selector("new", "matchExpressions"),
    );
    // What only reports holds up nothing.
    let dry_runs = texts(
        DRY_RUNS
            .map(|name| format!("{name}{SUFFIX}"))
            .iter()
            .map(String::as_str),
    );
    let as_hard = format!(
        "(p.new.?failurePolicy == p.shipped[0].?failurePolicy || p.new.?failurePolicy.orValue('') == {} && p.new.name in {dry_runs})",
        text(IGNORE)
    );
    let allowed = format!(
        "p.shipped.size() == 1 && {as_shipped} &&\n{as_hard} &&\n{same_server} &&\n{fewer_namespaces} &&\n{} &&\n{}",
        conditions(),
        rules()
    );
    format!(
        "variables.pairs.filter(p, !({allowed})).map(p, {})",
        forbidden(
            "'webhooks[' + p.new.name + ']'",
            &text(
                "a webhook of Sluice's own making must be as the shipped one, for no more namespaces, and only for Job-like kinds and pods"
            )
        )
    )
}

/// One condition is Sluice's own, and follows the configured aliases. Who is never asked stays as it is shipped.
fn conditions() -> String {
    let options = Options::default();
    let own = [
        jobs::validate_job(&options),
        jobs::mutate_job(&options),
        pods::validate_pod(&options),
        pods::mutate_pod(&options),
    ];
    let own = own.iter().map(|condition| condition.name.as_str());
    let own = texts(own.chain([applied::NAME]));
    let of = |webhook: &str, filter: &str| {
        format!("p.{webhook}.?matchConditions.orValue([]).filter(c, {filter})")
    };
    let (is_own, is_other) = (format!("c.name in {own}"), format!("!(c.name in {own})"));
    format!(
        "{}.map(c, c.name).all(n, p.new.name in {} || p.new.name.endsWith({}) && n == {}) &&\n\
         {}.size() == 1 && {} == {}",
        of("new", &is_own),
        texts(FOR_KINDS.into_iter().chain(FOR_PODS)),
        text(SUFFIX),
        text(applied::NAME),
        of("new", &is_own),
        of("new", &is_other),
        of("shipped[0]", &is_other),
    )
}

fn rules() -> String {
    format!(
        "p.new.?rules.orValue([]).all(r, p.new.name in {} ? r in p.shipped[0].?rules.orValue([]) :\n\
         p.new.name.endsWith({}) && ({}) ||\n{})",
        texts(FOR_PODS),
        text(SUFFIX),
        webhook_rules::is_for_pods_of_a_gate(),
        webhook_rules::is_for_jobs()
    )
}
