//! Alerts and dashboards use only metrics and labels that there are, and each alert has an entry in the runbook.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test ends by a panic"
)]
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sluice::metrics::{Definition, Kind, TABLE};

const RULES: &str = "config/monitoring/prometheus-operator/rules.yaml";
const BOARD: &str = "config/monitoring/grafana/sluice.json";
const RUNBOOK: &str = "docs/runbook.md";
/// Labels that Prometheus adds, or that histograms have.
const ADDED: [&str; 3] = ["pod", "instance", "le"];
/// The metrics of somebody else, with their labels: those of the API server about webhooks, and about APIs of others.
const OF_OTHERS: [(&str, &[&str]); 2] = [
    (
        "apiserver_admission_webhook_rejection_count",
        &["name", "error_type"],
    ),
    ("aggregator_unavailable_apiservice", &["name"]),
];

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The alerts, each with its fields.
fn alerts() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&read(RULES)).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap().iter();
    groups
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

/// All queries of a board, and what names their series.
fn queries(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(query)) = fields.get("expr") {
                let legend = fields["legendFormat"].as_str().unwrap_or_default();
                found.push((query.clone(), legend.to_owned()));
            }
            if let Some(Value::String(query)) = fields.get("query")
                && query.starts_with("label_values")
            {
                found.push((query.clone(), String::new()));
            }
            fields.values().for_each(|field| queries(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

/// The words of a query that are names.
fn names(query: &str) -> BTreeSet<String> {
    // What stands in quotes is a value.
    let unquoted: String = query.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let words = unquoted.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.map(str::to_owned).collect()
}

fn is_metric(word: &str) -> bool {
    word.starts_with("sluice_") || word.starts_with("process_")
}

/// The metric that a name in a query means.
fn definition(name: &str) -> Option<&'static Definition> {
    let of_histogram = ["_bucket", "_sum", "_count"];
    let plain = |name: &str| TABLE.iter().copied().find(|known| known.name == name);
    match plain(name) {
        Some(known) => (!matches!(known.kind, Kind::Histogram(_))).then_some(known),
        None => of_histogram.iter().find_map(|suffix| {
            let known = plain(name.strip_suffix(suffix)?)?;
            matches!(known.kind, Kind::Histogram(_)).then_some(known)
        }),
    }
}

/// Labels that are named in `by (…)`, `on (…)` and `{label=…}`.
fn labels(query: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for opening in ["by (", "on ("] {
        for rest in query.split(opening).skip(1) {
            let list = rest.split(')').next().unwrap_or_default();
            found.extend(list.split(',').map(|label| label.trim().to_owned()));
        }
    }
    for rest in query.split('{').skip(1) {
        let matchers = rest.split('}').next().unwrap_or_default();
        for matcher in matchers.split("\",") {
            let label = matcher.split(['=', '!']).next().unwrap_or_default();
            found.insert(label.trim().to_owned());
        }
    }
    found
}

fn check(query: &str, told: &str, place: &str) {
    let metrics: Vec<&Definition> = names(query)
        .iter()
        .filter(|word| is_metric(word))
        .map(|word| {
            definition(word).unwrap_or_else(|| panic!("{place}: there is no metric {word}"))
        })
        .collect();
    let of_others = OF_OTHERS.iter().filter(|(name, _)| query.contains(name));
    let of_others: Vec<&str> = of_others.flat_map(|(_, labels)| *labels).copied().collect();
    let is_of_any = !metrics.is_empty() || !of_others.is_empty();
    assert!(is_of_any, "{place}: no metric in {query}");
    // All programs of a cluster export these: only those of Sluice are meant.
    let is_joined = query.contains(" and on (instance, pod) sluice_build_info");
    let is_of_all = metrics
        .iter()
        .any(|metric| metric.name.starts_with("process_"));
    assert!(!is_of_all || is_joined, "{place}: {query} has no selector");
    let known: BTreeSet<&str> = metrics
        .iter()
        .flat_map(|metric| metric.labels)
        .copied()
        .chain(ADDED)
        .chain(of_others)
        .collect();
    let mut used = labels(query);
    for template in told.split("{{").skip(1) {
        let label = template.split("}}").next().unwrap_or_default().trim();
        used.insert(label.strip_prefix("$labels.").unwrap_or(label).to_owned());
    }
    for label in used {
        assert!(
            known.contains(label.as_str()),
            "{place}: no metric of {query} has the label {label:?}"
        );
    }
}

#[test]
fn alerts_use_metrics_that_there_are() {
    let alerts = alerts();
    assert!(10 <= alerts.len());
    for alert in &alerts {
        let name = alert["alert"].as_str().unwrap();
        let told = alert["annotations"]["summary"].as_str().unwrap();
        check(alert["expr"].as_str().unwrap(), told, name);
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}");
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        let anchor = format!("/{RUNBOOK}#{}", name.to_lowercase());
        assert!(
            url.starts_with("https://") && url.ends_with(&anchor),
            "{name}"
        );
    }
}

