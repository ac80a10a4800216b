//! What goes over the network: writes, watches, events, and admission requests.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use sluice_gates::Enforced;
use sluice_webhooks::Answered;

use super::definitions;
use super::registrar::Registrar;
use super::series::{Forget, Level, Series};
use crate::process::watch_freshness::Freshness;

/// The series of this file.
#[derive(Debug, Clone)]
pub struct TrafficSeries {
    writes: Series<Counter>,
    write_seconds: Series<Histogram>,
    watch_errors: Series<Counter>,
    watch_silence: Series<Level>,
    events_dropped: Series<Counter>,
    pods_not_labelled: Series<Counter>,
    webhook_requests: Series<Counter>,
    webhook_seconds: Series<Histogram>,
    unlabelled: Series<Counter>,
}

impl TrafficSeries {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            writes: registrar.add(&definitions::API_WRITES),
            write_seconds: registrar.add(&definitions::API_WRITE_SECONDS),
            watch_errors: registrar.add(&definitions::WATCH_ERRORS),
            watch_silence: registrar.add(&definitions::WATCH_SILENCE),
            events_dropped: registrar.add(&definitions::EVENTS_DROPPED),
            pods_not_labelled: registrar.add(&definitions::PODS_NOT_LABELLED),
            webhook_requests: registrar.add(&definitions::WEBHOOK_REQUESTS),
            webhook_seconds: registrar.add(&definitions::WEBHOOK_SECONDS),
            unlabelled: registrar.add(&definitions::UNLABELLED_OBJECTS),
        }
    }

    /// Finds out how long each watch has been silent.
    pub(super) fn read_silences(&self, freshness: &Freshness) {
        let mut levels = BTreeMap::new();
        for (resource, silence) in freshness.silences() {
            let level: &mut f64 = levels.entry(vec![resource]).or_default();
            *level = level.max(silence.as_secs_f64());
        }
        self.watch_silence.replace(levels);
    }
}

impl TrafficSeries {
    /// A write has ended, after so long.
    pub fn write(&self, operation: &'static str, outcome: &'static str, took: Duration) {
        self.writes.at(&[operation, outcome], |count| {
            count.inc();
        });
        self.write_seconds
            .at(&[operation], |time| time.observe(took.as_secs_f64()));
    }

    /// A watch has failed.
    pub fn watch_error(&self, resource: &str) {
        self.watch_errors.at(&[resource], |count| {
            count.inc();
        });
    }

    /// A resource is not watched any more.
    pub fn forget_watch(&self, resource: &str) {
        self.watch_errors.forget(&[("resource", resource)]);
    }

    /// An event was dropped.
    pub fn event_dropped(&self) {
        self.events_dropped.at(&[], |count| {
            count.inc();
        });
    }

    /// A pod that runs in a queue could not be given Sluice's label.
    pub fn pod_not_labelled(&self) {
        self.pods_not_labelled.at(&[], |count| {
            count.inc();
        });
    }

    /// An admission request was answered.
    pub fn answered(&self, answered: Answered) {
        let Answered {
            webhook,
            outcome,
            took,
        } = answered;
        self.webhook_requests
            .at(&[webhook.name(), outcome.name()], |count| {
                count.inc();
            });
        self.webhook_seconds
            .at(&[webhook.name()], |time| time.observe(took.as_secs_f64()));
    }

    /// An object that names no queue was created where one is required, and this was done or reported.
    pub fn enforced(&self, enforced: Enforced) {
        let mode = if enforced.is_dry_run {
            "DryRun"
        } else {
            "Enforced"
        };
        self.unlabelled
            .at(&[enforced.unlabelled.name(), mode], |count| {
                count.inc();
            });
    }
}
