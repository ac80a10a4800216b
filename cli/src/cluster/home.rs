//! Which namespace Sluice is in: that of the account to which its rights are bound; or, once these are taken away, that
//! of its account.
//!
//! Must not know what is done there.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, ListParams};

use super::connection::{ClusterError, answer, check_namespace};

/// Where the manifests put Sluice.
pub const NAMESPACE: &str = "sluice-system";
/// The binding of the account's rights, and the account.
const NAME: &str = "sluice";
/// The label of all parts.
const LABEL: &str = "app.kubernetes.io/name=sluice";

/// The namespace that Sluice is in; [`NAMESPACE`] if nothing says another.
///
/// # Errors
/// The API server refuses or does not answer, or accounts in several namespaces may be Sluice's.
pub async fn home(client: &Client) -> Result<String, ClusterError> {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = answer("find Sluice's account", bindings.get_opt(NAME)).await?;
    let mut accounts = binding
        .into_iter()
        .filter_map(|found| found.subjects)
        .flatten();
    match accounts.next().and_then(|account| account.namespace) {
        Some(namespace) => Ok(namespace),
        None => of_account(client).await,
    }
}

/// Whether Sluice is in this namespace, as somebody says: its account or its Deployment is, or the namespace has its label:
/// that is what an earlier run may have left.
///
/// # Errors
/// No namespace has such a name, or the API server refuses or does not answer.
pub async fn is_home(client: &Client, namespace: &str) -> Result<bool, ClusterError> {
    check_namespace("--system-namespace", namespace)?;
    let params = ListParams::default().labels(LABEL);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let found = answer("find Sluice's account", accounts.list_metadata(&params)).await?;
    if !found.items.is_empty() {
        return Ok(true);
    }
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = deployments.list_metadata(&params);
    let found = answer("find Sluice's Deployment", found).await?;
    if !found.items.is_empty() {
        return Ok(true);
    }
    let all: Api<Namespace> = Api::all(client.clone());
    let named = params.fields(&format!("metadata.name={namespace}"));
    let found = answer("find Sluice's namespace", all.list_metadata(&named)).await?;
    Ok(!found.items.is_empty())
}

/// The namespace of the account that is left where the binding is gone: `kubectl sluice uninstall` deletes that first.
async fn of_account(client: &Client) -> Result<String, ClusterError> {
    let all: Api<ServiceAccount> = Api::all(client.clone());
    // The chart may give it another name.
    let params = ListParams::default().labels(LABEL);
    let found = match answer("find Sluice's account", all.list(&params)).await {
        // Who may not see accounts may be right about the namespace all the same.
        Err(why) if why.is_no() => return Ok(NAMESPACE.to_owned()),
        found => found?,
    };
    let accounts = found.items.into_iter();
    let namespaces: BTreeSet<String> = accounts
        .filter_map(|account| account.metadata.namespace)
        .collect();
    if namespaces.is_empty() || namespaces.contains(NAMESPACE) {
        return Ok(NAMESPACE.to_owned());
    }
    // Anybody may make such an account in a namespace of his own.
    let namespaces: Vec<String> = namespaces.into_iter().collect();
    if let [only] = &namespaces[..] {
        return Ok(only.clone());
    }
    Err(ClusterError::ManyHomes(namespaces.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Where Sluice is said to be in a cluster with this binding, if any, and accounts in these namespaces; none if
    /// they may not be listed.
    async fn found(bound: Option<&str>, accounts: Option<&[&str]>) -> Result<String, String> {
        let binding = bound.map(|namespace| {
            json!({"metadata": {"name": NAME}, "roleRef": {"apiGroup": "", "kind": "ClusterRole", "name": NAME},
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}]})
        });
        let accounts = accounts.map(|namespaces| {
            let account =
                |namespace: &&str| json!({"metadata": {"name": NAME, "namespace": namespace}});
            let items: Vec<Value> = namespaces.iter().map(account).collect();
            json!({"metadata": {}, "items": items})
        });
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_list = request.uri().path() == "/api/v1/serviceaccounts";
            let (body, code) = if is_list {
                (accounts.clone(), 403)
            } else {
                (binding.clone(), 404)
            };
            let none = || {
                let status = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": code,
                    "message": "no"});
                (code, status)
            };
            let (code, body) = body.map_or_else(none, |body| (200, body));
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        });
        let client = Client::new(service, "default");
        home(&client).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn sluice_is_found_without_the_binding_of_its_rights() {
        let many = "Sluice may be installed in several namespaces (infra, theirs); choose one with --system-namespace";
        for (bound, accounts, expected) in [
            (Some("infra"), Some(&["theirs"][..]), Ok("infra")),
            (None, Some(&["infra"][..]), Ok("infra")),
            (None, Some(&["infra", NAMESPACE][..]), Ok(NAMESPACE)),
            (None, Some(&["theirs", "infra"][..]), Err(many)),
            (None, Some(&[][..]), Ok(NAMESPACE)),
            (None, None, Ok(NAMESPACE)),
        ] {
            let found = found(bound, accounts).await;
            let found = found.as_deref().map_err(String::as_str);
            assert_eq!(found, expected, "{bound:?} {accounts:?}");
        }
    }

    #[tokio::test]
    async fn sluice_is_where_its_account_or_its_deployment_is_or_was() {
        let service = tower::service_fn(|request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let is_left = query.contains("metadata.name%3Dlabelled");
            let items = match request.uri().path() {
                "/api/v1/namespaces" if is_left => {
                    let name = json!({"metadata": {"name": "labelled"}});
                    json!([name])
                }
                "/api/v1/namespaces/with-account/serviceaccounts"
                | "/apis/apps/v1/namespaces/with-deployment/deployments" => {
                    let name = json!({"metadata": {"name": NAME}});
                    json!([name])
                }
                _ => json!([]),
            };
            assert!(query.contains("labelSelector=app.kubernetes.io"), "{query}");
            let list = json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {}, "items": items,
            });
            let body = Body::from(list.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let client = Client::new(service, "default");
        for (namespace, expected) in [
            ("with-account", Ok(true)),
            ("with-deployment", Ok(true)),
            ("labelled", Ok(true)),
            ("team-a", Ok(false)),
            (
                "",
                Err("--system-namespace \"\": must be a lowercase RFC 1123 subdomain"),
            ),
            (
                "a/b",
                Err("--system-namespace \"a/b\": must be a lowercase RFC 1123 subdomain"),
            ),
        ] {
            let found = is_home(&client, namespace).await;
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{namespace}");
        }
    }
}
