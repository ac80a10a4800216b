//! What the Helm charts make: with their default values the objects that kustomize makes, with others what the values
//! say, and nothing of values that their schema refuses. By the real Helm, without a cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::Assets;
use sluice_webhooks::manifests::{self, Options};

use super::{Folder, ROOT, kustomized, objects, run};

/// Helm as it speaks to no cluster, with a chart of the repository.
pub fn helm(command: &[&str], chart: &str, flags: &[&str]) -> Result<Command> {
    let mut helm = Command::new(Assets::ensure_helm()?);
    helm.args(command);
    helm.arg(Path::new(ROOT).join("charts").join(chart));
    helm.args(flags);
    Ok(helm)
}

/// What the chart `sluice` makes with these flags, in the order in which Helm creates it.
fn in_order(flags: &[&str]) -> Result<Vec<Value>> {
    let flags = [&["--namespace=sluice-system"], flags].concat();
    objects(&run(&mut helm(
        &["template", "any-name"],
        "sluice",
        &flags,
    )?)?)
}

/// The objects that the chart `sluice` makes with these flags, out of their lists.
pub fn rendered(flags: &[&str]) -> Result<Vec<Value>> {
    let mut made = Vec::new();
    for object in in_order(flags)? {
        match object["items"].as_array() {
            Some(items) if object["kind"] == "List" => made.extend_from_slice(items),
            _ => made.push(object),
        }
    }
    Ok(made)
}

/// That Helm refuses these flags, and says this.
pub fn refused(flags: &[&str], told: &str) -> Result<()> {
    let output = helm(&["template", "x"], "sluice", flags)?.output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && stderr.contains(told),
        "{flags:?}: {stderr}"
    );
    Ok(())
}

/// The objects by kind, namespace and name.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let keyed = objects.into_iter().map(|object| {
        let (kind, metadata) = (&object["kind"], &object["metadata"]);
        let key = format!("{kind} {} {}", metadata["namespace"], metadata["name"]);
        (key, object)
    });
    keyed.collect()
}

/// An object without the hash by which kustomize ends the name of a ConfigMap that it makes of a file.
fn unhashed(object: Value) -> Value {
    const NAME: &str = "sluice-config-";
    const HASH: usize = 10;
    let text = object.to_string();
    let mut parts = text.split(NAME);
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        without += NAME.trim_end_matches('-');
        without += part.get(HASH..).unwrap_or_default();
    }
    serde_json::from_str(&without).unwrap()
}

/// That both are the same objects, but for the namespace itself, and for how pods restart with another configuration:
/// the chart annotates them with a hash.
pub fn equal(rendered: Vec<Value>, wanted: Vec<Value>) {
    let wanted = wanted.into_iter().map(unhashed).collect();
    let (mut rendered, mut wanted) = (by_name(rendered), by_name(wanted));
    let is_sluice = |o: &&mut Value| o["kind"] == "Deployment" && o["metadata"]["name"] == "sluice";
    let deployments = rendered.values_mut().filter(is_sluice);
    for deployment in deployments {
        let annotations = &mut deployment["spec"]["template"]["metadata"]["annotations"];
        let hash = annotations
            .as_object_mut()
            .unwrap()
            .remove("checksum/config");
        assert!(hash.is_some_and(|hash| hash.is_string()), "no hash");
    }
    wanted.retain(|_, object| object["kind"] != "Namespace");
    let keys = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&rendered), keys(&wanted));
    for (key, object) in rendered {
        assert_eq!(object, wanted[&key], "{key}");
    }
}

pub fn one(objects: &[Value], kind: &str) -> Result<Value> {
    let mut of_kind = objects.iter().filter(|object| object["kind"] == kind);
    let found = of_kind.next().with_context(|| format!("no {kind}"))?;
    ensure!(of_kind.next().is_none(), "more than one {kind}");
    Ok(found.clone())
}

