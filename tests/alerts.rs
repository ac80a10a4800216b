//! Each alert fires by what it is about and stops when that is over, as the real Prometheus judges it, over as much time as
//! it takes. Which faults of a real Sluice make such series is tried in `it/observability/alerts.rs`.
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
use std::process::Command;

use serde_json::{Value, json};
use sluice_testbed::Assets;

const RULES: &str = "config/monitoring/prometheus-operator/rules.yaml";

/// An alert, the series by which it fires, a value each minute; the minute at which it fires, with these labels, and the one
/// at which it is over. It does not fire in the minute 1.
type Row<'a> = (
    &'a str,
    &'a [(&'a str, &'a str)],
    (u32, &'a [(&'a str, &'a str)]),
    u32,
);

const POD: (&str, &str) = ("pod", "sluice-a");
const QUEUE: (&str, &str) = ("cluster_queue", "research");

const ROWS: [Row<'_>; 31] = [
    (
        "SluiceNoLeader",
        &[("sluice_leader{pod=\"sluice-a\"}", "1x3 0x9 1x9")],
        (9, &[]),
        15,
    ),
    (
        "SluiceLeaderFlaps",
        &[("sluice_leader{pod=\"sluice-a\"}", "1x3 0 1 0 1 0 1 1x60")],
        (20, &[]),
        60,
    ),
    // The process ends a minute after its last turn.
    (
        "SluiceLoopStalled",
        &[
            (
                "sluice_loop_silence_seconds{pod=\"sluice-a\"}",
                "0.5x3 45 _x30",
            ),
            ("sluice_loop_silence_seconds{pod=\"sluice-b\"}", "0x40"),
        ],
        (8, &[POD]),
        20,
    ),
    (
        "SluiceWritesRefused",
        &[(
            "sluice_api_writes_total{operation=\"admit\",outcome=\"refused\"}",
            "0x3 0+2x25 50x40",
        )],
        (20, &[("operation", "admit")]),
        50,
    ),
    (
        "SluiceWritesUnanswered",
        &[(
            "sluice_api_writes_total{operation=\"admit\",outcome=\"unknown\"}",
            "0x3 0+20x25 500x40",
        )],
        (20, &[]),
        50,
    ),
    (
        "SluiceObjectUnreadable",
        &[("sluice_unreadable_objects{kind=\"Gate\"}", "0x2 1x20 0x9")],
        (12, &[("kind", "Gate")]),
        26,
    ),
    // A kind that is not served at all is no trouble, and the reason may change.
    (
        "SluiceJobKindNotReady",
        &[
            (
                "sluice_job_kind_ready{job_kind=\"rayjob\",reason=\"Waiting\"}",
                "0x60",
            ),
            (
                "sluice_job_kind_ready{job_kind=\"job\",reason=\"Watched\"}",
                "1x2 _x20 1x30",
            ),
            (
                "sluice_job_kind_ready{job_kind=\"job\",reason=\"Unreachable\"}",
                "_x3 0x5 stale",
            ),
            (
                "sluice_job_kind_ready{job_kind=\"job\",reason=\"Forbidden\"}",
                "_x9 0x13 stale",
            ),
        ],
        (18, &[("job_kind", "job")]),
        30,
    ),
    (
        "SluiceNothingAdmitted",
        &[
            (
                "sluice_pending_workloads{cluster_queue=\"research\",status=\"active\"}",
                "3x90",
            ),
            (
                "sluice_cluster_queue_status{cluster_queue=\"research\",status=\"active\"}",
                "1x90",
            ),
            (
                "sluice_admitted_workloads_total{cluster_queue=\"research\"}",
                "0x2 0+1x5 5x40 5+1x40",
            ),
        ],
        (45, &[QUEUE]),
        60,
    ),
    // A new leader counts from the first admission on, which is all that is seen of it: 3, and not 0 before.
    (
        "SluiceNothingAdmitted",
        &[
            (
                "sluice_pending_workloads{cluster_queue=\"research\",status=\"active\"}",
                "3x90",
            ),
            (
                "sluice_cluster_queue_status{cluster_queue=\"research\",status=\"active\"}",
                "1x90",
            ),
            (
                "sluice_admitted_workloads_total{cluster_queue=\"research\",pod=\"sluice-b\"}",
                "_x39 3x80",
            ),
        ],
        (35, &[QUEUE]),
        50,
    ),
    // The leader crashes, and nobody leads for two evaluations: here, and in the next three.
    (
        "SluicePendingTooLong",
        &[
            (
                "sluice_pending_workloads{cluster_queue=\"research\",status=\"inadmissible\",pod=\"sluice-a\"}",
                "3x500 stale",
            ),
            (
                "sluice_pending_workloads{cluster_queue=\"research\",status=\"inadmissible\",pod=\"sluice-b\"}",
                "_x503 3x400",
            ),
            (
                "sluice_admitted_workloads_total{cluster_queue=\"research\",pod=\"sluice-a\"}",
                "5x500 stale",
            ),
            (
                "sluice_admitted_workloads_total{cluster_queue=\"research\",pod=\"sluice-b\"}",
                "_x503 0x297 0+1x90",
            ),
        ],
        (790, &[QUEUE]),
        815,
    ),
    (
        "SluiceQueueInactive",
        &[
            (
                "sluice_cluster_queue_status{cluster_queue=\"research\",status=\"pending\",pod=\"sluice-a\"}",
                "0x2 1x15 stale",
            ),
            (
                "sluice_cluster_queue_status{cluster_queue=\"research\",status=\"pending\",pod=\"sluice-b\"}",
                "_x21 1x31 0x9",
            ),
        ],
        (40, &[QUEUE]),
        58,
    ),
    (
        "SluiceWorkloadsStalled",
        &[
            (
                "sluice_stalled_workloads{cluster_queue=\"research\",pod=\"sluice-a\"}",
                "0x2 1x9 stale",
            ),
            (
                "sluice_stalled_workloads{cluster_queue=\"research\",pod=\"sluice-b\"}",
                "_x15 1x17 0x9",
            ),
        ],
        (25, &[QUEUE]),
        38,
    ),
    (
        "SluiceGateBacklogged",
        &[
            (
                "sluice_gate_backlogged{gate=\"acme.io/budget\",pod=\"sluice-a\"}",
                "0x2 1x4 stale",
            ),
            (
                "sluice_gate_backlogged{gate=\"acme.io/budget\",pod=\"sluice-b\"}",
                "_x10 1x12 0x9",
            ),
        ],
        (18, &[("gate", "acme.io/budget")]),
        28,
    ),
    (
        "SluiceWebhookFails",
        &[(
            "sluice_webhook_requests_total{webhook=\"mutate\",verdict=\"retry\"}",
            "0x3 0+2x25 50x40",
        )],
        (20, &[("webhook", "mutate")]),
        50,
    ),
    (
        "SluiceWebhookUnreached",
        &[(
            "apiserver_admission_webhook_rejection_count{name=\"validate.jobs.sluice.dev\",error_type=\"calling_webhook_error\"}",
            "0x3 0+1x9 9x40",
        )],
        (10, &[("name", "validate.jobs.sluice.dev")]),
        40,
    ),
    (
        "SluiceWebhookSlow",
        &[
            (
                "sluice_webhook_seconds_bucket{webhook=\"mutate\",le=\"1\"}",
                "0x90",
            ),
            (
                "sluice_webhook_seconds_bucket{webhook=\"mutate\",le=\"3\"}",
                "0x3 0+9x30 270x50",
            ),
            (
                "sluice_webhook_seconds_bucket{webhook=\"mutate\",le=\"+Inf\"}",
                "0x3 0+9x30 270x50",
            ),
        ],
        (25, &[("webhook", "mutate")]),
        60,
    ),
    (
        "SluiceCertificateEnds",
        &[(
            "sluice_webhook_certificate_expiration_timestamp_seconds{pod=\"sluice-a\"}",
            "700000x2 500000x80 7000000x9",
        )],
        (75, &[POD]),
        88,
    ),
    (
        "SluiceWatchErrors",
        &[(
            "sluice_watch_errors_total{resource=\"jobs\"}",
            "0x3 0+20x30 600x40",
        )],
        (30, &[("resource", "jobs")]),
        60,
    ),
    // One watch that is refused each time that it is tried.
    (
        "SluiceWatchErrors",
        &[(
            "sluice_watch_errors_total{resource=\"workloads\"}",
            "0x3 0+5x30 150x40",
        )],
        (30, &[("resource", "workloads")]),
        60,
    ),
    (
        "SluiceWatchSilent",
        &[(
            "sluice_watch_silence_seconds{resource=\"jobs\"}",
            "1x3 40+60x9 1x9",
        )],
        (10, &[("resource", "jobs")]),
        18,
    ),
    // An hour longer than that process, which need not lead.
    (
        "SluiceInvariantViolated",
        &[
            (
                "sluice_invariant_violations_total{pod=\"sluice-a\"}",
                "0x3 1x2 0x103",
            ),
            (
                "sluice_invariant_violations_total{pod=\"sluice-b\"}",
                "0x110",
            ),
        ],
        (60, &[POD]),
        70,
    ),
    // It was found before the process was seen first.
    (
        "SluiceInvariantViolated",
        &[(
            "sluice_invariant_violations_total{pod=\"sluice-a\"}",
            "_x2 1x2 stale",
        )],
        (60, &[POD]),
        70,
    ),
    // The leader changes, and the job of the first has no pods under the second either.
    (
        "SluiceWorkloadsWithoutPods",
        &[
            (
                "sluice_workloads_without_pods{cluster_queue=\"research\",pod=\"sluice-a\"}",
                "0x2 1x10 stale",
            ),
            (
                "sluice_workloads_without_pods{cluster_queue=\"research\",pod=\"sluice-b\"}",
                "_x15 2x10 0x9",
            ),
        ],
        (20, &[QUEUE]),
        28,
    ),
    // It is tried three times, each half a minute.
    (
        "SluicePodsUncounted",
        &[
            (
                "sluice_pods_not_labelled_total{pod=\"sluice-a\"}",
                "0x3 0+2x19 38x30",
            ),
            ("sluice_pods_not_labelled_total{pod=\"sluice-b\"}", "0x55"),
        ],
        (20, &[]),
        35,
    ),
    // What is in the way only the API server sees.
    (
        "SluiceVisibilityUnavailable",
        &[
            (
                "aggregator_unavailable_apiservice{name=\"v1alpha1.visibility.sluice.dev\"}",
                "0x2 1x9 0x9",
            ),
            (
                "aggregator_unavailable_apiservice{name=\"v1beta1.metrics.k8s.io\"}",
                "1x30",
            ),
            ("sluice_visibility_unavailable{pod=\"sluice-a\"}", "0x30"),
        ],
        (10, &[]),
        15,
    ),
    // Prometheus does not read the API server.
    (
        "SluiceVisibilityUnavailable",
        &[
            (
                "sluice_visibility_unavailable{pod=\"sluice-a\"}",
                "0x2 1x9 0x9",
            ),
            ("sluice_visibility_unavailable{pod=\"sluice-b\"}", "0x30"),
        ],
        (10, &[]),
        15,
    ),
    (
        "SluiceReportsDropped",
        &[
            (
                "sluice_events_dropped_total{pod=\"sluice-a\"}",
                "0x3 0+5x19 95x40",
            ),
            ("sluice_log_lines_dropped_total{pod=\"sluice-a\"}", "0x60"),
        ],
        (20, &[POD]),
        35,
    ),
    (
        "SluiceReportsDropped",
        &[
            ("sluice_events_dropped_total{pod=\"sluice-a\"}", "0x60"),
            (
                "sluice_log_lines_dropped_total{pod=\"sluice-a\"}",
                "0x3 0+5x19 95x40",
            ),
        ],
        (20, &[POD]),
        35,
    ),
    (
        "SluiceMetricsDropped",
        &[(
            "sluice_metric_series_dropped_total{pod=\"sluice-a\"}",
            "0x3 0+60x9 540x40",
        )],
        (12, &[POD]),
        35,
    ),
    (
        "SluiceConfigurationRefused",
        &[(
            "sluice_config_last_reload_successful{pod=\"sluice-a\"}",
            "1x2 0x20 1x9",
        )],
        (12, &[]),
        26,
    ),
    (
        "SluiceRestartRequired",
        &[(
            "sluice_config_restart_required{pod=\"sluice-a\"}",
            "0x2 1x80 0x9",
        )],
        (75, &[]),
        88,
    ),
];

