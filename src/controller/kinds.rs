//! The life of JobKinds: compile, find the resource, hold the paths against its schema, watch its
//! objects; try again while it isn't there; stop when the JobKind goes. Each kind has a task of its
//! own, so that a broken one slows no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, GroupVersionKind};
use kube::discovery::{self, ApiCapabilities, Scope};
use kube::{Client, Error};
use sluice_crds::{JobKind, JobKindStatus};
use sluice_kinds::pod::QueueGates;
use sluice_kinds::problem::summarize;
use sluice_kinds::{CompiledKind, Problem, schema};
use sluice_webhooks::manifests::ManagedResource;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::Controller;
use crate::client::Clients;
use crate::hooks::{Reach, Rule, Rules, Wanted};
use crate::metrics::Metrics;
use crate::watch::{self, Observation, Source};
use crate::world::cluster::Kept;

/// How often a kind that isn't served is looked for.
const RETRY: Duration = Duration::from_secs(3);
/// Longest time for one look.
const DEADLINE: Duration = Duration::from_secs(10);
/// The reason of a JobKind whose kind another one reads already.
const TAKEN: &str = "AlreadyManaged";
/// The reason of a JobKind whose objects Sluice may not read.
const FORBIDDEN: &str = "Forbidden";
/// The reason of a JobKind about which the API server says nothing for now.
const UNREACHABLE: &str = "Unreachable";
/// How long the start waits for the first list of a kind.
const PATIENCE: Duration = Duration::from_secs(30);
/// Reports that may wait.
const REPORTS_MAX: usize = 64;

/// All JobKinds.
pub struct Kinds {
    clients: Clients,
    observations: mpsc::Sender<Observation>,
    metrics: Arc<Metrics>,
    queue_gates: QueueGates,
    rules: Rules,
    entries: BTreeMap<Arc<str>, Entry>,
    lives: u64,
    may_start: bool,
    sender: mpsc::Sender<Report>,
    receiver: mpsc::Receiver<Report>,
}

struct Entry {
    kept: Kept<JobKindStatus>,
    spec: sluice_crds::JobKindSpec,
    compiled: Option<Arc<CompiledKind>>,
    resource: Option<ApiResource>,
    /// Which rule the webhooks are to have for it.
    rule: Rule,
    standing: Standing,
    life: u64,
    since: Instant,
    task: Option<AbortHandle>,
}

/// How a JobKind stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It has not been looked for, or its first list is under way.
    Starting,
    /// Its objects are watched and all are known.
    Listed,
    /// Its objects can't be watched.
    Unavailable {
        /// One CamelCase word of a closed set.
        reason: &'static str,
        /// A sentence for people.
        message: String,
    },
}

impl Standing {
    /// The rule of a JobKind that stands so and had the rule `before`. Objects that can't be read now
    /// are held all the same; those of which there are none, or that don't fit, are not.
    fn rule(&self, before: &Rule) -> Rule {
        match self {
            Self::Starting | Self::Listed => before.clone(),
            Self::Unavailable { reason, .. } if [FORBIDDEN, UNREACHABLE].contains(reason) => {
                before.clone()
            }
            Self::Unavailable { .. } => Rule::None,
        }
    }
}

/// What the task of a kind has found out.
pub struct Report {
    name: Arc<str>,
    life: u64,
    found: Result<Found, Standing>,
}

/// What discovery says of a kind.
struct Found {
    resource: ApiResource,
    managed: ManagedResource,
}

impl Kinds {
    /// No JobKinds.
    pub fn new(
        clients: Clients,
        observations: mpsc::Sender<Observation>,
        metrics: Arc<Metrics>,
        queue_gates: QueueGates,
        rules: Rules,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(REPORTS_MAX);
        Self {
            clients,
            observations,
            metrics,
            queue_gates,
            rules,
            entries: BTreeMap::new(),
            lives: 0,
            may_start: false,
            sender,
            receiver,
        }
    }