#[test]
fn with_default_values_the_chart_makes_what_kustomize_makes() -> Result<()> {
    equal(rendered(&[])?, kustomized("config/default")?);
    let policies = rendered(&["--set=variant=policies"])?;
    equal(policies, kustomized("config/without-webhook")?);
    let all =
        ["service", "serviceMonitor", "rules"].map(|what| format!("--set=monitoring.{what}=true"));
    let monitored = rendered(&all.each_ref().map(String::as_str))?;
    let mut wanted = kustomized("config/default")?;
    wanted.extend(kustomized("config/monitoring")?);
    wanted.extend(kustomized("config/monitoring/prometheus-operator")?);
    equal(monitored, wanted);
    let mut wanted = kustomized("config/default")?;
    wanted.extend(kustomized("config/cert-manager")?);
    equal(rendered(&["--set=certManager.enabled=true"])?, wanted);
    let mut wanted = kustomized("config/default")?;
    wanted.extend(kustomized("config/priority")?);
    equal(rendered(&["--set=priorityAndFairness=true"])?, wanted);
    Ok(())
}

/// Webhooks that nobody answers yet would refuse JobKinds. Helm 4 creates webhook configurations before JobKinds, and what it
/// does not know by the kind's name: so both are in lists.
#[test]
fn webhooks_are_created_after_what_they_judge() -> Result<()> {
    let made = in_order(&[])?;
    let kinds: Vec<_> = made
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .collect();
    ensure!(
        !kinds
            .iter()
            .any(|kind| kind.ends_with("WebhookConfiguration")),
        "{kinds:?}"
    );
    // Nor does Argo CD know them, which takes the lists apart.
    for webhooks in made.iter().filter(|object| object["kind"] == "List") {
        let annotations = &webhooks["items"][0]["metadata"]["annotations"];
        assert_eq!(annotations["argocd.argoproj.io/sync-wave"], "1");
    }
    let last = kinds.iter().rposition(|kind| *kind == "JobKind");
    let first = kinds.iter().position(|kind| *kind == "List");
    ensure!(
        last.context("no JobKind")? < first.context("no List")?,
        "{kinds:?}"
    );
    Ok(())
}

#[test]
fn helm_has_nothing_against_the_charts() -> Result<()> {
    for chart in ["sluice", "sluice-crds"] {
        let told = run(&mut helm(&["lint", "--strict"], chart, &[])?)?;
        ensure!(told.contains("0 chart(s) failed"), "{told}");
    }
    Ok(())
}

#[test]
fn both_charts_have_the_crds() -> Result<()> {
    // Not by kustomize, which writes the number 1.0 of a schema as 1.
    let mut shipped = Vec::new();
    for file in std::fs::read_dir(Path::new(ROOT).join("crds"))? {
        let file = file?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            shipped.extend(objects(&std::fs::read_to_string(file)?)?);
        }
    }
    let with_crds = rendered(&["--include-crds"])?;
    let is_crd = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let of_chart = with_crds.into_iter().filter(is_crd).collect();
    equal(of_chart, shipped.clone());
    let kept = objects(&run(&mut helm(&["template", "crds"], "sluice-crds", &[])?)?)?;
    let kept = kept.into_iter().map(|mut crd| {
        let annotations = crd["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("annotations");
        assert_eq!(
            annotations,
            Some(json!({"helm.sh/resource-policy": "keep"}))
        );
        crd
    });
    equal(kept.collect(), shipped);
    Ok(())
}

