//! `kubectl sluice audit` on a real control plane, without Sluice: what names no queue is found, with the caller's rights.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_testbed::{Component, ControlPlane, Options};

use crate::gates::{Run, run};
use crate::live_cluster::sluice;

fn audit(kubeconfig: &Path, arguments: &[&str]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .arg("audit")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("KUBECONFIG"))
}

fn job_kind() -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "JobKind", "metadata": {"name": "job"},
           "spec": {"group": "batch", "version": "v1", "kind": "Job", "suspend": ".spec.suspend", "active": "false",
                    "podSets": [{"name": "main", "template": ".spec.template"}]}})
}

fn template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/none"}]}})
}

fn job(namespace: &str, name: &str, labels: &Value, annotations: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": {"suspend": true, "template": template()},
    })
}

const HEADER: &str = "apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\n";

/// As much of Sluice as says which configuration it has: here every namespace requires a queue.
fn installed() -> [Value; 3] {
    let fields = "managedNamespaces: {selector: {}, exceptions: [{users: [ann]}]}\n";
    let labels = json!({"app.kubernetes.io/name": "sluice"});
    let mut pods = template();
    let main = &mut pods["spec"]["containers"][0];
    main["args"] = json!(["--config=/etc/sluice/config.yaml"]);
    main["volumeMounts"] = json!([{"name": "config", "mountPath": "/etc/sluice"}]);
    pods["spec"]["volumes"] =
        json!([{"name": "config", "configMap": {"name": "sluice-config-abc"}}]);
    pods["spec"]["restartPolicy"] = json!("Always");
    pods["metadata"] = json!({"labels": labels});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sluice-system"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "sluice-config-abc", "namespace": "sluice-system"},
            "data": {"config.yaml": format!("{HEADER}{fields}")}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "sluice", "namespace": "sluice-system", "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": pods}}),
    ]
}

#[tokio::test]
async fn what_names_no_queue_is_listed() -> Result<()> {
    let options = Options {
        without: vec![Component::Scheduler, Component::Kwok],
        ..Options::with_crds()?
    };
    let cp = ControlPlane::start(options).await?;
    let (a, b) = (
        cp.create_namespace("a").await?,
        cp.create_namespace("b").await?,
    );
    let label = |value: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": a, "labels": {"sluice.dev/enforcement": value}}});
    let queue = json!({"sluice.dev/queue-name": "q"});
    let gate = json!({"kueue.x-k8s.io/admission-gated-by": "sluice.dev/queue-required"});
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": a, "labels": queue},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template()}}},
    });
    let mut pod = template();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"] = json!({"name": "debug", "namespace": b});
    let none = json!({});
    let [namespace, configuration, deployment] = installed();
    let items = json!([
        namespace,
        configuration,
        deployment,
        label("Default"),
        job_kind(),
        job(&a, "train", &none, &none),
        job(&a, "held", &none, &gate),
        job(&a, "queued", &queue, &none),
        cron,
        pod,
    ]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let apply = ["apply", "--server-side", "-f", "-"];
    cp.kubectl(apply, Some(&list.to_string())).await?.ok()?;

    let admin = cp.kubeconfig();
    let (code, stdout, stderr) = audit(admin, &["-A"]);
    let lines: Vec<String> = stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines,
        [
            "NAMESPACE OBJECT ENFORCEMENT WITHOUT A QUEUE".to_owned(),
            format!("{a} cronjob.batch/nightly Default would be queued in the default LocalQueue"),
            format!("{a} job.batch/held Default held"),
            format!(
                "{a} job.batch/train Default would be queued in the default LocalQueue, unless its author is an exception"
            ),
            format!("{b} pod/debug <none> would be held, unless its author is an exception"),
        ],
        "{stderr}"
    );
    assert_eq!((code, stderr.as_str()), (Some(1), ""));

    let (code, stdout, _) = audit(admin, &["-n", "default"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "Every object names a queue.\n")
    );

    let (_, stdout, _) = audit(admin, &["-n", &b, "--unlabelled", "Refuse"]);
    assert!(
        stdout.contains("would be refused, unless its author is an exception"),
        "{stdout}"
    );
    let file = cp.kubeconfig().with_file_name("sluice-config.yaml");
    std::fs::write(&file, HEADER)?;
    let file = file.display().to_string();
    let (code, stdout, stderr) = audit(admin, &["-n", &b, "-o", "json", "--config", &file]);
    let found: Value = serde_json::from_str(&stdout)?;
    let field = "metadata.labels[sluice.dev/queue-name]";
    assert_eq!(
        found,
        json!([{"namespace": b, "object": "pod/debug", "field": field, "outcome": "Ignored", "message": "left alone"}]),
        "{stderr}"
    );
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    let (_, stdout, _) = audit(admin, &["-n", &a, "-o", "wide"]);
    assert!(
        stdout.contains("spec.jobTemplate.metadata.labels[sluice.dev/queue-name]"),
        "{stdout}"
    );

    std::fs::write(&file, "kind: Configuration\n")?;
    let (code, _, stderr) = audit(admin, &["-n", &b, "--config", &file]);
    assert!(stderr.contains("apiVersion: Required value"), "{stderr}");
    assert_eq!(code, Some(2));

    see_a_misspelt_namespace(&cp).await?;
    see_what_a_reader_is_told(&cp, &b).await
}

