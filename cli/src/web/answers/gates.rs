//! Gates and what they hold: those with a Gate, and those that only objects name.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;
use sluice_crds::{Gate as GateObject, LocalQueue};
use sluice_kinds::gates::Gate;

use super::viewer::{Answer, Viewer};
use crate::web::problem::{Problem, Problems};

/// The gates that the caller may see.
#[derive(Debug, Serialize)]
pub struct Gates {
    gates: Vec<WithObject>,
    others: Vec<WithoutObject>,
}

/// A gate with a Gate.
#[derive(Debug, Serialize)]
struct WithObject {
    gate: String,
    object: GateObject,
}

/// A gate that holds objects of LocalQueues and has no Gate that the caller may see.
#[derive(Debug, Serialize)]
struct WithoutObject {
    gate: String,
    /// Among the ten oldest of each LocalQueue.
    held: Vec<Held>,
}

#[derive(Debug, Serialize)]
struct Held {
    namespace: String,
    kind: String,
    name: String,
    queue: String,
    since: Timestamp,
}

impl Viewer {
    /// All gates.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn gates(&self) -> Result<Answer<Gates>, Problem> {
        let mut problems = Problems::default();
        let objects: Vec<GateObject> = self.list_of_cluster(&mut problems).await?;
        let queues = self.local_queues(None, &mut problems).await?;
        let gates: Vec<WithObject> = objects.into_iter().map(with_object).collect();
        let mut others = held(&queues);
        for known in &gates {
            others.remove(&known.gate);
        }
        let others = others.into_iter();
        let others = others.map(|(gate, held)| WithoutObject { gate, held });
        let others = others.collect();
        Ok(Answer::new(Gates { gates, others }, problems))
    }
}

fn with_object(mut object: GateObject) -> WithObject {
    object.metadata.managed_fields = None;
    let name = object.name_any();
    let gate = Gate::of_object(&name).map_or(name, |gate| gate.to_string());
    WithObject { gate, object }
}

/// What gates hold of LocalQueues, by the gate.
fn held(queues: &[LocalQueue]) -> BTreeMap<String, Vec<Held>> {
    let mut gates: BTreeMap<String, Vec<Held>> = BTreeMap::new();
    for queue in queues {
        for object in queue.status.iter().flat_map(|status| &status.oldest_gated) {
            for gate in &object.gates {
                gates.entry(gate.clone()).or_default().push(Held {
                    namespace: queue.namespace().unwrap_or_default(),
                    kind: object.kind.clone(),
                    name: object.name.clone(),
                    queue: queue.name_any(),
                    since: object.since.0,
                });
            }
        }
    }
    for held in gates.values_mut() {
        held.sort_by_key(|held| held.since);
    }
    gates
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::simulate::Assumed;

    /// A tenant with a RoleBinding, who may list nothing in the whole cluster: there are no Gates in a namespace, so that
    /// the API server would not find such a path.
    #[tokio::test]
    async fn gates_are_not_looked_for_in_a_namespace() {
        let answering = tower::service_fn(async |request: Request<Body>| {
            let (code, body) = match request.uri().path() {
                "/apis/sluice.dev/v1alpha1/namespaces/blue/localqueues" => {
                    (200, json!({"metadata": {}, "items": []}).to_string())
                }
                path if path.contains("/namespaces/") => (404, "404 page not found\n".to_owned()),
                _ => {
                    let status = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                        "message": "not for you"});
                    (403, status.to_string())
                }
            };
            let body = Body::from(body.into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        });
        let client = Client::new(answering, "default");
        let viewer = Viewer::new(client, String::new(), "blue".to_owned(), Assumed::default());
        let told = serde_json::to_value(viewer.gates().await.unwrap()).unwrap();
        assert_eq!(told["gates"], json!([]));
        let problems = told["problems"].as_array().unwrap().iter();
        let problems: Vec<_> = problems
            .map(|problem| {
                (
                    problem["what"].as_str().unwrap(),
                    problem["reason"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            problems,
            [
                ("gates", "Forbidden"),
                ("localqueues of other namespaces", "Forbidden")
            ]
        );
    }
}
