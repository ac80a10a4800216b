//! `kubectl sluice hold`, `resume`, `evict` and `reactivate`: one patch each, with the caller's rights.

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, Patch};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sluice_crds::{HELD_ANNOTATION, StopPolicy, Workload};
use sluice_kinds::HeldMark;

use super::jobs::{Called, Job, group_of, is_admitted_alone, meant, of_workload};
use super::listed::list;
use super::outcome::{EXIT_CODES_OF_ONE, Ended, LiveError, object_name};
use crate::cluster::{
    Cluster, ClusterError, Connection, DryRun, Namespace, POD_GROUP, Resource, Served, Tell, Told,
    answer, patch_params,
};
use crate::rules::queue_names::{QueueAliases, QueueNames};
use crate::rules::{OfResource, name_of_kind, of_resource};

const EXAMPLE: &str = "localqueue/main or job/train";
const GROUP: &str = "sluice.dev";

/// Which object, and where.
#[derive(Debug, Args)]
struct Target {
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    connection: Connection,
}

/// Stop a queue from admitting, or suspend a job.
///
/// A ClusterQueue or LocalQueue admits nothing more, and what it admitted goes on: spec.stopPolicy is set to Hold.
/// A job is suspended, by the field that its JobKind names (spec.suspend of a Job), and marked as held by its user
/// (sluice.dev/held: "false"): if it runs it is stopped and gives its quota back; if it waits it is not started.
/// For who may not list JobKinds, those that Sluice ships count.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES_OF_ONE)]
pub struct Hold {
    /// clusterqueue/NAME, localqueue/NAME, or a job: job/train.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// Evict what the queue admitted, too (HoldAndDrain). Only for a queue.
    #[arg(long)]
    drain: bool,
    #[command(flatten)]
    target: Target,
}

/// Let a queue admit again, or a job be queued again.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES_OF_ONE)]
pub struct Resume {
    /// clusterqueue/NAME, localqueue/NAME, or a job: job/train.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    #[command(flatten)]
    target: Target,
}

/// Evict a job and keep it out of its queue, until it is reactivated.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES_OF_ONE)]
pub struct Evict {
    /// The job: job/train; podgroup/NAME; or workload/NAME for what a Workload stands for.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    #[command(flatten)]
    aliases: QueueAliases,
    #[command(flatten)]
    target: Target,
}

/// Queue a job again that was evicted with this plugin, or that has backed off too often.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES_OF_ONE)]
pub struct Reactivate {
    /// The job: job/train; podgroup/NAME; or workload/NAME for what a Workload stands for.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    #[command(flatten)]
    aliases: QueueAliases,
    #[command(flatten)]
    target: Target,
}

impl Hold {
    /// Holds it.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let stop = if self.drain { Stop::Drain } else { Stop::Hold };
        stop.apply(&self.object, &self.target, tell).await
    }
}

impl Resume {
    /// Resumes it.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        Stop::Resume.apply(&self.object, &self.target, tell).await
    }
}

impl Evict {
    /// Evicts it.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let names = self.aliases.names();
        activate(&self.object, &self.target, &names, false, tell).await
    }
}

impl Reactivate {
    /// Queues it again.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let names = self.aliases.names();
        activate(&self.object, &self.target, &names, true, tell).await
    }
}

/// What is done to a queue or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// A queue admits nothing more; a job is suspended.
    Hold,
    /// The same, and what the queue admitted is evicted.
    Drain,
    /// A queue admits again; a job is queued again.
    Resume,
}

/// How a job is suspended or started.
enum Suspension {
    /// By this patch.
    Patch(Value),
    /// Nobody can: why.
    Impossible(String),
}

impl Stop {
    /// The spec.stopPolicy of a queue.
    fn policy(self) -> StopPolicy {
        match self {
            Self::Hold => StopPolicy::Hold,
            Self::Drain => StopPolicy::HoldAndDrain,
            Self::Resume => StopPolicy::None,
        }
    }

