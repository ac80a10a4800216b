//! A report as text: for people as `kubectl describe` has it, for programs as JSON or YAML. It adds
//! nothing to what was found out.

use k8s_openapi::api::core::v1::Toleration;
use sluice_crds::{JobKindSpec, PartialAdmission, PodSetRule, WhenAbsent};
use sluice_kinds::metadata::api_version;

use crate::report::{
    GatesState, HoldReport, JobKindReport, ObjectReport, PodSetReport, Report, SeenObject,
};
use crate::rules::{Rules, name_of_kind};
use crate::table::{NONE, columns, fields, lines};

/// The report as JSON.
pub fn json(report: &Report) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// The report as YAML.
pub fn yaml(report: &Report) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(report)
}

/// The report for people. The rules of JobKinds are listed if there is nothing but JobKinds.
pub fn text(report: &Report, rules: &[Rules]) -> String {
    let mut parts = Vec::new();
    let told: String = report.job_kinds.iter().map(job_kind).collect();
    if report.objects.is_empty() {
        for (report, rules) in report.job_kinds.iter().zip(rules) {
            let listed = rules
                .spec
                .as_ref()
                .map(|spec| "\n".to_owned() + &listed(spec));
            parts.push(job_kind(report) + &listed.unwrap_or_default());
        }
    } else {
        parts.push(told);
        parts.extend(report.objects.iter().map(object));
    }
    parts.join("\n")
}

/// One line as kubectl writes one for each object, and the problems.
fn job_kind(report: &JobKindReport) -> String {
    let JobKindReport { name, problems, .. } = report;
    let name = or_none(Some(name));
    let verdict = match (problems.is_empty(), report.schema_checked) {
        (true, true) => "compiles and fits the schema of its kind",
        (true, false) => "compiles",
        (false, _) => "does not fit:",
    };
    format!("jobkind.sluice.dev/{name} {verdict}\n") + &indented(problems)
}

fn indented(problems: &[String]) -> String {
    let lines: Vec<_> = problems.iter().map(|line| format!("  {line}\n")).collect();
    lines.concat()
}

/// The rules of a JobKind.
fn listed(spec: &JobKindSpec) -> String {
    let kind = format!("{} {}", api_version(&spec.group, &spec.version), spec.kind);
    let children: Vec<_> = spec
        .children
        .iter()
        .map(|child| name_of_kind(&child.group, &child.kind))
        .collect();
    let finished = spec.finished.as_ref();
    let mut what = vec![
        ("Reads", kind),
        ("Suspend", or_none(spec.suspend.as_deref())),
        ("Admission", format!("{:?}", spec.admission)),
        ("Active", or_none(spec.active.as_deref())),
        ("Ready", or_none(spec.ready.as_deref())),
        ("Finished", or_none(finished.map(|rule| rule.when.as_str()))),
        (
            "Succeeded",
            or_none(finished.map(|rule| rule.succeeded.as_str())),
        ),
        (
            "Message",
            or_none(finished.and_then(|rule| rule.message.as_deref())),
        ),
        ("Children", or_none(Some(&children.join(", ")))),
    ];
    let sets: Vec<_> = spec.pod_sets.iter().map(listed_pod_set).collect();
    if sets.is_empty() {
        what.push(("Pod Sets", elsewhere(&children)));
        return fields(&what, 0);
    }
    fields(&what, 0) + "Pod Sets:\n" + &sets.concat()
}

fn listed_pod_set(rule: &PodSetRule) -> String {
    let when_absent = match rule.when_absent {
        WhenAbsent::Reject => None,
        other => Some(format!("{other:?}")),
    };
    let partial = rule.partial_admission.as_ref().map(|partial| {
        let PartialAdmission { annotation, field } = partial;
        format!("if annotation {annotation} says so; written to {field}")
    });
    let added: Vec<_> = rule
        .add_containers
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    let added = (!added.is_empty()).then(|| added.join(", "));
    let all = [
        ("For Each", rule.for_each.as_deref()),
        ("Name From", rule.name_from.as_deref()),
        ("Template", rule.template.as_deref()),
        ("Template From", rule.template_from.as_deref()),
        ("Pod Metadata", rule.pod_metadata.as_deref()),
        ("Pod Infos", rule.pod_infos.as_deref()),
        ("Add Containers", added.as_deref()),
        ("When Absent", when_absent.as_deref()),
        ("Count", Some(rule.count.as_deref().unwrap_or("1"))),
        ("Reclaimable", rule.reclaimable.as_deref()),
        ("Partial Admission", partial.as_deref()),
    ];
    let there: Vec<_> = all
        .into_iter()
        .filter_map(|(name, value)| Some((name, or_none(Some(value?)))))
        .collect();
    format!("  {}:\n{}", rule.name, fields(&there, 4))
}

/// The text in one line: expressions are often folded over several.
fn or_none(text: Option<&str>) -> String {
    let words: Vec<_> = text.unwrap_or_default().split_whitespace().collect();
    if words.is_empty() {
        NONE.to_owned()
    } else {
        words.join(" ")
    }
}

