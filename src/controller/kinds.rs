//! The JobKinds and how each of them stands. Each has a task of its own that looks for its kind and
//! watches it (`kind_task.rs`), so that a broken one slows no other. One that is deleted is kept for what
//! still runs (`retiring.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::ApiResource;
use sluice_crds::{JobKind, JobKindStatus};
use sluice_kinds::CompiledKind;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::QueueLabels;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{info, warn};

use super::Controller;
use super::kind_task::{News, Report, Task};
use super::observe::Seen;
use super::standing::{MISMATCH, Standing, TAKEN, unavailable};
use crate::client::Clients;
use crate::hooks::{Reach, Rule, Rules, Wanted};
use crate::metrics::Metrics;
use crate::published::OpenApi;
use crate::watch::{Observation, Source};
use crate::world::additions::PodAdditions;
use crate::world::cluster::Kept;
use crate::world::job::JobReader;

/// How long the start waits for the first list of a kind.
const PATIENCE: Duration = Duration::from_secs(30);
/// Reports that may wait.
const REPORTS_MAX: usize = 64;

/// All JobKinds.
pub struct Kinds {
    clients: Clients,
    published: Arc<OpenApi>,
    observations: mpsc::Sender<Observation<Seen>>,
    metrics: Arc<Metrics>,
    reading: Reading,
    rules: Rules,
    entries: BTreeMap<Arc<str>, Entry>,
    lives: u64,
    may_start: bool,
    sender: mpsc::Sender<Report>,
    receiver: mpsc::Receiver<Report>,
}

/// What objects are read with besides their JobKind.
pub struct Reading {
    /// The labels that name a queue.
    pub queue_labels: QueueLabels,
    /// The names of the queue gate.
    pub queue_gates: QueueGates,
    /// What namespaces and RuntimeClasses add to pods.
    pub additions: PodAdditions,
}

struct Entry {
    created: Option<Timestamp>,
    kept: Kept<JobKindStatus>,
    spec: sluice_crds::JobKindSpec,
    compiled: Option<Arc<CompiledKind>>,
    resource: Option<ApiResource>,
    /// Which rule the webhooks are to have for it.
    rule: Rule,
    standing: Standing,
    /// Why it does not fit the schema that is published by now, while its objects are watched.
    misfit: Option<String>,
    /// Whether what is known of its objects was read by this JobKind as it is.
    has_listed: bool,
    /// Whether it is deleted, and kept for objects that hold quota.
    is_retiring: bool,
    life: u64,
    since: Instant,
    task: Option<AbortHandle>,
}

impl Kinds {
    /// No JobKinds.
    pub fn new(
        clients: Clients,
        observations: mpsc::Sender<Observation<Seen>>,
        metrics: Arc<Metrics>,
        reading: Reading,
        rules: Rules,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(REPORTS_MAX);
        Self {
            published: Arc::new(OpenApi::new(clients.read.clone())),
            clients,
            observations,
            metrics,
            reading,
            rules,
            entries: BTreeMap::new(),
            lives: 0,
            may_start: false,
            sender,
            receiver,
        }
    }