/// Webhooks, policies and jail know the namespace of the release and the account: they are as if they had been
/// generated with both.
#[test]
fn webhooks_and_policies_know_where_sluice_is_and_who_it_is() -> Result<()> {
    let options = Options {
        namespace: "batch-infra".to_owned(),
        service_account: "warden".to_owned(),
        ..Options::default()
    };
    let flags = [
        "--namespace=batch-infra",
        "--set=serviceAccount.name=warden",
    ];
    let webhooks = rendered(&flags)?;
    for (kind, wanted) in [
        (
            "ValidatingWebhookConfiguration",
            serde_json::to_value(manifests::validating(&options))?,
        ),
        (
            "MutatingWebhookConfiguration",
            serde_json::to_value(manifests::mutating(&options))?,
        ),
    ] {
        let (found, wanted) = (one(&webhooks, kind)?, &wanted["webhooks"]);
        assert_eq!(found["webhooks"], *wanted, "{kind}");
    }
    let policies = rendered(&[&flags[..], &["--set=variant=policies"]].concat())?;
    for objects in [&webhooks, &policies] {
        let text = serde_json::to_string(objects)?;
        ensure!(
            !text.contains("sluice-system") && !text.contains(":sluice'"),
            "{text}"
        );
        ensure!(text.contains("endsWith(':warden')"), "{text}");
        let deployment = one(objects, "Deployment")?;
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], "warden");
        let args = pod["containers"][0]["args"].to_string();
        ensure!(args.contains("--service-account=warden"), "{args}");
        assert_eq!(
            one(objects, "ServiceAccount")?["metadata"]["name"],
            "warden"
        );
        // But for what everybody may read.
        let everybody = |o: &Value| o["subjects"][0]["name"] == "system:authenticated";
        let bindings = objects.iter().filter(|o| o["subjects"].is_array());
        let bindings = bindings.filter(|binding| !everybody(binding));
        for binding in bindings {
            let warden =
                json!([{"kind": "ServiceAccount", "name": "warden", "namespace": "batch-infra"}]);
            assert_eq!(binding["subjects"], warden, "{binding}");
        }
    }
    Ok(())
}

/// What a value changes: at a path of the Deployment.
#[test]
fn values_come_into_the_deployment() -> Result<()> {
    let pod = "/spec/template/spec";
    let digest = format!("sha256:{}", "0a".repeat(32));
    for (flags, path, wanted) in [
        (
            &["--set=replicas=3"][..],
            "/spec/replicas".to_owned(),
            json!(3),
        ),
        (
            &["--set=image.repository=registry.corp/sluice,image.tag=v9"],
            format!("{pod}/containers/0/image"),
            json!("registry.corp/sluice:v9"),
        ),
        (
            &[
                "--set=image.tag=v9",
                &format!("--set=image.digest={digest}"),
            ],
            format!("{pod}/containers/0/image"),
            json!(format!("ghcr.io/sluice-dev/sluice@{digest}")),
        ),
        (
            &["--set=image.pullPolicy=Always"],
            format!("{pod}/containers/0/imagePullPolicy"),
            json!("Always"),
        ),
        (
            &["--set=imagePullSecrets[0].name=registry.acme.io"],
            format!("{pod}/imagePullSecrets"),
            json!([{"name": "registry.acme.io"}]),
        ),
        (
            &["--set=resources.limits.memory=2Gi"],
            format!("{pod}/containers/0/resources/limits"),
            json!({"memory": "2Gi"}),
        ),
        (
            &["--set=nodeSelector.pool=infra"],
            format!("{pod}/nodeSelector"),
            json!({"pool": "infra"}),
        ),
        (
            &["--set-json=tolerations=[{\"key\":\"infra\",\"operator\":\"Exists\"}]"],
            format!("{pod}/tolerations"),
            json!([{"key": "infra", "operator": "Exists"}]),
        ),
        (
            &["--set-json=affinity={\"nodeAffinity\":{}}"],
            format!("{pod}/affinity"),
            json!({"nodeAffinity": {}}),
        ),
        (
            &["--set=priorityClassName="],
            format!("{pod}/priorityClassName"),
            Value::Null,
        ),
        (
            &["--set=podLabels.team=a"],
            "/spec/template/metadata/labels".to_owned(),
            json!({"app.kubernetes.io/name": "sluice", "team": "a"}),
        ),
        (
            &["--set=podLabels.app\\.kubernetes\\.io/name=other"],
            "/spec/template/metadata/labels".to_owned(),
            json!({"app.kubernetes.io/name": "sluice"}),
        ),
        (
            &["--set=openshift=true"],
            format!("{pod}/securityContext"),
            json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}),
        ),
        (
            &["--set=extraArgs[0]=--log-format=text"],
            format!("{pod}/containers/0/args/3"),
            json!("--log-format=text"),
        ),
        // As the page says it for clusters with IPv6 alone.
        (
            &["--set=extraArgs={--webhook-bind=[::]:9443,--health-bind=[::]:8081}"],
            format!("{pod}/containers/0/args/4"),
            json!("--health-bind=[::]:8081"),
        ),
    ] {
        let deployment = one(&rendered(flags)?, "Deployment")?;
        let found = deployment.pointer(&path).unwrap_or(&Value::Null);
        assert_eq!(*found, wanted, "{flags:?}");
    }
    Ok(())
}

