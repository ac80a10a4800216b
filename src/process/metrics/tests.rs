//! The table, what is registered, and the reference page are the same; and what a scraper reads.

use std::time::Duration;

use super::definitions::{Definition, GATHERED, Kind, Server, TABLE};
use super::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
const BEGIN: &str = "<!-- The table is generated: make generate writes it -->\n";

fn row(definition: &Definition) -> String {
    let Definition { name, help, .. } = definition;
    let kind = match definition.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    };
    let labels = definition.labels.join("`, `");
    let labels = if labels.is_empty() {
        String::new()
    } else {
        format!("`{labels}`")
    };
    let server = match definition.server {
        Server::Replica => "every replica",
        Server::Leader => "the leader",
    };
    let kueue = definition
        .kueue
        .map_or_else(String::new, |kueue| format!("`{kueue}`"));
    format!("| `{name}` | {kind} | {labels} | {help} | {server} | {kueue} |\n")
}

#[test]
fn the_page_of_metrics_is_the_table() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, _) = page.split_once(BEGIN).unwrap();
    let head = "\n| metric | type | labels | meaning | served by | Kueue's name |\n|---|---|---|---|---|---|\n";
    let rows: String = TABLE.iter().map(|definition| row(definition)).collect();
    let wanted = format!("{before}{BEGIN}{head}{rows}");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(PAGE, wanted).unwrap();
    } else {
        assert_eq!(page, wanted, "make generate writes it");
    }
}

#[test]
fn each_metric_is_registered_once_and_well_named() {
    let mut registrar = Registrar::new();
    let metrics = Metrics::with(&mut registrar);
    let mut registered = registrar.registered;
    registered.sort_unstable();
    let mut named: Vec<_> = TABLE.iter().map(|definition| definition.name).collect();
    named.sort_unstable();
    assert_eq!(registered, named);
    for definition in TABLE {
        let Definition { name, help, .. } = definition;
        assert_eq!(
            definition.kind == Kind::Counter,
            name.ends_with("_total"),
            "{name}"
        );
        assert!(
            name.starts_with("sluice_") || name.starts_with("process_"),
            "{name}"
        );
        assert!(
            !help.ends_with('.') && !help.contains('|'),
            "{name}: {help}"
        );
        if let Kind::Histogram(buckets) = definition.kind {
            assert!(buckets.is_sorted() && name.ends_with("_seconds"), "{name}");
        }
    }
    for definition in GATHERED {
        assert_eq!(definition.kind, Kind::Gauge, "{}", definition.name);
    }
    drop(metrics);
}

/// The lines of one metric, without its description.
fn lines(metrics: &Metrics, name: &str) -> Vec<String> {
    let text = metrics.text(Exposition::Text);
    let all = text.lines().filter(|line| line.starts_with(name));
    all.map(str::to_owned).collect()
}

/// Those of this ClusterQueue and of the LocalQueue `main` of the same namespace.
fn counted_in(queue: &str) -> CountedIn<'_> {
    CountedIn {
        cluster_queue: queue,
        local_queue: Some([queue, "main"]),
    }
}

#[test]
fn the_series_of_a_queue_that_is_gone_are_gone() {
    let metrics = Metrics::new();
    for queue in ["team-a", "team-b"].map(counted_in) {
        metrics
            .workloads
            .admitted(queue, "high", Duration::from_secs(3));
        metrics.workloads.evicted(queue, "Preempted");
    }
    let mut gathered = Gathered::default();
    gathered.count(&definitions::RESERVING_WORKLOADS, &["team-a"], 2);
    gathered.set(
        &definitions::NOMINAL_QUOTA,
        &["", "team-a", "default", "cpu"],
        1.5,
    );
    metrics.gathered.publish(gathered);
    assert_eq!(
        lines(&metrics, "sluice_cluster_queue_nominal_quota"),
        [
            "sluice_cluster_queue_nominal_quota{cohort=\"\",cluster_queue=\"team-a\",flavor=\"default\",resource=\"cpu\"} 1.5"
        ]
    );
    metrics.forget_queue("team-a");
    metrics.forget_local_queue("team-b", "night");
    let text = metrics.text(Exposition::OpenMetrics);
    assert!(!text.contains("cluster_queue=\"team-a"), "{text}");
    assert_eq!(
        lines(&metrics, "sluice_evicted_workloads_total"),
        ["sluice_evicted_workloads_total{cluster_queue=\"team-b\",reason=\"Preempted\"} 1"]
    );
    metrics.forget_local_queue("team-a", "main");
    let text = metrics.text(Exposition::OpenMetrics);
    assert!(!text.contains("team-a"), "{text}");
    assert_eq!(
        lines(&metrics, "sluice_local_queue_evicted_workloads_total"),
        [
            "sluice_local_queue_evicted_workloads_total{namespace=\"team-b\",name=\"main\",reason=\"Preempted\"} 1"
        ]
    );
}

