//! The shipped webhook configurations: Sluice's account may have them trust another certificate, and take away rules for
//! kinds that no JobKind declares and what an earlier version added. It adds nothing: what is declared stands in those of
//! its own making (`declared.rs`), which are compared with these. Who is asked about what, and what becomes of requests
//! when nobody answers, stays as the administrator applied it.

use crate::manifests::applied::SUFFIX;
use crate::manifests::cel::syntax::{flattened, forbidden, text, texts, variable};
use crate::manifests::jail::cell::{Cell, of, rule};
use crate::manifests::jail::entries;
use crate::manifests::webhooks::{CONFIGURATION, MUTATE_JOBS, VALIDATE_JOBS};

/// The policy for the shipped webhook configurations.
pub(super) fn cell() -> Cell {
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
        variable("problems", problems()),
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

fn problems() -> String {
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
    let kept = "Sluice's account may change only the caBundle, and remove rules for jobs";
    let of_pair = |fields: String, at: &str| {
        flattened(&format!(
            "variables.pairs.map(p, {fields}.map(k, {}))",
            forbidden(&format!("'webhooks[' + p.name + ']{at}' + k"), &text(kept))
        ))
    };
    let fields = format!(
        "{}.filter(k, !(k in ['clientConfig', 'rules']))",
        entries::changed("p.new", "p.old")
    );
    let client = format!(
        "{}.filter(k, k != 'caBundle')",
        entries::changed("p.new.clientConfig", "p.old.clientConfig")
    );
    format!(
        "{names} +\n{} +\n{} +\n{} +\n{}",
        of_pair(fields, "."),
        of_pair(client, ".clientConfig."),
        rules(),
        entries::metadata_problems()
    )
}

/// Rules go with their JobKinds, in the webhooks for jobs.
fn rules() -> String {
    format!(
        "variables.pairs.filter(p, p.name in {} ?\n\
         !p.new.?rules.orValue([]).all(r, r in p.old.?rules.orValue([])) : p.new.?rules != p.old.?rules).map(p, {})",
        texts([VALIDATE_JOBS, MUTATE_JOBS]),
        forbidden(
            "'webhooks[' + p.name + '].rules'",
            &text("Sluice's account may only remove rules, and only those for jobs")
        )
    )
}