    /// Whether a job is suspended.
    fn suspends(self) -> bool {
        self != Self::Resume
    }

    /// What was done, in a word.
    fn done(self) -> &'static str {
        match self {
            Self::Hold | Self::Drain => "held",
            Self::Resume => "resumed",
        }
    }

    async fn apply(
        self,
        object: &str,
        target: &Target,
        tell: &mut Tell<'_>,
    ) -> Result<Ended, LiveError> {
        let (kind, name) = object_name(object, EXAMPLE)?;
        if kind.eq_ignore_ascii_case(POD_GROUP) {
            let told = format!(
                "a pod group can't be suspended; use \"kubectl sluice evict {object}\", and \"reactivate {object}\" to \
                 queue it again"
            );
            tell(Told::Error(told))?;
            return Ok(Ended::NotDone);
        }
        let (cluster, namespace) = connect(target).await?;
        let served = Served::ask(&cluster.client).await?;
        let resource = served.named(kind)?;
        let objects = resource.objects(&cluster.client, Some(&namespace));
        let is_queue = resource.api.group == GROUP
            && ["ClusterQueue", "LocalQueue"].contains(&resource.api.kind.as_str());
        self.check_drain(object, is_queue)?;
        let patch = if is_queue {
            json!({"spec": {"stopPolicy": self.policy()}})
        } else {
            let client = &cluster.client;
            let patch = self.suspension(client, &served, &resource, &objects, name);
            match patch.await? {
                Suspension::Patch(patch) => patch,
                Suspension::Impossible(why) => {
                    tell(Told::Error(why))?;
                    return Ok(Ended::NotDone);
                }
            }
        };
        let told = format!("{}/{name} {}\n", resource.name, self.done());
        patched(&objects, name, &patch, told, tell).await
    }

    /// That only a queue is to be drained.
    fn check_drain(self, object: &str, is_queue: bool) -> Result<(), LiveError> {
        if self == Self::Drain && !is_queue {
            return Err(LiveError::Drain(object.to_owned()));
        }
        Ok(())
    }

    /// How a job is suspended or started, by the JobKind of its kind.
    async fn suspension(
        self,
        client: &Client,
        served: &Served,
        resource: &Resource,
        objects: &Api<DynamicObject>,
        name: &str,
    ) -> Result<Suspension, LiveError> {
        let OfResource { rules, unlisted } = of_resource(client, served, resource).await;
        // Who may not list JobKinds may suspend a job all the same, and guessing at `spec.suspend` would miss the field of
        // kinds that have it elsewhere.
        let may_be =
            |why: &ClusterError| why.is_no() || matches!(why, ClusterError::Unserved { .. });
        let unlisted = match unlisted {
            Some(why) if !may_be(&why) => return Err(why.into()),
            unlisted => unlisted,
        };
        let none = || format!("{} {name} has no field that suspends it", resource.name);
        if let Some(rules) = rules {
            let Some(path) = rules.suspend_path() else {
                return Ok(Suspension::Impossible(none()));
            };
            let mut patch = self.mark();
            path.merge_into(&mut patch, json!(self.suspends()));
            return Ok(Suspension::Patch(patch));
        }
        // Where the kind has no such field the API server would drop it silently.
        let object = answer("read the object", objects.get(name)).await?;
        let suspend = object.data.pointer("/spec/suspend");
        if !suspend.is_some_and(Value::is_boolean) {
            let why = unlisted.map_or_else(none, |why| {
                let name = format!("{} {name}", resource.name);
                format!("which field suspends {name} is not known to you: {why}")
            });
            return Ok(Suspension::Impossible(why));
        }
        // What no JobKind declares may as well be of a kind that Sluice does not hold, as a CronJob.
        let mut patch = if unlisted.is_some() {
            self.mark()
        } else {
            json!({})
        };
        if let Value::Object(fields) = &mut patch {
            fields.insert("spec".to_owned(), json!({"suspend": self.suspends()}));
        }
        Ok(Suspension::Patch(patch))
    }

    /// Whose the suspension is: a job that waits is suspended as it is, and without the mark Sluice would start it.
    /// When it is resumed Sluice writes the mark.
    fn mark(self) -> Value {
        if self.suspends() {
            json!({"metadata": {"annotations": {HELD_ANNOTATION: HeldMark::Released.value()}}})
        } else {
            json!({})
        }
    }
}