#[test]
fn a_local_queue_without_metrics_is_not_counted() {
    let metrics = Metrics::new();
    let queues = CountedIn {
        local_queue: None,
        ..counted_in("team-a")
    };
    metrics.workloads.evicted(queues, "Preempted");
    assert_eq!(lines(&metrics, "sluice_evicted_workloads_total").len(), 1);
    assert!(lines(&metrics, "sluice_local_queue_").is_empty());
}

/// Prometheus sees how much a series rises, and not to what value it begins.
#[test]
fn counters_begin_at_zero() {
    let metrics = Metrics::new();
    for _ in 0..2 {
        metrics.workloads.queue_exists("team-a");
        let levels = GateLevels {
            held: 0,
            oldest: 0,
            is_backlogged: false,
        };
        metrics.gates.gate("acme.io/budget", levels);
    }
    metrics.workloads.released("team-a", None);
    metrics.workloads.queue_exists("team-a");
    let counters = [
        "sluice_admitted_workloads_total",
        "sluice_released_jobs_total",
        "sluice_gate_lifted_total",
        "sluice_gate_expired_total",
    ];
    let all: Vec<_> = counters
        .iter()
        .flat_map(|name| lines(&metrics, name))
        .collect();
    assert_eq!(
        all,
        [
            "sluice_admitted_workloads_total{cluster_queue=\"team-a\",priority_class=\"\"} 0",
            "sluice_released_jobs_total{cluster_queue=\"team-a\"} 1",
            "sluice_gate_lifted_total{gate=\"acme.io/budget\"} 0",
            "sluice_gate_expired_total{gate=\"acme.io/budget\"} 0",
        ]
    );
}

#[test]
fn what_was_gathered_replaces_what_was_gathered_before() {
    let metrics = Metrics::new();
    for queue in ["team-a", "team-b"] {
        let mut gathered = Gathered::default();
        gathered.count(&definitions::RESERVING_WORKLOADS, &[queue], 1);
        metrics.gathered.publish(gathered);
    }
    assert_eq!(
        lines(&metrics, "sluice_reserving_active_workloads"),
        ["sluice_reserving_active_workloads{cluster_queue=\"team-b\"} 1"]
    );
}

#[test]
fn series_are_bounded_and_what_is_dropped_is_counted() {
    let metrics = Metrics::new();
    for number in 0..series::SERIES_MAX + 3 {
        metrics.traffic.watch_error(&number.to_string());
    }
    metrics.traffic.watch_error("0");
    let all = lines(&metrics, "sluice_watch_errors_total");
    assert_eq!(all.len(), series::SERIES_MAX);
    assert!(all.contains(&"sluice_watch_errors_total{resource=\"0\"} 2".to_owned()));
    assert_eq!(
        lines(&metrics, "sluice_metric_series_dropped_total"),
        ["sluice_metric_series_dropped_total 3"]
    );
}

#[test]
fn label_values_are_escaped() {
    let metrics = Metrics::new();
    metrics.traffic.watch_error("a\"b\\c\nd");
    assert_eq!(
        lines(&metrics, "sluice_watch_errors_total"),
        ["sluice_watch_errors_total{resource=\"a\\\"b\\\\c\\nd\"} 1"]
    );
}

/// By a clock of this process alone: that of Prometheus, or of the node, may be another one.
#[tokio::test(start_paused = true)]
async fn the_silence_of_the_loop_is_counted_by_its_own_clock() {
    let metrics = Metrics::new();
    let silence = || lines(&metrics, "sluice_loop_silence_seconds");
    assert_eq!(silence(), ["sluice_loop_silence_seconds 0"], "none runs");
    metrics.pulse().beat();
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(silence(), ["sluice_loop_silence_seconds 20"]);
    metrics.pulse().end();
    assert_eq!(silence(), ["sluice_loop_silence_seconds 0"], "it has ended");
}
