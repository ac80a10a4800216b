//! A cluster on which Sluice works: two teams share a cohort, and what the commands and the page show of their jobs is what
//! Sluice wrote and tells.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL};
use sluice_testbed::{
    RUN_SECONDS, Shared, SluiceOptions, eventually, free_port, register_visibility,
};

use crate::live_cluster::{DEADLINE, own, sluice};

/// How often it is looked whether Sluice lives.
const SUPERVISION: Duration = Duration::from_secs(1);
/// The gate that holds one of the jobs.
pub(super) const GATE: &str = "acme.io/budget";

/// A control plane with Sluice and its visibility.sluice.dev, and the namespaces of two teams.
pub(super) struct Governed {
    bed: Shared,
    /// The namespace of `team-a`, which borrows.
    pub(super) blue: String,
    /// The namespace of `team-b`, which lends.
    pub(super) red: String,
}

/// A job as a user writes it: its pod runs until the test ends it.
struct Job<'a> {
    name: &'a str,
    namespace: &'a str,
    cpu: &'a str,
    class: Option<&'a str>,
    gate: Option<&'a str>,
}

/// Sluice, which cargo builds beside the plugin.
fn binary() -> Result<PathBuf> {
    let binary = Path::new(env!("CARGO_BIN_EXE_kubectl-sluice")).with_file_name("sluice");
    ensure!(
        binary.exists(),
        "build it first: cargo build --locked --workspace --bin sluice"
    );
    Ok(binary)
}

impl Governed {
    /// With queues, and no jobs yet.
    pub(super) async fn start() -> Result<Self> {
        let port = free_port()?;
        let options = SluiceOptions::new(binary()?).with_visibility(port);
        let bed = Shared::start(options, async |_| Ok(()))?;
        let cp = &bed.control_plane;
        register_visibility(cp, port).await?;
        let started = Self {
            blue: cp.create_namespace("blue").await?,
            red: cp.create_namespace("red").await?,
            bed,
        };
        for (object, condition) in [
            ("jobkind/job", "Ready"),
            ("apiservice/v1alpha1.visibility.sluice.dev", "Available"),
        ] {
            let condition = format!("--for=condition={condition}");
            started
                .kubectl(&["wait", object, &condition, "--timeout=180s"])
                .await?;
        }
        started.queues().await?;
        Ok(started)
    }

    /// Starts Sluice again when it has lost its Lease, as a kubelet does. Never ends.
    pub(super) async fn supervise(&self) -> Result<()> {
        loop {
            tokio::time::sleep(SUPERVISION).await;
            self.bed.sluice.revive()?;
        }
    }

    /// What the administrator is.
    pub(super) fn admin(&self) -> &Path {
        self.bed.control_plane.kubeconfig()
    }

    /// Somebody with the role `view` in the namespace of `team-a`.
    pub(super) async fn viewer(&self) -> Result<PathBuf> {
        let account = format!("--serviceaccount={}:default", self.blue);
        let bind = [
            "create",
            "rolebinding",
            "viewer",
            "--clusterrole=view",
            &account,
            "-n",
            &self.blue,
        ];
        self.kubectl(&bind).await?;
        let cp = &self.bed.control_plane;
        cp.service_account_kubeconfig(&self.blue, "default").await
    }

