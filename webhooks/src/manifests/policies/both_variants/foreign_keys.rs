//! The policy that warns of keys of Kueue and Volcano that are no aliases: of an object that has none but these, the webhooks
//! are not asked, and it runs at once. It refuses nothing.
//!
//! Which keys are aliases, the webhook configuration says that Sluice makes: its conditions name them. Without webhooks there is
//! none, and nothing is told.

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use sluice_crds::{ENFORCEMENT_LABEL, GROUP};
use sluice_kinds::aliases::{FOREIGN_KEYS, ForeignKey};
use sluice_kinds::gates::GATE_ANNOTATIONS;

use crate::manifests::cel::metadata::is_owned;
use crate::manifests::cel::syntax::{self, text, texts, variable};
use crate::manifests::conditions::entry::condition;
use crate::manifests::declared::DECLARED;
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, Validating};
use crate::manifests::webhook_rules::rule;

const MAPS: [&str; 2] = ["labels", "annotations"];

/// The policy.
pub(super) fn policy(options: &Options) -> Validating {
    let any = MAPS.map(|map| exists(map, &format!("k in {}", keys(map))));
    let ours = MAPS.map(|map| {
        let gates = texts(GATE_ANNOTATIONS);
        exists(map, &format!("k.startsWith('{GROUP}/') || k in {gates}"))
    });
    let conditions = format!(
        "({}) &&\n!({}) &&\n!{}",
        any.join(" ||\n"),
        ours.join(" ||\n"),
        is_owned("object")
    );
    // Where a queue is required, the webhooks are asked about every object.
    let is_managed =
        format!("'{ENFORCEMENT_LABEL}' in namespaceObject.metadata.?labels.orValue({{}})");
    let problems: Vec<_> = FOREIGN_KEYS.iter().map(problem).collect();
    let made = |group: &str, resources: &[&str]| {
        let resources = resources.iter().map(ToString::to_string).collect();
        rule(group, "v1", &["CREATE"], resources, "Namespaced")
    };
    let rules = Rules {
        name: "sluice-foreign-keys".to_owned(),
        requests: vec![
            made("", &["pods"]),
            made("apps", &["deployments", "statefulsets"]),
            made("batch", &["jobs"]),
        ],
        condition: condition("has-foreign-key-alone", conditions),
        judges_deleted: false,
        variables: vec![variable(
            "problems",
            format!("{is_managed} ? [] :\n{}", problems.join(" +\n")),
        )],
        outcomes: vec![syntax::no_problems()],
    };
    let mut policy = rules.validating(options).that_warns();
    if let Some(spec) = &mut policy.policy.spec {
        spec.param_kind = Some(ParamKind {
            api_version: Some("admissionregistration.k8s.io/v1".to_owned()),
            kind: Some("ValidatingWebhookConfiguration".to_owned()),
        });
    }
    policy.binding.spec.param_ref = Some(ParamRef {
        name: Some(DECLARED.to_owned()),
        parameter_not_found_action: Some("Allow".to_owned()),
        ..ParamRef::default()
    });
    policy
}

/// CEL, a list: the keys that stand in this map.
fn keys(map: &str) -> String {
    let of_map = FOREIGN_KEYS.iter().filter(|foreign| foreign.map == map);
    texts(of_map.map(|foreign| foreign.key))
}

/// CEL: a key `k` of the object in this map is so.
fn exists(map: &str, is_so: &str) -> String {
    format!("has(object.metadata.{map}) && object.metadata.{map}.exists(k, {is_so})")
}

/// CEL, a list: that the object has this key, and that no condition names it.
fn problem(foreign: &ForeignKey) -> String {
    let ForeignKey {
        map,
        key,
        field,
        own,
        ..
    } = foreign;
    let is_alias = format!(
        "params.?webhooks.orValue([]).exists(w, w.?matchConditions.orValue([]).exists(c, c.expression.contains('{key}')))"
    );
    let what = format!("means nothing to Sluice, as {field} of its configuration does not list it");
    format!(
        "('{key}' in object.metadata.?{map}.orValue({{}}) && !{is_alias} ?\n[{{'at': {}, 'kind': {}, 'rule': {}}}] : [])",
        text(&format!("metadata.{map}[{key}]")),
        text(&what),
        text(&format!("if Sluice is to queue the object, use {own}")),
    )
}