/// A namespace that looks managed is told of.
async fn see_a_misspelt_namespace(cp: &ControlPlane) -> Result<()> {
    let admin = cp.kubeconfig();
    let misspelt = [
        "label",
        "namespace",
        "default",
        "sluice.dev/enforcment=Hold",
    ];
    cp.kubectl(misspelt, None).await?.ok()?;
    let told = "namespace default: metadata.labels[sluice.dev/enforcment]: has no effect on a namespace; set metadata.labels[sluice.dev/enforcement]";
    let (code, stdout, stderr) = audit(admin, &["-n", "default"]);
    assert_eq!(
        (code, stdout.as_str(), stderr),
        (
            Some(1),
            "Every object names a queue.\n",
            format!("note: {told}\n")
        )
    );
    let (_, stdout, _) = sluice(admin, "check -o json");
    let checks: Vec<Value> = serde_json::from_str(&stdout)?;
    let found = checks
        .iter()
        .find(|check| check["check"] == "namespaces")
        .unwrap();
    assert_eq!(
        (&found["health"], &found["detail"]),
        (&json!("Failed"), &json!(told))
    );
    Ok(())
}

/// Who may not see everything is told what is missing.
async fn see_what_a_reader_is_told(cp: &ControlPlane, b: &str) -> Result<()> {
    let reader = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": b}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
         "rules": [
            {"apiGroups": ["sluice.dev"], "resources": ["jobkinds"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["get", "list"]},
         ]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
         "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": b}]},
    ]});
    let apply = ["apply", "--server-side", "-f", "-"];
    cp.kubectl(apply, Some(&reader.to_string())).await?.ok()?;
    let reader = cp.service_account_kubeconfig(b, "reader").await?;
    let limit = std::time::Duration::from_mins(1);
    sluice_testbed::eventually("the rights to be known", limit, async || {
        let (code, stdout, stderr) = audit(&reader, &["-n", b]);
        anyhow::ensure!(code == Some(1) && stdout.contains("pod/debug"), "{stderr}");
        anyhow::ensure!(
            stderr.contains("note: can't list job.batch: jobs.batch is forbidden"),
            "{stderr}"
        );
        // Who may not read the configuration is told what was assumed.
        anyhow::ensure!(
            stderr.contains(
                "note: the configuration of Sluice is not known (deployments.apps is forbidden"
            ) && stdout.contains("left alone"),
            "{stderr}"
        );
        Ok::<_, anyhow::Error>(())
    })
    .await
}
