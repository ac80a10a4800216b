//! Flavors, and which ClusterQueues and cohorts have quota in them.

use kube::ResourceExt;
use serde::Serialize;
use sluice_crds::{Cohort, ResourceFlavor, ResourceFlavorSpec};

use super::viewer::{Answer, Viewer};
use crate::live::listed::list;
use crate::live::queues::{Node, Resource, trees};
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

/// The quota that a ClusterQueue or cohort has of its own in a flavor.
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
        let objects: Vec<ResourceFlavor> = self.list_of_cluster(&mut problems).await?;
        let nodes = status::nodes(&self.client, &mut problems.tell()).await;
        let nodes = problems.or_nothing("clusterqueues and cohorts", nodes)?;
        let cohorts = list(&self.client, None, None, &mut problems.tell()).await;
        let cohorts: Vec<Cohort> = problems.or_nothing("cohorts", cohorts)?;
        let flavors = flavors(&objects, &nodes, &cohorts);
        Ok(Answer::new(Flavors { flavors }, problems))
    }
}

fn flavors(objects: &[ResourceFlavor], nodes: &[Node], cohorts: &[Cohort]) -> Vec<Flavor> {
    // What a node says of a cohort is also what its queues lend. What it has of its own is in its spec.
    let own = trees(&[], cohorts);
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
            let queues = nodes.iter().filter(|node| node.kind == "ClusterQueue");
            let queues = queues.chain(&own);
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_crds::ClusterQueue;

    use super::*;

    #[test]
    fn cohorts_with_quota_of_their_own_are_listed() {
        let groups = |nominal: &str| {
            let resource = json!({"name": "cpu", "nominalQuota": nominal});
            let flavor = json!({"name": "spot", "resources": [resource]});
            json!([{"coveredResources": ["cpu"], "flavors": [flavor]}])
        };
        let queue: ClusterQueue = serde_json::from_value(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "ClusterQueue", "metadata": {"name": "team-a"},
            "spec": {"cohortName": "family", "resourceGroups": groups("4")},
        }))
        .unwrap();
        let cohort = |name: &str, spec| -> Cohort {
            serde_json::from_value(
                json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Cohort",
                "metadata": {"name": name}, "spec": spec}),
            )
            .unwrap()
        };
        let cohorts = [
            cohort("all", json!({"resourceGroups": groups("2")})),
            cohort("family", json!({"parentName": "all"})),
        ];
        let mut nodes = trees(&[queue], &cohorts);
        // As visibility.sluice.dev tells what can be lent in a cohort.
        let lent = nodes
            .iter()
            .find_map(|node| node.resources.first().cloned())
            .unwrap();
        let family = nodes.iter_mut().find(|node| node.name == "family").unwrap();
        family.resources.push(lent);
        let flavors = flavors(&[], &nodes, &cohorts);
        let quotas = flavors.iter().flat_map(|flavor| &flavor.quotas);
        let quotas: Vec<_> = quotas
            .map(|quota| {
                let Quota { kind, queue, .. } = quota;
                let nominal = quota.resource.nominal.as_ref().map(|it| it.0.as_str());
                (*kind, queue.as_str(), nominal.unwrap_or_default())
            })
            .collect();
        assert_eq!(
            quotas,
            [("ClusterQueue", "team-a", "4"), ("Cohort", "all", "2")]
        );
    }
}
