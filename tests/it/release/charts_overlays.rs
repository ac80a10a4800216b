//! Values for what no value of the chart is for: fields of its objects, labels and annotations of all of them, and objects
//! besides them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::ROOT;
use super::charts::{refused, rendered};

/// All that the chart can make.
const ALL: [&str; 2] = [
    "--set=web.enabled=true,web.publicUrl=https://sluice.acme.io,web.plainHttp=true,certManager.enabled=true",
    "--set=monitoring.service=true,monitoring.serviceMonitor=true,monitoring.rules=true",
];

/// All of it, with these values.
fn made(values: &Value) -> Result<Vec<Value>> {
    let values = values.as_object().into_iter().flatten();
    let flags = values.map(|(field, value)| format!("--set-json={field}={value}"));
    let flags: Vec<String> = flags.collect();
    let flags = flags.iter().map(String::as_str).chain(ALL);
    rendered(&flags.collect::<Vec<_>>())
}

fn named<'a>(objects: &'a [Value], name: &str) -> Result<&'a Value> {
    let is_named = |object: &&Value| {
        let (kind, of_kind) = (&object["kind"], &object["metadata"]["name"]);
        format!("{kind}/{of_kind}").replace('"', "") == name
    };
    objects
        .iter()
        .find(is_named)
        .with_context(|| format!("no {name}"))
}