/// Behind those by which Sluice knows its pod, which nobody may set.
#[test]
fn environment_variables_are_values() -> Result<()> {
    let directive = "info,sluice::controller=debug";
    let env = json!([{"name": "RUST_LOG", "value": directive}]);
    let deployment = one(
        &rendered(&[&format!("--set-json=extraEnv={env}")])?,
        "Deployment",
    )?;
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let env = env.as_array().context("no env")?;
    let names: Vec<&Value> = env.iter().map(|variable| &variable["name"]).collect();
    assert_eq!(names, ["POD_NAMESPACE", "POD_NAME", "POD_IP", "RUST_LOG"]);
    assert_eq!(env[3]["value"], directive);
    for name in ["POD_NAMESPACE", "POD_NAME", "POD_IP"] {
        let flag = format!("--set=extraEnv[0].name={name}");
        refused(&[&flag], "at '/extraEnv/0/name': 'not' failed")?;
    }
    refused(
        &["--set=extraEnv[0].name=A,extraEnv[0].value=1"],
        "at '/extraEnv/0/value': got number, want string",
    )
}

/// For control planes that reach nodes alone. A rollout does not wait for a node more than there are replicas.
#[test]
fn pods_may_have_the_network_of_their_nodes() -> Result<()> {
    let wanted = |flags: &[&str]| -> Result<Value> {
        let spec = one(&rendered(flags)?, "Deployment")?["spec"].take();
        let pod = &spec["template"]["spec"];
        let rollout = &spec["strategy"]["rollingUpdate"];
        Ok(json!([pod["hostNetwork"], pod["dnsPolicy"], rollout]))
    };
    let surge = json!({"maxUnavailable": 0, "maxSurge": 1});
    assert_eq!(wanted(&[])?, json!([null, null, surge]));
    let none = json!({"maxUnavailable": 1, "maxSurge": 0});
    assert_eq!(
        wanted(&["--set=hostNetwork=true"])?,
        json!([true, "ClusterFirstWithHostNet", none])
    );
    refused(
        &["--set-string=hostNetwork=true"],
        "at '/hostNetwork': got string, want boolean",
    )
}

/// Services name the ports of the pods, wherever these are.
#[test]
fn services_lead_to_ports_that_the_pods_have() -> Result<()> {
    let made = rendered(&["--set=monitoring.service=true"])?;
    let pod = &one(&made, "Deployment")?["spec"]["template"]["spec"];
    let ports = pod["containers"][0]["ports"].as_array().context("none")?;
    let targets = made.iter().filter(|object| object["kind"] == "Service");
    let targets: Vec<&Value> = targets
        .map(|service| &service["spec"]["ports"][0]["targetPort"])
        .collect();
    assert_eq!(targets.len(), 3);
    for target in targets {
        ensure!(ports.iter().any(|port| port["name"] == *target), "{target}");
    }
    Ok(())
}