    /// The names of all JobKinds.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.entries.keys()
    }

    /// The JobKind, ready to read objects.
    pub fn compiled(&self, name: &str) -> Option<Arc<CompiledKind>> {
        self.entries.get(name)?.compiled.clone()
    }

    /// The JobKind that declares this group and kind.
    pub fn declared(&self, group: &str, kind: &str) -> Option<Arc<CompiledKind>> {
        let mut compiled = self.entries.values().filter_map(|e| e.compiled.as_ref());
        let found = compiled.find(|declared| declared.group == group && declared.kind == kind);
        found.cloned()
    }

    /// The resource of the JobKind's objects.
    pub fn resource(&self, name: &str) -> Option<ApiResource> {
        self.entries.get(name)?.resource.clone()
    }

    /// Whether observations of this life of a watch still count.
    pub fn is_current(&self, name: &str, life: u64) -> bool {
        self.entries
            .get(name)
            .is_some_and(|entry| entry.life == life)
    }

    /// Which life of its watch the JobKind is in.
    pub fn life(&self, name: &str) -> Option<u64> {
        self.entries.get(name).map(|entry| entry.life)
    }

    /// The resource of this group and kind, if all its objects are known.
    pub fn listed_resource(&self, (group, kind): &(String, String)) -> Option<ApiResource> {
        let mut entries = self.entries.values();
        let entry = entries.find(|entry| {
            entry.spec.group == *group
                && entry.spec.kind == *kind
                && entry.standing == Standing::Listed
        })?;
        entry.resource.clone()
    }

    /// Whether all objects of this JobKind are known and watched.
    pub fn is_listed(&self, name: &str) -> bool {
        self.entries
            .get(name)
            .is_some_and(|entry| entry.standing == Standing::Listed)
    }

    /// Whether no JobKind is about to show objects for the first time. One that takes too long is
    /// not waited for: it must not hold up the others.
    pub fn all_settled(&self) -> bool {
        self.may_start
            && self.entries.values().all(|entry| {
                entry.standing != Standing::Starting || PATIENCE < entry.since.elapsed()
            })
    }

    /// What is kept for the status of each JobKind, and how it stands.
    pub fn standings(&self) -> impl Iterator<Item = (&Arc<str>, &Kept<JobKindStatus>, &Standing)> {
        self.entries
            .iter()
            .map(|(name, entry)| (name, &entry.kept, &entry.standing))
    }

    /// Whether the API server asks Sluice about objects of this JobKind.
    pub fn reach(&self, name: &str) -> Reach {
        self.rules.reach(name)
    }

    /// Says which rules the webhooks are to have.
    fn publish_rules(&self) {
        if !self.may_start {
            return;
        }
        let wanted = |entry: &Entry| Wanted {
            group: entry.spec.group.clone(),
            kind: entry.spec.kind.clone(),
            rule: entry.rule.clone(),
        };
        let entries = self.entries.iter();
        self.rules.want(
            entries
                .map(|(name, entry)| (name.clone(), wanted(entry)))
                .collect(),
        );
    }

    /// Notes that the first list of a kind is complete.
    pub fn listed(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.standing = Standing::Listed;
        }
    }

    /// The next report of a kind's task.
    pub async fn next_report(&mut self) -> Option<Report> {
        self.receiver.recv().await
    }

    /// Begins to watch: what jobs are judged by is known.
    pub fn start_all(&mut self) {
        self.may_start = true;
        let names: Vec<_> = self.entries.keys().cloned().collect();
        for name in names {
            self.start(&name);
        }
        self.publish_rules();
    }

    /// Takes in a JobKind. Returns whether objects have to be read anew.
    fn put(&mut self, object: &JobKind) -> bool {
        let name: Arc<str> = object.metadata.name.as_deref().unwrap_or_default().into();
        let kept = |broken| Kept {
            generation: object.metadata.generation,
            status: object.status.clone().unwrap_or_default(),
            broken,
        };
        if let Some(entry) = self.entries.get_mut(&name)
            && entry.spec == object.spec
        {
            entry.kept = kept(entry.kept.broken.take());
            return false;
        }
        self.remove(&name);
        self.lives += 1;
        let mut entry = Entry {
            kept: kept(None),
            spec: object.spec.clone(),
            compiled: None,
            resource: None,
            rule: Rule::None,
            standing: Standing::Starting,
            life: self.lives,
            since: Instant::now(),
            task: None,
        };
        match CompiledKind::compile(object) {
            Ok(compiled) if self.is_taken(object) => {
                entry.standing = unavailable(
                    TAKEN,
                    format!(
                        "Another JobKind reads {} of group {:?}; delete one of them",
                        compiled.kind, compiled.group
                    ),
                );
            }
            Ok(compiled) => {
                let compiled = compiled.with_queue_gates(self.queue_gates.clone());
                entry.compiled = Some(Arc::new(compiled));
                entry.rule = Rule::Undecided;
            }
            Err(problems) => entry.standing = unavailable("Invalid", summarize(&problems)),
        }
        self.entries.insert(name.clone(), entry);
        if self.may_start {
            self.start(&name);
        }
        true
    }

    fn is_taken(&self, object: &JobKind) -> bool {
        self.entries.values().any(|entry| {
            entry.spec.group == object.spec.group
                && entry.spec.kind == object.spec.kind
                && entry.compiled.is_some()
        })
    }

    /// JobKinds that stood back behind another one that is gone now.
    fn revive(&mut self) {
        let waiting: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| {
                matches!(&entry.standing, Standing::Unavailable { reason, .. } if *reason == TAKEN)
            })
            .map(|(name, entry)| (name.clone(), entry.kept.clone(), entry.spec.clone()))
            .collect();
        for (name, kept, spec) in waiting {
            self.remove(&name);
            let mut object = JobKind::new(&name, spec);
            object.metadata.generation = kept.generation;
            object.status = Some(kept.status);
            self.put(&object);
        }
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(entry) = self.entries.remove(name) else {
            return false;
        };
        if let Some(task) = entry.task {
            task.abort();
        }
        true
    }

    fn start(&mut self, name: &Arc<str>) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let Some(compiled) = entry.compiled.clone() else {
            return;
        };
        let task = Task {
            name: name.clone(),
            life: entry.life,
            kind: compiled,
            client: self.clients.read.clone(),
            reports: self.sender.clone(),
        };
        let (observations, metrics) = (self.observations.clone(), self.metrics.clone());
        entry.task = Some(tokio::spawn(task.run(observations, metrics)).abort_handle());
    }
}

