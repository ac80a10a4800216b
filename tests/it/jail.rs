//! A stolen token of Sluice is not the cluster: with the token of its service account each of a list of
//! requests is denied, with the reason, and nothing has changed. That all that Sluice has to do is allowed,
//! all other tests show: they run with the jail installed.

use anyhow::{Context, Result, ensure};
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use sluice_testbed::Sluice;

use crate::support::bed::{self, BINARY};
use crate::support::made_up::MadeUp;
use crate::support::objects::{Job, quota};
use crate::support::persist::{answered, persist};
use crate::support::pods::Pod;
use crate::support::{Scene, refusal};

const SYSTEM: &str = "Sluice's account may write nothing in a system namespace";
const FIELDS: &str = "Sluice's account may change only the suspend field, node selectors, tolerations, and its own labels and annotations";
const HOOKS: &str = "Sluice's account may change only the caBundle, the rules of managed kinds and its match conditions";
const OF_GATES: &str = "the webhook of a Gate must be as that for jobs, for no more namespaces, and only for Job-like kinds and pods";
const ENTRY: &str = "is not a key of Sluice: its account may write no others";
const RBAC: &str = "User \"system:serviceaccount:sluice-system:sluice\" cannot";

/// Somebody with Sluice's token.
struct Thief(kube::Client);

impl Thief {
    async fn new() -> Result<Self> {
        let file = Kubeconfig::read_from(Sluice::shared(BINARY).sluice.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options).await?;
        config.default_retry = false;
        Ok(Self(kube::Client::try_from(config)?))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> kube::Result<Value> {
        let kind = match (&method, body) {
            (&Method::PATCH, Value::Array(_)) => "application/json-patch+json",
            (&Method::PATCH, _) => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, kind);
        self.0
            .request(request.body(body).map_err(kube::Error::HttpError)?)
            .await
    }

    /// That the request is denied, with these words.
    async fn is_denied(&self, method: Method, path: &str, body: Value, why: &str) -> Result<()> {
        let answer = answered(async || self.send(method.clone(), path, &body).await).await?;
        let told = refusal(answer).with_context(|| format!("{method} {path} {body}"))?;
        ensure!(told.contains(why), "{method} {path} {body}: {told}");
        Ok(())
    }

    async fn is_allowed(&self, path: &str, body: Value) -> Result<()> {
        let answer = persist(async || self.send(Method::PATCH, path, &body).await).await;
        answer
            .map(drop)
            .with_context(|| format!("PATCH {path} {body}"))
    }
}

fn add(path: &str, value: Value) -> Value {
    json!([{"op": "add", "path": path, "value": value}])
}

fn at(problem: &str, rule: &str) -> String {
    format!("denied request: {problem}: Forbidden: {rule}")
}

#[tokio::test]
async fn jobs_are_held_and_released_and_nothing_else() -> Result<()> {
    bed::shared("jail-jobs", async |scene| {
        let thief = Thief::new().await?;
        scene
            .create(&Job::new("a").gate("acme.io/x").json())
            .await?;
        let job = format!("/apis/batch/v1/namespaces/{}/jobs/a", scene.ns);
        for (path, value, field) in [
            (
                "/spec/template/spec/schedulingGates",
                json!([{"name": "a.b/c"}]),
                "spec.template.spec.schedulingGates",
            ),
            ("/spec/backoffLimit", json!(3), "spec.backoffLimit"),
            (
                "/spec/activeDeadlineSeconds",
                json!(1),
                "spec.activeDeadlineSeconds",
            ),
            (
                "/spec/ttlSecondsAfterFinished",
                json!(0),
                "spec.ttlSecondsAfterFinished",
            ),
            (
                "/spec/template/metadata/labels/app",
                json!("other"),
                "spec.template.metadata.labels",
            ),
        ] {
            thief
                .is_denied(Method::PATCH, &job, add(path, value), &at(field, FIELDS))
                .await?;
        }
        for map in ["labels", "annotations"] {
            let body = json!({"metadata": {map: {"sluice.dev/queue-name": "q"}}});
            let field = format!("metadata.{map}[sluice.dev/queue-name]");
            thief
                .is_denied(Method::PATCH, &job, body, &at(&field, ENTRY))
                .await?;
        }
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}]);
        for (field, value) in [
            ("ownerReferences", owner),
            ("finalizers", json!(["acme.io/x"])),
        ] {
            let body = add(&format!("/metadata/{field}"), value);
            let field = format!("metadata.{field}: Forbidden");
            thief.is_denied(Method::PATCH, &job, body, &field).await?;
        }
        // What Kubernetes itself refuses of an existing Job; that of other kinds is below.
        let body = add("/spec/template/spec/containers/0/image", json!("evil"));
        thief
            .is_denied(Method::PATCH, &job, body, "field is immutable")
            .await?;
        for (method, path) in [
            (Method::DELETE, job.clone()),
            (
                Method::POST,
                format!("/apis/batch/v1/namespaces/{}/jobs", scene.ns),
            ),
        ] {
            thief
                .is_denied(method, &path, json!({"metadata": {"name": "a"}}), RBAC)
                .await?;
        }
        // The start time may go, and nothing else changes in a status.
        for field in ["active", "failed"] {
            let body = json!({"status": {field: 7}});
            let told = at(&format!("status.{field}"), FIELDS);
            thief
                .is_denied(Method::PATCH, &format!("{job}/status"), body, &told)
                .await?;
        }
        thief
            .is_allowed(
                &job,
                add("/metadata/annotations/sluice.dev~1held", json!("true")),
            )
            .await
    })
    .await
}

