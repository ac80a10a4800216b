//! Values by which the chart fits into a cluster, and where they go. What the API server would refuse, Helm refuses before.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::charts::{one, refused, rendered};

/// Each is refused with its path, as nothing of the release would be there otherwise, or half of it.
#[test]
fn what_the_api_server_would_refuse_is_refused() -> Result<()> {
    let mount = "extraVolumeMounts[0]";
    for (flag, told) in [
        ("resources.limits.memory=64ki", "'64ki' does not match"),
        ("resources.limits.cpu=-1", "at '/resources/limits/cpu': min"),
        (
            "extraVolumes[0].name=config",
            "extraVolumes: Duplicate value: \"config\"",
        ),
        (
            "extraVolumes[0].name=account",
            "extraVolumes: Duplicate value: \"account\"",
        ),
        (
            "extraVolumes[0].name=a,extraVolumes[1].name=a",
            "extraVolumes: Duplicate value: \"a\"",
        ),
        (
            &format!("{mount}.name=a,{mount}.mountPath=/a"),
            "extraVolumeMounts: Not found: \"a\"; add it to extraVolumes",
        ),
        (
            &format!("{mount}.name=config,{mount}.mountPath=/etc/sluice"),
            "extraVolumeMounts: Invalid value: \"/etc/sluice\": must be unique",
        ),
    ] {
        refused(&[&format!("--set={flag}")], told)?;
    }
    for amounts in ["cpu=100n,resources.limits.memory=.5Gi", "cpu=250000u"] {
        rendered(&[&format!("--set=resources.limits.{amounts}")])?;
    }
    let policies = "--set=variant=policies";
    refused(
        &[policies, "--kube-version=v1.35.4"],
        "variant: Invalid value: \"policies\": needs Kubernetes 1.36 or newer",
    )?;
    // As clouds call theirs.
    rendered(&[policies, "--kube-version=v1.36.3-gke.100"]).map(drop)
}

/// Also where YAML takes it for a number.
#[test]
fn a_namespace_is_a_string() -> Result<()> {
    for namespace in ["123", "1e3", "null"] {
        let flag = format!("--namespace={namespace}");
        let flags = [&flag, "--set=monitoring.service=true"];
        let wanted = Value::from(namespace);
        let mut found = 0;
        for object in rendered(&flags)? {
            let metadata = &object["metadata"];
            let subjects = object["subjects"].as_array().into_iter().flatten();
            let services = object["webhooks"].as_array().into_iter().flatten();
            let services = services.map(|webhook| &webhook["clientConfig"]["service"]);
            for place in subjects.chain(services).chain([metadata]) {
                if let Some(named) = place.get("namespace") {
                    ensure!(*named == wanted, "{namespace}: {named} of {object}");
                    found += 1;
                }
            }
        }
        ensure!(found > 10, "{namespace}: {found}");
    }
    Ok(())
}

/// How the API server asks: in each shipped webhook, besides what is there.
#[test]
fn values_come_into_all_webhooks() -> Result<()> {
    let expression = json!({"key": "sandbox", "operator": "DoesNotExist"});
    let condition =
        json!({"name": "not-by-ann", "expression": "request.userInfo.username != 'ann'"});
    let own = json!({
        "timeoutSeconds": 7,
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchExpressions": [expression]},
        "matchConditions": [condition],
    });
    let webhooks = |flags: &[&str]| -> Result<Vec<Value>> {
        let made = rendered(flags)?.into_iter();
        let webhooks = made.filter_map(|object| object["webhooks"].as_array().cloned());
        Ok(webhooks.flatten().collect())
    };
    let mut wanted = webhooks(&[])?;
    assert_eq!(wanted.len(), 5);
    for webhook in &mut wanted {
        webhook["timeoutSeconds"] = json!(7);
        webhook["failurePolicy"] = json!("Ignore");
        let expressions = &mut webhook["namespaceSelector"]["matchExpressions"];
        expressions
            .as_array_mut()
            .context("none")?
            .push(expression.clone());
        let conditions = webhook["matchConditions"].as_array_mut();
        conditions.context("none")?.push(condition.clone());
    }
    let flag = format!("--set-json=webhooks={own}");
    assert_eq!(webhooks(&[&flag])?, wanted);
    for field in ["failurePolicy", "namespaceSelector", "matchConditions"] {
        let told = format!("webhooks.{field}: Forbidden: there are none, and the policies");
        refused(&[&flag, "--set=variant=policies"], &told)?;
    }
    for (own, told) in [
        (
            json!({"timeoutSeconds": 31}),
            "at '/webhooks/timeoutSeconds': max",
        ),
        (
            json!({"failurePolicy": "fail"}),
            "at '/webhooks/failurePolicy': ",
        ),
        (
            json!({"matchConditions": [{"name": "not-by-sluice", "expression": "true"}]}),
            "webhooks.matchConditions: Duplicate value: \"not-by-sluice\"",
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "at '/webhooks/namespaceSelector/matchExpressions/0': missing property 'values'",
        ),
    ] {
        refused(&[&format!("--set-json=webhooks={own}")], told)?;
    }
    for none in ["webhooks=null", "webhooks.namespaceSelector=null"] {
        rendered(&[&format!("--set={none}")])?;
    }
    Ok(())
}

