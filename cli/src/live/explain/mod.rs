//! `kubectl sluice explain`: one job, pod group or pod, and why it waits: what it asks for, its place, who is ahead, and
//! what its conditions say; from visibility.sluice.dev, what it lacks and who has that; and when it will start.
//!
//! Must not know how Sluice decides.

mod answer;
mod events;
mod explained;
pub mod gated;
mod text;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, ResourceExt};

use self::events::last_told;
pub use self::events::{events_about, told_at};
pub use self::explained::{Explained, explained, workload_of};
use self::explained::{LAST_TOLD, or_note};
use self::text::{gated_text, text};
use super::hold_evict::kind_of;
use super::jobs::{Called, Job, meant};
use super::list::{Keep, Objects, estimate_starts};
use super::outcome::{EXIT_CODES_OF_ONE, Ended, LiveError, object_name};
use super::view::{Look, View};
use crate::cluster::{Namespace, POD_GROUP, Served, Tell, answer};
use crate::rules::queue_names::QueueAliases;
use crate::simulate::{Assumed, parse_span};

/// Explain why a job waits, or how it stands.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES_OF_ONE)]
pub struct Explain {
    /// The job: job/train; podgroup/NAME; pod/NAME for a pod that is admitted by itself, or with its group; or
    /// workload/NAME for what a Workload stands for.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// The run time to assume for a job if no similar job has finished.
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with = "watch")]
    duration: Option<Duration>,
    #[command(flatten)]
    aliases: QueueAliases,
    #[command(flatten)]
    view: View<Namespace>,
}

/// What the command line calls it.
#[derive(Clone, Copy)]
struct Named<'a> {
    word: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl Explain {
    /// Explains it.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let (word, name) = object_name(&self.object, "job/train")?;
        let look = async |client: &Client, namespace: Option<&str>, note: &mut Tell<'_>| {
            let namespace = namespace.unwrap_or_default();
            self.look(client, namespace, (word, name), note).await
        };
        self.view.show(tell, look).await
    }

    async fn look(
        &self,
        client: &Client,
        namespace: &str,
        (word, name): (&str, &str),
        tell: &mut Tell<'_>,
    ) -> Result<Look, LiveError> {
        let (api_group, kind) = kind_of(client, word).await?;
        let names = self.aliases.names();
        // What a Workload says is read of the one in question.
        let keep = |job: &Job| match job.workload {
            None => Keep::Amounts,
            Some(_) => Keep::Job,
        };
        let objects = Objects::list(client, Some(namespace), names, &keep, tell).await?;
        let meant = meant(
            objects.listed().iter().map(|one| &one.job),
            (&api_group, &kind),
            name,
        );
        let group = objects.group_of(name).filter(|_| kind == "Pod");
        let called = match &group {
            Some(group) => Called {
                group: Some(""),
                kind: POD_GROUP,
                name: group,
            },
            None => Called {
                group: Some(&meant.0),
                kind: &meant.1,
                name: &meant.2,
            },
        };
        let workload = workload_of(client, &objects, called, tell).await?;
        let found = explained(client, &objects, workload.as_ref(), called, tell).await?;
        let Some(mut explained) = found else {
            let kind = &kind;
            let named = Named { word, kind, name };
            return self
                .without_job(client, namespace, named, group, &objects, tell)
                .await;
        };
        if explained.is_of_gated_object() {
            let served = Served::ask(client).await;
            gated::read_object(client, served.map(Arc::new), &mut explained, tell).await?;
        }
        // It takes seconds, and is another one each time.
        if !self.view.is_watch() {
            let job = &mut explained.job;
            let jobs = std::slice::from_mut(job);
            let assumed = Assumed {
                duration: self.duration,
                names: objects.names.clone(),
            };
            estimate_starts(client, jobs, &assumed, tell).await?;
            (explained.start, explained.no_estimate) = (job.start.take(), job.no_estimate.take());
        }
        let look = Look::of(self.view.output, &explained, |_| {
            text(&explained, Timestamp::now())
        })?;
        Ok(look.but_for("/explanation", "taken"))
    }

    /// An object that is not queued: why not, by its gates.
    async fn without_job(
        &self,
        client: &Client,
        namespace: &str,
        Named { word, kind, name }: Named<'_>,
        group: Option<String>,
        objects: &Objects,
        tell: &mut Tell<'_>,
    ) -> Result<Look, LiveError> {
        let of_group = match &group {
            None if kind == POD_GROUP => Some(name),
            group => group.as_deref(),
        };
        let mut uids: Vec<String> = Vec::new();
        if let Some(group) = of_group {
            uids.extend(objects.members_of(group));
        }
        if kind != POD_GROUP {
            let served = Served::ask(client).await?;
            let resource = served.named(word)?;
            let api = resource.objects(client, Some(namespace));
            let object = answer("read the object", api.get(name)).await?;
            if let Some((mut explained, held)) =
                Explained::gated(&object.metadata, &resource.api, &objects.names)
            {
                let read = (&resource, &object);
                gated::add(client, &served, read, &mut explained, tell).await?;
                return Look::of(self.view.output, &explained, |_| {
                    gated_text(&explained, &held)
                });
            }
            uids.extend(object.uid());
        }
        let whom = group.map_or_else(
            || "it".to_owned(),
            |group| format!("its pod group {group:?}"),
        );
        // Why there is none, Sluice may have told by an event: the group lacks pods, a class is missing.
        let told = last_told(client, namespace, uids).await;
        let told = or_note(LAST_TOLD, told, tell)?;
        let told = told.map_or_else(String::new, |told| format!("; Sluice last told: {told}"));
        Err(LiveError::NotQueued(format!(
            "{kind} {name:?} is not queued: Sluice has no Workload for {whom} in namespace {namespace}{told}"
        )))
    }
}
