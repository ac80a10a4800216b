//! Whether visibility.sluice.dev answers through the API server. While it is registered and does not, no namespace of the
//! cluster can be deleted, as the API server can't tell what is in it.

use http::Request;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::Api;
use sluice_crds::CERTIFICATE_SECRET;

use super::certificate::trusts;
use super::finding::{Finding, of};
use crate::cluster::{ClusterError, answer};

const NAME: &str = "v1alpha1.visibility.sluice.dev";
const PATH: &str = "/apis/visibility.sluice.dev/v1alpha1";

/// What is known of it.
struct Registered {
    service: APIService,
    /// None if the caller may not read it.
    secret: Option<Secret>,
    answered: Result<APIResourceList, ClusterError>,
}

/// Checks it.
pub(super) async fn check(client: &Client, namespace: &str) -> Finding {
    of("visibility", registered(client, namespace).await, |found| {
        found.map_or_else(
            || Ok("not installed: nothing says who waits in which queue".to_owned()),
            |found| found.judge(),
        )
    })
}

async fn registered(client: &Client, namespace: &str) -> Result<Option<Registered>, ClusterError> {
    let services: Api<APIService> = Api::all(client.clone());
    let found = answer("read the APIService", services.get_opt(NAME)).await?;
    let Some(service) = found else {
        return Ok(None);
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = answer("read the certificate", secrets.get_opt(CERTIFICATE_SECRET)).await;
    let what = "ask visibility.sluice.dev";
    let answered = match Request::get(PATH).body(Vec::new()) {
        Ok(request) => answer(what, client.request::<APIResourceList>(request)).await,
        Err(error) => Err(ClusterError::Unanswered {
            what: what.to_owned(),
            detail: error.to_string(),
        }),
    };
    Ok(Some(Registered {
        service,
        secret: secret.ok().flatten(),
        answered,
    }))
}

impl Registered {
    fn judge(&self) -> Result<String, String> {
        let is_stuck = |why: String| {
            Err(format!(
                "{why}; meanwhile no namespace of the cluster can be deleted: see SluiceVisibilityUnavailable in docs/runbook.md"
            ))
        };
        let bundle = self.service.spec.as_ref();
        let bundle = bundle.and_then(|spec| spec.ca_bundle.as_ref());
        if bundle.is_none() {
            return is_stuck(
                "the APIService has no CA yet: no replica has led since it was created".to_owned(),
            );
        }
        let is_other = |secret: &Secret| !trusts(bundle, secret);
        if self.secret.as_ref().is_some_and(is_other) {
            return is_stuck(
                "the APIService trusts another CA: the leader puts that right within seconds, if its account may".to_owned(),
            );
        }
        let status = self.service.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        match conditions.find(|condition| condition.type_ == "Available") {
            Some(told) if told.status == "True" => {}
            Some(told) => {
                let reason = told.reason.as_deref().unwrap_or_default();
                let message = told.message.as_deref().unwrap_or_default();
                return is_stuck(format!(
                    "the API server finds it unavailable ({reason}): {message}"
                ));
            }
            None => {
                return is_stuck(
                    "the API server has not found out whether it is available".to_owned(),
                );
            }
        }
        match &self.answered {
            Ok(_) => Ok("the API server reaches it, and trusts it".to_owned()),
            // Whoever may not ask knows all the same what the API server has found.
            Err(error) if error.is_forbidden() => Ok("the API server reaches it".to_owned()),
            Err(error) => is_stuck(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use k8s_openapi::ByteString;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::super::finding::Health;
    use super::*;

    /// What is found where the APIService is this, and what it registers answers with this code.
    async fn found(service: Option<Value>, code: u16) -> Finding {
        let each = tower::service_fn(move |request: Request<Body>| {
            let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                "reason": "NotFound", "message": "not found"});
            let (code, body) = match request.uri().path() {
                path if path.ends_with("/apiservices/v1alpha1.visibility.sluice.dev") => service
                    .clone()
                    .map_or((404, gone), |service| (200, service)),
                "/api/v1/namespaces/sluice-system/secrets/sluice-webhook-certificate" => {
                    let ca = ByteString(b"one\n".to_vec());
                    (200, json!({"metadata": {}, "data": {"ca.crt": ca}}))
                }
                PATH if code == 200 => {
                    let list = json!({"kind": "APIResourceList", "apiVersion": "v1",
                        "groupVersion": "visibility.sluice.dev/v1alpha1", "resources": []});
                    (200, list)
                }
                PATH => {
                    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                        "reason": "", "message": "service unavailable"});
                    (code, status)
                }
                other => panic!("{other}"),
            };
            let response = Response::builder().status(code);
            let response = response.body(Body::from(body.to_string().into_bytes()));
            async { Ok::<_, Infallible>(response.unwrap()) }
        });
        check(&Client::new(each, "default"), "sluice-system").await
    }

    fn service(ca: Option<&str>, available: &str) -> Value {
        let ca = ca.map(|ca| ByteString(ca.as_bytes().to_vec()));
        json!({
            "metadata": {"name": NAME},
            "spec": {"groupPriorityMinimum": 100, "versionPriority": 100, "caBundle": ca},
            "status": {"conditions": [{"type": "Available", "status": available,
                "reason": "FailedDiscoveryCheck", "message": "no response from https://10.0.0.1:9444"}]},
        })
    }

    #[tokio::test]
    async fn an_api_that_does_not_answer_is_a_failure() {
        let trusted = Some("other\none\n");
        for (service, code, health, told) in [
            (None, 200, Health::Ok, "not installed"),
            (
                Some(service(trusted, "True")),
                200,
                Health::Ok,
                "the API server reaches it, and trusts it",
            ),
            (
                Some(service(trusted, "False")),
                200,
                Health::Failed,
                "the API server finds it unavailable (FailedDiscoveryCheck): no response from https://10.0.0.1:9444; meanwhile",
            ),
            (
                Some(service(Some("other\n"), "True")),
                200,
                Health::Failed,
                "the APIService trusts another CA",
            ),
            (
                Some(service(None, "False")),
                200,
                Health::Failed,
                "the APIService has no CA yet",
            ),
            (
                Some(service(trusted, "True")),
                503,
                Health::Failed,
                "service unavailable",
            ),
            (
                Some(service(trusted, "True")),
                403,
                Health::Ok,
                "the API server reaches it",
            ),
        ] {
            let found = found(service, code).await;
            assert_eq!(found.health, health, "{}", found.detail);
            assert!(found.detail.contains(told), "{}", found.detail);
        }
    }
}