/// What else stands for a port goes by its name.
#[test]
fn all_know_the_ports() -> Result<()> {
    // Some of them are those of others by default.
    let ports = json!({"webhook": 9444, "visibility": 9543, "metrics": 9080, "health": 8080});
    let ipv6 = "--set=extraArgs={--webhook-bind=[::]:9444}";
    let made = rendered(&[
        &format!("--set-json=ports={ports}"),
        "--set=monitoring.service=true,hostNetwork=true",
        ipv6,
    ])?;
    let pod = &one(&made, "Deployment")?["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let listed = container["ports"].as_array().context("no ports")?;
    let listed = listed.iter().map(|port| {
        let name = port["name"].as_str().unwrap_or_default();
        (name.to_owned(), port["containerPort"].clone())
    });
    assert_eq!(Value::Object(listed.collect()), ports);
    let args = container["args"].as_array().context("no args")?;
    let args: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
    assert_eq!(
        args[2..],
        [
            "--health-bind=0.0.0.0:8080",
            "--metrics-bind=0.0.0.0:9080",
            "--visibility-bind=0.0.0.0:9543",
            "--webhook-bind=0.0.0.0:9444",
            "--webhook-bind=[::]:9444",
        ]
    );
    let policy = &one(&made, "NetworkPolicy")?["spec"];
    let numbers = |rule: &Value| rule["ports"].clone();
    assert_eq!(
        numbers(&policy["ingress"][0]),
        json!([{"port": 9444}, {"port": 9543}])
    );
    assert_eq!(numbers(&policy["ingress"][1]), json!([{"port": 9080}]));
    assert_eq!(
        numbers(&policy["egress"][0]),
        json!([{"port": 443}, {"port": 6443}])
    );
    assert_eq!(numbers(&policy["egress"][1]), json!([{"port": 9543}]));
    let metrics = named(&made, "Service", "sluice-metrics")?;
    assert_eq!(
        metrics["metadata"]["annotations"]["prometheus.io/port"],
        "9080"
    );
    assert_eq!(metrics["spec"]["ports"][0]["port"], 9080);
    let probe = json!({"path": "/healthz", "port": "health"});
    assert_eq!(container["livenessProbe"]["httpGet"], probe);
    for (flag, told) in [
        ("ports.webhook=9444", "must differ from each other"),
        ("ports.webhook=443", "at '/ports/webhook': minimum"),
        ("ports.probes=1234", "additional properties 'probes'"),
        (
            "extraArgs={--health-bind=0.0.0.0:9081}",
            "the port must be that of ports.health, 8081",
        ),
        (
            "extraEnv[0].name=SLUICE_METRICS_BIND,extraEnv[0].value=[::]:9080",
            "the port must be that of ports.metrics, 8080",
        ),
    ] {
        refused(&[&format!("--set={flag}")], told)?;
    }
    for none in ["ports=null", "ports.health=null"] {
        assert_eq!(rendered(&[&format!("--set={none}")])?, rendered(&[])?);
    }
    Ok(())
}

fn named(objects: &[Value], kind: &str, name: &str) -> Result<Value> {
    let is_named = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let found = objects.iter().find(is_named);
    found.cloned().with_context(|| format!("no {kind} {name}"))
}
