//! `kubectl sluice gates show`: one gate, with or without a Gate.

use clap::Args;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, Status};
use serde_json::json;
use sluice_crds::{GROUP, Gate as GateObject, LIFT_VERB, Lifting};
use sluice_kinds::gates::Gate;

use super::list::{plain, read, written};
use super::outcome::{EXIT_CODES, Ended, GatesError, gate};
use super::text::{self, MayLift};
use crate::cluster::{Cluster, ClusterError, Connection, Namespaces, answer};
use crate::cluster::{Format, Tell, Told};

/// Show a gate: what it is for, who may lift it, and what it holds.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Show {
    /// The gate, or the name of its Gate: acme.io/budget or budget.acme.io.
    #[arg(value_name = "GATE")]
    gate: String,
    /// Output format: json or yaml, which print the Gate; of a gate that has none {"gate": ..., "object": null}.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    connection: Connection,
}

impl Show {
    /// Shows it.
    ///
    /// # Errors
    /// Wrong usage, the cluster does not answer, or the result can't be written.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, GatesError> {
        let gate = gate(&self.gate)?;
        let format = self.output.filter(|format| *format != Format::Wide);
        let Some(name) = gate.object_name() else {
            return without_object(&gate, format, tell);
        };
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?;
        let resource = ApiResource::erase::<GateObject>(&());
        let gates = Api::<DynamicObject>::all_with(cluster.client.clone(), &resource);
        let object = match (answer("read the Gate", gates.get(&name)).await, format) {
            (Ok(object), Some(format)) => {
                tell(Told::Result(written(&plain(object)?, format)?))?;
                return Ok(Ended::Done);
            }
            (Ok(object), None) => read(object)?,
            (Err(ClusterError::Refused(status)), format) if is_missing(&status, &name) => {
                return without_object(&gate, format, tell);
            }
            (Err(error), _) => return Err(error.into()),
        };
        let may = match object.spec.lifting {
            Lifting::Anyone => MayLift::WhoeverMayEdit,
            Lifting::Owners => may_lift(&cluster.client, name, namespace.clone()).await?,
        };
        let place = match namespace {
            Some(namespace) => format!("namespace {namespace}"),
            None => "all namespaces".to_owned(),
        };
        let shown = text::shown(&gate, &object, &may, &place, Timestamp::now());
        tell(Told::Result(shown))?;
        Ok(Ended::Done)
    }
}

/// A gate that has no Gate.
fn without_object(
    gate: &Gate,
    format: Option<Format>,
    tell: &mut Tell<'_>,
) -> Result<Ended, GatesError> {
    let text = match format {
        None => text::without_object(gate),
        Some(format) => written(&json!({"gate": gate.as_str(), "object": null}), format)?,
    };
    tell(Told::Result(text))?;
    Ok(Ended::Done)
}

/// Whether it is this object that is missing, and not all of its kind.
fn is_missing(status: &Status, name: &str) -> bool {
    let details = status.details.as_ref();
    status.is_not_found() && details.is_some_and(|details| details.name == name)
}

/// Whether the caller may lift the gate in a namespace; in all, if none is given.
async fn may_lift(
    client: &Client,
    name: String,
    namespace: Option<String>,
) -> Result<MayLift, ClusterError> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(GROUP.to_owned()),
                resource: Some("gates".to_owned()),
                verb: Some(LIFT_VERB.to_owned()),
                name: Some(name),
                namespace,
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let params = PostParams::default();
    let asked = reviews.create(&params, &review);
    let status = answer("ask whether you may lift it", asked).await?.status;
    let status = status.unwrap_or_default();
    Ok(if status.allowed {
        MayLift::Yes
    } else {
        MayLift::No(status.reason.filter(|reason| !reason.is_empty()))
    })
}
