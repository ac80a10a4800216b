//! The chart with the page for the users of the cluster: what kustomize makes of config/web, where TLS ends, and which values
//! can't be meant. And that its account can do nothing.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::charts::{equal, refused, rendered};
use super::kustomized;

const URL: &str = "--set=web.enabled=true,web.publicUrl=https://sluice.example.com";

fn web(objects: &[Value], kind: &str) -> Result<Value> {
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == "sluice-web");
    found.cloned().with_context(|| format!("no {kind}"))
}

#[test]
fn the_chart_makes_the_page_that_kustomize_makes() -> Result<()> {
    let made = rendered(&[URL, "--set=web.tlsSecretName=sluice-web-tls"])?;
    let mut wanted = kustomized("config/default")?;
    wanted.extend(kustomized("config/web")?);
    equal(made, wanted);
    Ok(())
}

#[test]
fn values_come_into_the_page() -> Result<()> {
    let common = [
        "--set=image.repository=registry.example.com/sluice,image.tag=v9",
        "--set=nodeSelector.disk=ssd,imagePullSecrets[0].name=registry",
        "--set=web.replicas=3,web.resources.limits.memory=2Gi,web.extraArgs={--namespace=teams}",
        // Of the controller alone.
        "--set=serviceAccount.name=other,extraArgs={--visibility-bind=[::]:9444},hostNetwork=true",
        "--set=podLabels.a=b,podAnnotations.a=b,replicas=5",
        "--set=networkPolicy.apiServerPorts={16443}",
    ];
    let tls = "--set=web.tlsSecretName=page";
    let made = rendered(&[&[URL, tls][..], &common[..]].concat())?;
    let deployment = web(&made, "Deployment")?["spec"].clone();
    let pod = &deployment["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(deployment["replicas"], 3);
    assert_eq!(
        deployment["template"]["metadata"],
        json!({"labels": {"app.kubernetes.io/name": "sluice-web"}})
    );
    assert_eq!(container["image"], "registry.example.com/sluice:v9");
    assert_eq!(
        container["resources"],
        json!({"limits": {"memory": "2Gi"}, "requests": {"cpu": "50m", "memory": "64Mi"}})
    );
    assert_eq!(
        container["env"],
        json!([{"name": "PUBLIC_URL", "value": "https://sluice.example.com"}])
    );
    let args = container["args"].as_array().context("no args")?;
    assert_eq!(args.last(), Some(&json!("--namespace=teams")));
    assert_eq!(pod["nodeSelector"], json!({"disk": "ssd"}));
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "registry"}]));
    assert_eq!(pod["serviceAccountName"], "sluice-web");
    assert_eq!(pod["hostNetwork"], Value::Null);
    assert_eq!(pod["volumes"][1]["secret"], json!({"secretName": "page"}));
    let policy = web(&made, "NetworkPolicy")?;
    assert_eq!(
        policy["spec"]["egress"],
        json!([{"ports": [{"port": 16443}]}])
    );

    let made = rendered(&[URL, "--set=web.plainHttp=true"])?;
    let pod = web(&made, "Deployment")?["spec"]["template"]["spec"].clone();
    let container = &pod["containers"][0];
    let args = [
        "web",
        "--in-cluster",
        "--public-url=$(PUBLIC_URL)",
        "--listen=0.0.0.0:8443",
        "--plain-http",
    ];
    assert_eq!(container["args"], json!(args));
    let probe = json!({"path": "/healthz", "port": "web"});
    assert_eq!(container["readinessProbe"]["httpGet"], probe);
    let alive = json!({"port": "web"});
    assert_eq!(container["livenessProbe"]["tcpSocket"], alive);
    for list in [&container["volumeMounts"], &pod["volumes"]] {
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(list[0]["name"], "authority");
    }
    let ports = &web(&made, "Service")?["spec"]["ports"];
    assert_eq!(
        (&ports[0]["name"], &ports[0]["port"]),
        (&json!("http"), &json!(80))
    );
    Ok(())
}

