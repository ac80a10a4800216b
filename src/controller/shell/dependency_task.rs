//! The task of one kind that gates wait for: find its resource, watch its objects, and judge each by the rules of the
//! Gates; try again while it isn't there, or may not be read. What is known of the objects is in
//! `crate::cache::gates::dependencies`.

use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject};
use kube::discovery::{self, Scope};
use kube::{Client, Error};
use serde_json::Value;
use sluice_gates::{DependencyRule, GroupKind};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::kind_task::aside;
use super::retry::{LOOK_DEADLINE, Retry};
use crate::api::watch::{self, Observation};
use crate::cache::Source;
use crate::cache::gates::dependencies::{DependencyNews, DependencyReport};
use crate::cache::gates::trouble::{Trouble, TroubleReason};
use crate::controller::observe::Seen;
use crate::process::answer::ApiAnswer;
use crate::process::metrics::Metrics;

/// Looks for the resource of a kind and watches it.
pub struct DependencyTask {
    /// The kind.
    pub kind: GroupKind,
    /// Which life of its watch this is.
    pub life: u64,
    /// What each object is judged by.
    pub rules: Arc<[Arc<DependencyRule>]>,
    /// Asks the API server.
    pub client: Client,
    /// Hears what is found out.
    pub reports: mpsc::Sender<DependencyReport>,
}

impl DependencyTask {
    /// Watches until nobody listens any more.
    pub async fn run(self, observations: mpsc::Sender<Observation<Seen>>, metrics: Arc<Metrics>) {
        let mut retry = Retry::new();
        loop {
            let trouble = match self.look().await {
                Err(trouble) => trouble,
                Ok((resource, is_namespaced)) => {
                    if !self.report(DependencyNews::Found { is_namespaced }).await {
                        return;
                    }
                    let watch = self.watch(&resource, observations.clone(), metrics.clone());
                    let Some(refusal) = watch.await else {
                        return;
                    };
                    self.trouble(&refusal, Some(&resource))
                }
            };
            if !self.report(DependencyNews::Refused(trouble)).await {
                return;
            }
            retry.wait().await;
        }
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        observations: mpsc::Sender<Observation<Seen>>,
        metrics: Arc<Metrics>,
    ) -> Option<Error> {
        let source = Source::Dependencies(self.kind.clone(), self.life);
        let rules = self.rules.clone();
        // An expression may take its time with an object: others are not to wait for it.
        let read = move |object| aside(|| judge(object, &rules));
        let (client, resource) = (self.client.clone(), resource.clone());
        watch::watch(client, resource, source, read, observations, metrics).await
    }

    /// Returns whether anybody listens.
    async fn report(&self, news: DependencyNews) -> bool {
        let report = DependencyReport {
            kind: self.kind.clone(),
            life: self.life,
            news,
        };
        self.reports.send(report).await.is_ok()
    }

    /// The resource of the kind in the version that the API server prefers, and whether it has namespaces.
    async fn look(&self) -> Result<(ApiResource, bool), Trouble> {
        let GroupKind { group, kind } = &self.kind;
        let found = match timeout(LOOK_DEADLINE, discovery::group(&self.client, group)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(self.trouble(&error, None)),
            Err(_) => {
                return Err(Trouble {
                    reason: TroubleReason::Unreachable,
                    message: "The API server did not answer; trying again".to_owned(),
                });
            }
        };
        let versions: Vec<_> = found.versions().collect();
        let preferred = found.preferred_version_or_latest();
        let first = versions.iter().find(|version| **version == preferred);
        let in_order = first.into_iter().chain(&versions);
        let mut resources = in_order.flat_map(|version| found.versioned_resources(version));
        let found = resources.find(|(resource, _)| *resource.kind == **kind);
        let (resource, capabilities) = found.ok_or_else(|| self.not_served())?;
        Ok((resource, capabilities.scope == Scope::Namespaced))
    }

    /// Why the kind can't be watched.
    fn trouble(&self, error: &Error, resource: Option<&ApiResource>) -> Trouble {
        match (ApiAnswer::of(error), resource) {
            (ApiAnswer::Forbidden, Some(resource)) => Trouble {
                reason: TroubleReason::Forbidden,
                message: format!(
                    "{} can't be watched: add a ClusterRole with the label sluice.dev/aggregate-to-controller: \"true\" and the rule {{apiGroups: [{:?}], resources: [{}], verbs: [list, watch]}}",
                    self.kind, resource.group, resource.plural
                ),
            },
            (ApiAnswer::NotFound, _) => self.not_served(),
            _ => Trouble {
                reason: TroubleReason::Unreachable,
                message: format!("{} can't be watched: {error}; trying again", self.kind),
            },
        }
    }

    fn not_served(&self) -> Trouble {
        Trouble {
            reason: TroubleReason::NotServed,
            message: format!(
                "{} is not served; install its CRD, or correct spec.after",
                self.kind
            ),
        }
    }
}

/// What the rules say of an object. Nothing else of it is kept.
fn judge(object: DynamicObject, rules: &[Arc<DependencyRule>]) -> Seen {
    let DynamicObject {
        mut metadata,
        mut data,
        ..
    } = object;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let place = (
        namespace.into(),
        metadata.name.as_deref().unwrap_or_default().into(),
    );
    // It is long, and says who wrote what.
    metadata.managed_fields = None;
    if let (Value::Object(fields), Ok(metadata)) = (&mut data, serde_json::to_value(metadata)) {
        fields.insert("metadata".to_owned(), metadata);
    }
    let outcomes = rules.iter().map(|rule| rule.judge(&data)).collect();
    Seen::Dependency { place, outcomes }
}
