//! `kubectl sluice gates lift`: from one object, or from all that carry the gate's label.

use clap::{Args, ValueEnum};
use futures::StreamExt as _;
use futures::stream;
use kube::Client;
use kube::api::ObjectMeta;
use sluice_crds::HELD_BY_LABEL_PREFIX;
use sluice_kinds::gates::Gate;

use super::lift_patch::{self, LiftOutcome};
use super::outcome::{EXIT_CODES, Ended, GatesError, gate};
use super::text::{self, LiftCounts};
use crate::cluster::{
    Cluster, ClusterError, Connection, DryRun, Namespaces, Resource, Served, Tell, Told, declared,
    object_name, pages,
};

/// Patches that are sent at the same time: more would only wait in the API server.
const PATCHES_MAX: usize = 8;

const DETAILS: &str = "\
Takes a gate out of the gate annotations of an object, and nothing else: other gates stay. It fails if the \
annotation has changed meanwhile, and is then tried once more. The API server decides whether you may: a gate \
with a Gate and lifting: Owners is lifted only by those with the RBAC verb lift on it.

Examples:
  # Lift a gate from a Job
  kubectl sluice gates lift acme.io/budget job/train -n team-blue

  # See whether you may, without doing it
  kubectl sluice gates lift acme.io/budget job/train -n team-blue --dry-run

  # Lift it from everything that it holds in a namespace, or everywhere
  kubectl sluice gates lift acme.io/budget --all -n team-blue
  kubectl sluice gates lift acme.io/budget --all -A";

/// Lift a gate from an object, or from all that it holds.
#[derive(Debug, Args)]
#[command(long_about = DETAILS, after_help = EXIT_CODES)]
pub struct Lift {
    /// The gate, or the name of its Gate: acme.io/budget or budget.acme.io.
    #[arg(value_name = "GATE")]
    gate: String,
    /// The object: job/train, or jobset.jobset.x-k8s.io/train.
    #[arg(value_name = "KIND/NAME", conflicts_with = "all")]
    object: Option<String>,
    /// Lift it from every object that carries the label gate.sluice.dev/NAME-OF-THE-GATE, of the kinds that JobKinds
    /// declare and you may list, and from such pods.
    #[arg(long)]
    all: bool,
    /// Ask the API server, and change nothing.
    #[arg(
        long,
        value_name = "server",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "server",
        hide_possible_values = true
    )]
    dry_run: Option<DryRunStrategy>,
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    connection: Connection,
}

/// Who tries it.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DryRunStrategy {
    /// The API server.
    Server,
}

/// An object that carries the label of the gate.
struct Labelled<'a> {
    resource: &'a Resource,
    name: String,
    metadata: ObjectMeta,
}

impl Lift {
    /// Lifts the gate.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer what is asked for.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, GatesError> {
        let gate = gate(&self.gate)?;
        match (&self.object, self.all) {
            (Some(object), false) if self.namespaces.all_namespaces => {
                named(object)?;
                Err(GatesError::OneNamespace)
            }
            (Some(object), false) => self.one(&gate, named(object)?, tell).await,
            (None, true) => self.all(&gate, tell).await,
            _ => Err(GatesError::NothingToLift),
        }
    }

    fn dry_run(&self) -> DryRun {
        DryRun::if_asked(self.dry_run.is_some())
    }

    async fn one(
        &self,
        gate: &Gate,
        (kind, name): (&str, &str),
        tell: &mut Tell<'_>,
    ) -> Result<Ended, GatesError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?;
        let resource = Served::ask(&cluster.client).await?.named(kind)?;
        let objects = resource.objects(&cluster.client, namespace.as_deref());
        let outcome = lift_patch::lift(&objects, name, None, gate, self.dry_run()).await;
        match outcome {
            LiftOutcome::Gone(status) => Err(ClusterError::Refused(status).into()),
            LiftOutcome::Failed(error) if !error.is_refusal() => Err(error.into()),
            outcome => {
                let object = format!("{}/{name}", resource.name);
                tell(text::lifted(&object, gate, &outcome, self.dry_run()))?;
                Ok(match outcome {
                    LiftOutcome::Lifted(_) => Ended::Done,
                    _ => Ended::NotDone,
                })
            }
        }
    }

    async fn all(&self, gate: &Gate, tell: &mut Tell<'_>) -> Result<Ended, GatesError> {
        let name = gate.object_name();
        let name = name.ok_or_else(|| GatesError::NoLabel(gate.clone()))?;
        let label = format!("{HELD_BY_LABEL_PREFIX}{name}=true");
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?;
        let kinds = kinds(&cluster.client).await?;
        let mut held = Vec::new();
        let mut listed = false;
        for resource in &kinds {
            match labelled(&cluster.client, resource, namespace.as_deref(), &label).await {
                Ok(found) => {
                    listed = true;
                    held.extend(found);
                }
                Err(ClusterError::Refused(status)) if status.is_forbidden() => {
                    tell(Told::Note(status.message.clone()))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if !listed {
            let names: Vec<String> = kinds.iter().map(Resource::plural).collect();
            return Err(GatesError::NothingListed(names.join(", ")));
        }
        let lifted = held.into_iter().map(|object| {
            let namespace = object.metadata.namespace.clone();
            let objects = object
                .resource
                .objects(&cluster.client, namespace.as_deref());
            async move {
                let (name, metadata) = (object.name.as_str(), Some(object.metadata));
                let dry_run = self.dry_run();
                let outcome = lift_patch::lift(&objects, name, metadata, gate, dry_run).await;
                let place = namespace.map(|namespace| format!(" in {namespace}"));
                let place = place.unwrap_or_default();
                (format!("{}/{name}{place}", object.resource.name), outcome)
            }
        });
        let mut outcomes = stream::iter(lifted).buffered(PATCHES_MAX);
        let mut counts = LiftCounts::default();
        while let Some((object, outcome)) = outcomes.next().await {
            counts.add(&outcome);
            tell(text::lifted_of_many(
                &object,
                gate,
                &outcome,
                self.dry_run(),
            ))?;
        }
        tell(Told::Result(counts.summary(gate, &label, self.dry_run())))?;
        Ok(counts.ended())
    }
}

/// The kind and the name of an object.
fn named(argument: &str) -> Result<(&str, &str), GatesError> {
    object_name(argument).ok_or_else(|| GatesError::NoObject(argument.to_owned()))
}

/// The resources of the kinds that may be held: those of the JobKinds, and pods.
async fn kinds(client: &Client) -> Result<Vec<Resource>, ClusterError> {
    let served = Served::ask(client).await?;
    let declared = declared(client, &served).await?.into_iter();
    let mut found: Vec<Resource> = declared.map(|kind| kind.resource).collect();
    found.extend(served.of_kind("", "v1", "Pod"));
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    Ok(found)
}

/// The objects of a resource with the label.
async fn labelled<'a>(
    client: &Client,
    resource: &'a Resource,
    namespace: Option<&str>,
    label: &str,
) -> Result<Vec<Labelled<'a>>, ClusterError> {
    let objects = resource.objects(client, namespace);
    let found = pages::list_metadata(resource, &objects, label).await?;
    let named = found.into_iter().filter_map(|object| {
        Some(Labelled {
            resource,
            name: object.metadata.name.clone()?,
            metadata: object.metadata,
        })
    });
    Ok(named.collect())
}
