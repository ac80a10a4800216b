//! Webhook configurations, and whether an object that breaks a rule is refused.

use std::fmt::Debug;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::finding::{Finding, Health, of};
use crate::cluster::{ClusterError, answer};

/// The name of the shipped webhook configurations.
const NAME: &str = "sluice";
/// The name of those that Sluice makes itself: for declared kinds, Gates, and namespaces that require a queue.
const DECLARED: &str = "sluice-declared";

/// Whether the webhook configurations are there, both that are shipped and both that Sluice makes, and trust somebody.
pub(super) async fn configured(client: &Client) -> Finding {
    let found = async {
        let both = async |name| {
            let (mutating, validating) = named(client, name).await?;
            Ok::<_, ClusterError>(mutating.zip(validating))
        };
        Ok((both(NAME).await?, both(DECLARED).await?))
    };
    of(
        "webhook configurations",
        found.await,
        |(shipped, declared)| {
            let Some(shipped) = shipped else {
                return Ok("not installed: objects are held by admission policies, or a moment after their creation".to_owned());
            };
            let Some(declared) = declared else {
                return Err(format!(
                    "{DECLARED} is not there: of kinds that the shipped webhooks don't name, nothing is judged; no replica has led since they were installed"
                ));
            };
            let untrusted = untrusted(&shipped) + untrusted(&declared);
            if untrusted == 0 {
                Ok("installed, with a CA".to_owned())
            } else {
                Err(format!(
                    "{untrusted} webhooks have no CA yet: no replica has led since they were installed"
                ))
            }
        },
    )
}

/// How all webhooks are called: those that are shipped, and those of Sluice's own making.
///
/// # Errors
/// The API server refuses or does not answer.
pub(super) async fn client_configs(
    client: &Client,
) -> Result<Vec<WebhookClientConfig>, ClusterError> {
    let mut all = Vec::new();
    for name in [NAME, DECLARED] {
        let (mutating, validating) = named(client, name).await?;
        let mutating = mutating.and_then(|found| found.webhooks);
        let validating = validating.and_then(|found| found.webhooks);
        all.extend((mutating.into_iter().flatten()).map(|webhook| webhook.client_config));
        all.extend((validating.into_iter().flatten()).map(|webhook| webhook.client_config));
    }
    Ok(all)
}

/// The webhook configurations of a name.
async fn named(
    client: &Client,
    name: &str,
) -> Result<
    (
        Option<MutatingWebhookConfiguration>,
        Option<ValidatingWebhookConfiguration>,
    ),
    ClusterError,
> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating = answer("read the webhooks", mutating.get_opt(name)).await?;
    let validating = answer("read the webhooks", validating.get_opt(name)).await?;
    Ok((mutating, validating))
}

/// How many webhooks have no CA.
fn untrusted(
    (mutating, validating): &(MutatingWebhookConfiguration, ValidatingWebhookConfiguration),
) -> usize {
    let mutating = mutating.webhooks.iter().flatten();
    let validating = validating.webhooks.iter().flatten();
    let configs = mutating
        .map(|webhook| &webhook.client_config)
        .chain(validating.map(|webhook| &webhook.client_config));
    configs.filter(|config| config.ca_bundle.is_none()).count()
}

/// Whether a webhook or policy refuses what breaks a rule: by requests that change nothing. Where no JobKind reads
/// Jobs, pods are asked about, which Sluice judges everywhere.
pub(super) async fn reached(client: &Client, namespace: &str, reads_jobs: bool) -> Finding {
    let finding = |health, detail: String| Finding {
        check: "admission",
        health,
        detail,
    };
    match of_jobs(client, namespace).await {
        Answer::RefusedBy(judge) => finding(
            Health::Ok,
            format!("a Job with a bad gate is refused by {judge}"),
        ),
        Answer::Forbidden(message) => finding(Health::Unknown, message),
        Answer::Failed(message) => finding(Health::Failed, message),
        Answer::Accepted if reads_jobs => finding(
            Health::Failed,
            "a Job with a bad gate is not refused: neither a webhook nor a policy looks at Jobs"
                .to_owned(),
        ),
        Answer::Accepted => match of_pods(client, namespace).await {
            Answer::RefusedBy(judge) => finding(
                Health::Ok,
                format!("a pod with a bad gate is refused by {judge}; no JobKind reads Jobs"),
            ),
            Answer::Forbidden(message) => finding(Health::Unknown, message),
            Answer::Failed(message) => finding(Health::Failed, message),
            Answer::Accepted => finding(
                Health::Failed,
                "a pod with a bad gate is not refused: neither a webhook nor a policy looks at pods"
                    .to_owned(),
            ),
        },
    }
}

/// What became of an object with a bad gate.
enum Answer {
    RefusedBy(&'static str),
    Accepted,
    /// The caller may not create it.
    Forbidden(String),
    Failed(String),
}

async fn of_jobs(client: &Client, namespace: &str) -> Answer {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": bad_metadata(),
        "spec": {"suspend": true, "template": {"spec": pod_spec()}},
    });
    create::<Job>(client, namespace, "create a Job as a dry run", job).await
}

async fn of_pods(client: &Client, namespace: &str) -> Answer {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": bad_metadata(),
        "spec": pod_spec(),
    });
    create::<Pod>(client, namespace, "create a pod as a dry run", pod).await
}

fn bad_metadata() -> Value {
    json!({
        "generateName": "sluice-check-",
        "annotations": {"kueue.x-k8s.io/scheduling-gated-by": "no gate"},
    })
}

/// A pod that the strictest of the Pod Security Standards lets in.
fn pod_spec() -> Value {
    json!({
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "none",
            "image": "example.com/none",
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
            },
        }],
    })
}

async fn create<K>(client: &Client, namespace: &str, request: &'static str, object: Value) -> Answer
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object = match serde_json::from_value::<K>(object) {
        Ok(object) => object,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let params = PostParams {
        dry_run: true,
        field_manager: None,
    };
    match answer(request, api.create(&params, &object)).await {
        Ok(_) => Answer::Accepted,
        Err(ClusterError::Refused(status)) if status.message.contains("domain-prefixed path") => {
            let is_policy = status.message.contains("ValidatingAdmissionPolicy");
            Answer::RefusedBy(if is_policy {
                "an admission policy"
            } else {
                "the webhook"
            })
        }
        Err(ClusterError::Refused(status))
            if status.code == 403 && status.message.contains("cannot create") =>
        {
            Answer::Forbidden(status.message.clone())
        }
        Err(error) => Answer::Failed(error.to_string()),
    }
}
