//! The task of one JobKind: find the resource, hold the paths against its published schema, watch its
//! objects and read them; try again while it isn't there. What costs much to read is read here, where
//! it holds up no other kind.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, GroupVersionKind};
use kube::discovery::{self, ApiCapabilities, Scope};
use kube::{Client, Error};
use serde_json::Value;
use sluice_kinds::problem::summarize;
use sluice_kinds::{CompiledKind, schema};
use sluice_webhooks::manifests::ManagedResource;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::retry::{LOOK_DEADLINE, Retry};
use crate::api::lookup;
use crate::api::openapi::{self, OpenApi, SchemaError};
use crate::api::watch::{self, Observation};
use crate::cache::Source;
use crate::cache::job::JobReader;
use crate::controller::kinds::watch_state::{UnavailableReason, WatchState, unavailable};
use crate::controller::kinds::{KindReport, News};
use crate::controller::observe::Seen;
use crate::process::answer::{ApiAnswer, words};
use crate::process::metrics::Metrics;

/// How often it is looked whether the published schema is another one.
const RECHECK: Duration = Duration::from_secs(30);

/// Looks for the resource of a kind and watches it.
pub struct Task {
    /// The name of the JobKind.
    pub name: Arc<str>,
    /// Which life of its watch this is.
    pub life: u64,
    /// The JobKind.
    pub kind: Arc<CompiledKind>,
    /// Asks the API server.
    pub client: Client,
    /// Reads schemas, one at a time for all kinds.
    pub published: Arc<OpenApi>,
    /// Hears what is found out.
    pub reports: mpsc::Sender<KindReport>,
    /// Reads the objects.
    pub reader: JobReader,
}

/// A kind that can be watched.
struct Found {
    resource: ApiResource,
    managed: ManagedResource,
    /// Where its schema is published. Another schema has another address.
    schema: String,
}

impl Task {
    /// Watches until nobody listens any more.
    pub async fn run(self, observations: mpsc::Sender<Observation<Seen>>, metrics: Arc<Metrics>) {
        let mut retry = Retry::new();
        loop {
            let refused = match self.look_in_time().await {
                Err(news) => news,
                Ok(found) => {
                    let resource = Box::new(found.resource.clone());
                    let managed = Box::new(found.managed);
                    if !self.report(News::Found { resource, managed }).await {
                        return;
                    }
                    let watch = self.watch(found.resource, observations.clone(), metrics.clone());
                    let refusal = tokio::select! {
                        biased;
                        refusal = watch => refusal,
                        () = self.keep_checking(found.schema) => None,
                    };
                    let Some(refusal) = refusal else {
                        return;
                    };
                    self.refused(&refusal).await
                }
            };
            if !self.report(refused).await {
                return;
            }
            retry.wait().await;
        }
    }

    async fn watch(
        &self,
        resource: ApiResource,
        observations: mpsc::Sender<Observation<Seen>>,
        metrics: Arc<Metrics>,
    ) -> Option<Error> {
        let source = Source::Jobs(self.name.clone(), self.life);
        let reader = self.reader.clone();
        let read = move |object| {
            // An expression may take its time with an object: others are not to wait for it.
            let (key, record) = aside(|| reader.read(object));
            Seen::Job(key, Box::new(record))
        };
        let client = self.client.clone();
        watch::watch(client, resource, source, read, observations, metrics).await
    }

    /// Returns whether anybody listens.
    async fn report(&self, news: News) -> bool {
        let report = KindReport {
            name: self.name.clone(),
            life: self.life,
            news,
        };
        self.reports.send(report).await.is_ok()
    }

    async fn look_in_time(&self) -> Result<Found, News> {
        timeout(LOOK_DEADLINE, self.look())
            .await
            .unwrap_or_else(|_| {
                let message = "The API server did not answer; trying again".to_owned();
                Err(unavailable(UnavailableReason::Unreachable, message).into())
            })
    }

