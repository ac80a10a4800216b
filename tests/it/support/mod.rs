//! What the tests share: a namespace of one's own on a control plane with Sluice, objects as users
//! write them, waiting for what shall be, and what is printed when it never comes.

pub mod admission;
pub mod after;
pub mod audit;
pub mod bed;
pub mod enforcement;
pub mod history;
pub mod made_up;
pub mod nodes;
pub mod objects;
pub mod persist;
pub mod plugin;
pub mod pods;
pub mod queues;
pub mod scale;
pub mod thief;
pub mod visibility;
pub mod widgets;

use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use futures::FutureExt;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job as BatchJob};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Pod, ReplicationController};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::Value;
use sluice_crds as crds;
use sluice_testbed::{ControlPlane, KubectlOutput, Sluice, eventually};

use history::History;
use objects::{condition, name_of};
use persist::{is_there_already, judged, persist};

/// What is waited for comes within a second or two; the rest is for a loaded machine.
pub const DEADLINE: Duration = Duration::from_mins(3);

/// A namespace of one test, and the means to act in it as the administrator.
pub struct Scene<'a> {
    pub cp: &'a ControlPlane,
    pub client: kube::Client,
    /// The namespace. Names of cluster-scoped objects begin with it, so that they are unique too.
    pub ns: String,
}

