//! The command line and the configuration file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use serde::Deserialize;

/// Holds Job-like objects at a gate until their external gates are lifted and their queue has quota.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Args {
    /// Configuration file (YAML).
    #[arg(long, env = "SLUICE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The namespace Sluice runs in, where its Lease and its certificate are.
    #[arg(long, env = "POD_NAMESPACE", default_value = "sluice-system")]
    pub namespace: String,
    /// Sluice's own service account: its writes are not judged by the webhooks.
    #[arg(long, env = "SLUICE_SERVICE_ACCOUNT", default_value = "sluice")]
    pub service_account: String,
    /// Name of this process, which no other process has at the same time: the pod's. A process
    /// that starts again under its old name takes its Lease back at once. Default: made from the
    /// process ID.
    #[arg(long, env = "POD_NAME")]
    pub instance: Option<String>,
    /// Where webhooks are served.
    #[arg(long, env = "SLUICE_WEBHOOK_BIND", default_value = "0.0.0.0:9443")]
    pub webhook_bind: SocketAddr,
    /// A further DNS name or IP address in the serving certificate. May be repeated.
    #[arg(long, env = "SLUICE_WEBHOOK_SAN", value_delimiter = ',')]
    pub webhook_san: Vec<String>,
    /// Where metrics are served, as GET /metrics.
    #[arg(long, env = "SLUICE_METRICS_BIND", default_value = "0.0.0.0:8080")]
    pub metrics_bind: SocketAddr,
    /// Where health is served, as GET /healthz and /readyz.
    #[arg(long, env = "SLUICE_HEALTH_BIND", default_value = "0.0.0.0:8081")]
    pub health_bind: SocketAddr,
    /// The form of the log.
    #[arg(long, env = "SLUICE_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Labels that name a queue besides `sluice.dev/queue-name`, for instance
    /// `kueue.x-k8s.io/queue-name`. The match conditions of the webhooks follow; admission policies
    /// have to be generated with them.
    pub queue_label_aliases: Vec<String>,
    /// Names of the queue gate, and of the annotation by which a pod asks for it, besides
    /// `sluice.dev/queue-allocation-gate`: for instance Volcano's,
    /// `scheduling.volcano.sh/queue-allocation-gate`. Match conditions and policies as above.
    pub queue_gate_aliases: Vec<String>,
}

impl Config {
    /// Reads the file, if there is one to read.
    pub fn load(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("read the configuration file {}", path.display()))?;
        Self::parse(&text)
            .with_context(|| format!("read the configuration file {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Ok(serde_saphyr::from_str(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(Config::parse("").unwrap().queue_label_aliases.is_empty());
        let config = Config::parse("queueLabelAliases: [kueue.x-k8s.io/queue-name]").unwrap();
        assert_eq!(config.queue_label_aliases, ["kueue.x-k8s.io/queue-name"]);
        let error = Config::parse("queueLabels: [x]").unwrap_err().to_string();
        assert!(error.contains("queueLabels"), "{error}");
    }
}
