//! What is refused of that which `live_cluster` asks and steers, on its control plane: with which exit code, and why.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_testbed::ControlPlane;

use crate::live_cluster::{NOT_INSTALLED, job, less, set_status, sluice};

/// What the API server refuses, or does not know, is no wrong usage.
pub(crate) fn refused(kubeconfig: &Path, arguments: &str, why: &str) {
    let (code, stdout, stderr) = sluice(kubeconfig, arguments);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{arguments}");
    let is_told = stderr.starts_with("error: ") && stderr.contains(why);
    assert!(is_told && stderr.lines().count() == 1, "{stderr}");
}

/// What has no Workload: what Sluice told by events, and what gates hold.
pub(crate) async fn unqueued(cp: &ControlPlane, admin: &Path, ns: &str) -> Result<()> {
    let reasons = [
        ("Job", "job/free", "PriorityClassNotFound"),
        ("Pod", "pod/gang-1", "PodGroupIncomplete"),
    ];
    for (kind, object, reason) in reasons {
        let uid = ["get", object, "-n", ns, "-o", "jsonpath={.metadata.uid}"];
        let uid = cp.kubectl(uid, None).await?.ok()?;
        let (_, name) = object.split_once('/').unwrap();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": ns}, "type": "Warning", "action": "Queue",
            "involvedObject": {"kind": kind, "name": name, "namespace": ns, "uid": uid.trim()},
            "reason": reason, "message": "Can't be queued", "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "sluice", "reportingInstance": "sluice-0",
        });
        let event = event.to_string();
        cp.kubectl(["create", "-f", "-"], Some(&event))
            .await?
            .ok()?;
    }
    let told = "Sluice last told: PodGroupIncomplete: Can't be queued";
    for (object, told) in [
        (
            "job/free",
            "Sluice last told: PriorityClassNotFound: Can't be queued",
        ),
        ("pod/gang-1", told),
        ("podgroup/gang", told),
    ] {
        refused(admin, &format!("explain {object} -n {ns}"), told);
    }
    let mut gated = job(ns, "gated");
    gated["metadata"]["annotations"] = json!({"kueue.x-k8s.io/scheduling-gated-by": "acme.io/a"});
    gated["metadata"]["labels"] = json!({"sluice.dev/queue-name": "main"});
    gated["spec"]["parallelism"] = json!(2);
    gated["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "250m"}});
    let create = ["create", "-f", "-"];
    cp.kubectl(create, Some(&gated.to_string())).await?.ok()?;
    let gated_with = |arguments: &str| {
        let lacks = "what its gates wait for is not known";
        let arguments = format!("explain job/gated -n {ns}{arguments}");
        less(admin, &arguments, lacks, NOT_INSTALLED)
    };
    assert_eq!(
        gated_with(""),
        "Job \"gated\" is held by gates, and not queued: acme.io/a\nRequests:  cpu 500m\n"
    );
    let json: Value = serde_json::from_str(&gated_with(" -o json"))?;
    let said = &json["job"];
    assert_eq!(
        (
            &said["state"],
            &said["queue"],
            &said["message"],
            &said["group"]
        ),
        (
            &json!("Gated"),
            &json!("main"),
            &json!("Held by gates: acme.io/a"),
            &json!("batch")
        )
    );
    // So it does of one that its LocalQueue names, though the LocalQueue does not say what it requests.
    let oldest = json!({"kind": "Job.batch", "name": "gated", "gates": ["acme.io/a"], "since": "2026-01-01T00:00:00Z"});
    let status = json!({"gatedWorkloads": 1, "oldestGated": [oldest]});
    set_status(cp, ns, "localqueue/main", &status).await?;
    let named = gated_with("");
    assert!(named.contains("Requests:  cpu 500m\n"), "{named}");
    let none = json!({"gatedWorkloads": 0, "oldestGated": []});
    set_status(cp, ns, "localqueue/main", &none).await?;
    Ok(())
}

/// What can't be steered, is not there, or is not for the caller to see.
pub(crate) async fn not_steered(
    cp: &ControlPlane,
    admin: &Path,
    tenant: &Path,
    ns: &str,
) -> Result<()> {
    let none = "\"nosuch\" not found";
    for verb in ["explain", "hold", "resume"] {
        refused(admin, &format!("{verb} job/nosuch -n {ns}"), none);
    }
    refused(admin, &format!("hold localqueue/nosuch -n {ns}"), none);
    let alone = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "alone", "namespace": ns,
            "labels": {"sluice.dev/managed": "true", "sluice.dev/queue-name": "main"},
            "annotations": {"sluice.dev/queue-allocation-gate": "true"},
        },
        "spec": {
            "schedulingGates": [{"name": "sluice.dev/queue-allocation-gate"}],
            "containers": [{"name": "main", "image": "example.com/none"}],
        },
    });
    let create = ["create", "-f", "-"];
    cp.kubectl(create, Some(&alone.to_string())).await?.ok()?;
    for (command, why) in [
        (
            "evict pod/alone",
            "a pod that is admitted by itself has no Workload; delete the pod",
        ),
        (
            "evict job/free",
            "Job.batch \"free\" has no Workload in namespace",
        ),
        (
            "evict pod/gang-1",
            "it is admitted with its pod group: say podgroup/gang",
        ),
        (
            "hold podgroup/gang",
            "use \"kubectl sluice evict podgroup/gang\", and \"reactivate podgroup/gang\" to queue it again",
        ),
    ] {
        refused(admin, &format!("{command} -n {ns}"), why);
    }
    for command in [
        "explain job/runs",
        "evict job/runs",
        "status",
        "list",
        "top",
    ] {
        refused(tenant, &format!("{command} -n kube-system"), "is forbidden");
    }
    for command in ["gates list", "gates show acme.io/budget -o json"] {
        refused(tenant, command, "gates.sluice.dev");
    }
    // Whether he may lift it, he is told all the same.
    let unread = "can't read Gate \"budget.acme.io\"";
    let shown = less(
        tenant,
        "gates show acme.io/budget",
        unread,
        "sluice-gate-viewer",
    );
    assert!(shown.contains("You May Lift:  no, "), "{shown}");
    Ok(())
}
