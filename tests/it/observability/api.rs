//! visibility.sluice.dev through the API server's own aggregation layer, with its RBAC: who waits in which queue.

use std::process::{Child, Command, Stdio};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{NAMESPACE, eventually};

use crate::support::DEADLINE;
use crate::support::bed::{self, BINARY, Bed};
use crate::support::objects::{self, Job, quota};
use crate::support::visibility::{ROOT, free_port, get, options, register, see};
use crate::support::{Scene, refusal};

const API_SERVICE: &str = "v1alpha1.visibility.sluice.dev";

/// A kubeconfig by which kubectl asks Sluice itself, with one of the certificates of the control plane.
fn direct_kubeconfig(bed: &Bed, port: u16, user: &str) -> Result<std::path::PathBuf> {
    let pki = bed.cp.dir().join("pki");
    let file = |end: &str| pki.join(format!("{user}.{end}"));
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "direct",
        "clusters": [{"name": "direct", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true,
        }}],
        "users": [{"name": "direct", "user": {
            "client-certificate": file("crt"), "client-key": file("key"),
        }}],
        "contexts": [{"name": "direct", "context": {"cluster": "direct", "user": "direct"}}],
    });
    let path = bed.cp.dir().join(format!("direct-{user}.kubeconfig"));
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

async fn see_refused(scene: &Scene<'_>, user: &str, path: &str) -> Result<()> {
    let told = refusal(get(scene, Some(user), path).await?)?;
    let resource = if path.starts_with("clusterqueues") {
        "clusterqueues"
    } else {
        "localqueues"
    };
    let rule = format!("cannot get resource \"{resource}/pendingworkloads\"");
    ensure!(told.contains(&rule), "{user}, {path}: {told}");
    Ok(())
}

fn names(summary: &Value) -> Vec<(String, u64, u64)> {
    let items = summary["items"].as_array().into_iter().flatten();
    let item = |item: &Value| {
        (
            item["job"]["name"].as_str().unwrap_or_default().to_owned(),
            item["positionInClusterQueue"].as_u64().unwrap_or(u64::MAX),
            item["positionInLocalQueue"].as_u64().unwrap_or(u64::MAX),
        )
    };
    items.map(item).collect()
}

fn expected(names: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    let owned = |&(name, all, own): &(&str, u64, u64)| (name.to_owned(), all, own);
    names.iter().map(owned).collect()
}

/// Two tenants of one ClusterQueue of one CPU: `own` waits behind two others, `third` behind it.
async fn fill<'a>(scene: &Scene<'a>) -> Result<Scene<'a>> {
    scene.queue(&[quota("cpu", "1")]).await?;
    let neighbour = Scene {
        cp: scene.cp,
        client: scene.client.clone(),
        ns: scene.cp.create_namespace("neighbour").await?,
    };
    neighbour
        .create(&objects::local_queue("q", &scene.ns))
        .await?;
    let low = scene.name("low");
    scene.create(&objects::priority_class(&low, -5)).await?;
    let high = scene.name("high");
    scene.create(&objects::priority_class(&high, 5)).await?;
    scene
        .create(&Job::new("runs").queue("q").cpu("1").runs_forever().json())
        .await?;
    scene.see_admitted("runs").await?;
    let job = |name: &str| Job::new(name).queue("q").cpu("1");
    neighbour
        .create(&job("secret").priority_class(&high).json())
        .await?;
    scene.create(&job("own").json()).await?;
    scene
        .create(&job("last").priority_class(&low).json())
        .await?;
    for (scene, name) in [(&neighbour, "secret"), (scene, "own"), (scene, "last")] {
        scene
            .see_workload(name, "waiting", |workload| {
                objects::condition(workload, "QuotaReserved").is_some()
            })
            .await?;
    }
    Ok(neighbour)
}