/// Else the new pods of a rollout go where those that they replace are missing, and end up on one node.
#[test]
fn pods_of_one_rollout_are_spread() -> Result<()> {
    let deployment = one(&rendered(&[])?, "Deployment")?;
    let constraints = &deployment["spec"]["template"]["spec"]["topologySpreadConstraints"];
    let constraints = constraints.as_array().context("no constraints")?;
    assert_eq!(constraints.len(), 2);
    for constraint in constraints {
        assert_eq!(constraint["matchLabelKeys"], json!(["pod-template-hash"]));
    }
    Ok(())
}

#[test]
fn values_come_into_what_is_around_the_deployment() -> Result<()> {
    let objects = rendered(&[
        "--set=networkPolicy.apiServerPorts={16443}",
        "--set=replicas=5",
    ])?;
    let ports = &one(&objects, "NetworkPolicy")?["spec"]["egress"][0]["ports"];
    assert_eq!(*ports, json!([{"port": 16443}]));
    // It counts the critical pods of others, too, where they were there before.
    let quota = one(&objects, "ResourceQuota")?;
    assert_eq!(quota["spec"]["hard"], json!({"pods": "1G"}));
    let class = ["--set=priorityClassName=system-node-critical"];
    let quota = one(&rendered(&class)?, "ResourceQuota")?;
    let classes = &quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"];
    assert_eq!(*classes, json!(["system-node-critical"]));
    for (flag, kind) in [
        ("--set=networkPolicy.enabled=false", "NetworkPolicy"),
        ("--set=visibility=false", "APIService"),
        ("--set=replicas=1", "PodDisruptionBudget"),
        ("--set=priorityClassName=mine", "ResourceQuota"),
    ] {
        ensure!(one(&rendered(&[flag])?, kind).is_err(), "{flag}: {kind}");
    }
    // A replica that listens for an API that is not there tells for ever that it is not served.
    for (flag, is_served) in [
        ("--set=visibility=false", false),
        ("--set=replicas=1", true),
    ] {
        let deployment = one(&rendered(&[flag])?, "Deployment")?.to_string();
        assert_eq!(
            deployment.contains("--visibility-bind"),
            is_served,
            "{flag}"
        );
    }
    let flags = [
        "--set=certManager.enabled=true",
        "--set=certManager.issuerRef.name=ca.acme.io",
    ];
    let objects = rendered(&flags)?;
    ensure!(
        one(&objects, "Issuer").is_err(),
        "an issuer that is not asked for"
    );
    let certificate = &one(&objects, "Certificate")?["spec"];
    assert_eq!(certificate["issuerRef"], json!({"name": "ca.acme.io"}));
    let labels = &certificate["secretTemplate"]["labels"];
    assert_eq!(*labels, json!({"app.kubernetes.io/name": "sluice"}));
    let labels = ["service", "serviceMonitor"].map(|what| format!("--set=monitoring.{what}=true"));
    let flags = [
        &labels[0],
        &labels[1],
        "--set=monitoring.labels.release=prometheus",
    ];
    let monitor = one(&rendered(&flags)?, "ServiceMonitor")?;
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    Ok(())
}