    /// The names of all JobKinds that there are.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let entries = self.entries.iter().filter(|(_, entry)| !entry.is_retiring);
        entries.map(|(name, _)| name)
    }

    /// The names of those that are deleted and kept for objects that hold quota.
    pub fn retiring(&self) -> Vec<Arc<str>> {
        let entries = self.entries.iter().filter(|(_, entry)| entry.is_retiring);
        entries.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the JobKind is deleted and kept for objects that hold quota.
    pub fn is_retiring(&self, name: &str) -> bool {
        self.entries
            .get(name)
            .is_some_and(|entry| entry.is_retiring)
    }

    /// The JobKind, ready to read objects.
    pub fn compiled(&self, name: &str) -> Option<Arc<CompiledKind>> {
        self.entries.get(name)?.compiled.clone()
    }

    /// Reads the JobKind's objects.
    pub fn reader(&self, name: &str) -> Option<JobReader> {
        let (name, entry) = self.entries.get_key_value(name)?;
        Some(JobReader {
            name: name.clone(),
            kind: entry.compiled.clone()?,
            queue_labels: self.reading.queue_labels.clone(),
            additions: self.reading.additions.clone(),
        })
    }

    /// Whether what is known of the JobKind's objects was read by the JobKind as it is.
    pub fn has_listed(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.has_listed)
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

    /// The resource of this group and kind, as it was when it was last served.
    pub fn last_resource(&self, (group, kind): &(String, String)) -> Option<ApiResource> {
        let of_kind = |entry: &&Entry| entry.spec.group == *group && entry.spec.kind == *kind;
        let mut entries = self.entries.values().filter(of_kind);
        entries.find_map(|entry| entry.resource.clone())
    }

    /// Whether objects of this JobKind may be let go: all are known, and it fits them.
    pub fn is_listed(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| {
            entry.standing == Standing::Listed && entry.misfit.is_none() && !entry.is_retiring
        })
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
    pub fn standings(&self) -> impl Iterator<Item = (&Arc<str>, &Kept<JobKindStatus>, Standing)> {
        let entries = self.entries.iter().filter(|(_, entry)| !entry.is_retiring);
        entries.map(|(name, entry)| {
            let standing = match (&entry.standing, &entry.misfit) {
                (Standing::Listed, Some(misfit)) => unavailable(
                    MISMATCH,
                    format!("{misfit}; nothing is admitted until this is mended"),
                ),
                (standing, _) => standing.clone(),
            };
            (name, &entry.kept, standing)
        })
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
        let entries = self.entries.iter().filter(|(_, entry)| !entry.is_retiring);
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
            entry.has_listed = true;
        }
    }

    /// The next report of a kind's task.
    pub async fn next_report(&mut self) -> Option<Report> {
        self.receiver.recv().await
    }

    /// Begins to watch: what jobs are judged by is known.
    pub fn start_all(&mut self) {
        // Of two for one kind the older one counts, in whatever order they were listed: a start must not
        // read objects by another one than before.
        let all = std::mem::take(&mut self.entries);
        self.put_again(all.into_iter().collect());
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
            && !entry.is_retiring
        {
            entry.kept = kept(entry.kept.broken.take());
            return false;
        }
        self.remove(&name);
        self.lives += 1;
        let mut entry = Entry {
            created: object.metadata.creation_timestamp.as_ref().map(|at| at.0),
            kept: kept(None),
            spec: object.spec.clone(),
            compiled: None,
            resource: None,
            rule: Rule::None,
            standing: Standing::Starting,
            misfit: None,
            has_listed: false,
            is_retiring: false,
            life: self.lives,
            since: Instant::now(),
            task: None,
        };
        match CompiledKind::compile(object) {
            Ok(compiled) if self.is_read(&compiled.group, &compiled.kind) => {
                entry.standing = unavailable(
                    TAKEN,
                    format!(
                        "Another JobKind reads {} of group {:?}; delete one of them",
                        compiled.kind, compiled.group
                    ),
                );
            }
            Ok(compiled) => {
                let compiled = compiled.with_queue_gates(self.reading.queue_gates.clone());
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

    /// Lists the objects again that may have the pods of this JobKind's objects: nobody has known yet
    /// what they are.
    fn list_children(&mut self, name: &str) {
        let owner = self.compiled(name);
        let Some(owner) = owner.filter(|owner| self.may_start && owner.has_pods_of_children())
        else {
            return;
        };
        let makes = |entry: &Entry| owner.makes(&entry.spec.group, &entry.spec.kind);
        let children = self.entries.iter().filter(|(_, entry)| makes(entry));
        let children: Vec<_> = children.map(|(name, _)| name.clone()).collect();
        for name in children {
            self.lives += 1;
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.life = self.lives;
                if let Some(task) = entry.task.take() {
                    task.abort();
                }
            }
            self.start(&name);
        }
    }

    /// Whether a JobKind reads objects of this group and kind.
    pub fn is_read(&self, group: &str, kind: &str) -> bool {
        self.entries.values().any(|entry| {
            entry.spec.group == group
                && entry.spec.kind == kind
                && entry.compiled.is_some()
                && !entry.is_retiring
        })
    }

    /// JobKinds that stood back behind another one that is gone now.
    fn revive(&mut self) {
        let stands_back = |entry: &Entry| matches!(&entry.standing, Standing::Unavailable { reason, .. } if *reason == TAKEN);
        let waiting = self.entries.extract_if(.., |_, entry| stands_back(entry));
        let waiting = waiting.collect();
        self.put_again(waiting);
    }

    /// Takes in JobKinds anew, the oldest first.
    fn put_again(&mut self, mut all: Vec<(Arc<str>, Entry)>) {
        all.sort_by(|(a, one), (b, other)| (one.created, a).cmp(&(other.created, b)));
        for (name, entry) in all {
            let mut object = JobKind::new(&name, entry.spec);
            object.metadata.creation_timestamp = entry.created.map(Time);
            object.metadata.generation = entry.kept.generation;
            object.status = Some(entry.kept.status);
            self.put(&object);
        }
    }

    /// Keeps a JobKind that is deleted for what still runs. Returns whether it was there.
    pub(super) fn retire(&mut self, name: &str) -> bool {
        let entry = self.entries.get_mut(name);
        let Some(entry) = entry.filter(|entry| !entry.is_retiring) else {
            return false;
        };
        entry.is_retiring = true;
        true
    }

    /// Those that retire and whose kind another JobKind reads by now.
    pub(super) fn replaced(&self) -> Vec<Arc<str>> {
        let mut replaced = self.retiring();
        replaced.retain(|name| {
            let spec = self.entries.get(name).map(|entry| &entry.spec);
            spec.is_some_and(|spec| self.is_read(&spec.group, &spec.kind))
        });
        replaced
    }

    /// Ends the watch of a JobKind and forgets it.
    pub(super) fn remove(&mut self, name: &str) {
        let Some(entry) = self.entries.remove(name) else {
            return;
        };
        if let Some(task) = entry.task {
            task.abort();
        }
        if let Some(resource) = entry.resource {
            let mut others = self.entries.values().filter_map(|e| e.resource.as_ref());
            if !others.any(|other| other.plural == resource.plural) {
                self.metrics.forget_watch(&resource.plural);
            }
        }
    }

    fn start(&mut self, name: &Arc<str>) {
        let Some(reader) = self.reader(name) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let task = Task {
            name: name.clone(),
            life: entry.life,
            kind: reader.kind.clone(),
            client: self.clients.read.clone(),
            published: self.published.clone(),
            reports: self.sender.clone(),
            reader,
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
                    let name = kind.metadata.name.as_deref().unwrap_or_default();
                    self.kinds.list_children(name);
                    self.kinds_changed();
                    self.review_kind(name);
                }
            }
            Err(error) => warn!(%error, "JobKind can't be read and is passed over"),
        }
    }

    /// A JobKind is there, is another one, or is gone: others may have stood back behind it.
    pub(super) fn kinds_changed(&mut self) {
        self.kinds.revive();
        for name in self.kinds.replaced() {
            self.forget_kind(&name);
        }
        self.kinds.publish_rules();
        self.forget_listings();
    }

    /// Drops what unfinished lists of ended watches have shown.
    pub(super) fn forget_listings(&mut self) {
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
        match report.news {
            // It stands as it did until its objects are listed: finding it is not reading it.
            News::Found { resource, managed } => {
                entry.resource = Some(resource);
                entry.rule = Rule::For(managed);
                entry.misfit = None;
            }
            News::Schema { misfit } => {
                info!(jobkind = %report.name, ?misfit, "the published schema has changed");
                entry.misfit = misfit;
            }
            News::Unavailable(standing) if entry.standing == standing => return,
            News::Unavailable(standing) => {
                info!(jobkind = %report.name, ?standing, "JobKind can't be watched");
                entry.rule = standing.rule(&entry.rule);
                entry.standing = standing;
            }
        }
        self.kinds.publish_rules();
        self.review_kind(&report.name);
    }
}