/// A kind that nobody wrote a policy for is no way out.
#[tokio::test]
async fn objects_of_a_kind_of_ones_own_are_too() -> Result<()> {
    bed::shared("jail-kind", async |scene| {
        let thief = Thief::new().await?;
        let kind = MadeUp::new(scene, "Render");
        kind.install(scene).await?;
        kind.create(scene, &kind.object("a")).await?;
        let path = format!(
            "/apis/{}/namespaces/{}/{}/a",
            kind.api_version(),
            scene.ns,
            kind.plural()
        );
        let pod = "/spec/template/spec";
        let container = format!("{pod}/containers/0");
        for (field, value, told) in [
            (format!("{container}/image"), json!("evil"), "containers"),
            (
                format!("{container}/command"),
                json!(["evil"]),
                "containers",
            ),
            (
                format!("{container}/env"),
                json!([{"name": "A", "value": "b"}]),
                "containers",
            ),
            (
                format!("{container}/securityContext"),
                json!({"privileged": true}),
                "containers",
            ),
            (
                format!("{pod}/initContainers"),
                json!([{"name": "evil", "image": "evil"}]),
                "initContainers",
            ),
            (
                format!("{pod}/serviceAccountName"),
                json!("evil"),
                "serviceAccountName",
            ),
            (format!("{pod}/nodeName"), json!("node"), "nodeName"),
            (format!("{pod}/hostNetwork"), json!(true), "hostNetwork"),
            (format!("{pod}/hostPID"), json!(true), "hostPID"),
            (
                format!("{pod}/automountServiceAccountToken"),
                json!(true),
                "automountServiceAccountToken",
            ),
            (
                format!("{pod}/priorityClassName"),
                json!("system-node-critical"),
                "priorityClassName",
            ),
            (
                format!("{pod}/runtimeClassName"),
                json!("evil"),
                "runtimeClassName",
            ),
            (
                format!("{pod}/securityContext"),
                json!({"runAsUser": 0}),
                "securityContext",
            ),
            (
                format!("{pod}/volumes"),
                json!([{"name": "a", "hostPath": {"path": "/"}}]),
                "volumes",
            ),
        ] {
            let why = at(&format!("spec.template.spec.{told}"), FIELDS);
            thief
                .is_denied(Method::PATCH, &path, add(&field, value), &why)
                .await?;
        }
        let body = json!({"metadata": {"labels": {"app": "other"}}});
        thief
            .is_denied(
                Method::PATCH,
                &path,
                body,
                &at("metadata.labels[app]", ENTRY),
            )
            .await?;
        thief
            .is_allowed(
                &path,
                add(&format!("{pod}/nodeSelector"), json!({"a": "b"})),
            )
            .await?;
        thief
            .is_allowed(&path, add("/spec/halted", json!(false)))
            .await?;
        kind.delete_crd(scene).await
    })
    .await
}