/// An alert, and the values each minute of a series that is healed before anybody could look: it never fires.
const HEALED: [(&str, &str, &str); 3] = [
    (
        "SluicePodsUncounted",
        "sluice_pods_not_labelled_total{pod=\"sluice-a\"}",
        "0x3 1x40",
    ),
    (
        "SluiceReportsDropped",
        "sluice_events_dropped_total{pod=\"sluice-a\"}",
        "0x3 1x40",
    ),
    (
        "SluiceReportsDropped",
        "sluice_log_lines_dropped_total{pod=\"sluice-a\"}",
        "0x3 500x40",
    ),
];

/// The groups of rules, as Prometheus itself reads them.
fn groups() -> Value {
    let path = format!("{}/{RULES}", env!("CARGO_MANIFEST_DIR"));
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    json!({"groups": rules["spec"]["groups"]})
}

/// The test of a row, as `promtool` reads it. It compares the annotations of an alert too.
fn test((name, series, (fires, labels), over): &Row<'_>, rules: &Value) -> Value {
    let all = rules["groups"][0]["rules"].as_array().unwrap();
    let rule = all.iter().find(|rule| rule["alert"] == *name);
    let rule = rule.unwrap_or_else(|| panic!("there is no alert {name}"));
    let mut annotations = rule["annotations"].clone();
    let mut summary = annotations["summary"].as_str().unwrap().to_owned();
    let mut all = rule["labels"].clone();
    for (label, value) in *labels {
        all[label] = json!(value);
        summary = summary.replace(&format!("{{{{ $labels.{label} }}}}"), value);
    }
    annotations["summary"] = json!(summary);
    let firing = json!([{"exp_labels": all, "exp_annotations": annotations}]);
    let at = |minute: u32, alerts: Value| json!({"eval_time": format!("{minute}m"), "alertname": name, "exp_alerts": alerts});
    let series = series.iter();
    let series = series.map(|(series, values)| json!({"series": series, "values": values}));
    json!({
        "name": name,
        "interval": "1m",
        "input_series": series.collect::<Vec<_>>(),
        "alert_rule_test": [at(1, json!([])), at(*fires, firing), at(*over, json!([]))],
    })
}