/// Each is refused with its path, before anything is made.
#[test]
fn values_that_can_not_be_meant_are_refused() -> Result<()> {
    for (flag, told) in [
        (
            "--set=replica=3",
            "additional properties 'replica' not allowed",
        ),
        (
            "--set=replicas=two",
            "at '/replicas': got string, want integer",
        ),
        ("--set=replicas=0", "at '/replicas': minimum: got 0, want 1"),
        (
            "--set=variant=webhook",
            "at '/variant': value must be one of 'webhooks', 'policies'",
        ),
        (
            "--set=image.digest=abc",
            "at '/image/digest': 'abc' does not match pattern",
        ),
        (
            "--set=image.tga=v1",
            "at '/image': additional properties 'tga' not allowed",
        ),
        (
            "--set=image.pullPolicy=Sometimes",
            "at '/image/pullPolicy': value must be one of",
        ),
        (
            "--set-json=imagePullSecrets=[\"x\"]",
            "at '/imagePullSecrets/0': got string, want object",
        ),
        (
            "--set=serviceAccount.name=A_b",
            "at '/serviceAccount/name': 'A_b' does not match pattern",
        ),
        (
            "--set=networkPolicy.apiServerPorts={99999}",
            "at '/networkPolicy/apiServerPorts/0': maximum",
        ),
        (
            "--set=resources.limits.memory=much",
            "at '/resources/limits/memory': 'much' does not match",
        ),
        (
            "--set=tolerations[0].efect=NoSchedule",
            "at '/tolerations/0': additional properties 'efect'",
        ),
        (
            "--set=openshift=yes",
            "at '/openshift': got string, want boolean",
        ),
        (
            "--set=monitoring.serviceMonitor=true",
            "at '/monitoring/service': value must be true",
        ),
        (
            "--set=config=Ignore",
            "at '/config': got string, want object",
        ),
        (
            "--set=certManager.issuerRef.nam=x",
            "at '/certManager/issuerRef': additional properties 'nam'",
        ),
        (
            "--set=certManager.issuerRef.kind=ClusterIssuer",
            "at '/certManager/issuerRef': missing property 'name'",
        ),
        (
            "--set=certManager.issuerRef.name=a..b",
            "at '/certManager/issuerRef/name': 'a..b' does not match pattern",
        ),
        (
            "--set=extraVolumeMounts[0].name=x",
            "at '/extraVolumeMounts/0': missing property 'mountPath'",
        ),
        (
            "--set=extraArgs[0]=log",
            "at '/extraArgs/0': 'log' does not match pattern",
        ),
    ] {
        refused(&[flag], told)?;
    }
    Ok(())
}

/// Its account may write nothing there.
#[test]
fn sluice_is_not_installed_into_a_namespace_of_kubernetes() -> Result<()> {
    for namespace in ["kube-system", "kube-public", "kube-node-lease"] {
        let told = format!(
            "namespace: Invalid value: \"{namespace}\": may not be a namespace of Kubernetes itself"
        );
        refused(&[&format!("--namespace={namespace}")], &told)?;
    }
    Ok(())
}

/// Helm shows the notes only to who installs: here a copy of the chart has them as a value of an object.
#[test]
fn the_notes_say_what_the_namespace_of_sluice_is_left_out_of() -> Result<()> {
    let folder = Folder::new("notes")?;
    let copy = folder.path().join("sluice");
    let mut copying = Command::new("cp");
    copying.args(["-RL", "charts/sluice"]).arg(&copy);
    run(copying.current_dir(ROOT))?;
    std::fs::rename(copy.join("templates/NOTES.txt"), copy.join("notes"))?;
    let text = "text: {{ tpl (.Files.Get \"notes\") . | toJson }}\n";
    std::fs::write(copy.join("templates/notes.yaml"), text)?;
    for (namespace, is_told) in [("default", true), ("sluice-system", false)] {
        let mut helm = Command::new(Assets::ensure_helm()?);
        helm.args(["template", "x", "--show-only=templates/notes.yaml"]);
        helm.arg(format!("--namespace={namespace}")).arg(&copy);
        let notes = objects(&run(&mut helm)?)?;
        let notes = notes[0]["text"].as_str().context("no notes")?;
        let told = "Jobs and pods of the namespace default run without queues and gates";
        assert_eq!(notes.contains(told), is_told, "{notes}");
        ensure!(notes.contains(&format!("in the namespace {namespace}, with webhooks")));
    }
    Ok(())
}