/// A value, the object that it changes, what is there then, and where.
#[test]
fn values_come_into_the_objects() -> Result<()> {
    let pod = "/spec/template/spec";
    let peers = json!([{"podSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}]);
    let endpoint = json!({"interval": "30s", "relabelings": [{"action": "labeldrop"}]});
    for (values, object, path, wanted) in [
        (
            json!({"networkPolicy.metricsFrom": peers}),
            "NetworkPolicy/sluice",
            "/spec/ingress/1".to_owned(),
            json!({"from": peers, "ports": [{"port": 8080}]}),
        ),
        (
            json!({"monitoring.endpoint": endpoint}),
            "ServiceMonitor/sluice",
            "/spec/endpoints/0".to_owned(),
            json!({"port": "metrics", "honorLabels": true, "interval": "30s",
                "relabelings": [{"action": "labeldrop"}]}),
        ),
        (
            json!({"overlays": {"ServiceMonitor/sluice": {"metadata": {"annotations": {"a": "b"}}}}}),
            "ServiceMonitor/sluice",
            "/metadata/annotations/a".to_owned(),
            json!("b"),
        ),
        (
            json!({"overlays": {"Certificate/sluice-webhook":
                {"spec": {"duration": "720h", "privateKey": {"algorithm": "RSA", "size": 4096}}}}}),
            "Certificate/sluice-webhook",
            "/spec/privateKey".to_owned(),
            json!({"algorithm": "RSA", "size": 4096, "rotationPolicy": "Always"}),
        ),
        (
            json!({"overlays": {"PodDisruptionBudget/sluice":
                {"spec": {"minAvailable": null, "maxUnavailable": 1}}}}),
            "PodDisruptionBudget/sluice",
            "/spec".to_owned(),
            json!({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": {"app.kubernetes.io/name": "sluice"}}}),
        ),
        (
            json!({"overlays": {"Deployment/sluice": {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}}}),
            "Deployment/sluice",
            "/spec/strategy/rollingUpdate".to_owned(),
            json!({"maxUnavailable": 0, "maxSurge": 2}),
        ),
        (
            json!({"overlays": {"Deployment/sluice": {"spec": {"template": {"spec":
                {"securityContext": {"fsGroup": 1, "runAsUser": null}}}}}}}),
            "Deployment/sluice",
            format!("{pod}/securityContext"),
            json!({"runAsNonRoot": true, "runAsGroup": 65532, "fsGroup": 1,
                "seccompProfile": {"type": "RuntimeDefault"}}),
        ),
        // Each container is known by its name.
        (
            json!({"overlays": {"Deployment/sluice": {"spec": {"template": {"spec": {"containers":
                [{"name": "sluice", "livenessProbe": {"periodSeconds": 5}}, {"name": "side"}]}}}}}}),
            "Deployment/sluice",
            format!("{pod}/containers/0/livenessProbe"),
            json!({"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 5, "failureThreshold": 3}),
        ),
        // It is laid over what other values have made, which the page has too.
        (
            json!({"affinity": {"podAffinity": {}},
                "overlays": {"Deployment/sluice": {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": {}}}}}}}}),
            "Deployment/sluice-web",
            format!("{pod}/affinity"),
            json!({"podAffinity": {}}),
        ),
    ] {
        let objects = made(&values)?;
        let found = named(&objects, object)?.pointer(&path);
        assert_eq!(*found.unwrap_or(&Value::Null), wanted, "{values}");
    }
    let without = made(&json!({"serviceAccount.create": false}))?;
    ensure!(named(&without, "ServiceAccount/sluice").is_err());
    named(&without, "ServiceAccount/sluice-web").map(drop)
}

/// The schema names those that there are.
#[test]
fn an_overlay_is_laid_over_the_object_of_its_name() -> Result<()> {
    let file = Path::new(ROOT).join("charts/sluice/values.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let names = &schema["properties"]["overlays"]["properties"];
    let names = names.as_object().context("no names")?;
    let marked = |name: &String| (name.clone(), json!({"spec": {"mark": name}}));
    let overlays: Value = Value::Object(names.keys().map(marked).collect());
    let mut wanted = made(&json!({}))?;
    let found = made(&json!({"overlays": overlays}))?;
    assert_eq!(found.len(), wanted.len());
    let mut seen = BTreeSet::new();
    for (found, wanted) in found.iter().zip(&mut wanted) {
        let name = format!("{}/{}", wanted["kind"], wanted["metadata"]["name"]).replace('"', "");
        if names.contains_key(&name) {
            wanted["spec"]["mark"] = json!(name);
            seen.insert(name);
        }
        assert_eq!(found, wanted);
    }
    assert_eq!(seen.len(), names.len(), "{seen:?}");
    Ok(())
}

/// All of them, in either variant, and what is there already stays.
#[test]
fn all_objects_have_the_common_labels_and_annotations() -> Result<()> {
    let extra = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"a": "b"}}]);
    let common = json!({
        "commonLabels": {"team": "a"},
        "commonAnnotations": {"owner": "ann", "argocd.argoproj.io/sync-wave": "0"},
        "extraObjects": extra,
    });
    for variant in ["webhooks", "policies"] {
        let with_variant = |mut values: Value| {
            values["variant"] = json!(variant);
            made(&values)
        };
        let objects = with_variant(common.clone())?;
        let without = with_variant(json!({"extraObjects": extra}))?;
        assert_eq!(objects.len(), without.len());
        named(&objects, "ConfigMap/mine")?;
        for (object, without) in objects.iter().zip(without) {
            let mut places = vec![(&object["metadata"], &without["metadata"])];
            let annotations = &object["metadata"]["annotations"];
            ensure!(annotations["owner"] == "ann", "{variant}: {object}");
            if object["kind"] == "Deployment" {
                let path = "/spec/template/metadata";
                let (pod, without) = (object.pointer(path), without.pointer(path));
                places.push((pod.context("no pod")?, without.context("no pod")?));
            }
            for (metadata, without) in places {
                let labels = &metadata["labels"];
                ensure!(labels["team"] == "a", "{variant}: {object}");
                for (key, value) in without["labels"].as_object().into_iter().flatten() {
                    assert_eq!(labels[key], *value, "{variant}: {object}");
                }
            }
            let wave = &without["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"];
            let wave = wave.as_str().unwrap_or("0");
            assert_eq!(annotations["argocd.argoproj.io/sync-wave"], wave);
        }
    }
    Ok(())
}

#[test]
fn overlays_and_labels_that_can_not_be_meant_are_refused() -> Result<()> {
    let deployment = "overlays.Deployment/sluice";
    for (flag, told) in [
        (
            "overlays.Deployment/slice.spec.replicas=1",
            "at '/overlays': additional properties 'Deployment/slice' not allowed",
        ),
        (
            &format!("{deployment}.metadata.name=x"),
            "metadata': additional properties 'name' not allowed",
        ),
        (
            &format!("{deployment}.specs.replicas=1"),
            "additional properties 'specs' not allowed",
        ),
        (
            &format!("{deployment}.spec.selector.matchLabels.a=b"),
            "spec/selector': false schema",
        ),
        (
            "commonLabels.app\\.kubernetes\\.io/name=x",
            "at '/commonLabels/app.kubernetes.io~1name': false schema",
        ),
        (
            "commonLabels.team=a b",
            "at '/commonLabels/team': 'a b' does not match",
        ),
        (
            "commonLabels.team=1",
            "at '/commonLabels/team': got number, want string",
        ),
        ("commonAnnotations.a=true", "got boolean, want string"),
        (
            "extraObjects[0].kind=Ingress",
            "missing properties 'apiVersion', 'metadata'",
        ),
        (
            "networkPolicy.metricsFrom[0].podSelctor=x",
            "additional properties 'podSelctor'",
        ),
        (
            "monitoring.endpoint.interval=often",
            "'often' does not match",
        ),
        (
            "monitoring.endpoint.intervall=1s",
            "additional properties 'intervall'",
        ),
    ] {
        refused(&[&format!("--set={flag}")], told)?;
    }
    let none = "overlays=null,commonLabels=null,commonAnnotations=null,extraObjects=null,serviceAccount.create=null,\
        monitoring.endpoint=null,networkPolicy.metricsFrom=null";
    assert_eq!(rendered(&[&format!("--set={none}")])?, rendered(&[])?);
    Ok(())
}
