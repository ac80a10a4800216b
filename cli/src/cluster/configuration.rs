//! The configuration of Sluice in the cluster: the file that its Deployment names, from a ConfigMap.
//!
//! Must not know what is done by it.

use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, Container, PodSpec};
use kube::Client;
use kube::api::{Api, ListParams};
use sluice_configuration::{Configuration, parse};

use super::connection::answer;

/// The label of all parts of Sluice but its web page, which reads no configuration.
pub const CONTROLLER_LABELS: &str =
    "app.kubernetes.io/name=sluice,app.kubernetes.io/component!=web";
/// The option and the environment variable of the controller that name the file.
const OPTION: &str = "--config";
const VARIABLE: &str = "SLUICE_CONFIG";

/// The configuration with which Sluice, which is in the namespace `home`, starts next.
///
/// # Errors
/// Why it is not known.
pub async fn configuration(client: &Client, home: &str) -> Result<Configuration, String> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), home);
    let params = ListParams::default().labels(CONTROLLER_LABELS);
    let deployments = answer(
        format!("list Deployments of namespace {home}"),
        deployments.list(&params),
    );
    let deployments = deployments.await.map_err(|error| error.to_string())?;
    let deployment = deployments.items.into_iter().find_map(|item| item.spec);
    let pod_spec = deployment.and_then(|deployment| deployment.template.spec);
    let pod_spec =
        pod_spec.ok_or_else(|| format!("namespace {home} has no Deployment of Sluice"))?;
    let Some((container, path)) = pod_spec
        .containers
        .iter()
        .find_map(|container| Some((container, file(container).transpose()?)))
    else {
        // Without a file all has its default.
        return Ok(Configuration::default());
    };
    let path = path?;
    let (map, key) = source(&pod_spec, container, path)
        .ok_or_else(|| format!("its Deployment has {path} from no ConfigMap"))?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), home);
    let stored = answer(format!("get ConfigMap {home}/{map}"), maps.get(&map)).await;
    let stored = stored.map_err(|error| error.to_string())?;
    let text = stored.data.and_then(|mut data| data.remove(&key));
    let text = text.ok_or_else(|| format!("ConfigMap {home}/{map} has no {key}"))?;
    parse(&text).map_err(|error| format!("ConfigMap {home}/{map}: {}", error.lines().join("; ")))
}

/// The file that the container is told to read, if it is. Of an option that is given twice, the last counts.
fn file(container: &Container) -> Result<Option<&str>, String> {
    let args = container.args.as_deref().unwrap_or_default();
    let of_option = args.iter().enumerate().rev().find_map(|(at, arg)| {
        if arg == OPTION {
            return args.get(at + 1).map(String::as_str);
        }
        arg.strip_prefix(OPTION)?.strip_prefix('=')
    });
    let variables = container.env.as_deref().unwrap_or_default();
    let variable = variables.iter().find(|variable| variable.name == VARIABLE);
    match (of_option, variable) {
        (None, Some(variable)) if variable.value_from.is_some() => {
            Err(format!("its Deployment takes {VARIABLE} from elsewhere"))
        }
        (None, Some(variable)) => Ok(variable.value.as_deref()),
        (of_option, _) => Ok(of_option),
    }
}

/// The ConfigMap that has the file, and its key there.
fn source(pods: &PodSpec, container: &Container, path: &str) -> Option<(String, String)> {
    let mounts = container.volume_mounts.iter().flatten();
    let below = mounts.filter_map(|mount| {
        let below = Path::new(path).strip_prefix(&mount.mount_path).ok()?;
        Some((mount, below.to_str()?))
    });
    // Of mounts in one another the innermost counts.
    let (mount, below) = below.max_by_key(|(mount, _)| mount.mount_path.len())?;
    let below = match (mount.sub_path.as_deref(), below) {
        (Some(file), "") => file,
        (Some(_), _) => return None,
        (None, below) => below,
    };
    let mut volumes = pods.volumes.iter().flatten();
    let volume = volumes.find(|volume| volume.name == mount.name)?;
    let map = volume.config_map.as_ref()?;
    Some((map.name.clone(), key(map, below)?))
}

