//! Beside the real Karpenter: nodes come for what quota admits, and none for what waits. It makes
//! nodes as long as the scheduler calls a pod unschedulable, whatever gates the pod has.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use serde_json::{Value, json};
use sluice_crds::{QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_testbed::{Karpenter, Options, SluiceOptions, eventually};

use crate::support::history::{History, Revision};
use crate::support::objects::{Job, condition, is_suspended, name_of, quota, revision_of};
use crate::support::{DEADLINE, Scene, audit, bed, into_value};

/// How many wait, and how many of them the quota admits.
const WAITING: usize = 50;
const ADMITTED: usize = 10;

/// Pods of 1 CPU have such a node to themselves: Karpenter keeps a part of it back.
const NODE_CPUS: u32 = 2;

/// The label that tells the pods of a test apart.
const GROUP: &str = "group";

#[tokio::test]
async fn no_node_is_claimed_for_jobs_that_wait() -> Result<()> {
    play(Form::Jobs).await
}

#[tokio::test]
async fn no_node_is_claimed_for_pods_that_wait() -> Result<()> {
    play(Form::Pods).await
}

/// What is held: jobs of one pod by suspend, or pods by their gate.
#[derive(Clone, Copy)]
enum Form {
    Jobs,
    Pods,
}

async fn play(form: Form) -> Result<()> {
    let options = Options::with_crds()?.for_karpenter();
    let sluice = SluiceOptions::new(bed::BINARY);
    bed::own("karpenter", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        scene
            .see_condition("JobKind", "job", "Ready", "True", "Watched")
            .await?;
        let karpenter = Karpenter::start(&bed.cp).await?;
        karpenter.node_pool(&bed.cp, "pool", NODE_CPUS).await?;
        let log = || {
            let tail = karpenter.process().log_tail();
            format!("Karpenter's log ends:\n{tail}")
        };
        see_nodes_follow_quota(scene, form).await.with_context(log)
    })
    .await
}

async fn see_nodes_follow_quota(scene: &Scene<'_>, form: Form) -> Result<()> {
    let claims = Claims::record(scene).await?;
    let pods = scene.record("Pod").await?;
    scene.queue(&[quota("cpu", "0")]).await?;
    for i in 0..WAITING {
        scene.create(&form.held(&format!("held-{i}"))).await?;
    }
    form.see_waiting(scene, WAITING).await?;

    // Karpenter looks at all pods there are when it makes a node for one: it has seen the others.
    let mut nodes = run_control(scene, "before").await?;
    claims.see_only(&nodes).await.context("while all wait")?;

    scene.set_cpu(&ADMITTED.to_string()).await?;
    nodes.extend(see_running(scene, "held", ADMITTED).await?);
    form.see_waiting(scene, WAITING - ADMITTED).await?;
    nodes.extend(run_control(scene, "after").await?);
    ensure!(nodes.len() == ADMITTED + 2, "pods share nodes: {nodes:?}");
    claims.see_only(&nodes).await.context("while some wait")?;

    check_pods(&scene.history("Pod", &pods).await?)?;
    let writes = audit::writes(&scene.cp.audit_log())?;
    let to_status = writes.iter().find(|w| w.what().ends_with("pods/status"));
    ensure!(to_status.is_none(), "a pod's status: {to_status:?}");

    // The same without Sluice: this is what it spares.
    for i in 0..WAITING {
        scene.create(&form.twin(&format!("twin-{i}"))).await?;
    }
    let twins = see_running(scene, "twin", WAITING).await?;
    ensure!(twins.len() == WAITING, "twins share nodes: {twins:?}");
    ensure!(nodes.is_disjoint(&twins), "{nodes:?}, {twins:?}");
    nodes.extend(twins);
    claims.see_only(&nodes).await.context("after the twins")
}

/// Runs a pod that Sluice has nothing to do with, and returns its node.
async fn run_control(scene: &Scene<'_>, name: &str) -> Result<BTreeSet<String>> {
    scene.create(&pod(name, name)).await?;
    see_running(scene, name, 1).await
}

/// Waits until as many pods of a group run as there shall be, and returns their nodes.
async fn see_running(scene: &Scene<'_>, group: &str, count: usize) -> Result<BTreeSet<String>> {
    // Karpenter makes as many nodes, one after the other.
    eventually(
        &format!("{count} pods of {group} to run"),
        3 * DEADLINE,
        async || {
            let mut pods = scene.list("Pod").await.map_err(|e| format!("{e:#}"))?;
            pods.retain(|p| in_group(p, group) && p["status"]["phase"] == "Running");
            if pods.len() == count {
                Ok(pods.iter().map(node_of).collect())
            } else {
                Err(format!("{} run", pods.len()))
            }
        },
    )
    .await
}

/// Checks that no pod was ever called unschedulable while it had a gate, and that of those that are
/// held no more than were admitted were ever without one.
fn check_pods(history: &[Revision]) -> Result<()> {
    let mut open = BTreeSet::new();
    for Revision { object: pod, .. } in history {
        let told = condition(pod, "PodScheduled");
        ensure!(
            !is_gated(pod) || told.is_none_or(|(_, reason, _)| reason == "SchedulingGated"),
            "a pod with a gate is told {told:?}: {pod}"
        );
        if in_group(pod, "held") && !is_gated(pod) {
            open.insert(name_of(pod));
        }
    }
    ensure!(open.len() == ADMITTED, "open to the scheduler: {open:?}");
    Ok(())
}