#[test]
fn each_metric_of_a_defect_has_an_alert() {
    let alerts = alerts();
    let queries = alerts.iter().map(|alert| alert["expr"].as_str().unwrap());
    let named: BTreeSet<String> = queries.flat_map(names).collect();
    let is_silent = |defect: &&&Definition| !named.contains(defect.name);
    let silent = TABLE.iter().filter(|metric| metric.is_defect);
    let silent: Vec<&str> = silent.filter(is_silent).map(|metric| metric.name).collect();
    assert_eq!(silent, [""; 0]);
    // What only goes up when something is dropped, fails or must not occur is one by its name.
    let words = [
        "dropped",
        "violations",
        "unreadable",
        "without",
        "not_labelled",
        "errors",
    ];
    for metric in TABLE {
        let is_by_name = words.iter().any(|word| metric.name.contains(word));
        assert!(!is_by_name || metric.is_defect, "{}", metric.name);
    }
}

#[test]
fn each_alert_has_an_entry_in_the_runbook_and_each_entry_an_alert() {
    let runbook = read(RUNBOOK);
    let entries: Vec<&str> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let alerts = alerts();
    let names: Vec<&str> = alerts
        .iter()
        .map(|alert| alert["alert"].as_str().unwrap())
        .collect();
    assert_eq!(entries, names);
}

/// All sources below a folder, as one text.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// An API server forgets an event after an hour, and an alert may last for days.
#[test]
fn what_the_runbook_finds_by_an_event_the_log_says_too() {
    let mut all = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    let runbook = read(RUNBOOK);
    let entries = runbook.split("\n## ").skip(1);
    let with_events: Vec<&str> = entries
        .filter(|entry| entry.contains("get events"))
        .collect();
    assert!(!with_events.is_empty());
    for entry in with_events {
        let mut quoted = entry.split('`').skip(1).step_by(2);
        let is_logged = |text: &str| all.contains(&format!("\"{text}\"\n"));
        assert!(entry.contains("The log of the leader") || entry.contains("the log of the leader"));
        assert!(quoted.any(is_logged), "no line of the log: {entry}");
    }
}

#[test]
fn the_dashboard_uses_metrics_that_there_are() {
    let board: Value = serde_json::from_str(&read(BOARD)).unwrap();
    let mut found = Vec::new();
    queries(&board, &mut found);
    assert!(20 < found.len());
    for (query, legend) in found {
        if query.starts_with("label_values") {
            let used = names(&query);
            let metric = used.iter().find(|word| is_metric(word)).unwrap();
            assert!(definition(metric).is_some(), "{query}");
            continue;
        }
        check(&query, &legend, BOARD);
    }
    let mut panels: Vec<u64> = board["panels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    panels.sort_unstable();
    panels.dedup();
    assert_eq!(
        panels.len(),
        board["panels"].as_array().unwrap().len(),
        "each panel has an id of its own"
    );
}

#[test]
fn a_metric_or_a_label_that_there_is_not_is_found() {
    let fails =
        |query: &str, told: &str| std::panic::catch_unwind(|| check(query, told, "test")).is_err();
    assert!(!fails(
        "sum by (cluster_queue) (sluice_pending_workloads{status=\"active\"})",
        "{{ $labels.cluster_queue }}"
    ));
    assert!(fails("sluice_pending", ""));
    assert!(
        fails("sluice_decision_seconds", ""),
        "a histogram has only _bucket, _sum and _count"
    );
    assert!(fails("sluice_leader_bucket", ""));
    assert!(fails("sum by (queue) (sluice_pending_workloads)", ""));
    assert!(fails("sluice_pending_workloads{queue=\"a\"}", ""));
    assert!(fails("sluice_pending_workloads", "{{ $labels.queue }}"));
    assert!(fails("up", ""));
    assert!(
        fails("process_resident_memory_bytes", "{{pod}}"),
        "it is that of every program"
    );
}
