//! Which alerts fire, and which have fired and are over.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use sluice_testbed::{ControlPlane, Prometheus, Sluice, eventually};

use crate::support::DEADLINE;

use super::fast_rules;

/// The alerts of a Prometheus, and what was seen of them.
pub struct Alerts {
    prometheus: Prometheus,
    fired: Mutex<BTreeSet<&'static str>>,
    over: Mutex<BTreeSet<&'static str>>,
}

impl Alerts {
    /// By the metrics of these replicas.
    pub async fn by(cp: &ControlPlane, replicas: &[&Sluice]) -> Result<Self> {
        let urls: Vec<String> = replicas.iter().map(|sluice| sluice.metrics_url()).collect();
        let addresses = urls.iter().map(|url| {
            let address = url.trim_start_matches("http://");
            address.trim_end_matches("/metrics")
        });
        let pods: Vec<(&str, &str)> = ["sluice-a", "sluice-b"]
            .into_iter()
            .zip(addresses)
            .collect();
        Ok(Self {
            prometheus: Prometheus::start(cp, &pods, &fast_rules::text()?).await?,
            fired: Mutex::default(),
            over: Mutex::default(),
        })
    }

    /// That an alert fires now.
    pub async fn fires(&self, alert: &'static str) -> Result<()> {
        let firing = self.prometheus.firing().await?;
        ensure!(firing.contains(alert), "{firing:?}");
        let mut fired = self.fired.lock().unwrap_or_else(PoisonError::into_inner);
        fired.insert(alert);
        Ok(())
    }

    /// Waits until an alert fires.
    pub async fn see_firing(&self, alert: &'static str) -> Result<()> {
        let what = format!("{alert} to fire");
        eventually(&what, DEADLINE, async || self.fires(alert).await).await
    }

    /// Waits until an alert that has fired does so no more.
    pub async fn see_over(&self, alert: &'static str) -> Result<()> {
        let has_fired = {
            let fired = self.fired.lock().unwrap_or_else(PoisonError::into_inner);
            fired.contains(alert)
        };
        ensure!(has_fired, "{alert} has not fired");
        eventually(&format!("{alert} to stop"), DEADLINE, async || {
            let firing = self.prometheus.firing().await?;
            ensure!(!firing.contains(alert), "{firing:?}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        over.insert(alert);
        Ok(())
    }

    /// All that have fired and have stopped.
    pub fn over(&self) -> BTreeSet<&'static str> {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        over.clone()
    }
}