impl Form {
    /// One that Sluice holds for the queue.
    fn held(self, name: &str) -> Value {
        match self {
            Self::Jobs => job(name, "held").queue("q").json(),
            Self::Pods => {
                let mut pod = pod(name, "held");
                pod["metadata"]["labels"][QUEUE_NAME_LABEL] = json!("q");
                pod["metadata"]["annotations"][QUEUE_GATE] = json!("true");
                pod
            }
        }
    }

    /// The same for whom Sluice is not there.
    fn twin(self, name: &str) -> Value {
        match self {
            Self::Jobs => job(name, "twin").json(),
            Self::Pods => pod(name, "twin"),
        }
    }

    /// Waits until as many wait as shall: told so by Sluice, or by the scheduler.
    async fn see_waiting(self, scene: &Scene<'_>, count: usize) -> Result<()> {
        eventually(&format!("{count} to wait"), DEADLINE, async || {
            let waiting = self.waiting(scene).await.map_err(|e| format!("{e:#}"))?;
            if waiting == count {
                Ok(())
            } else {
                Err(format!("{waiting} do"))
            }
        })
        .await
    }

    async fn waiting(self, scene: &Scene<'_>) -> Result<usize> {
        match self {
            Self::Jobs => {
                let jobs = scene.list("Job").await?;
                let suspended = jobs.iter().filter(|j| is_suspended(j)).count();
                let workloads = scene.list("Workload").await?;
                let told = workloads
                    .iter()
                    .filter(|w| condition(w, "QuotaReserved").is_some_and(|c| c.0 == "False"));
                Ok(suspended.min(told.count()))
            }
            Self::Pods => {
                let pods = scene.list("Pod").await?;
                let told = |p: &&Value| {
                    condition(p, "PodScheduled").is_some_and(|c| c.1 == "SchedulingGated")
                };
                Ok(pods.iter().filter(|p| is_gated(p)).filter(told).count())
            }
        }
    }
}

fn job(name: &str, group: &str) -> Job {
    let label = ["spec", "template", "metadata", "labels", GROUP];
    Job::new(name).runs_forever().with(&label, json!(group))
}

fn pod(name: &str, group: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { GROUP: group }, "annotations": {} },
        "spec": { "containers": [{
            "name": "main",
            "image": "example.com/none",
            "resources": { "requests": { "cpu": "1" } },
        }] },
    })
}

fn in_group(pod: &Value, group: &str) -> bool {
    pod["metadata"]["labels"][GROUP] == group
}

fn is_gated(pod: &Value) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates.is_some_and(|gates| !gates.is_empty())
}

fn node_of(pod: &Value) -> String {
    let node = pod["spec"]["nodeName"].as_str();
    node.unwrap_or_default().to_owned()
}

/// All `NodeClaims` that there ever were.
struct Claims {
    api: Api<DynamicObject>,
    history: History,
}

impl Claims {
    async fn record(scene: &Scene<'_>) -> Result<Self> {
        let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
        let api: Api<DynamicObject> =
            Api::all_with(scene.client.clone(), &ApiResource::from_gvk(&kind));
        let history = History::start(api.clone()).await?;
        Ok(Self { api, history })
    }

    /// Checks that these nodes were claimed up to now, and never any others. A pod may run a moment
    /// before the claim tells its node; a claim too many never goes from the history.
    async fn see_only(&self, nodes: &BTreeSet<String>) -> Result<()> {
        let what = format!("just these nodes to be claimed: {nodes:?}");
        eventually(&what, DEADLINE, async || {
            let claimed = self.ever().await.map_err(|e| format!("{e:#}"))?;
            if claimed == *nodes {
                Ok(())
            } else {
                Err(format!("{claimed:?}"))
            }
        })
        .await
    }

    /// The nodes of all claims so far, of which there must be one; a claim that has none yet, or
    /// had none, is there as an empty name.
    async fn ever(&self) -> Result<BTreeSet<String>> {
        let mut known = self.api.list(&ListParams::default()).await?;
        let name = known.items.pop().and_then(|claim| claim.metadata.name);
        let name = name.context("there is no NodeClaim")?;
        // A mark that was never there: without a change there would be no revision.
        let mark = json!({"tests/mark": known.metadata.resource_version});
        let mark = Patch::Merge(json!({"metadata": {"annotations": mark}}));
        let touched = self
            .api
            .patch(&name, &PatchParams::default(), &mark)
            .await?;
        let end = revision_of(&into_value(touched));

        let mut nodes = BTreeMap::new();
        for Revision { object: claim, .. } in self.history.until(end).await? {
            let node = claim["status"]["nodeName"].as_str().unwrap_or_default();
            nodes.insert(name_of(&claim).to_owned(), node.to_owned());
        }
        Ok(nodes.into_values().collect())
    }
}