#[tokio::test]
async fn pods_of_others_are_out_of_reach() -> Result<()> {
    bed::shared("jail-pods", async |scene| {
        let thief = Thief::new().await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let other = Pod::new("other").scheduling_gate("acme.io/x");
        scene.create(&other.json()).await?;
        let ours = Pod::new("ours").queue("q").scheduling_gate("acme.io/x");
        scene.create(&ours.json()).await?;
        let pods = format!("/api/v1/namespaces/{}/pods", scene.ns);
        let (other, ours) = (format!("{pods}/other"), format!("{pods}/ours"));
        let edit = "metadata.labels[sluice.dev/managed]: Required value: only pods with this label may be edited by Sluice's account";
        for body in [
            add("/spec/containers/0/image", json!("evil")),
            add("/spec/schedulingGates", json!([])),
            // Whatever would make it one of Sluice's.
            json!({"metadata": {"labels": {"sluice.dev/managed": "true"}}}),
            json!({"metadata": {"annotations": {"sluice.dev/admitted": "{}"}}}),
            json!({"metadata": {"annotations": {"sluice.dev/pod-set": "main"}}}),
        ] {
            thief.is_denied(Method::PATCH, &other, body, edit).await?;
        }
        let delete = "metadata.labels[sluice.dev/managed]: Required value: only pods with this label may be deleted by Sluice's account";
        thief.is_denied(Method::DELETE, &other, Value::Null, delete).await?;
        for (body, why) in [
            (add("/spec/containers/0/image", json!("evil")), "spec.containers: Forbidden"),
            (json!({"spec": {"activeDeadlineSeconds": 1}}), "spec.activeDeadlineSeconds: Forbidden"),
            (json!({"metadata": {"labels": {"app": "other"}}}), "metadata.labels[app]: Forbidden"),
            (
                json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}]}}),
                "metadata.ownerReferences: Forbidden",
            ),
            (
                add("/spec/schedulingGates", json!([])),
                "spec.schedulingGates[acme.io/x]: Forbidden: is not a gate of Sluice",
            ),
        ] {
            thief.is_denied(Method::PATCH, &ours, body, why).await?;
        }
        thief.is_denied(Method::POST, &pods, Pod::new("new").json(), RBAC).await?;
        for sub in ["binding", "eviction", "exec", "ephemeralcontainers", "resize", "status"] {
            let method = if ["binding", "eviction", "exec"].contains(&sub) { Method::POST } else { Method::PATCH };
            thief.is_denied(method, &format!("{ours}/{sub}"), json!({}), RBAC).await?;
        }
        of_the_system(scene, &thief).await
    })
    .await
}

/// Even a pod that says it is Sluice's.
async fn of_the_system(scene: &Scene<'_>, thief: &Thief) -> Result<()> {
    let name = scene.name("pod");
    for namespace in ["kube-system", "kube-public", "kube-node-lease"] {
        let pod = Pod::new(&name)
            .label("sluice.dev/managed", "true")
            .scheduling_gate("acme.io/x");
        let args = ["--namespace", namespace, "create", "-f", "-"];
        scene
            .cp
            .kubectl(args, Some(&pod.json().to_string()))
            .await?
            .ok()?;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        // Elsewhere it may do that: of several policies that deny, any may be the one that is told.
        let body = json!({"metadata": {"annotations": {"sluice.dev/pod-set": "main"}}});
        thief.is_denied(Method::PATCH, &path, body, SYSTEM).await?;
        thief
            .is_denied(Method::DELETE, &path, Value::Null, SYSTEM)
            .await?;
        let workloads = format!("/apis/sluice.dev/v1alpha1/namespaces/{namespace}/workloads");
        let workload = json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload", "metadata": {"name": name},
            "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "requests": {}}]},
        });
        thief
            .is_denied(Method::POST, &workloads, workload, SYSTEM)
            .await?;
        let args = [
            "--namespace",
            namespace,
            "delete",
            "pod",
            &name,
            "--wait=false",
        ];
        scene.cp.kubectl(args, None).await?.ok()?;
    }
    Ok(())
}

