//! The test bed itself: a real Job on a played node, faults, and that nothing outlives the run.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use sluice_testbed::{
    Component, ControlPlane, EXIT, Karpenter, NodeSpec, Options, RUN_SECONDS, eventually,
};

const DEADLINE: Duration = Duration::from_mins(1);

fn job(name: &str, annotations: &Value, node_selector: &Value) -> Result<Job> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": { "annotations": annotations },
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": node_selector,
                    "containers": [{
                        "name": "main",
                        "image": "example.com/none",
                        "resources": { "requests": { "cpu": "1" } },
                    }],
                },
            },
        },
    }))?)
}

async fn condition(jobs: &Api<Job>, name: &str, condition: &str) -> Result<()> {
    eventually(
        &format!("job {name} to be {condition}"),
        DEADLINE,
        async || {
            let status = jobs
                .get(name)
                .await
                .map_err(|e| e.to_string())?
                .status
                .unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            if conditions.any(|c| c.type_ == condition && c.status == "True") {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        },
    )
    .await
}

#[tokio::test]
async fn jobs_run_as_their_annotations_say() -> Result<()> {
    let cp = ControlPlane::shared();
    let client = cp.client()?;
    let ns = cp.create_namespace("jobs").await?;
    cp.add_node(
        NodeSpec::new("jobs-only")
            .resource("cpu", "8")
            .label("pool", "jobs"),
    )
    .await?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), &ns);
    let here = json!({ "pool": "jobs" });
    let params = PostParams::default();

    jobs.create(&params, &job("plain", &json!({}), &here)?)
        .await?;
    jobs.create(
        &params,
        &job("short", &json!({ RUN_SECONDS: "0.5" }), &here)?,
    )
    .await?;
    jobs.create(&params, &job("failing", &json!({ EXIT: "fail" }), &here)?)
        .await?;
    jobs.create(
        &params,
        &job("endless", &json!({ RUN_SECONDS: "forever" }), &here)?,
    )
    .await?;
    condition(&jobs, "plain", "Complete").await?;
    condition(&jobs, "short", "Complete").await?;
    condition(&jobs, "failing", "Failed").await?;

    let pods: Api<Pod> = Api::namespaced(client, &ns);
    let of_endless = ListParams::default().labels("job-name=endless");
    eventually("the endless job's pod to run", DEADLINE, async || {
        let pods = pods.list(&of_endless).await.map_err(|e| e.to_string())?;
        let phases: Vec<_> = pods
            .iter()
            .map(|p| p.status.as_ref()?.phase.clone())
            .collect();
        if phases == [Some("Running".to_owned())] {
            Ok(())
        } else {
            Err(format!("{phases:?}"))
        }
    })
    .await?;
    jobs.delete("endless", &DeleteParams::background()).await?;
    eventually("the endless job's pod to go", DEADLINE, async || {
        let left = pods
            .list(&of_endless)
            .await
            .map_err(|e| e.to_string())?
            .items
            .len();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} left"))
        }
    })
    .await
}

