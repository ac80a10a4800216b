//! With a stolen token of Sluice's nobody redirects requests of the cluster: neither by the shipped webhook configurations,
//! nor by those of Sluice's own making.

use anyhow::{Context, Result};
use http::Method;
use serde_json::{Value, json};
use sluice_testbed::{Options, SluiceOptions, eventually};

use crate::support::DEADLINE;
use crate::support::bed::{self, BINARY};
use crate::support::thief::{ENTRY, RBAC, Thief, add};

const HOOKS: &str = "Sluice's account may change only the caBundle, and remove rules for jobs";
const RULES: &str = "Sluice's account may only remove rules, and only those for jobs";
const OWN_HOOKS: &str = "a webhook of Sluice's own making must be as the shipped one, for no more namespaces, and only for Job-like kinds and pods";

#[tokio::test]
async fn its_webhooks_go_on_asking_sluice() -> Result<()> {
    bed::shared("jail-hooks", async |_| {
        let thief = Thief::new().await?;
        let rule = |group: &str, resource: &str, operation: &str| {
            json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource],
                "scope": "Namespaced"})
        };
        let never = json!([{"name": "never", "expression": "false"}]);
        for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/sluice");
            for (field, value, why) in [
                ("clientConfig/url", json!("https://evil.example.com/x"), HOOKS),
                ("failurePolicy", json!("Ignore"), HOOKS),
                ("namespaceSelector", json!({}), HOOKS),
                ("objectSelector", json!({"matchLabels": {"a": "b"}}), HOOKS),
                ("timeoutSeconds", json!(30), HOOKS),
                ("matchConditions", json!([]), HOOKS),
                ("matchConditions", never.clone(), HOOKS),
                ("matchConditions/-", never[0].clone(), HOOKS),
                ("matchConditions/0/expression", json!("false"), HOOKS),
                ("rules/-", rule("*", "*/*", "*"), RULES),
                ("rules/-", rule("", "secrets", "CREATE"), RULES),
                ("rules/-", rule("batch", "*", "CREATE"), RULES),
                ("rules/-", rule("batch", "jobs", "DELETE"), RULES),
                ("rules/-", rule("acme.io", "widgets", "CREATE"), RULES),
                ("rules/0/operations", json!(["CREATE", "UPDATE", "DELETE"]), RULES),
            ] {
                let body = add(&format!("/webhooks/0/{field}"), value);
                thief.is_denied(Method::PATCH, &path, body, why).await?;
            }
            let stored = thief.send(Method::GET, &path, &Value::Null).await?;
            let mut of_gate = stored["webhooks"][0].clone();
            of_gate["name"] = json!("x.y.gates.sluice.dev");
            let body = add("/webhooks/-", of_gate);
            thief.is_denied(Method::PATCH, &path, body, "may neither add nor remove a webhook").await?;
            let body = json!([{"op": "remove", "path": "/webhooks/0"}]);
            thief.is_denied(Method::PATCH, &path, body, "may neither add nor remove a webhook").await?;
            thief.is_denied(Method::DELETE, &path, Value::Null, RBAC).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn webhooks_of_its_own_making_ask_sluice_too() -> Result<()> {
    bed::shared("jail-own-hooks", async |_| {
        let thief = Thief::new().await?;
        let of = |group: &str, resource: &str, operation: &str| {
            json!([{"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource],
                "scope": "Namespaced"}])
        };
        let rule = |group: &str, resource: &str| of(group, resource, "CREATE");
        for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            let all = format!("/apis/admissionregistration.k8s.io/v1/{kind}");
            let path = format!("{all}/sluice-declared");
            let shipped = thief.send(Method::GET, &format!("{all}/sluice"), &Value::Null).await?;
            let own = thief.send(Method::GET, &path, &Value::Null).await?;
            // One that it could make if it were not there yet.
            let mut new = json!({"apiVersion": own["apiVersion"], "kind": own["kind"], "webhooks": own["webhooks"]});
            new["metadata"] = json!({
                "name": "sluice-declared",
                "labels": own["metadata"]["labels"],
                "ownerReferences": own["metadata"]["ownerReferences"],
            });
            thief.is_denied(Method::POST, &all, new.clone(), "already exists").await?;

            let reach = format!("{kind}.admissionregistration.k8s.io: Forbidden: Sluice's account may not create this");
            let metadata = "must have the label by which Sluice is found, and no other label, annotation or finalizer";
            let owner = "must name the shipped webhook configuration of the same kind, and nothing else";
            for (field, value, why) in [
                ("/metadata/name", json!("other"), reach.as_str()),
                ("/metadata/labels", json!({}), metadata),
                ("/metadata/annotations", json!({"a": "b"}), metadata),
                ("/metadata/finalizers", json!(["acme.io/x"]), metadata),
                ("/metadata/ownerReferences", json!([]), owner),
                ("/metadata/ownerReferences/0/uid", json!("another"), owner),
                ("/metadata/ownerReferences/0/blockOwnerDeletion", json!(true), owner),
            ] {
                let mut body = new.clone();
                let (parent, key) = field.rsplit_once('/').context("no field")?;
                body.pointer_mut(parent).context("no parent")?[key] = value;
                thief.is_denied(Method::POST, &all, body, why).await?;
            }

            let like_jobs = |name: &str, field: &str, value: Value| {
                let mut webhook = shipped["webhooks"][0].clone();
                webhook["name"] = json!(name);
                webhook[field] = value;
                webhook
            };
            for name in ["x.y.gates.sluice.dev", "x.jobkinds.sluice.dev"] {
                for (field, value) in [
                    ("clientConfig", json!({"url": "https://evil.example.com/x"})),
                    ("failurePolicy", json!("Ignore")),
                    ("timeoutSeconds", json!(30)),
                    ("namespaceSelector", json!({})),
                    ("objectSelector", json!({"matchLabels": {"a": "b"}})),
                    ("matchConditions", json!([])),
                    ("rules", rule("*", "*/*")),
                    ("rules", rule("", "secrets")),
                    ("rules", rule("rbac.authorization.k8s.io", "roles")),
                    ("rules", rule("sluice.dev", "workloads")),
                ] {
                    let webhook = like_jobs(name, field, value);
                    let mut body = new.clone();
                    body["webhooks"] = json!([webhook]);
                    thief.is_denied(Method::POST, &all, body, OWN_HOOKS).await?;
                    let body = add("/webhooks/-", webhook);
                    thief.is_denied(Method::PATCH, &path, body, OWN_HOOKS).await?;
                }
            }
            // One that may be made, but for its rule.
            let enforcing = own["webhooks"].as_array().into_iter().flatten();
            let mut enforcing = enforcing.filter(|webhook| webhook["name"] == "enforcement-by-label.gates.sluice.dev");
            let enforcing = enforcing.next().context("no webhook that enforces")?;
            for (group, resource, operation, is_allowed) in [
                ("", "pods", "CREATE", true),
                ("", "pods", "DELETE", false),
                ("", "pods", "UPDATE", false),
                ("", "pods", "*", false),
                ("", "replicationcontrollers", "DELETE", false),
                ("autoscaling", "horizontalpodautoscalers", "CREATE", false),
            ] {
                let mut webhook = enforcing.clone();
                webhook["name"] = json!("x.y.gates.sluice.dev");
                webhook["rules"] = of(group, resource, operation);
                let body = add("/webhooks/-", webhook);
                let dry_run = format!("{path}?dryRun=All");
                if is_allowed {
                    thief.is_allowed(&dry_run, body).await?;
                } else {
                    thief.is_denied(Method::PATCH, &dry_run, body, OWN_HOOKS).await?;
                }
            }
            let other = like_jobs("x.acme.io", "failurePolicy", json!("Fail"));
            thief.is_denied(Method::PATCH, &path, add("/webhooks/-", other), OWN_HOOKS).await?;
            let annotation = json!({"metadata": {"annotations": {"acme.io/x": "y"}}});
            thief.is_denied(Method::PATCH, &path, annotation, ENTRY).await?;
            let reach = format!("{kind}.admissionregistration.k8s.io: Forbidden: Sluice's account may not delete this");
            thief.is_denied(Method::DELETE, &path, Value::Null, &reach).await?;
            let again = thief.send(Method::GET, &path, &Value::Null).await?;
            assert_eq!(again["metadata"]["uid"], own["metadata"]["uid"]);
        }
        Ok(())
    })
    .await
}

/// Where nobody has applied webhooks, the token makes none.
#[tokio::test]
async fn without_shipped_webhooks_it_can_not_make_any() -> Result<()> {
    let mut sluice = SluiceOptions::new(BINARY);
    sluice.webhooks = false;
    bed::own("jail-no-hooks", sluice, Options::with_crds()?, async |bed, _| {
        let thief = Thief::of(bed.sluice.kubeconfig()).await?;
        for (kind, resource) in [
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
            let body = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": "sluice-declared", "labels": {"app.kubernetes.io/name": "sluice"}},
                "webhooks": [],
            });
            let why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
            // The API server hears of policies a moment after they were applied.
            let dry_run = format!("{path}?dryRun=All");
            eventually("the policies to be known", DEADLINE, async || {
                thief.is_denied(Method::POST, &dry_run, body.clone(), why).await
            })
            .await?;
            thief.is_denied(Method::POST, &path, body, why).await?;
        }
        Ok(())
    })
    .await
}
