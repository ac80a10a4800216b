//! A stolen token of Sluice is not the cluster: with the token of its service account each of a list of
//! requests is denied, with the reason, and nothing has changed. That all that Sluice has to do is allowed,
//! all other tests show: they run with the jail installed.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::support::Scene;
use crate::support::bed;
use crate::support::made_up::MadeUp;
use crate::support::objects::{Job, quota};
use crate::support::pods::Pod;
use crate::support::thief::{ENTRY, RBAC, Thief, add};

const SYSTEM: &str = "Sluice's account may write nothing in a system namespace";
const FIELDS: &str = "Sluice's account may change only the suspend field, node selectors, tolerations, and its own labels and annotations";

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