impl Controller {
    pub(super) fn job_kind_applied(&mut self, object: &kube::api::DynamicObject) {
        let parsed = serde_json::to_value(object).and_then(serde_json::from_value::<JobKind>);
        match parsed {
            Ok(kind) => {
                if self.kinds.put(&kind) {
                    self.kinds.revive();
                    self.kinds.publish_rules();
                    self.forget_listings();
                    self.review_kind(kind.metadata.name.as_deref().unwrap_or_default());
                }
            }
            Err(error) => warn!(%error, "JobKind can't be read and is passed over"),
        }
    }

    pub(super) fn job_kind_gone(&mut self, name: &Arc<str>) {
        if self.kinds.remove(name) {
            self.kinds.revive();
            self.kinds.publish_rules();
            self.forget_listings();
            // What is admitted stays charged: nobody can tell any more whether it has ended.
            info!(jobkind = %name, "JobKind is gone, its objects are not looked after any more");
            let keys: Vec<_> = self
                .world
                .jobs()
                .filter(|(key, _)| key.kind == *name)
                .map(|(key, _)| key.clone())
                .collect();
            for key in keys {
                if let Some(job) = self.world.remove_job(&key) {
                    self.told.remove(&job.uid);
                    self.sync_engine(&job.uid);
                }
            }
        }
    }

    /// Drops what unfinished lists of ended watches have shown.
    fn forget_listings(&mut self) {
        let kinds = &self.kinds;
        self.listings.retain(|source, _| match source {
            Source::Jobs(name, life) => kinds.is_current(name, *life),
            _ => true,
        });
    }

    pub(super) fn kind_report(&mut self, report: Report) {
        let Some(entry) = self.kinds.entries.get_mut(&report.name) else {
            return;
        };
        if entry.life != report.life {
            return;
        }
        match report.found {
            // It stands as it did until its objects are listed: finding it is not reading it.
            Ok(Found { resource, managed }) => {
                entry.resource = Some(resource);
                entry.rule = Rule::For(managed);
            }
            Err(standing) if entry.standing == standing => return,
            Err(standing) => {
                info!(jobkind = %report.name, ?standing, "JobKind can't be watched");
                entry.rule = standing.rule(&entry.rule);
                entry.standing = standing;
            }
        }
        self.kinds.publish_rules();
        self.review_kind(&report.name);
    }
}