    async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.bed.control_plane.kubectl(args, None).await?.ok()
    }

    async fn apply(&self, items: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let apply = ["apply", "-f", "-"];
        let applied = self.bed.control_plane.kubectl(apply, Some(&list));
        applied.await?.ok().map(drop)
    }

    /// Two ClusterQueues of four CPUs each in a cohort, a LocalQueue of each, classes of priority, and a Gate.
    async fn queues(&self) -> Result<()> {
        let cluster_queue = |name: &str| {
            let quota = json!([{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [
                {"name": "cpu", "nominalQuota": "4"}]}]}]);
            let spec = json!({"cohortName": "family", "namespaceSelector": {}, "resourceGroups": quota,
                "preemption": {"withinClusterQueue": "LowerPriority"}});
            own("ClusterQueue", &json!({"name": name}), &spec)
        };
        let local_queue = |namespace: &str, cluster_queue: &str| {
            own(
                "LocalQueue",
                &json!({"name": "main", "namespace": namespace}),
                &json!({"clusterQueue": cluster_queue}),
            )
        };
        let class = |name: &str, value: i32| {
            json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "WorkloadPriorityClass", "metadata": {"name": name},
                "value": value})
        };
        let gate = json!({"description": "Waits for a budget", "contact": "#finops"});
        self.apply(&[
            own("ResourceFlavor", &json!({"name": "default"}), &json!({})),
            cluster_queue("team-a"),
            cluster_queue("team-b"),
            local_queue(&self.blue, "team-a"),
            local_queue(&self.red, "team-b"),
            class("low", 1),
            class("mid", 50),
            class("high", 100),
            own("Gate", &json!({"name": "budget.acme.io"}), &gate),
        ])
        .await
    }

    /// Jobs, each created when the one before it stands as it will: the cohort is full by one that borrows, the urgent one
    /// preempts the low one, one waits, and a gate holds one.
    pub(super) async fn jobs(&self) -> Result<()> {
        let (blue, red) = (&*self.blue, &*self.red);
        for (name, namespace, cpu, class, gate, state) in [
            ("low", blue, "2", Some("low"), None, "Admitted"),
            ("borrows", blue, "3", Some("mid"), None, "Admitted"),
            ("runs", red, "3", None, None, "Admitted"),
            ("held", blue, "1", None, Some(GATE), "Gated"),
            ("urgent", blue, "2", Some("high"), None, "Admitted"),
            ("waits", blue, "2", Some("mid"), None, "Pending"),
        ] {
            let job = Job {
                name,
                namespace,
                cpu,
                class,
                gate,
            };
            self.apply(&[job.manifest()]).await?;
            self.see(name, state).await?;
        }
        self.see("low", "Pending").await
    }

    /// What the plugin prints for the administrator as JSON, without notes.
    fn json(&self, command: &str) -> Result<Value> {
        let text = self.told(&format!("{command} -o json"))?;
        serde_json::from_str(&text).with_context(|| text)
    }

    /// What the plugin prints for the administrator, without notes.
    fn told(&self, command: &str) -> Result<String> {
        let (code, stdout, stderr) = sluice(self.admin(), command);
        ensure!(
            (code, &*stderr) == (Some(0), ""),
            "{command}: {stderr}{stdout}"
        );
        Ok(stdout)
    }

    /// Waits until a command prints these lines among others, without notes, each word by word. What changes with each run
    /// may follow.
    pub(super) async fn see_told(&self, command: &str, lines: &[&str]) -> Result<()> {
        eventually(command, DEADLINE, async || {
            let told = self.told(command)?;
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            let told: Vec<String> = told.lines().map(words).collect();
            for line in lines {
                let is_told = told.iter().any(|told| {
                    let rest = told.strip_prefix(line);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
                });
                ensure!(is_told, "no {line:?} in {told:#?}");
            }
            anyhow::Ok(())
        })
        .await
    }

    /// Waits until a job is listed in this state.
    pub(super) async fn see(&self, name: &str, state: &str) -> Result<()> {
        eventually(&format!("{name} to be {state}"), DEADLINE, async || {
            let jobs = self.json("list -A --finished")?;
            let mut listed = jobs.as_array().into_iter().flatten();
            let is_so = listed.any(|job| job["name"] == name && job["state"] == state);
            ensure!(is_so, "{jobs}");
            anyhow::Ok(())
        })
        .await
    }

    /// Lifts the gate of a job.
    pub(super) fn lift(&self, job: &str) -> Result<()> {
        let lift = format!("gates lift {GATE} job/{job} -n {}", self.blue);
        self.told(&lift).map(drop)
    }

    /// Has the pod of a job end.
    pub(super) async fn end(&self, namespace: &str, job: &str) -> Result<()> {
        let pods = format!("--selector=batch.kubernetes.io/job-name={job}");
        let ends = format!("{RUN_SECONDS}=0");
        let end = [
            "annotate",
            "pods",
            &pods,
            "-n",
            namespace,
            "--overwrite",
            &ends,
        ];
        let ended = self.kubectl(&end).await?;
        ensure!(ended.contains("annotated"), "{job} has no pod: {ended}");
        Ok(())
    }
}

impl Job<'_> {
    fn manifest(&self) -> Value {
        let mut labels = json!({(QUEUE_NAME_LABEL): "main"});
        if let Some(class) = self.class {
            labels[PRIORITY_CLASS_LABEL] = json!(class);
        }
        let mut annotations = json!({});
        if let Some(gate) = self.gate {
            annotations["kueue.x-k8s.io/scheduling-gated-by"] = json!(gate);
        }
        let container = json!({"name": "main", "image": "example.com/none",
            "resources": {"requests": {"cpu": self.cpu}}});
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": annotations},
            "spec": {"backoffLimit": 0, "template": {
                "metadata": {"annotations": {(RUN_SECONDS): "forever"}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }},
        })
    }
}