#[tokio::test]
async fn its_webhooks_go_on_asking_sluice() -> Result<()> {
    bed::shared("jail-hooks", async |_| {
        let thief = Thief::new().await?;
        let all = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"});
        let secrets = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"], "scope": "Namespaced"});
        let each = json!({"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"], "scope": "Namespaced"});
        let deletions = json!({"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["jobs"], "scope": "Namespaced"});
        let roles = json!({"apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["roles"], "scope": "Namespaced"});
        for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/sluice");
            for (field, value, why) in [
                ("clientConfig/url", json!("https://evil.example.com/x"), HOOKS),
                ("failurePolicy", json!("Ignore"), HOOKS),
                ("namespaceSelector", json!({}), HOOKS),
                ("objectSelector", json!({"matchLabels": {"a": "b"}}), HOOKS),
                ("timeoutSeconds", json!(30), HOOKS),
                ("matchConditions", json!([]), "may neither add nor remove a condition"),
                ("rules/-", all.clone(), "is not a rule for a managed kind"),
                ("rules/-", secrets.clone(), "is not a rule for a managed kind"),
                ("rules/-", each.clone(), "is not a rule for a managed kind"),
                ("rules/-", deletions.clone(), "is not a rule for a managed kind"),
                ("rules/-", roles.clone(), "is not a rule for a managed kind"),
            ] {
                let body = add(&format!("/webhooks/0/{field}"), value);
                thief.is_denied(Method::PATCH, &path, body, why).await?;
            }
            let stored = thief.send(Method::GET, &path, &Value::Null).await?;
            let jobs = &stored["webhooks"][0];
            let like_jobs = |field: &str, value: Value| {
                let mut webhook = jobs.clone();
                webhook["name"] = json!("x.y.gates.sluice.dev");
                webhook[field] = value;
                webhook
            };
            for webhook in [
                like_jobs("clientConfig", json!({"url": "https://evil.example.com/x"})),
                like_jobs("failurePolicy", json!("Ignore")),
                like_jobs("namespaceSelector", json!({})),
                like_jobs("matchConditions", json!([])),
                like_jobs("rules", json!([all])),
                like_jobs("rules", json!([secrets])),
            ] {
                let body = add("/webhooks/-", webhook);
                thief.is_denied(Method::PATCH, &path, body, OF_GATES).await?;
            }
            let body = json!([{"op": "remove", "path": "/webhooks/0"}]);
            thief.is_denied(Method::PATCH, &path, body, "may neither add nor remove a webhook").await?;
            thief.is_denied(Method::DELETE, &path, Value::Null, RBAC).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_rest_of_the_cluster_is_out_of_reach() -> Result<()> {
    bed::shared("jail-rest", async |scene| {
        let thief = Thief::new().await?;
        let ns = &scene.ns;
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        for (method, path) in [
            (Method::GET, "/api/v1/secrets".to_owned()),
            (Method::GET, format!("/api/v1/namespaces/{ns}/secrets")),
            (Method::GET, "/api/v1/namespaces/sluice-system/secrets".to_owned()),
            (Method::POST, format!("/api/v1/namespaces/{ns}/secrets")),
            (Method::POST, format!("/api/v1/namespaces/{ns}/serviceaccounts/default/token")),
            (Method::POST, "/api/v1/namespaces/sluice-system/serviceaccounts/sluice/token".to_owned()),
            (Method::POST, format!("/api/v1/namespaces/{ns}/configmaps")),
            (Method::PATCH, "/api/v1/namespaces/sluice-system/configmaps/sluice-config".to_owned()),
            (Method::DELETE, "/apis/apps/v1/namespaces/sluice-system/deployments/sluice".to_owned()),
            (Method::PATCH, format!("/api/v1/namespaces/{ns}")),
            (Method::DELETE, format!("/api/v1/namespaces/{ns}")),
            (Method::GET, "/api/v1/nodes".to_owned()),
            (Method::PATCH, "/api/v1/nodes/node".to_owned()),
            (Method::POST, format!("{rbac}/clusterroles")),
            (Method::PATCH, format!("{rbac}/clusterroles/sluice-core")),
            (Method::POST, format!("{rbac}/clusterrolebindings")),
            (Method::POST, format!("{rbac}/namespaces/{ns}/rolebindings")),
            (Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned()),
            (Method::PATCH, "/apis/sluice.dev/v1alpha1/jobkinds/job".to_owned()),
            (Method::PATCH, "/apis/sluice.dev/v1alpha1/clusterqueues/q".to_owned()),
            (Method::POST, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".to_owned()),
            (Method::PATCH, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/sluice-jail".to_owned()),
            (Method::DELETE, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/sluice-jail".to_owned()),
            (Method::DELETE, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler".to_owned()),
        ] {
            thief.is_denied(method, &path, json!({"metadata": {"name": "x"}}), RBAC).await?;
        }
        Ok(())
    })
    .await
}