impl<'a> Scene<'a> {
    /// Runs a test in a namespace whose name begins so. If it fails, what is there is printed.
    pub async fn play(
        cp: &'a ControlPlane,
        sluice: &Sluice,
        prefix: &str,
        test: impl AsyncFnOnce(&Scene<'a>) -> Result<()>,
    ) -> Result<()> {
        let scene = Self {
            cp,
            client: cp.client()?,
            ns: cp.create_namespace(prefix).await?,
        };
        let lost = sluice.lost_leases();
        let outcome = AssertUnwindSafe(test(&scene)).catch_unwind().await;
        // Where it panicked has been told.
        let Err(failure) = outcome.unwrap_or_else(|_| Err(anyhow!("it panicked"))) else {
            // In the background: pods that run for ever must leave quota for others, and queues are counted by Sluice.
            // Some tests have deleted the CRDs.
            for kind in ["Namespace", "ClusterQueue"] {
                if let Ok(Some(_)) = scene.find(kind, &scene.ns).await {
                    scene.delete(kind, &scene.ns).await?;
                }
            }
            return Ok(());
        };
        eprintln!(
            "{}\nSluice's log ends:\n{}",
            scene.dump().await,
            sluice.log_tail()
        );
        if sluice.lost_leases() == lost {
            Err(failure)
        } else {
            Err(failure.context(bed::LeaseLost))
        }
    }

    /// The same namespace, as this user acts in it.
    pub fn acting_as(&self, user: &str) -> Result<Self> {
        Ok(Self {
            cp: self.cp,
            client: self.cp.client_as(Some(user))?,
            ns: self.ns.clone(),
        })
    }

    /// A name for a cluster-scoped object of this test.
    pub fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.ns)
    }

    /// Whether this Kubernetes lets users edit what the pods of a suspended Job request. Before 1.36 it does not.
    pub async fn edits_requests(&self) -> Result<bool> {
        let job = objects::Job::new("probe").with(&["spec", "suspend"], true.into());
        self.create(&job.json()).await?;
        let args = ["apply", "-f", "-", "--dry-run=server"];
        let output = self.kubectl(&args, Some(&job.cpu("2").manifest())).await?;
        let is_refused = output.stderr.contains("field is immutable");
        ensure!(output.code == 0 || is_refused, "{}", output.stderr);
        self.delete("Job", "probe").await?;
        Ok(output.code == 0)
    }

    /// Runs kubectl in the namespace.
    pub async fn kubectl(&self, args: &[&str], stdin: Option<&str>) -> Result<KubectlOutput> {
        let args = [&["--namespace", self.ns.as_str()], args].concat();
        self.cp.kubectl(args, stdin).await
    }

    /// The user name of a service account of the namespace that may edit it.
    pub async fn editor(&self, name: &str) -> Result<String> {
        let user = format!("system:serviceaccount:{}:{name}", self.ns);
        self.let_edit(&user).await?;
        Ok(user)
    }

    /// Lets a user edit the namespace, as the role `edit` does, and name any owner.
    pub async fn let_edit(&self, user: &str) -> Result<()> {
        let name = user.replace(':', "-");
        let subject = format!("--user={user}");
        let args = [
            "create",
            "rolebinding",
            &name,
            "--clusterrole=admin",
            &subject,
        ];
        self.kubectl(&args, None).await?.ok()?;
        // The API server hears of the binding by a watch of its own.
        let user = format!("--as={user}");
        let args = ["auth", "can-i", "create", "pods", &user];
        eventually("the right to be known", DEADLINE, async || {
            let answer = self.kubectl(&args, None).await?.ok()?;
            ensure!(answer.trim() == "yes", "{answer}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    /// Creates an object as this user, with kubectl; prints what was stored as JSON.
    pub async fn try_as(&self, user: &str, object: &Value) -> Result<KubectlOutput> {
        let mut object = object.clone();
        if object["metadata"]["name"] == "j" {
            object["metadata"].as_object_mut().unwrap().remove("name");
            object["metadata"]["generateName"] = "j-".into();
        }
        let user = format!("--as={user}");
        let args = ["create", "-f", "-", "--output=json", &user];
        self.kubectl(&args, Some(&object.to_string())).await
    }

    /// Applies a manifest with kubectl; once more if that went wrong, as applying is for.
    pub async fn apply(&self, manifest: &Value) -> Result<()> {
        let (args, manifest) = (["apply", "-f", "-"], manifest.to_string());
        let first = self.kubectl(&args, Some(&manifest)).await?.ok();
        if let Err(error) = first {
            eprintln!("applied again after: {error:#}");
            self.kubectl(&args, Some(&manifest)).await?.ok()?;
        }
        Ok(())
    }

    /// The objects of a kind: those of the namespace, if they live in namespaces.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (resource, is_namespaced) = resource(kind);
        if is_namespaced {
            Api::namespaced_with(self.client.clone(), &self.ns, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    /// Creates an object and returns it as it was stored.
    pub async fn create(&self, object: &Value) -> Result<Value> {
        let mut was_asked = false;
        let attempt = async || match self.create_once(object).await {
            Err(error) if was_asked && is_there_already(&error) => {
                let api = self.api(object["kind"].as_str().unwrap());
                api.get(name_of(object)).await.map(into_value)
            }
            answer => {
                was_asked = true;
                answer
            }
        };
        persist(attempt).await
    }

    /// Creates an object, for tests of what the API server answers.
    pub async fn try_create(&self, object: &Value) -> kube::Result<Value> {
        let api = self.api(object["kind"].as_str().unwrap());
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let params = PostParams::default();
        let created = judged(async || api.create(&params, &object).await).await;
        created.map(into_value)
    }

    pub async fn create_all(&self, objects: &[Value]) -> Result<()> {
        for object in objects {
            self.create(object)
                .await
                .with_context(|| format!("create {object}"))?;
        }
        Ok(())
    }

    pub async fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let object = persist(async || self.api(kind).get(name).await).await;
        Ok(into_value(
            object.with_context(|| format!("get {kind} {name}"))?,
        ))
    }

    pub async fn find(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        let api = self.api(kind);
        let found = persist(async || api.get_opt(name).await).await?;
        Ok(found.map(into_value))
    }

    pub async fn list(&self, kind: &str) -> Result<Vec<Value>> {
        let (api, params) = (self.api(kind), ListParams::default());
        let list = persist(async || api.list(&params).await).await?;
        Ok(list.items.into_iter().map(into_value).collect())
    }

    /// Merges a patch into an object (RFC 7386).
    pub async fn merge(&self, kind: &str, name: &str, patch: Value) -> Result<Value> {
        persist(async || self.try_merge(kind, name, patch.clone()).await).await
    }

    /// Merges a patch, for tests of what the API server answers.
    pub async fn try_merge(&self, kind: &str, name: &str, patch: Value) -> kube::Result<Value> {
        let (api, params) = (self.api(kind), PatchParams::default());
        let patch = Patch::Merge(patch);
        let patched = judged(async || api.patch(name, &params, &patch).await).await;
        patched.map(into_value)
    }

    /// The same, sent once: for tests of what is answered while nobody serves the webhooks.
    pub async fn create_once(&self, object: &Value) -> kube::Result<Value> {
        let api = self.api(object["kind"].as_str().unwrap());
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let created = api.create(&PostParams::default(), &object).await;
        created.map(into_value)
    }

    /// The same, sent once.
    pub async fn merge_once(&self, kind: &str, name: &str, patch: Value) -> kube::Result<Value> {
        let (api, params) = (self.api(kind), PatchParams::default());
        let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
        patched.map(into_value)
    }

    /// Deletes an object and its dependents in the background.
    pub async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let (api, params) = (self.api(kind), DeleteParams::background());
        persist(async || api.delete(name, &params).await).await?;
        Ok(())
    }

    /// Waits until an object exists and is so, and returns it.
    pub async fn see(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(
            &format!("{kind} {name} to be {what}"),
            DEADLINE,
            async || match self.find(kind, name).await {
                Ok(Some(object)) if is_so(&object) => Ok(object),
                Ok(Some(object)) => Err(brief(&object)),
                Ok(None) => Err("it does not exist".to_owned()),
                Err(error) => Err(format!("{error:#}")),
            },
        )
        .await
    }

    /// Waits until an object is gone.
    pub async fn see_gone(&self, kind: &str, name: &str) -> Result<()> {
        eventually(
            &format!("{kind} {name} to be gone"),
            DEADLINE,
            async || match self.find(kind, name).await {
                Ok(None) => Ok(()),
                Ok(Some(object)) => Err(brief(&object)),
                Err(error) => Err(format!("{error:#}")),
            },
        )
        .await
    }

    /// Waits until the condition of an object is so, and returns its message.
    pub async fn see_condition(
        &self,
        kind: &str,
        name: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> Result<String> {
        let object = self
            .see(
                kind,
                name,
                &format!("{type_}={status} ({reason})"),
                |object| {
                    condition(object, type_).is_some_and(|(s, r, _)| (s, r) == (status, reason))
                },
            )
            .await?;
        let (.., message) = condition(&object, type_).unwrap();
        Ok(message.to_owned())
    }

    /// The Workload of the job with this name, by the job's UID.
    pub async fn find_workload(&self, job: &str) -> Result<Option<Value>> {
        let Some(job) = self.find("Job", job).await? else {
            return Ok(None);
        };
        let uid = &job["metadata"]["uid"];
        let mut of_job = self.list("Workload").await?;
        of_job.retain(|w| w["metadata"]["ownerReferences"][0]["uid"] == *uid);
        ensure!(of_job.len() < 2, "a job has two Workloads: {of_job:?}");
        Ok(of_job.pop())
    }

    /// Waits until the Workload of a job exists and is so, and returns it.
    pub async fn see_workload(
        &self,
        job: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(
            &format!("the Workload of {job} to be {what}"),
            DEADLINE,
            async || match self.find_workload(job).await {
                Ok(Some(workload)) if is_so(&workload) => Ok(workload),
                Ok(Some(workload)) => Err(brief(&workload)),
                Ok(None) => Err("it does not exist".to_owned()),
                Err(error) => Err(format!("{error:#}")),
            },
        )
        .await
    }

    /// Waits until the Workload of a job says that it waits, with this in the message.
    pub async fn see_waiting(&self, job: &str, reason: &str, message: &str) -> Result<Value> {
        self.see_workload(job, &format!("waiting: {reason}: {message}"), |workload| {
            condition(workload, "QuotaReserved") == Some(("False", reason, message))
        })
        .await
    }

    pub async fn see_admitted(&self, job: &str) -> Result<Value> {
        self.see_workload(job, "admitted", objects::is_admitted)
            .await
    }

    pub async fn see_complete(&self, job: &str) -> Result<Value> {
        self.see("Job", job, "complete", objects::is_complete).await
    }

    /// Waits until as many pods of the namespace are in this phase as are wanted.
    pub async fn see_pods(&self, phase: &str, count: usize) -> Result<Vec<Value>> {
        eventually(
            &format!("{count} pods to be {phase}"),
            DEADLINE,
            async || {
                let mut pods = self.list("Pod").await.map_err(|e| format!("{e:#}"))?;
                pods.retain(|pod| pod["status"]["phase"] == phase);
                if pods.len() == count {
                    Ok(pods)
                } else {
                    Err(format!("{} are", pods.len()))
                }
            },
        )
        .await
    }

    /// Waits until this was told about an object, and returns the text.
    pub async fn see_event(&self, object: &str, reason: &str) -> Result<String> {
        let what = format!("an event {reason} about {object}");
        eventually(&what, DEADLINE, async || {
            let events = self.events(object).await.map_err(|e| format!("{e:#}"))?;
            let found = events.iter().find(|(r, _)| r == reason);
            found
                .map(|(_, note)| note.clone())
                .ok_or_else(|| format!("{events:?}"))
        })
        .await
    }

    /// What Sluice told about an object of the namespace: reasons and notes.
    pub async fn events(&self, object: &str) -> Result<Vec<(String, String)>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.list("Event").await?;
        let by_sluice = events
            .iter()
            .filter(|e| e["reportingController"] == "sluice");
        let about = by_sluice.filter(|e| e["regarding"]["name"] == object);
        Ok(about
            .map(|e| (text(&e["reason"]), text(&e["note"])))
            .collect())
    }

    /// Records the objects of a kind from now on.
    pub async fn record(&self, kind: &str) -> Result<History> {
        History::start(self.api(kind)).await
    }

    /// All that happened to the objects of a kind up to now. Touches one of them to know.
    pub async fn history(&self, kind: &str, recorded: &History) -> Result<Vec<history::Revision>> {
        let mark = serde_json::json!({"metadata": {"annotations": {"tests/mark": "end"}}});
        // One may go before it is touched, and others come.
        let touched = eventually("an object to touch", DEADLINE, async || {
            let object = self.list(kind).await?.pop();
            let object = object.context("there is none")?;
            self.merge(kind, name_of(&object), mark.clone()).await
        });
        let touched = touched.await?;
        recorded.until(objects::revision_of(&touched)).await
    }

    /// The sum of what there is, for a failure.
    async fn dump(&self) -> String {
        let mut text = format!("what there is in {}:\n", self.ns);
        let kinds = "jobs,workloads,localqueues,pods,events.events.k8s.io";
        for args in [
            ["get", kinds, "--output", "yaml"],
            ["get", "clusterqueues,cohorts,jobkinds", "--output", "yaml"],
        ] {
            let said = match self.kubectl(&args, None).await {
                Ok(output) => output.stdout + &output.stderr,
                Err(error) => format!("{error:#}"),
            };
            let _ = writeln!(text, "{said}");
        }
        text
    }
}

/// The message of a refusal by a webhook or the API server; of one by a policy, without the name of
/// the object.
pub fn refusal<T: std::fmt::Debug>(answer: kube::Result<T>) -> Result<String> {
    match answer {
        Err(kube::Error::Api(status)) => {
            let by_policy = status.message.split_once(" is forbidden: ");
            let by_policy =
                by_policy.filter(|(_, told)| told.starts_with("ValidatingAdmissionPolicy "));
            Ok(by_policy.map_or(status.message.clone(), |(_, told)| told.to_owned()))
        }
        Err(error) => Err(anyhow!(error)),
        Ok(object) => bail!("it should have been refused, and was taken: {object:?}"),
    }
}

/// What a refusal by the webhook for jobs says.
pub fn by_jobs_webhook(problem: &str) -> String {
    format!("admission webhook \"validate.jobs.sluice.dev\" denied the request: {problem}")
}

/// What a refusal by the webhook for declared kinds says.
pub fn by_declared_webhook(problem: &str) -> String {
    format!("admission webhook \"validate.jobkinds.sluice.dev\" denied the request: {problem}")
}

/// What a refusal by the webhook for Sluice's own objects says.
pub fn by_objects_webhook(problem: &str) -> String {
    format!("admission webhook \"validate.objects.sluice.dev\" denied the request: {problem}")
}

pub fn into_value(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}

/// An object without what nobody reads in a failure.
fn brief(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "labels {} annotations {} spec {} status {}",
        metadata["labels"], metadata["annotations"], object["spec"], object["status"]
    )
}

/// The resource of a kind, and whether it lives in namespaces.
fn resource(kind: &str) -> (ApiResource, bool) {
    match kind {
        "Job" => (ApiResource::erase::<BatchJob>(&()), true),
        "CronJob" => (ApiResource::erase::<CronJob>(&()), true),
        "Pod" => (ApiResource::erase::<Pod>(&()), true),
        "ConfigMap" => (ApiResource::erase::<ConfigMap>(&()), true),
        "Deployment" => (ApiResource::erase::<Deployment>(&()), true),
        "DaemonSet" => (ApiResource::erase::<DaemonSet>(&()), true),
        "ReplicaSet" => (ApiResource::erase::<ReplicaSet>(&()), true),
        "ReplicationController" => (ApiResource::erase::<ReplicationController>(&()), true),
        "StatefulSet" => (ApiResource::erase::<StatefulSet>(&()), true),
        "ResourceClaimTemplate" => (ApiResource::erase::<ResourceClaimTemplate>(&()), true),
        "Event" => (ApiResource::erase::<Event>(&()), true),
        "Workload" => (ApiResource::erase::<crds::Workload>(&()), true),
        "LocalQueue" => (ApiResource::erase::<crds::LocalQueue>(&()), true),
        "Namespace" => (ApiResource::erase::<Namespace>(&()), false),
        "PriorityClass" => (ApiResource::erase::<PriorityClass>(&()), false),
        "RuntimeClass" => (ApiResource::erase::<RuntimeClass>(&()), false),
        "ClusterRole" => (ApiResource::erase::<ClusterRole>(&()), false),
        "ValidatingAdmissionPolicy" => {
            (ApiResource::erase::<ValidatingAdmissionPolicy>(&()), false)
        }
        "ValidatingAdmissionPolicyBinding" => (
            ApiResource::erase::<ValidatingAdmissionPolicyBinding>(&()),
            false,
        ),
        "ClusterQueue" => (ApiResource::erase::<crds::ClusterQueue>(&()), false),
        "Cohort" => (ApiResource::erase::<crds::Cohort>(&()), false),
        "ResourceFlavor" => (ApiResource::erase::<crds::ResourceFlavor>(&()), false),
        "WorkloadPriorityClass" => (
            ApiResource::erase::<crds::WorkloadPriorityClass>(&()),
            false,
        ),
        "JobKind" => (ApiResource::erase::<crds::JobKind>(&()), false),
        "Gate" => (ApiResource::erase::<crds::Gate>(&()), false),
        "LimitRange" => (ApiResource::erase::<LimitRange>(&()), true),
        kind => panic!("the tests know no kind {kind}"),
    }
}

/// Waits until what happens now is later than this time of an object: the API counts in seconds.
pub async fn see_a_second_pass(since: &Value) -> Result<()> {
    let since: Timestamp = since.as_str().unwrap_or_default().parse()?;
    eventually("a second to pass", DEADLINE, async || {
        let now = Timestamp::now();
        if since.as_second() < now.as_second() {
            Ok(())
        } else {
            Err(format!("it is {now}"))
        }
    })
    .await
}