/// A value that is taken away is missed by name, or is as an empty one.
#[test]
fn values_may_be_null() -> Result<()> {
    for (flag, missing) in [
        ("variant", "at '': missing property 'variant'"),
        ("replicas", "at '': missing property 'replicas'"),
        ("image", "at '': missing property 'image'"),
        (
            "image.repository",
            "at '/image': missing property 'repository'",
        ),
        ("serviceAccount", "at '': missing property 'serviceAccount'"),
        (
            "serviceAccount.name",
            "at '/serviceAccount': missing property 'name'",
        ),
        ("networkPolicy", "at '': missing property 'networkPolicy'"),
        (
            "networkPolicy.apiServerPorts",
            "at '/networkPolicy': missing property 'apiServerPorts'",
        ),
        ("certManager", "at '': missing property 'certManager'"),
        ("monitoring", "at '': missing property 'monitoring'"),
    ] {
        refused(&[&format!("--set={flag}=null")], missing)?;
    }
    let all = "--set=config=null,jobKinds=null,extraArgs=null,extraEnv=null,extraVolumes=null,extraVolumeMounts=null,resources=null,\
        priorityClassName=null,podLabels=null,podAnnotations=null,imagePullSecrets=null,nodeSelector=null,\
        serviceAccount.annotations=null,certManager.issuerRef=null,monitoring.labels=null,monitoring.tls=null,\
        image.tag=null,monitoring.service=true,monitoring.serviceMonitor=true";
    for variant in ["webhooks", "policies"] {
        let made = rendered(&[all, &format!("--set=variant={variant}")])?;
        let pod = &one(&made, "Deployment")?["spec"]["template"]["spec"];
        assert_eq!(pod["priorityClassName"], Value::Null);
        ensure!(one(&made, "ResourceQuota").is_err(), "a quota for no class");
    }
    Ok(())
}

/// The flag, how the ServiceMonitor knows Sluice, and what Prometheus shows to be answered.
#[test]
fn metrics_are_scraped_over_tls() -> Result<()> {
    let flags = [
        "--set=monitoring.service=true,monitoring.serviceMonitor=true,monitoring.tls.enabled=true",
        "--set=monitoring.tls.config.keySecret.name=client,monitoring.tls.config.keySecret.key=tls.key",
        "--set=extraVolumes[0].name=clients,extraVolumes[0].configMap.name=clients",
        "--set=extraVolumeMounts[0].name=clients,extraVolumeMounts[0].mountPath=/clients",
        "--set=extraArgs={--metrics-client-ca=/clients/ca.crt}",
    ];
    let made = rendered(&flags)?;
    let endpoint = &one(&made, "ServiceMonitor")?["spec"]["endpoints"][0];
    let wanted = json!({
        "port": "metrics", "honorLabels": true, "scheme": "https",
        "tlsConfig": {
            "ca": {"secret": {"name": "sluice-webhook-certificate", "key": "ca-bundle.crt"}},
            "serverName": "sluice-webhook.sluice-system.svc",
            "keySecret": {"name": "client", "key": "tls.key"},
        },
    });
    assert_eq!(*endpoint, wanted);
    let pod = &one(&made, "Deployment")?["spec"]["template"]["spec"];
    let last = |list: &Value| list.as_array().and_then(|list| list.last().cloned());
    let volume = json!({"name": "clients", "configMap": {"name": "clients"}});
    assert_eq!(last(&pod["volumes"]), Some(volume));
    let container = &pod["containers"][0];
    let mount = json!({"name": "clients", "mountPath": "/clients"});
    assert_eq!(last(&container["volumeMounts"]), Some(mount));
    let args = container["args"].as_array().context("no args")?;
    let wanted = ["--metrics-tls", "--metrics-client-ca=/clients/ca.crt"];
    assert_eq!(args[args.len() - 2..], wanted.map(Value::from));
    let service = made
        .iter()
        .find(|object| object["metadata"]["name"] == "sluice-metrics")
        .context("no Service for metrics")?;
    let annotations = &service["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/scheme"], "https");
    Ok(())
}