#[tokio::test]
async fn tenants_see_their_own_names_and_how_many_others_come_first() -> Result<()> {
    let port = free_port()?;
    bed::own_running_with("visibility", options(port), async |bed, scene| {
        register(bed, port).await?;
        let neighbour = fill(scene).await?.ns;
        let all = format!("clusterqueues/{}/pendingworkloads", scene.ns);
        let own = format!("namespaces/{}/localqueues/q/pendingworkloads", scene.ns);
        let others = format!("namespaces/{neighbour}/localqueues/q/pendingworkloads");

        let in_order = expected(&[("secret", 0, 0), ("own", 1, 0), ("last", 2, 1)]);
        let summary = see(scene, None, &all, |found| names(found) == in_order).await?;
        ensure!(summary["total"] == 3, "{summary}");
        let page = format!("{all}?limit=1&offset=1");
        let summary = see(scene, None, &page, |found| {
            names(found) == expected(&[("own", 1, 0)])
        })
        .await?;
        let item = &summary["items"][0];
        ensure!(item["requests"] == json!({"cpu": "1", "pods": "1"}), "{item}");
        ensure!(item["job"]["kind"] == "Job", "{item}");
        for field in ["reason", "message", "waitingSince"] {
            ensure!(item[field].is_string(), "no {field}: {item}");
        }
        ensure!(
            item["metadata"]["namespace"] == scene.ns.as_str()
                && item["localQueueName"] == "q"
                && item["priority"] == 0,
            "{item}"
        );

        // A tenant, with nothing but the role `view` in the namespace.
        let bind = format!(
            "create rolebinding tenant -n {} --clusterrole=view --user=tenant",
            scene.ns
        );
        scene.kubectl(&bind.split(' ').collect::<Vec<_>>(), None).await?.ok()?;
        let of_tenant = expected(&[("own", 1, 0), ("last", 2, 1)]);
        let summary = see(scene, Some("tenant"), &own, |found| {
            names(found) == of_tenant
        })
        .await?;
        let text = summary.to_string();
        ensure!(
            !text.contains("secret") && !text.contains(&neighbour),
            "{text}"
        );
        see_refused(scene, "tenant", &others).await?;
        see_refused(scene, "tenant", &all).await?;
        see_refused(scene, "stranger", &own).await?;

        // The role for those who look after ClusterQueues.
        let bind = "create clusterrolebinding operator --clusterrole=sluice-pending-viewer --user=operator";
        scene.kubectl(&bind.split(' ').collect::<Vec<_>>(), None).await?.ok()?;
        see(scene, Some("operator"), &all, |found| names(found) == in_order).await?;

        for (path, told) in [
            (
                "clusterqueues/nowhere/pendingworkloads".to_owned(),
                "clusterqueues.visibility.sluice.dev \"nowhere\" not found",
            ),
            (
                format!("namespaces/{}/localqueues/nowhere/pendingworkloads", scene.ns),
                "localqueues.visibility.sluice.dev \"nowhere\" not found",
            ),
            (
                format!("{all}?limit=1001"),
                "limit: Invalid value: \"1001\": must be an integer from 1 to 1000",
            ),
        ] {
            let refused = refusal(get(scene, None, &path).await?)?;
            ensure!(refused.contains(told), "{path}: {refused}");
        }

        // Nobody but the front proxy is answered: not even an administrator.
        let path = format!("{ROOT}/{all}");
        for (user, is_answered) in [
            ("front-proxy-client", true),
            ("kubernetes-admin", false),
        ] {
            let direct = direct_kubeconfig(bed, port, user)?;
            let args = ["get", "--raw", &path];
            let output = bed.cp.kubectl_as(&direct, args, None).await?;
            let text = format!("{}{}", output.stdout, output.stderr);
            ensure!(
                text.contains("PendingWorkloadsSummary") == is_answered,
                "{user}: {text}"
            );
        }
        Ok(())
    })
    .await
}

/// A second replica, which waits for the Lease.
struct Follower {
    process: Child,
    log: std::path::PathBuf,
}

impl Follower {
    fn start(bed: &Bed, port: u16) -> Result<Self> {
        let log = bed.cp.dir().join("follower.log");
        let process = Command::new(BINARY)
            .arg(format!("--namespace={NAMESPACE}"))
            .args(["--webhook-bind=127.0.0.1:0", "--webhook-san=127.0.0.1"])
            .args(["--metrics-bind=127.0.0.1:0", "--health-bind=127.0.0.1:0"])
            .arg(format!("--visibility-bind=127.0.0.1:{port}"))
            .env("KUBECONFIG", bed.sluice.kubeconfig())
            .env("POD_NAME", "follower")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        Ok(Self { process, log })
    }