#[tokio::test]
async fn karpenter_makes_a_node_for_a_pod_that_fits_nowhere() -> Result<()> {
    // Its own: on the nodes of the others the pod would fit.
    let cp = ControlPlane::start(Options::default().for_karpenter()).await?;
    let karpenter = Karpenter::start(&cp).await?;
    karpenter.node_pool(&cp, "smoke", 2).await?;
    let ns = cp.create_namespace("karpenter").await?;
    let pods: Api<Pod> = Api::namespaced(cp.client()?, &ns);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "homeless" },
        "spec": { "containers": [{
            "name": "main",
            "image": "example.com/none",
            "resources": { "requests": { "cpu": "1" } },
        }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let running = eventually("the pod to run", DEADLINE, async || {
        karpenter
            .process()
            .check_alive()
            .map_err(|e| e.to_string())?;
        let pod = pods.get("homeless").await.map_err(|e| e.to_string())?;
        match pod.status.as_ref().and_then(|s| s.phase.as_deref()) {
            Some("Running") => Ok(pod),
            _ => Err(format!("{:?}", pod.status)),
        }
    })
    .await
    .with_context(|| karpenter.process().log_tail())?;

    let node = running.spec.and_then(|spec| spec.node_name);
    let node = node.context("it runs nowhere")?;
    let columns = "custom-columns=NODE:.status.nodeName";
    let claims = cp
        .kubectl(["get", "nodeclaims", "--no-headers", "-o", columns], None)
        .await?
        .ok()?;
    ensure!(
        claims.trim() == node,
        "it runs on {node}, claimed is {claims}"
    );
    Ok(())
}

#[tokio::test]
async fn nodes_come_and_go() -> Result<()> {
    let cp = ControlPlane::shared();
    let nodes: Api<Node> = Api::all(cp.client()?);
    cp.add_node(NodeSpec::new("passing").taint("only", "passing", "NoSchedule"))
        .await?;
    nodes.get("passing").await?;
    cp.remove_node("passing").await?;
    ensure!(nodes.get_opt("passing").await?.is_none(), "it came back");
    Ok(())
}

#[tokio::test]
async fn a_service_account_may_do_what_rbac_says() -> Result<()> {
    let cp = ControlPlane::shared();
    let ns = cp.create_namespace("rbac").await?;
    let account = format!("{ns}:reader");
    cp.kubectl(["create", "serviceaccount", "reader", "-n", &ns], None)
        .await?
        .ok()?;
    let bind =
        format!("create rolebinding reader -n {ns} --clusterrole=view --serviceaccount={account}");
    cp.kubectl(bind.split(' '), None).await?.ok()?;

    let kubeconfig = cp.service_account_kubeconfig(&ns, "reader").await?;
    cp.kubectl_as(&kubeconfig, ["get", "pods"], None)
        .await?
        .ok()?;
    let refused = cp
        .kubectl_as(&kubeconfig, ["get", "nodes"], None)
        .await?
        .err()?;
    ensure!(refused.contains("forbidden"), "{refused}");

    let audit = std::fs::read_to_string(cp.audit_log())?;
    ensure!(
        audit.contains(&format!("system:serviceaccount:{account}")),
        "the audit log lacks the reader"
    );
    Ok(())
}

#[tokio::test]
async fn the_api_server_comes_back_with_its_data() -> Result<()> {
    // Its own: the other tests want theirs undisturbed.
    let cp = ControlPlane::start(Options {
        nodes: 1,
        ..Default::default()
    })
    .await?;
    let client = cp.client()?;
    let ns = cp.create_namespace("kept").await?;
    cp.kill_api_server()?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    ensure!(
        namespaces.get(&ns).await.is_err(),
        "a killed API server answered"
    );
    cp.restart_api_server().await?;
    namespaces.get(&ns).await?;

    let server = cp.process(Component::ApiServer)?;
    server.signal("STOP")?;
    let hung = tokio::time::timeout(Duration::from_millis(300), namespaces.get(&ns)).await;
    server.signal("CONT")?;
    ensure!(hung.is_err(), "a stopped API server answered");

    let jobs: Api<Job> = Api::namespaced(client, &ns);
    jobs.create(
        &PostParams::default(),
        &job("after", &json!({}), &json!({}))?,
    )
    .await?;
    condition(&jobs, "after", "Complete").await?;

    let dir = cp.dir().to_owned();
    drop(cp);
    ensure!(!dir.exists(), "{} was left", dir.display());
    Ok(())
}

#[tokio::test]
async fn nothing_outlives_a_killed_run() -> Result<()> {
    let mut run = Command::new(env!("CARGO_BIN_EXE_sluice-testbed"))
        .args([
            "run",
            "--nodes=0",
            "--",
            "sh",
            "-c",
            "echo $$ $KUBECONFIG; exec sleep 600",
        ])
        .env_remove("TESTBED_KEEP")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(run.stdout.take().context("no stdout")?).read_line(&mut line)?;
    let (command, kubeconfig) = line.trim().split_once(' ').context("no line")?;
    let dir = Path::new(kubeconfig).parent().context("no folder")?;
    let command = Path::new("/proc").join(command);
    ensure!(
        dir.join("audit.log").exists() && command.exists(),
        "it did not start: {line}"
    );
    ensure!(!users(dir).is_empty(), "the processes could not be found");

    run.kill()?; // SIGKILL: it can do nothing about it any more.
    run.wait()?;
    eventually(
        "the run's folder and processes to go",
        DEADLINE,
        async || {
            let left = users(dir);
            let there = (dir.exists(), command.exists(), left.is_empty());
            if there == (false, false, true) {
                Ok(())
            } else {
                Err(format!("{there:?} {left:?}"))
            }
        },
    )
    .await
}

/// The processes whose command line names the folder.
fn users(dir: &Path) -> Vec<String> {
    let dir = dir.to_string_lossy();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&*dir))
        .collect()
}

#[tokio::test]
async fn later_control_planes_begin_with_a_copy_and_are_their_own() -> Result<()> {
    let first = ControlPlane::start(Options::with_crds()?).await?;
    first.create_namespace("first").await?;
    let mut uids = BTreeSet::new();
    for _ in 0..2 {
        let cp = ControlPlane::start(Options::with_crds()?).await?;
        let namespaces: Api<Namespace> = Api::all(cp.client()?);
        uids.insert(namespaces.get("kube-system").await?.metadata.uid);
        let names = namespaces.list(&ListParams::default()).await?;
        let mut names: Vec<_> = names
            .iter()
            .filter_map(|n| n.metadata.name.as_deref())
            .collect();
        names.sort_unstable();
        ensure!(
            names == ["default", "kube-node-lease", "kube-public", "kube-system"],
            "{names:?}"
        );
        let ns = cp.create_namespace("later").await?;
        let queue = json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "LocalQueue",
            "metadata": { "name": "q" }, "spec": { "clusterQueue": "q" },
        });
        let args = ["create", "-n", &ns, "-f", "-"];
        cp.kubectl(args, Some(&queue.to_string())).await?.ok()?;
        let jobs: Api<Job> = Api::namespaced(cp.client()?, &ns);
        let plain = job("plain", &json!({}), &json!({}))?;
        jobs.create(&PostParams::default(), &plain).await?;
        condition(&jobs, "plain", "Complete").await?;
    }
    ensure!(uids.len() == 1, "not copies of one: {uids:?}");
    Ok(())
}