fn object(report: &ObjectReport) -> String {
    let mut all = vec![
        ("Name", or_none(Some(&report.name))),
        ("Namespace", or_none(report.namespace.as_deref())),
        ("Kind", format!("{} {}", report.api_version, report.kind)),
        ("JobKind", or_none(report.job_kind.as_deref())),
    ];
    let mut table = String::new();
    if let Some(seen) = &report.seen {
        all.extend([
            ("Queue", or_none(seen.queue.as_deref())),
            ("Gates", gates(seen)),
            ("Held By", held_by(seen)),
            ("Suspended", known(seen.suspended)),
            ("Active", known(seen.active)),
            ("Finished", finished(seen)),
        ]);
        if !seen.resource_claim_templates.is_empty() {
            let templates = seen.resource_claim_templates.join(", ");
            all.push(("Claims", format!("{templates} (not counted here)")));
        }
        match seen.pod_sets.as_deref() {
            None => all.push(("Pod Sets", known(None))),
            Some([]) => all.push(("Pod Sets", elsewhere(&seen.pods_of))),
            Some(sets) => table = "Pod Sets:\n".to_owned() + &pod_sets(seen, sets),
        }
    }
    let mut text = fields(&all, 0) + &table;
    if !report.problems.is_empty() {
        text.push_str("Problems:\n");
        text.push_str(&indented(&report.problems));
    }
    text
}

/// Where the pods are of an object that has no pod sets itself.
fn elsewhere(pods_of: &[String]) -> String {
    if pods_of.is_empty() {
        NONE.to_owned()
    } else {
        format!("those of its children: {}", pods_of.join(", "))
    }
}

fn gates(seen: &SeenObject) -> String {
    match seen.gates.state {
        GatesState::None => NONE.to_owned(),
        GatesState::Held => seen.gates.names.join(", "),
        GatesState::Invalid => "invalid".to_owned(),
    }
}

fn held_by(seen: &SeenObject) -> String {
    let how = match seen.hold {
        HoldReport::Suspend => "its suspend field",
        HoldReport::Pods => "scheduling gates on its pods, released together",
        HoldReport::EachPod => "scheduling gates on its pods, each released by itself",
    };
    if seen.queue.is_none() && seen.gates.state == GatesState::None {
        format!("nothing; in a queue or behind a gate it would be held by {how}")
    } else {
        how.to_owned()
    }
}

fn known(truth: Option<bool>) -> String {
    truth.map_or_else(|| "unknown".to_owned(), |truth| truth.to_string())
}

fn finished(seen: &SeenObject) -> String {
    let how = match seen.succeeded {
        None => return known(seen.finished),
        Some(true) => "succeeded",
        Some(false) => "failed",
    };
    match seen.message.as_str() {
        "" => how.to_owned(),
        message => format!("{how}: {message}"),
    }
}

fn pod_sets(seen: &SeenObject, sets: &[PodSetReport]) -> String {
    let headers = [
        "NAME",
        "COUNT",
        "REQUESTS",
        "TOTAL REQUESTS",
        "NODE SELECTOR",
        "TOLERATIONS",
        "EXTERNAL GATES",
    ];
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        lines(map.iter().map(|(key, value)| format!("{key}={value}")))
    };
    let mut rows: Vec<Vec<String>> = sets
        .iter()
        .map(|set| {
            vec![
                set.name.clone(),
                match set.min_count {
                    Some(min_count) => format!("{} (min {min_count})", set.count),
                    None => set.count.to_string(),
                },
                pairs(&set.requests),
                pairs(&set.total_requests),
                pairs(&set.node_selector),
                lines(set.tolerations.iter().map(toleration)),
                set.external_gates.to_string(),
            ]
        })
        .collect();
    if 1 < sets.len() {
        rows.push(vec![
            "<total>".to_owned(),
            seen.total_count.to_string(),
            String::new(),
            pairs(&seen.total_requests),
        ]);
    }
    columns(&headers, &rows, 2)
}

/// A toleration as `kubectl describe` writes it.
fn toleration(toleration: &Toleration) -> String {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let mut text = given(&toleration.key).unwrap_or_default();
    let value = given(&toleration.value);
    if let Some(value) = &value {
        text.push('=');
        text.push_str(value);
    }
    if let Some(effect) = given(&toleration.effect) {
        text.push(':');
        text.push_str(&effect);
    }
    if value.is_none() && toleration.operator.as_deref() == Some("Exists") {
        text.push_str(if text.is_empty() {
            "op=Exists"
        } else {
            " op=Exists"
        });
    }
    match toleration.toleration_seconds {
        Some(seconds) => format!("{text} for {seconds}s"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_may_be_those_of_children() {
        let spec: JobKindSpec = serde_json::from_value(json!({
            "group": "acme.io",
            "version": "v1",
            "kind": "Team",
            "children": [{"group": "batch", "kind": "Job"}, {"group": "", "kind": "Crew"}],
        }))
        .unwrap();
        let last = listed(&spec).lines().last().map(str::to_owned);
        assert_eq!(
            last.as_deref(),
            Some("Pod Sets:   those of its children: Job.batch, Crew")
        );
    }
}
