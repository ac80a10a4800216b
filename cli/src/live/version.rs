//! `kubectl sluice version`: that of the plugin, and that of the controller by its Deployment's image.

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, ListParams};
use serde::Serialize;

use super::outcome::{EXIT_CODES, Ended, LiveError, shown};
use crate::cluster::{
    CONTROLLER_LABELS, Cluster, ClusterError, Connection, Format, NAMESPACE, Tell, Told, answer,
    home,
};
use crate::table::{NONE, fields};

/// Print the version of the plugin, and of the controller where it can be seen.
///
/// The controller is the Deployment in the namespace that Sluice's ClusterRoleBinding names, or in sluice-system. A cluster
/// that does not answer is an error, after the version of the plugin.
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
        if self.client {
            self.print(None, false, tell)?;
            return Ok(Ended::Done);
        }
        match self.server(tell).await {
            Ok(server) => self.print(server, true, tell)?,
            Err(why) => {
                // That of the plugin is known all the same.
                self.print(None, false, tell)?;
                return Err(why);
            }
        }
        Ok(Ended::Done)
    }

    /// The version of the controller; none if it can't be seen.
    async fn server(&self, tell: &mut Tell<'_>) -> Result<Option<String>, LiveError> {
        let cluster = Cluster::connect(&self.connection).await?;
        server(&cluster.client, tell).await
    }

    /// Prints the version of the plugin, and that of the controller if a cluster has answered.
    fn print(
        &self,
        server: Option<String>,
        has_answered: bool,
        tell: &mut Tell<'_>,
    ) -> Result<(), LiveError> {
        let versions = Versions {
            client: env!("CARGO_PKG_VERSION"),
            server,
        };
        let text = shown(self.output, &versions, |_| {
            let server = versions.server.clone().unwrap_or_else(|| NONE.to_owned());
            let mut known = vec![("Client", versions.client.to_owned())];
            if has_answered {
                known.push(("Server", server));
            }
            fields(&known, 0)
        })?;
        Ok(tell(Told::Result(text))?)
    }
}

async fn server(client: &Client, tell: &mut Tell<'_>) -> Result<Option<String>, LiveError> {
    let system = match home(client).await {
        Ok(system) => system,
        // Not everybody may read the binding.
        Err(why) if why.is_no() || matches!(why, ClusterError::ManyHomes(_)) => {
            NAMESPACE.to_owned()
        }
        Err(why) => return Err(why.into()),
    };
    match deployment_in(client, &system).await {
        Ok(found) => Ok(found.as_ref().and_then(image)),
        Err(why) if why.is_no() => {
            tell(Told::Note(format!(
                "the version of the controller is not known: {why}"
            )))?;
            Ok(None)
        }
        Err(why) => Err(why.into()),
    }
}

/// The Deployment of Sluice. Anybody may label one so in a namespace of his own.
pub(super) async fn deployment_in(
    client: &Client,
    system: &str,
) -> Result<Option<Deployment>, ClusterError> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), system);
    let params = ListParams::default().labels(CONTROLLER_LABELS);
    let list = answer("list deployments", api.list(&params)).await?;
    Ok(list.items.into_iter().next())
}

fn image(deployment: &Deployment) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.clone()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// The version that is seen in a cluster with this binding, and such Deployments of several namespaces; and the notes.
    async fn seen(
        binding: (u16, Value),
        deployments: (u16, Value),
    ) -> (Result<Option<String>, String>, Vec<String>) {
        let service = tower::service_fn(move |request: Request<Body>| {
            let none = json!({"metadata": {}, "items": []});
            let selector = request.uri().query().unwrap_or_default();
            let is_of_controller = selector.contains("component%21%3Dweb");
            let (code, body) = match request.uri().path() {
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/sluice" => binding.clone(),
                "/apis/apps/v1/deployments" => deployment("theirs"),
                "/apis/apps/v1/namespaces/infra/deployments" if is_of_controller => {
                    deployments.clone()
                }
                "/apis/apps/v1/namespaces/infra/deployments" => deployment("web"),
                "/apis/apps/v1/namespaces/sluice-system/deployments" => deployment("usual"),
                _ => (200, none),
            };
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        });
        let client = Client::new(service, "default");
        let mut notes = Vec::new();
        let mut tell = |told| {
            if let Told::Note(text) = told {
                notes.push(text);
            }
            Ok(())
        };
        let found = server(&client, &mut tell).await;
        (found.map_err(|error| error.to_string()), notes)
    }

    fn deployment(image: &str) -> (u16, Value) {
        let containers = json!([{"name": "sluice", "image": image}]);
        let template = json!({"spec": {"containers": containers}});
        let spec = json!({"selector": {}, "template": template});
        let items = json!([{"metadata": {"name": "sluice"}, "spec": spec}]);
        (200, json!({"metadata": {}, "items": items}))
    }

    fn bound() -> (u16, Value) {
        let subjects = json!([{"kind": "ServiceAccount", "name": "sluice", "namespace": "infra"}]);
        let role = json!({"apiGroup": "", "kind": "ClusterRole", "name": "sluice"});
        (
            200,
            json!({"metadata": {"name": "sluice"}, "roleRef": role, "subjects": subjects}),
        )
    }

    fn status(code: u16, reason: &str) -> (u16, Value) {
        let status = json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code,
            "message": reason});
        (code, status)
    }

    #[tokio::test]
    async fn the_controller_is_that_of_sluices_own_namespace() {
        let (found, notes) = seen(bound(), deployment("own")).await;
        assert_eq!((found, notes), (Ok(Some("own".to_owned())), Vec::new()));
        // Who may not read the binding.
        let (found, _) = seen(status(403, "Forbidden"), deployment("own")).await;
        assert_eq!(found, Ok(Some("usual".to_owned())));
    }

    #[tokio::test]
    async fn only_what_is_not_for_the_caller_is_a_note() {
        let (found, notes) = seen(bound(), status(403, "Forbidden")).await;
        let note = "the version of the controller is not known: Forbidden";
        assert_eq!((found, notes), (Ok(None), vec![note.to_owned()]));
        for refused in [status(401, "Unauthorized"), status(500, "InternalError")] {
            let (found, _) = seen(bound(), refused.clone()).await;
            assert!(found.is_err());
            let (found, _) = seen(refused, deployment("own")).await;
            assert!(found.is_err());
        }
    }
}
