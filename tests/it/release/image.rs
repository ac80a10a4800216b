//! The image runs under the security context and the limits of the shipped Deployment, as any user: it leads, holds
//! and admits jobs, and gives its Lease back when it ends.

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ApiResource, DynamicObject};
use sluice_testbed::{NAMESPACE, Options, SluiceOptions};

use super::container::{Container, User, is_possible};
use super::kustomized;
use crate::support::bed::{self, Bed};
use crate::support::objects::{Job, holds_quota, quota};
use crate::support::{Scene, refusal};

#[tokio::test]
async fn the_image_runs_under_the_security_context_of_the_deployment() -> Result<()> {
    if !is_possible() {
        return Ok(());
    }
    let container =
        tokio::task::spawn_blocking(|| Container::make("image", &kustomized("config/default")?));
    let container = container.await??;
    let plugin = container.plugin_version()?;
    ensure!(plugin.starts_with("kubectl-sluice "), "{plugin}");
    let user = container.shipped_user()?;
    // The API server is not there yet: its address is written when it is.
    let program = container.program(user, "https://127.0.0.1:1")?;
    let options = Options::with_crds()?;
    let sluice = SluiceOptions::new(&program);
    bed::own("image", sluice, options, async |bed, scene| {
        plays_its_part(bed, scene, &container, user, "first").await?;
        // As OpenShift has it: a user of the namespace's range, in the group of root.
        let user = User {
            uid: 1_000_680_000,
            gid: 0,
            fs_group: 1_000_680_000,
        };
        plays_its_part(bed, scene, &container, user, "second").await
    })
    .await
}

/// Sluice as this user, from its start to its end.
async fn plays_its_part(
    bed: &Bed,
    scene: &Scene<'_>,
    container: &Container,
    user: User,
    job: &str,
) -> Result<()> {
    let kubectl = async |args: &[&str]| bed.cp.kubectl(args, None).await?.ok();
    let token = ["create", "token", "sluice", "-n", NAMESPACE];
    let ca = ["get", "configmap", "kube-root-ca.crt", "-n", NAMESPACE];
    let ca = [&ca[..], &["-o", "jsonpath={.data.ca\\.crt}"]].concat();
    let (token, ca) = (kubectl(&token).await?, kubectl(&ca).await?);
    container.mount_account(user, token.trim(), &ca, NAMESPACE)?;
    container.program(user, bed.cp.server())?;
    bed.sluice.start().await?;
    bed.cp.adopt(container.pid()?)?;
    confined(container, user)?;
    ensure!(!holder(scene).await?.is_empty(), "nobody leads");
    if scene.find("LocalQueue", "q").await?.is_none() {
        scene.queue(&[quota("cpu", "2")]).await?;
    }
    scene
        .create(&Job::new(job).queue("q").runs_forever().json())
        .await?;
    scene.see_workload(job, "admitted", holds_quota).await?;
    let bad = Job::new("bad").queue("q").gate("mygate").json();
    let told = refusal(scene.try_create(&bad).await)?;
    ensure!(told.contains("must be a domain-prefixed path"), "{told}");

    let status = bed.sluice.stop().await?;
    ensure!(status.success(), "{status}: {}", bed.sluice.log_tail());
    let holder = holder(scene).await?;
    ensure!(holder.is_empty(), "{holder} still holds the Lease");
    Ok(())
}

/// Who holds the Lease; empty if it was given back.
async fn holder(scene: &Scene<'_>) -> Result<String> {
    let leases = ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
    let leases: Api<DynamicObject> = Api::namespaced_with(scene.client.clone(), NAMESPACE, &leases);
    let lease = leases.get("sluice").await?;
    let holder = lease.data["spec"]["holderIdentity"].as_str();
    Ok(holder.unwrap_or_default().to_owned())
}

/// Whether the kernel has set what the Deployment asks for.
fn confined(container: &Container, user: User) -> Result<()> {
    let pid = container.pid()?;
    let read = |file: &str| {
        let path = format!("/proc/{pid}/{file}");
        std::fs::read_to_string(&path).with_context(|| path)
    };
    let status = read("status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let words = line.map(|line| line.split_whitespace().collect::<Vec<_>>());
        words.with_context(|| format!("no {name} in {status}"))
    };
    let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
    ensure!(field("Uid:")?.iter().all(|id| *id == uid), "{status}");
    ensure!(field("Gid:")?.iter().all(|id| *id == gid), "{status}");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        ensure!(field(set)? == ["0000000000000000"], "{set} {status}");
    }
    ensure!(field("NoNewPrivs:")? == ["1"], "{status}");
    ensure!(field("Seccomp:")? == ["2"], "{status}");
    let mounts = read("mountinfo")?;
    let is_root = |line: &&str| line.split(' ').nth(4) == Some("/");
    let root = mounts.lines().find(is_root).context("no root")?;
    let options = root.split(' ').nth(5).unwrap_or_default();
    ensure!(options.split(',').any(|option| option == "ro"), "{root}");
    let limit = memory_limit(&read("cgroup")?)?;
    ensure!(limit == container.memory_limit()?, "a limit of {limit}");
    Ok(())
}

/// The limit of memory of a process, in bytes, by its cgroups of either version.
fn memory_limit(cgroups: &str) -> Result<u64> {
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap(), parts.next().unwrap());
        let file = match controllers {
            "memory" => format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"),
            "" => format!("/sys/fs/cgroup{path}/memory.max"),
            _ => continue,
        };
        if let Ok(limit) = std::fs::read_to_string(&file) {
            return Ok(limit.trim().parse()?);
        }
    }
    anyhow::bail!("no limit of memory in {cgroups}")
}