/// Looks for the resource of a kind and watches it.
struct Task {
    name: Arc<str>,
    life: u64,
    kind: Arc<CompiledKind>,
    client: Client,
    reports: mpsc::Sender<Report>,
}

impl Task {
    async fn run(self, observations: mpsc::Sender<Observation>, metrics: Arc<Metrics>) {
        loop {
            let found = match timeout(DEADLINE, self.look()).await {
                Ok(found) => found,
                Err(_) => Err(unavailable(
                    UNREACHABLE,
                    "The API server did not answer; trying again".to_owned(),
                )),
            };
            let resource = found.as_ref().ok().map(|found| found.resource.clone());
            if !self.report(found).await {
                return;
            }
            if let Some(resource) = resource {
                let source = Source::Jobs(self.name.clone(), self.life);
                let (client, observations) = (self.client.clone(), observations.clone());
                let watch = watch::watch(client, resource, source, observations, metrics.clone());
                let Some(refusal) = watch.await else {
                    return;
                };
                let standing = self.not_found(&refusal);
                if !self.report(Err(standing)).await {
                    return;
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Returns whether anybody listens.
    async fn report(&self, found: Result<Found, Standing>) -> bool {
        let report = Report {
            name: self.name.clone(),
            life: self.life,
            found,
        };
        self.reports.send(report).await.is_ok()
    }

    async fn look(&self) -> Result<Found, Standing> {
        let CompiledKind {
            group,
            version,
            kind,
            ..
        } = &*self.kind;
        let wanted = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) = match discovery::pinned_kind(&self.client, &wanted).await {
            Ok(found) => found,
            Err(error) => return Err(self.not_found(&error)),
        };
        if capabilities.scope != Scope::Namespaced {
            let message = format!("{kind} is not namespaced; only namespaced kinds can be managed");
            return Err(unavailable("NotNamespaced", message));
        }
        let problems = self.check_schema().await?;
        if problems.is_empty() {
            let managed = self.managed(&resource, &capabilities);
            return Ok(Found { resource, managed });
        }
        Err(unavailable("SchemaMismatch", summarize(&problems)))
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
            has_suspend: self.kind.suspend_path().is_some(),
        }
    }

    async fn check_schema(&self) -> Result<Vec<Problem>, Standing> {
        let CompiledKind { group, version, .. } = &*self.kind;
        let path = match group.as_str() {
            "" => format!("/openapi/v3/api/{version}"),
            group => format!("/openapi/v3/apis/{group}/{version}"),
        };
        let unreachable = |error: String| {
            unavailable(
                UNREACHABLE,
                format!("The schema can't be read: {error}; trying again"),
            )
        };
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|e| unreachable(e.to_string()))?;
        let document = self
            .client
            .request(request)
            .await
            .map_err(|e| unreachable(e.to_string()))?;
        Ok(schema::check(&self.kind, &document))
    }

    fn not_found(&self, error: &Error) -> Standing {
        let CompiledKind {
            group,
            version,
            kind,
            ..
        } = &*self.kind;
        match error {
            Error::Api(status) if status.code == 403 => unavailable(
                FORBIDDEN,
                format!(
                    "{}; give Sluice the right by a ClusterRole with the label sluice.dev/aggregate-to-controller: \"true\"",
                    status.message
                ),
            ),
            Error::Api(status) if status.code != 404 => {
                unavailable(UNREACHABLE, format!("{}; trying again", status.message))
            }
            Error::Api(_) | Error::Discovery(_) => unavailable(
                "KindNotServed",
                format!(
                    "{kind} is not served in {group}/{version}; install its CRD, or correct spec.version"
                ),
            ),
            other => unavailable(UNREACHABLE, format!("{other}; trying again")),
        }
    }
}

fn unavailable(reason: &'static str, message: String) -> Standing {
    Standing::Unavailable { reason, message }
}