fn healed((name, series, values): &(&str, &str, &str)) -> Value {
    let at = |minute: u32| json!({"eval_time": format!("{minute}m"), "alertname": name, "exp_alerts": []});
    json!({
        "name": format!("{name}, healed"),
        "interval": "1m",
        "input_series": [{"series": series, "values": values}],
        "alert_rule_test": (1..40).map(at).collect::<Vec<_>>(),
    })
}

#[test]
fn each_alert_fires_and_stops() {
    let rules = groups();
    let all = rules["groups"][0]["rules"].as_array().unwrap();
    let alerts: BTreeSet<&str> = all
        .iter()
        .map(|rule| rule["alert"].as_str().unwrap())
        .collect();
    let tried: BTreeSet<&str> = ROWS.iter().map(|row| row.0).collect();
    assert_eq!(tried, alerts, "each alert has a row");
    let rows = ROWS.iter().map(|row| test(row, &rules));
    let tests: Vec<Value> = rows.chain(HEALED.iter().map(healed)).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alerts");
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, value: &Value| {
        let path = folder.join(name);
        fs::write(&path, value.to_string()).unwrap();
        path
    };
    file("rules.yaml", &rules);
    let tests = file(
        "tests.yaml",
        &json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}),
    );
    let [_, promtool] = Assets::ensure_prometheus().unwrap();
    let output = Command::new(promtool)
        .args(["test", "rules"])
        .arg(tests)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
}
