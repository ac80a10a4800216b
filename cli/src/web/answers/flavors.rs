//! Flavors, and which ClusterQueues have quota in them.

use kube::ResourceExt;
use serde::Serialize;
use sluice_crds::{ResourceFlavor, ResourceFlavorSpec};

use super::viewer::{Answer, Viewer};
use crate::live::queues::{Node, Resource};
use crate::live::status;
use crate::web::problem::{Problem, Problems};

/// The flavors that the caller may see.
#[derive(Debug, Serialize)]
pub struct Flavors {
    flavors: Vec<Flavor>,
}

/// A flavor. One that quotas name and that is not there, or not for the caller to see, has no `spec`.
#[derive(Debug, Serialize)]
struct Flavor {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<ResourceFlavorSpec>,
    quotas: Vec<Quota>,
}

/// The quota of a ClusterQueue or cohort in a flavor.
#[derive(Debug, Serialize)]
struct Quota {
    kind: &'static str,
    queue: String,
    #[serde(flatten)]
    resource: Resource,
}

impl Viewer {
    /// All flavors.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn flavors(&self) -> Result<Answer<Flavors>, Problem> {
        let mut problems = Problems::default();
        let objects: Vec<ResourceFlavor> = self.list(None, &mut problems).await?;
        let nodes = status::nodes(&self.client, &mut problems.tell()).await;
        let nodes = problems.or_nothing("clusterqueues and cohorts", nodes)?;
        let flavors = flavors(&objects, &nodes);
        Ok(Answer::new(Flavors { flavors }, problems))
    }
}

fn flavors(objects: &[ResourceFlavor], nodes: &[Node]) -> Vec<Flavor> {
    let resources = nodes.iter().flat_map(|node| &node.resources);
    let named = resources.map(|resource| resource.flavor.clone());
    let mut names: Vec<String> = objects.iter().map(ResourceExt::name_any).collect();
    names.extend(named);
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| {
            let object = objects.iter().find(|object| object.name_any() == name);
            // What a cohort has is the sum of what its queues lend.
            let queues = nodes.iter().filter(|node| node.kind == "ClusterQueue");
            let quotas = queues.flat_map(|node| {
                let resources = node.resources.iter();
                let own = resources.filter(|resource| resource.flavor == name);
                own.map(|resource| Quota {
                    kind: node.kind,
                    queue: node.name.clone(),
                    resource: resource.clone(),
                })
            });
            Flavor {
                quotas: quotas.collect(),
                spec: object.map(|object| object.spec.clone()),
                name,
            }
        })
        .collect()
}
