//! The command line, and the log as it says (`log`).
//!
//! Must not know what the process does with it.

pub mod log;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub use log::{LogFormat, LogLevel};

use crate::process::config::{CheckArgs, PoliciesArgs};

/// Holds Job-like objects at a gate until their external gates are lifted and their queue has quota.
#[derive(Debug, Parser)]
#[command(version, about, args_override_self = true)]
pub struct CommandLine {
    /// What to do instead of running the controller.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How the controller runs.
    #[command(flatten)]
    pub args: Args,
}

/// What the executable does besides running the controller.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look at configuration files.
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// What is done with configuration files.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file. Prints each problem on a line of its own, and then ends with status 1.
    Check(CheckArgs),
    /// Print the admission policies of the variant without webhooks, as a configuration has them.
    Policies(PoliciesArgs),
}

/// How the controller runs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file (YAML): apiVersion config.sluice.dev/v1alpha1, kind Configuration.
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
    /// Where visibility.sluice.dev is served: who waits in which queue. Only the front proxy of the API server is
    /// answered. Default: nowhere.
    #[arg(long, env = "SLUICE_VISIBILITY_BIND")]
    pub visibility_bind: Option<SocketAddr>,
    /// The IP address by which other replicas reach this one: the pod's. They pass requests for visibility.sluice.dev
    /// on to the one that leads. Default: that of --visibility-bind.
    #[arg(long, env = "POD_IP")]
    pub pod_ip: Option<IpAddr>,
    /// Where metrics are served, as GET /metrics.
    #[arg(long, env = "SLUICE_METRICS_BIND", default_value = "0.0.0.0:8080")]
    pub metrics_bind: SocketAddr,
    /// Serve metrics over TLS, with the certificate of the webhooks.
    #[arg(long, env = "SLUICE_METRICS_TLS")]
    pub metrics_tls: bool,
    /// A PEM bundle of the authorities whose clients may read metrics, with a certificate of theirs. Read at the
    /// start. Default: everybody may.
    #[arg(long, env = "SLUICE_METRICS_CLIENT_CA", requires = "metrics_tls")]
    pub metrics_client_ca: Option<PathBuf>,
    /// The oldest version of TLS that is served, for webhooks and metrics.
    #[arg(long, env = "SLUICE_TLS_MIN_VERSION", default_value = "VersionTLS12")]
    pub tls_min_version: TlsVersion,
    /// A cipher suite that is served, by its IANA name, such as TLS_AES_256_GCM_SHA384. May be repeated. Default:
    /// all that are safe.
    #[arg(long, env = "SLUICE_TLS_CIPHER_SUITES", value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,
    /// Serve metrics of LocalQueues too. Tenants make LocalQueues, so there may be many.
    #[arg(long, env = "SLUICE_LOCAL_QUEUE_METRICS")]
    pub local_queue_metrics: bool,
    /// Where health is served, as GET /healthz and /readyz.
    #[arg(long, env = "SLUICE_HEALTH_BIND", default_value = "0.0.0.0:8081")]
    pub health_bind: SocketAddr,
    /// The form of the log.
    #[arg(long, env = "SLUICE_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: this level and those above it. RUST_LOG, if it is set, counts instead, and can name parts
    /// of the process.
    #[arg(long, env = "SLUICE_LOG_LEVEL", default_value = "info")]
    pub log_level: LogLevel,
}

/// A version of TLS, as Kubernetes' components name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[value(name = "VersionTLS12")]
    Tls12,
    /// TLS 1.3.
    #[value(name = "VersionTLS13")]
    Tls13,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chart puts `extraArgs` behind its own flags.
    #[test]
    fn of_a_flag_that_is_given_twice_the_last_one_counts() {
        let parse = |flags: &[&str]| {
            let line = CommandLine::try_parse_from([&["sluice"], flags].concat());
            line.map(|line| line.args)
        };
        let first = "--webhook-bind=127.0.0.1:1";
        let args = parse(&[first, "--webhook-bind=127.0.0.1:2"]).unwrap();
        assert_eq!(args.webhook_bind.port(), 2);
        // As docs/installing.md says it for IPv6.
        let args = parse(&[first, "--webhook-bind=[::]:9443"]).unwrap();
        assert!(args.webhook_bind.is_ipv6() && args.webhook_bind.ip().is_unspecified());
        let args = parse(&["--webhook-san=a", "--webhook-san=b"]).unwrap();
        assert_eq!(args.webhook_san, ["a", "b"], "these add up");
        assert!(parse(&["--no-such-flag"]).is_err());
    }
}
