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
        with_object(&cluster.client, (&gate, name), namespace, format, tell).await
    }
}

/// A gate that may have a Gate of this name.
async fn with_object(
    client: &Client,
    (gate, name): (&Gate, String),
    namespace: Option<String>,
    format: Option<Format>,
    tell: &mut Tell<'_>,
) -> Result<Ended, GatesError> {
    let resource = ApiResource::erase::<GateObject>(&());
    let gates = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let place = match &namespace {
        Some(namespace) => format!("namespace {namespace}"),
        None => "all namespaces".to_owned(),
    };
    let object = match (answer("read the Gate", gates.get(&name)).await, format) {
        (Ok(object), Some(format)) => {
            tell(Told::Result(written(&plain(object)?, format)?))?;
            return Ok(Ended::Done);
        }
        (Ok(object), None) => read(object)?,
        (Err(ClusterError::Refused(status)), format) if is_missing(&status, &name) => {
            return without_object(gate, format, tell);
        }
        // A user of the role `edit` may not read Gates, and may be one who lifts this.
        (Err(ClusterError::Refused(status)), None) if status.is_forbidden() => {
            let may = may_lift(client, name.clone(), namespace).await?;
            tell(Told::Result(text::unread_object(gate, &may, &place)))?;
            tell(Told::Note(text::unread_note(&name, &status.message)))?;
            return Ok(Ended::Done);
        }
        (Err(error), _) => return Err(error.into()),
    };
    let may = match object.spec.lifting {
        Lifting::Anyone => MayLift::WhoeverMayEdit,
        Lifting::Owners => may_lift(client, name, namespace).await?,
    };
    let shown = text::shown(gate, &object, &may, &place, Timestamp::now());
    tell(Told::Result(shown))?;
    Ok(Ended::Done)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Method, Request, Response};
    use kube::client::Body;

    use super::*;

    /// An API server that does not let the caller read Gates, and says whether he may lift this one.
    fn refusing(may_lift: bool) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let (code, body) = match (request.method(), request.uri().path()) {
                (&Method::GET, "/apis/sluice.dev/v1alpha1/gates/budget.acme.io") => {
                    let status = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                        "message": "not for you"});
                    (403, status)
                }
                (&Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") => {
                    (201, json!({"spec": {}, "status": {"allowed": may_lift}}))
                }
                (method, path) => panic!("{method} {path}"),
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        });
        Client::new(service, "default")
    }

    async fn shown(may_lift: bool, format: Option<Format>) -> Result<(String, String), String> {
        let gate = gate("acme.io/budget").unwrap();
        let (mut text, mut notes) = (String::new(), String::new());
        let mut tell = |told| {
            match told {
                Told::Result(result) => text.push_str(&result),
                Told::Note(note) => notes.push_str(&note),
                Told::Error(error) => panic!("{error}"),
            }
            Ok(())
        };
        let client = refusing(may_lift);
        let name = (&gate, "budget.acme.io".to_owned());
        let blue = Some("blue".to_owned());
        let ended = with_object(&client, name, blue, format, &mut tell).await;
        ended.map_err(|error| error.to_string())?;
        Ok((text, notes))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_may_not_read_gates_is_told_whether_he_may_lift() {
        let (text, notes) = shown(true, None).await.unwrap();
        let known = "Gate:          acme.io/budget\nGate Object:   <unknown>\n";
        let may = format!("{known}You May Lift:  yes, in namespace blue\n");
        assert_eq!(text, may);
        let note = "can't read Gate \"budget.acme.io\": not for you; ClusterRole \"sluice-gate-viewer\" gives the right to";
        assert_eq!(notes, note);
        let (text, _) = shown(false, None).await.unwrap();
        let unless = "no, not in namespace blue; unless it has no Gate, or one with lifting Anyone: then what you may edit";
        assert_eq!(text, format!("{known}You May Lift:  {unless}\n"));
        // There is nothing to print for programs.
        let refused = shown(true, Some(Format::Json)).await;
        assert_eq!(refused.unwrap_err(), "not for you");
    }
}