/// Its pods are placed as those of the controller, unless it has values of its own, and they share nothing else.
#[test]
fn the_page_has_a_place_of_its_own() -> Result<()> {
    let common = json!({
        "nodeSelector": {"pool": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    });
    let fields = ["nodeSelector", "tolerations", "affinity"];
    let mut common_flags = vec![URL.to_owned(), "--set=web.plainHttp=true".to_owned()];
    common_flags.extend(fields.map(|field| format!("--set-json={field}={}", common[field])));
    let template = |own: &Value, name: &str| -> Result<Value> {
        let own = own.as_object().into_iter().flatten();
        let own = own.map(|(field, value)| format!("--set-json=web.{field}={value}"));
        let flags: Vec<String> = common_flags.iter().cloned().chain(own).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let made = rendered(&flags)?.into_iter();
        let found = made
            .filter(|object| object["kind"] == "Deployment")
            .find(|object| object["metadata"]["name"] == name);
        Ok(found.context("no Deployment")?["spec"]["template"].take())
    };
    let shipped = template(&json!({}), "sluice-web")?;
    let spread = &shipped["spec"]["topologySpreadConstraints"];
    assert_eq!(spread[0]["topologyKey"], "kubernetes.io/hostname");
    let none = template(
        &json!({"nodeSelector": {}, "tolerations": [], "affinity": {}}),
        "sluice-web",
    )?;
    for field in fields {
        assert_eq!(shipped["spec"][field], common[field], "{field}");
        assert_eq!(none["spec"][field], Value::Null, "{field}");
    }
    let own = json!({
        "nodeSelector": {"pool": "users"},
        "tolerations": [{"key": "users", "operator": "Exists"}],
        "affinity": {"podAffinity": {}},
        "topologySpreadConstraints":
            [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        "priorityClassName": "users",
    });
    let mut all = own.clone();
    all["podLabels"] = json!({"team": "a"});
    all["podAnnotations"] = json!({"mesh": "off"});
    let page = template(&all, "sluice-web")?;
    for (field, value) in own.as_object().context("no fields")? {
        assert_eq!(page["spec"][field], *value, "{field}");
    }
    let labels = json!({"app.kubernetes.io/name": "sluice-web", "team": "a"});
    assert_eq!(page["metadata"]["labels"], labels);
    assert_eq!(page["metadata"]["annotations"], json!({"mesh": "off"}));
    assert_eq!(template(&all, "sluice")?, template(&json!({}), "sluice")?);
    Ok(())
}

#[test]
fn values_come_into_what_is_around_the_page() -> Result<()> {
    let peers =
        json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]);
    let tls = "--set=web.plainHttp=true";
    let made = rendered(&[
        URL,
        tls,
        &format!("--set-json=web.ingressFrom={peers}"),
        "--set=web.priorityClassName=system-node-critical,web.replicas=3",
    ])?;
    let ingress = &web(&made, "NetworkPolicy")?["spec"]["ingress"];
    assert_eq!(
        *ingress,
        json!([{"from": peers, "ports": [{"port": 8443}]}])
    );
    // One at a time, and so also the only one.
    let budget = web(&made, "PodDisruptionBudget")?;
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    let quota = made.iter().find(|object| object["kind"] == "ResourceQuota");
    let classes = quota.context("no quota")?["spec"]["scopeSelector"].to_string();
    ensure!(classes.contains("[\"system-cluster-critical\",\"system-node-critical\"]"));
    let from = "--set=web.ingressFrom[0]";
    refused(
        &[URL, tls, &format!("{from}.namespaceSelectr=x")],
        "at '/web/ingressFrom/0': additional properties 'namespaceSelectr'",
    )?;
    refused(
        &[URL, tls, &format!("{from}.ipBlock.cidr=10.0.0.1")],
        "at '/web/ingressFrom/0/ipBlock/cidr'",
    )
}

#[test]
fn pages_that_can_not_be_meant_are_refused() -> Result<()> {
    let cases: [(&[&str], &str); 7] = [
        (&["--set=web.enabled=true"], "at '/web/publicUrl'"),
        (&[URL], "at '/web/tlsSecretName'"),
        (
            &[URL, "--set=web.tlsSecretName=a,web.plainHttp=true"],
            "at '/web/tlsSecretName'",
        ),
        (
            &[
                URL,
                "--set=web.publicUrl=http://sluice.example.com,web.plainHttp=true",
            ],
            "at '/web/publicUrl'",
        ),
        (
            &["--set=web.publicUrl=https://example.com/sluice"],
            "at '/web/publicUrl'",
        ),
        (&["--set=web.replicas=0"], "at '/web/replicas'"),
        (
            &["--set=web.port=1"],
            "additional properties 'port' not allowed",
        ),
    ];
    for (flags, told) in cases {
        refused(flags, told)?;
    }
    ensure!(web(&rendered(&["--set=web=null"])?, "Service").is_err());
    Ok(())
}

/// The pods of the page have no token, and what a thief of the pod could ask for has no rights.
#[test]
fn the_page_has_no_rights_of_its_own() -> Result<()> {
    let made = kustomized("config/web")?;
    let kinds = made.iter().filter_map(|object| object["kind"].as_str());
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            "Deployment",
            "NetworkPolicy",
            "PodDisruptionBudget",
            "Service",
            "ServiceAccount"
        ]
    );
    let account = web(&made, "ServiceAccount")?;
    assert_eq!(account["automountServiceAccountToken"], false);
    let pod = web(&made, "Deployment")?["spec"]["template"]["spec"].clone();
    assert_eq!(pod["automountServiceAccountToken"], false);
    ensure!(
        !pod["volumes"].to_string().contains("serviceAccountToken"),
        "{pod}"
    );
    // Nothing else of what is shipped names the account, or finds its pods.
    for folder in ["config/default", "config/without-webhook"] {
        for object in kustomized(folder)? {
            let named = object.to_string().contains("sluice-web\"");
            ensure!(
                !named,
                "{folder}: {} {}",
                object["kind"],
                object["metadata"]["name"]
            );
        }
    }
    Ok(())
}
