//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

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
    /// A PEM bundle of the authorities whose clients the webhook answers: the API servers must then show a
    /// client certificate, as the kubeconfig in their AdmissionConfiguration says. Read at the start. Default:
    /// everybody is answered.
    #[arg(long, env = "SLUICE_WEBHOOK_CLIENT_CA")]
    pub webhook_client_ca: Option<PathBuf>,
    /// A common name that such a client certificate may have. May be repeated. Default: any name.
    #[arg(
        long,
        env = "SLUICE_WEBHOOK_CLIENT_NAME",
        value_delimiter = ',',
        requires = "webhook_client_ca"
    )]
    pub webhook_client_name: Vec<String>,
    /// Where metrics are served, as GET /metrics.
    #[arg(long, env = "SLUICE_METRICS_BIND", default_value = "0.0.0.0:8080")]
    pub metrics_bind: SocketAddr,
    /// Serve metrics of LocalQueues too. Tenants make LocalQueues, so there may be many.
    #[arg(long, env = "SLUICE_LOCAL_QUEUE_METRICS")]
    pub local_queue_metrics: bool,
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