    async fn look(&self) -> Result<Found, News> {
        let CompiledKind {
            group,
            version,
            kind,
            ..
        } = &*self.kind;
        let wanted = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) = match discovery::pinned_kind(&self.client, &wanted).await {
            Ok(found) => found,
            Err(error) => return Err(self.refused(&error).await),
        };
        if capabilities.scope != Scope::Namespaced {
            return Err(self.not_namespaced());
        }
        let unread = |error: SchemaError| {
            let message = format!("The schema can't be read: {error}; trying again");
            unavailable(UnavailableReason::Unreachable, message)
        };
        let schema = self.schema_address().await.map_err(unread)?;
        if let Some(misfit) = self.check_schema(&schema).await.map_err(unread)? {
            return Err(unavailable(UnavailableReason::SchemaMismatch, misfit).into());
        }
        Ok(Found {
            managed: self.managed(&resource, &capabilities),
            resource,
            schema,
        })
    }

    /// Looks now and then whether another schema is published, and reports what it means. Ends when
    /// nobody listens.
    async fn keep_checking(&self, mut known: String) {
        loop {
            sleep(RECHECK).await;
            // What can't be read now is read the next time; that the kind is gone its watch will tell.
            let Ok(Ok(address)) = timeout(LOOK_DEADLINE, self.schema_address()).await else {
                continue;
            };
            if address == known {
                continue;
            }
            if let Ok(Ok(misfit)) = timeout(LOOK_DEADLINE, self.check_schema(&address)).await {
                known = address;
                if !self.report(News::Schema { misfit }).await {
                    return;
                }
            }
        }
    }

    /// Where the schema of the kind's group and version is published: with a digest of it.
    async fn schema_address(&self) -> Result<String, SchemaError> {
        let CompiledKind { group, version, .. } = &*self.kind;
        let place = openapi::place(group, version);
        let index = self.get(openapi::INDEX).await?;
        let address = index
            .get("paths")
            .and_then(|paths| paths.get(&place)?.get("serverRelativeURL")?.as_str());
        address
            .map(str::to_owned)
            .ok_or(SchemaError::NotListed(place))
    }

    /// What of the JobKind does not fit the schema published there.
    async fn check_schema(&self, address: &str) -> Result<Option<String>, SchemaError> {
        let document = self.get(address).await?;
        let problems = schema::check(&self.kind, &document);
        Ok((!problems.is_empty()).then(|| summarize(&problems)))
    }

    async fn get(&self, address: &str) -> Result<Value, SchemaError> {
        let found = self.published.get(address).await?;
        found.ok_or_else(|| SchemaError::NotThere(address.to_owned()))
    }

    /// What the webhooks need to know of the resource. Of its subresources `status` can change labels,
    /// annotations or the spec; a `scale` carries no labels, so that nobody could tell what it is about.
    fn managed(&self, resource: &ApiResource, capabilities: &ApiCapabilities) -> ManagedResource {
        let below = capabilities.subresources.iter();
        ManagedResource {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            subresources: below
                .map(|(below, _)| below.plural.clone())
                .filter(|name| name == "status")
                .collect(),
            pod_metadata: self.kind.pod_metadata(),
        }
    }

    /// Why the kind can't be watched.
    async fn refused(&self, error: &Error) -> News {
        let told = words(error);
        let state = match ApiAnswer::of(error) {
            ApiAnswer::NotFound => return self.not_served().await,
            ApiAnswer::Forbidden => unavailable(
                UnavailableReason::Forbidden,
                format!(
                    "{told}; give Sluice the right by a ClusterRole with the label sluice.dev/aggregate-to-controller: \"true\""
                ),
            ),
            ApiAnswer::Conflict
            | ApiAnswer::Throttled
            | ApiAnswer::Refused
            | ApiAnswer::Unknown => unavailable(
                UnavailableReason::Unreachable,
                format!("{told}; trying again"),
            ),
        };
        state.into()
    }

    async fn not_served(&self) -> News {
        let CompiledKind {
            group,
            version,
            kind,
            ..
        } = &*self.kind;
        let not_here = format!("{kind} is not served in {group}/{version}");
        let others = match lookup::served(&self.client, group, kind).await {
            Ok(others) => others,
            Err(error) => {
                let message =
                    format!("{not_here}, and the group can't be read: {error}; trying again");
                return unavailable(UnavailableReason::Unreachable, message).into();
            }
        };
        let Some((resource, capabilities)) = others.first() else {
            let message = format!("{not_here}; install its CRD, or correct spec.version");
            return WatchState::Unserved { message }.into();
        };
        if capabilities.scope != Scope::Namespaced {
            return self.not_namespaced();
        }
        let versions: Vec<_> = others.iter().map(|(of, _)| of.version.as_str()).collect();
        let versions = versions.join(", ");
        // Asked about one version, the webhooks are asked about all: new objects are held meanwhile, or refused.
        News::OtherVersion {
            managed: Box::new(self.managed(resource, capabilities)),
            message: format!("{not_here}, but in {versions}: correct spec.version"),
        }
    }

    fn not_namespaced(&self) -> News {
        let kind = &self.kind.kind;
        let message = format!("{kind} is not namespaced; only namespaced kinds can be managed");
        unavailable(UnavailableReason::NotNamespaced, message).into()
    }
}

/// Does something that takes its time, without holding up other tasks where there are threads for them.
pub(super) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => work(),
        _ => tokio::task::block_in_place(work),
    }
}