    async fn see_told(&self, text: &str) -> Result<()> {
        eventually("the follower to say so", DEADLINE, async || {
            let log = std::fs::read_to_string(&self.log)?;
            ensure!(log.contains(text), "no {text:?} in {log}");
            Ok(())
        })
        .await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_replica_that_does_not_lead_passes_on_and_takes_over() -> Result<()> {
    let (leaders, followers) = (free_port()?, free_port()?);
    bed::own_unsupervised("visibility-two", options(leaders), async |bed, scene| {
        // The API server finds the replica that does not lead.
        let follower = Follower::start(bed, followers)?;
        follower.see_told("waiting for the lease").await?;
        register(bed, followers).await?;
        fill(scene).await?;
        let all = format!("clusterqueues/{}/pendingworkloads", scene.ns);
        let in_order = expected(&[("secret", 0, 0), ("own", 1, 0), ("last", 2, 1)]);
        see(scene, None, &all, |found| names(found) == in_order).await?;
        let items = see(scene, None, &all, |_| true).await?["items"].take();
        let own = items[1]["metadata"]["name"].as_str().unwrap_or_default();
        let estimate = format!("namespaces/{}/workloads/{own}/estimate", scene.ns);
        // No job has finished.
        let is_told = |found: &Value| found["reason"] == "NoFinishedJobs";
        see(scene, None, &estimate, is_told).await?;
        let log = std::fs::read_to_string(&follower.log)?;
        ensure!(!log.contains(" leading"), "{log}");

        bed.sluice.kill();
        follower.see_told("everything is listed").await?;
        see(scene, None, &all, |found| names(found) == in_order).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn without_sluice_the_rest_of_the_api_goes_on() -> Result<()> {
    let port = free_port()?;
    bed::own_unsupervised("visibility-down", options(port), async |bed, scene| {
        register(bed, port).await?;
        let neighbour = fill(scene).await?;
        let all = format!("clusterqueues/{}/pendingworkloads", scene.ns);
        see(scene, None, &all, |found| found["total"] == 3).await?;
        bed.sluice.stop().await?;
        let is_down = |answer: kube::Result<Value>| match answer {
            Ok(found) => anyhow::bail!("it answers: {found}"),
            Err(error) => Ok(error.to_string()),
        };
        let told = is_down(get(scene, None, &all).await?)?;
        ensure!(
            told.contains("unavailable") || told.contains("error trying to reach service"),
            "{told}"
        );
        // Objects are read and written as before, Sluice's own too.
        scene.list("ClusterQueue").await?;
        scene
            .kubectl(&["get", "jobs,workloads,clusterqueues", "-A"], None)
            .await?
            .ok()?;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
        scene.create(&map).await?;
        scene.delete("ConfigMap", "other").await?;
        bed.sluice.start().await?;
        see(scene, None, &all, |found| found["total"] == 3).await?;
        // Without the APIService it is as if there were no such API, and jobs go on.
        let args = ["delete", "apiservice", API_SERVICE];
        scene.kubectl(&args, None).await?.ok()?;
        is_down(get(scene, None, &all).await?)?;
        scene.delete("Job", "runs").await?;
        neighbour.see_admitted("secret").await?;
        Ok(())
    })
    .await
}

/// With the token of Sluice's account, which has to write into the APIService.
#[tokio::test]
async fn its_account_may_change_the_certificate_of_the_api_and_nothing_else() -> Result<()> {
    let port = free_port()?;
    bed::own_running_with("visibility-jail", options(port), async |bed, scene| {
        register(bed, port).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let all = format!("clusterqueues/{}/pendingworkloads", scene.ns);
        see(scene, None, &all, |found| found["total"] == 0).await?;
        let patch = async |patch: Value| {
            let patch = patch.to_string();
            let args = [
                "patch",
                "apiservice",
                API_SERVICE,
                "--type=merge",
                "-p",
                &patch,
            ];
            bed.cp.kubectl_as(bed.sluice.kubeconfig(), args, None).await
        };
        let rule = "Sluice's account may change only the caBundle here";
        let entry = "is not a key of Sluice: its account may write no others";
        for (field, value, rule) in [
            (
                "spec.service",
                json!({"spec": {"service": {"namespace": scene.ns, "name": "evil"}}}),
                rule,
            ),
            (
                "spec.insecureSkipTLSVerify",
                json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}}),
                rule,
            ),
            (
                "spec.groupPriorityMinimum",
                json!({"spec": {"groupPriorityMinimum": 20000}}),
                rule,
            ),
            (
                "metadata.labels[app.kubernetes.io/name]",
                json!({"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}),
                entry,
            ),
        ] {
            let told = patch(value).await?.err()?;
            let expected = format!("{field}: Forbidden: {rule}");
            ensure!(told.contains(&expected), "{field}: {told}");
        }
        let args = ["delete", "apiservice", API_SERVICE];
        let told = (bed
            .cp
            .kubectl_as(bed.sluice.kubeconfig(), args, None)
            .await?)
            .err()?;
        ensure!(told.contains("cannot delete resource"), "{told}");

        // A new certificate is trusted before it is served.
        let bundle = async || {
            let path = "jsonpath={.spec.caBundle}";
            let args = ["get", "apiservice", API_SERVICE, "-o", path];
            scene.kubectl(&args, None).await?.ok()
        };
        let before = bundle().await?;
        let args = [
            "patch",
            "secret",
            "sluice-webhook-certificate",
            "-n",
            NAMESPACE,
            "--type=merge",
            "-p",
            r#"{"data": null}"#,
        ];
        scene.kubectl(&args, None).await?.ok()?;
        eventually(
            "the new CA to come into the APIService",
            DEADLINE,
            async || {
                let now = bundle().await?;
                ensure!(now != before && !now.is_empty(), "the same as before");
                get(scene, None, &all).await?.map_err(anyhow::Error::from)
            },
        )
        .await?;
        Ok(())
    })
    .await
}