/// The key of the ConfigMap that is at this path of the volume.
fn key(map: &ConfigMapVolumeSource, path: &str) -> Option<String> {
    match &map.items {
        Some(items) => {
            let item = items.iter().find(|item| item.path == path)?;
            Some(item.key.clone())
        }
        None => Some(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    const FILE: &str =
        "apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\naliasPresets: [Kueue]\n";

    /// What is known in a cluster with this Deployment, if any, and this ConfigMap; refused if there is none.
    async fn known(pods: Option<Value>, map: Option<(&str, &str)>) -> Result<Vec<String>, String> {
        let map = map.map(|(name, text)| {
            let path = format!("/api/v1/namespaces/infra/configmaps/{name}");
            let map = json!({"metadata": {"name": name}, "data": {"config.yaml": text}});
            (path, map)
        });
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path();
            let selector = request.uri().query().unwrap_or_default();
            let web = json!({"containers": [{"name": "web"}]});
            let web = (!selector.contains("component%21%3Dweb")).then_some(web);
            let items: Vec<Value> = web
                .iter()
                .chain(&pods)
                .map(|pods| json!({"metadata": {"name": "sluice"}, "spec": {"selector": {}, "template": {"spec": pods}}}))
                .collect();
            let body = match &map {
                _ if path.ends_with("/deployments") => {
                    Some(json!({"metadata": {}, "items": items}))
                }
                Some((at, map)) if path == at => Some(map.clone()),
                _ => None,
            };
            let code = if body.is_some() { 200 } else { 403 };
            let body = body.unwrap_or_else(|| {
                json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                    "message": "configmaps is forbidden"})
            });
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        });
        let client = Client::new(service, "default");
        let found = configuration(&client, "infra").await;
        found.map(|found| found.aliases.queue_labels())
    }

    fn pods(args: &[&str], mount: &Value, map: &Value) -> Value {
        json!({
            "containers": [{"name": "sluice", "args": args, "volumeMounts": [mount]}],
            "volumes": [{"name": "config", "configMap": map}],
        })
    }

    #[tokio::test]
    async fn the_file_of_the_deployment_counts() {
        let mount = json!({"name": "config", "mountPath": "/etc/sluice"});
        let map = json!({"name": "sluice-config-7"});
        let shipped = || pods(&["--config=/etc/sluice/config.yaml"], &mount, &map);
        let elsewhere = pods(
            &["--config=/x", "--config", "/c/file"],
            &json!({"name": "config", "mountPath": "/c"}),
            &json!({"name": "sluice-config-7", "items": [{"key": "config.yaml", "path": "file"}]}),
        );
        let alone = pods(
            &["--config=/c.yaml"],
            &json!({"name": "config", "mountPath": "/c.yaml", "subPath": "config.yaml"}),
            &map,
        );
        let unmounted = pods(&["--config=/x/config.yaml"], &mount, &map);
        let without = pods(&["--log-format=json"], &mount, &map);
        let from_elsewhere = json!({"containers": [{"name": "sluice", "env": [
            {"name": "SLUICE_CONFIG", "valueFrom": {"configMapKeyRef": {"name": "paths", "key": "file"}}},
        ]}]});
        let right = Some(("sluice-config-7", FILE));
        let kueue = || Ok(vec!["kueue.x-k8s.io/queue-name".to_owned()]);
        let no = |why: &str| Err(why.to_owned());
        for (name, pods, map, expected) in [
            ("as shipped", Some(shipped()), right, kueue()),
            ("by items", Some(elsewhere), right, kueue()),
            ("by a path", Some(alone), right, kueue()),
            ("without a file", Some(without), right, Ok(Vec::new())),
            (
                "from elsewhere",
                Some(from_elsewhere),
                right,
                no("its Deployment takes SLUICE_CONFIG from elsewhere"),
            ),
            (
                "not installed",
                None,
                right,
                no("namespace infra has no Deployment of Sluice"),
            ),
            (
                "in no ConfigMap",
                Some(unmounted),
                right,
                no("its Deployment has /x/config.yaml from no ConfigMap"),
            ),
            (
                "not for the caller",
                Some(shipped()),
                None,
                no("configmaps is forbidden"),
            ),
            (
                "invalid",
                Some(shipped()),
                Some(("sluice-config-7", "kind: Configuration\n")),
                no(
                    "ConfigMap infra/sluice-config-7: apiVersion: Required value: must be \"config.sluice.dev/v1alpha1\"",
                ),
            ),
        ] {
            assert_eq!(known(pods, map).await, expected, "{name}");
        }
    }
}
