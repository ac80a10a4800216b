//! The real Prometheus, which reads metrics of Sluice and of the API server, and judges rules by them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::controlplane::ControlPlane;
use crate::processes::http::get;
use crate::processes::ports;
use crate::processes::{Launch, Process};
use crate::programs::assets::Assets;
use crate::wait::eventually;

/// It takes a second; the rest is for a loaded machine.
const READY_DEADLINE: Duration = Duration::from_mins(5);

/// A running Prometheus. It ends when this is dropped, or with the control plane.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    port: u16,
}

impl Prometheus {
    /// Starts one that reads the metrics of `pods` each second: of each its name, and the host and port of its metrics. It
    /// reads what the API server says of admission, and of APIs of others, every four seconds: that is a small part of much
    /// text. It judges
    /// `rules`, the text of a rule file, each second. Builds it first when that was never done.
    ///
    /// # Errors
    /// When it can't be built, refuses the rules, or does not get ready: with the end of its log.
    pub async fn start(
        control_plane: &ControlPlane,
        pods: &[(&str, &str)],
        rules: &str,
    ) -> Result<Self> {
        let [program, _] = tokio::task::spawn_blocking(Assets::ensure_prometheus).await??;
        let folder = control_plane.dir().join("prometheus");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("rules.yaml"), rules)?;
        let config = folder.join("prometheus.yaml");
        let targets = pods
            .iter()
            .map(|(pod, target)| json!({"targets": [target], "labels": {"pod": pod}}));
        let text = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [
                {"job_name": "sluice", "static_configs": targets.collect::<Vec<_>>()},
                api_server(control_plane),
            ],
        });
        std::fs::write(&config, text.to_string())?;
        let port = ports::free()?;
        let launch = Launch::new("prometheus", program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let process = control_plane.spawn(launch)?;
        let ready = eventually("Prometheus to be ready", READY_DEADLINE, async || {
            if let Err(ended) = process.check_alive() {
                return Ok(Err(ended));
            }
            match get(port, "/-/ready").await {
                Ok((200, _)) => Ok(Ok(())),
                Ok((status, body)) => Err(anyhow!("/-/ready answered {status}: {body}")),
                Err(error) => Err(error),
            }
        });
        ready
            .await?
            .with_context(|| format!("its log ends:\n{}", process.log_tail()))?;
        Ok(Self { process, port })
    }

    /// The names of the alerts that fire now.
    ///
    /// # Errors
    /// It has ended, or does not answer.
    pub async fn firing(&self) -> Result<BTreeSet<String>> {
        self.process.check_alive()?;
        let (status, body) = get(self.port, "/api/v1/alerts").await?;
        ensure!(status == 200, "it answered {status}: {body}");
        let answer: Value = serde_json::from_str(&body)?;
        let alerts = answer.pointer("/data/alerts").and_then(Value::as_array);
        let alerts = alerts.with_context(|| format!("no alerts in {answer}"))?;
        let text = |alert: &Value, at: &str| {
            let text = alert.pointer(at).and_then(Value::as_str);
            text.map(ToOwned::to_owned)
        };
        let is_firing = |alert: &&Value| text(alert, "/state").as_deref() == Some("firing");
        let firing = alerts.iter().filter(is_firing);
        Ok(firing
            .filter_map(|alert| text(alert, "/labels/alertname"))
            .collect())
    }
}

/// How the API server's metrics are read.
fn api_server(control_plane: &ControlPlane) -> Value {
    let keys = control_plane.dir().join("pki");
    let target = control_plane.server().trim_start_matches("https://");
    json!({
        "job_name": "apiserver",
        "scheme": "https",
        "scrape_interval": "4s",
        "scrape_timeout": "4s",
        "tls_config": {
            "ca_file": keys.join("ca.crt"),
            "cert_file": keys.join("kubernetes-admin.crt"),
            "key_file": keys.join("kubernetes-admin.key"),
        },
        "static_configs": [{"targets": [target]}],
        "metric_relabel_configs": [{
            "action": "keep", "source_labels": ["__name__"], "regex": "apiserver_admission_.*|aggregator_unavailable_apiservice",
        }],
    })
}
