//! `kubectl sluice explain`: one job, pod group or pod, and why it waits: what it asks for, its place, who is ahead, and
//! what its conditions say; from visibility.sluice.dev, what it lacks and who has that; and when it will start.
//!
//! Must not know how Sluice decides.

mod answer;
mod events;
mod explained;
mod text;

use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use self::events::last_told;
pub use self::events::{events_about, told_at};
pub use self::explained::{Explained, explained, requests};
use self::text::text;
use super::hold_evict::kind_of;
use super::jobs::{Called, group_of};
use super::list::{Objects, estimate_starts};
use super::outcome::{EXIT_CODES, Ended, LiveError, object_name, shown};
use crate::cluster::{
    Cluster, Connection, Format, Namespaces, POD_GROUP, Served, Tell, Told, answer,
};
use crate::simulate::parse_span;

/// Explain why a job waits, or how it stands.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Explain {
    /// The job: job/train; podgroup/NAME; or pod/NAME for a pod that is admitted by itself, or with its group.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// Output format: json or yaml.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    /// For the estimate of the start: how long a job runs like which none has finished in the cluster.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    duration: Option<Duration>,
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    connection: Connection,
}

impl Explain {
    /// Explains it.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let (word, name) = object_name(&self.object, "job/train")?;
        if self.namespaces.all_namespaces {
            return Err(LiveError::OneNamespace);
        }
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?.unwrap_or_default();
        let (api_group, kind) = kind_of(&cluster, word).await?;
        let objects = Objects::list(&cluster.client, Some(&namespace), tell).await?;
        let group = group_of_member(&objects, &kind, name);
        let called = match &group {
            Some(group) => Called {
                group: Some(""),
                kind: POD_GROUP,
                name: group,
            },
            None => Called {
                group: Some(&api_group),
                kind: &kind,
                name,
            },
        };
        let found = explained(&cluster.client, &objects, called, tell).await?;
        let Some(mut explained) = found else {
            return self
                .without_job(
                    &cluster,
                    &namespace,
                    (word, &kind, name),
                    group,
                    &objects.pods,
                    tell,
                )
                .await;
        };
        let job = &mut explained.job;
        let jobs = std::slice::from_mut(job);
        estimate_starts(&cluster.client, jobs, self.duration, tell).await;
        (explained.start, explained.no_estimate) = (job.start.take(), job.no_estimate.take());
        let text = shown(self.output, &explained, |_| {
            text(&explained, Timestamp::now())
        })?;
        tell(Told::Result(text))?;
        Ok(Ended::Done)
    }

    /// An object that is not queued: why not, by its gates.
    async fn without_job(
        &self,
        cluster: &Cluster,
        namespace: &str,
        (word, kind, name): (&str, &str, &str),
        group: Option<String>,
        pods: &[Pod],
        tell: &mut Tell<'_>,
    ) -> Result<Ended, LiveError> {
        let of_group = match &group {
            None if kind == POD_GROUP => Some(name),
            group => group.as_deref(),
        };
        let mut uids: Vec<String> = Vec::new();
        if let Some(group) = of_group {
            let members = pods
                .iter()
                .filter(|pod| group_of(pod).as_deref() == Some(group));
            uids.extend(members.filter_map(ResourceExt::uid));
        }
        if kind != POD_GROUP {
            let resource = Served::ask(&cluster.client).await?.named(word)?;
            let objects = resource.objects(&cluster.client, Some(namespace));
            let object = answer("read the object", objects.get_metadata(name)).await?;
            if let Some((gated, held)) = Explained::gated(&object.metadata, &resource.api) {
                let text = shown(self.output, &gated, |_| {
                    let held = held.join(", ");
                    format!("{kind} {name:?} is held by gates, and not queued: {held}\n")
                })?;
                tell(Told::Result(text))?;
                return Ok(Ended::Done);
            }
            uids.extend(object.uid());
        }
        let whom = group.map_or_else(
            || "it".to_owned(),
            |group| format!("its pod group {group:?}"),
        );
        // Why there is none, Sluice may have told by an event: the group lacks pods, a class is missing.
        let told = last_told(&cluster.client, namespace, uids).await;
        let told = told.map_or_else(String::new, |told| format!("; Sluice last told: {told}"));
        let text = format!(
            "{kind} {name:?} is not queued: Sluice has no Workload for {whom} in namespace {namespace}{told}"
        );
        tell(Told::Error(text))?;
        Ok(Ended::NotDone)
    }
}

/// The group that a pod of this name is admitted with, if it is.
fn group_of_member(objects: &Objects, kind: &str, name: &str) -> Option<String> {
    let mut pods = objects.pods.iter();
    let pod = pods.find(|pod| kind == "Pod" && pod.name_any() == name)?;
    group_of(pod)
}
