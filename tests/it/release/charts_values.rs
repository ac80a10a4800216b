//! Values by which the chart fits into a cluster, and where they go. What the API server would refuse, Helm refuses before.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::charts::{refused, rendered};

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
