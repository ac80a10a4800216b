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
        let objects: Vec<GateObject> = self.list(None, &mut problems).await?;
        let queues: Vec<LocalQueue> = self.list(None, &mut problems).await?;
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
