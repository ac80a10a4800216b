//! The shipped webhook configurations: Sluice's account may have them trust another certificate, ask about managed kinds,
//! and take away what an earlier version added. Who is asked, what becomes of requests when nobody answers, and which
//! other webhooks there are stays as the administrator applied it.

use std::collections::BTreeSet;

use sluice_crds::JobKindSpec;

use crate::manifests::applied::SUFFIX;
use crate::manifests::cel::syntax::{flattened, forbidden, text, texts, variable};
use crate::manifests::jail::cell::{Cell, of, rule};
use crate::manifests::jail::entries;
use crate::manifests::webhooks::{CONFIGURATION, MUTATE_JOBS, VALIDATE_JOBS};

/// The policy for the shipped webhook configurations.
pub(super) fn cell(shipped: &[JobKindSpec]) -> Cell {
    let resources = [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ];
    let variables = vec![
        variable("new", webhooks("object")),
        variable("old", webhooks("oldObject")),
        // By name: order says nothing.
        variable(
            "pairs",
            "variables.new.filter(w, variables.old.exists(o, o.name == w.name))\n\
             .map(w, {'name': w.name, 'new': w, 'old': variables.old.filter(o, o.name == w.name)[0]})",
        ),
        variable("problems", problems(shipped)),
    ];
    Cell {
        name: "sluice-jail-webhooks",
        rules: vec![of(
            CONFIGURATION,
            rule("admissionregistration.k8s.io", &["UPDATE"], &resources),
        )],
        excluded: Vec::new(),
        compared_with: None,
        variables,
    }
}

fn webhooks(object: &str) -> String {
    format!("{object}.?webhooks.orValue([])")
}

fn problems(shipped: &[JobKindSpec]) -> String {
    // An earlier version kept the webhooks of Gates here.
    let names = format!(
        "(variables.pairs.size() == variables.new.size() &&\n\
         variables.old.all(o, o.name.endsWith({}) || variables.new.exists(w, w.name == o.name)) ? [] : [{}])",
        text(SUFFIX),
        forbidden(
            "'webhooks'",
            &text("Sluice's account may neither add nor remove a webhook"),
        )
    );
    let kept = "Sluice's account may change only the caBundle, the rules of managed kinds and its match conditions";
    let of_pair = |fields: String, at: &str| {
        flattened(&format!(
            "variables.pairs.map(p, {fields}.map(k, {}))",
            forbidden(&format!("'webhooks[' + p.name + ']{at}' + k"), &text(kept))
        ))
    };
    let fields = format!(
        "{}.filter(k, !(k in ['clientConfig', 'matchConditions', 'rules']))",
        entries::changed("p.new", "p.old")
    );
    let client = format!(
        "{}.filter(k, k != 'caBundle')",
        entries::changed("p.new.clientConfig", "p.old.clientConfig")
    );
    format!(
        "{names} +\n{} +\n{} +\n{} +\n{} +\n{}",
        of_pair(fields, "."),
        of_pair(client, ".clientConfig."),
        conditions(),
        rules(shipped),
        entries::metadata_problems()
    )
}

/// The expressions of match conditions follow the configuration; which there are does not.
fn conditions() -> String {
    let names = |of: &str| format!("p.{of}.?matchConditions.orValue([]).map(c, c.name)");
    format!(
        "variables.pairs.filter(p, !({0}.all(n, n in {1}) && {1}.all(n, n in {0}))).map(p, {2})",
        names("new"),
        names("old"),
        forbidden(
            "'webhooks[' + p.name + '].matchConditions'",
            &text("Sluice's account may neither add nor remove a condition")
        )
    )
}

/// Rules follow the managed kinds, in the webhooks for jobs: those of Kubernetes itself only where a
/// shipped kind is in their group. The groups of Kubernetes end with `.k8s.io`, but that end is not theirs
/// alone.
fn rules(shipped: &[JobKindSpec]) -> String {
    let others = format!(
        "variables.pairs.filter(p, !(p.name in {}) && p.new.?rules != p.old.?rules).map(p, {})",
        texts([VALIDATE_JOBS, MUTATE_JOBS]),
        forbidden(
            "'webhooks[' + p.name + '].rules'",
            &text("Sluice's account may change only the rules of managed kinds")
        )
    );
    let narrow = is_narrow(shipped);
    let wide = flattened(&format!(
        "variables.pairs.map(p, p.new.?rules.orValue([])\n\
         .filter(r, !(r in p.old.?rules.orValue([])) && !({narrow}))\n.map(r, {}))",
        forbidden(
            "'webhooks[' + p.name + '].rules'",
            &format!(
                "{} + r.resources.join(', ') + {} + r.apiGroups.join(', ') + {}",
                text("a rule for "),
                text(" of "),
                text(
                    " is not a rule for a managed kind: a rule must list Job-like kinds one by one, with the scope Namespaced, for CREATE and UPDATE"
                )
            )
        )
    ));
    format!("{others} +\n{wide}")
}

/// CEL: the rule `r` is one for managed kinds.
pub(super) fn is_narrow(shipped: &[JobKindSpec]) -> String {
    let groups: BTreeSet<&str> = shipped.iter().map(|kind| kind.group.as_str()).collect();
    let is_group_of_jobs = format!(
        "g in {} || g.endsWith('.x-k8s.io') || g.contains('.') && !g.endsWith('.k8s.io') && !g.endsWith('sluice.dev')",
        texts(groups)
    );
    format!(
        "r.apiGroups.all(g, {is_group_of_jobs}) && r.?scope.orValue('*') == 'Namespaced' &&\n\
         r.operations.all(o, o in ['CREATE', 'UPDATE']) &&\n\
         (r.apiGroups + r.apiVersions + r.resources).all(t, !t.contains('*'))"
    )
}
