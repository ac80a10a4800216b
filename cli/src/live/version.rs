//! `kubectl sluice version`: that of the plugin, and that of the controller by its Deployment's image.

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams};
use serde::Serialize;

use super::outcome::{EXIT_CODES, Ended, LiveError, shown};
use crate::cluster::{Cluster, Connection, Format, Tell, Told, answer};
use crate::table::{NONE, fields};

/// What Sluice's own objects are labelled with.
pub(super) const LABEL: &str = "app.kubernetes.io/name=sluice";

/// Print the version of the plugin, and of the controller where it can be seen.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Version {
    /// Only the version of the plugin: no cluster is asked.
    #[arg(long)]
    client: bool,
    /// Output format: json or yaml.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Serialize)]
struct Versions {
    client: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
}

impl Version {
    /// Prints them.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let server = if self.client {
            None
        } else {
            let cluster = Cluster::connect(&self.connection).await?;
            let api: Api<Deployment> = Api::all(cluster.client);
            let params = ListParams::default().labels(LABEL);
            match answer("list deployments", api.list(&params)).await {
                Ok(list) => list.items.first().and_then(image),
                Err(error) => {
                    tell(Told::Note(format!(
                        "the version of the controller is not known: {error}"
                    )))?;
                    None
                }
            }
        };
        let versions = Versions {
            client: env!("CARGO_PKG_VERSION"),
            server,
        };
        let text = shown(self.output, &versions, |_| {
            let server = versions.server.clone().unwrap_or_else(|| NONE.to_owned());
            let mut known = vec![("Client", versions.client.to_owned())];
            if !self.client {
                known.push(("Server", server));
            }
            fields(&known, 0)
        })?;
        tell(Told::Result(text))?;
        Ok(Ended::Done)
    }
}

fn image(deployment: &Deployment) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.clone()
}