/// Sets spec.active of the Workload of a job or group.
async fn activate(
    object: &str,
    target: &Target,
    names: &QueueNames,
    active: bool,
    tell: &mut Tell<'_>,
) -> Result<Ended, LiveError> {
    let (kind, name) = object_name(object, "job/train")?;
    let (cluster, namespace) = connect(target).await?;
    let (group, kind) = kind_of(&cluster.client, kind).await?;
    let workloads: Vec<Workload> = list(&cluster.client, Some(&namespace), None, tell).await?;
    let jobs: Vec<Job> = workloads.iter().map(of_workload).collect();
    let (group, kind, name) = meant(&jobs, (&group, &kind), name);
    let called = Called {
        group: Some(&group),
        kind: &kind,
        name: &name,
    };
    let found = workloads.iter().find(|workload| called.is_of(workload));
    let Some(workload) = found else {
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
        let why = if group.is_empty() && kind == "Pod" {
            why_no_workload(&answer("read the pod", pods.get(&name)).await?, names)
        } else {
            "it is not queued".to_owned()
        };
        // Another kind may have the same name.
        let kind = name_of_kind(&group, &kind);
        let told = format!("{kind} {name:?} has no Workload in namespace {namespace}: {why}");
        tell(Told::Error(told))?;
        return Ok(Ended::NotDone);
    };
    let resource = ApiResource::erase::<Workload>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), &namespace, &resource);
    let done = if active { "reactivated" } else { "evicted" };
    let told = format!("{kind}/{name} {done}\n");
    let patch = json!({"spec": {"active": active}});
    patched(&api, &workload.name_any(), &patch, told, tell).await
}

/// Why a pod can't be evicted by a Workload, and what can be done instead.
fn why_no_workload(pod: &Pod, names: &QueueNames) -> String {
    if let Some(group) = group_of(pod, names) {
        return format!("it is admitted with its pod group: say podgroup/{group}");
    }
    if is_admitted_alone(pod, names) {
        return "a pod that is admitted by itself has no Workload; delete the pod to take it out of its queue"
            .to_owned();
    }
    "it is not queued".to_owned()
}

/// The API group and the kind that a word means; no group and `PodGroup` for groups of pods, which are no objects.
pub(super) async fn kind_of(client: &Client, word: &str) -> Result<(String, String), LiveError> {
    if word.eq_ignore_ascii_case(POD_GROUP) {
        return Ok((String::new(), POD_GROUP.to_owned()));
    }
    let found = Served::ask(client).await?.named(word)?.api;
    Ok((found.group, found.kind))
}

async fn connect(target: &Target) -> Result<(Cluster, String), LiveError> {
    let cluster = Cluster::connect(&target.connection).await?;
    let namespace = cluster.one_namespace(&target.namespace)?;
    Ok((cluster, namespace))
}

async fn patched(
    objects: &Api<DynamicObject>,
    name: &str,
    patch: &Value,
    done: String,
    tell: &mut Tell<'_>,
) -> Result<Ended, LiveError> {
    let params = patch_params(DryRun::No);
    let patch = Patch::Merge(patch);
    let sent = objects.patch_metadata(name, &params, &patch);
    match answer("change the object", sent).await {
        Ok(_) => {
            tell(Told::Result(done))?;
            Ok(Ended::Done)
        }
        Err(ClusterError::Refused(status)) => {
            tell(Told::Error(status.message.clone()))?;
            Ok(Ended::NotDone)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
