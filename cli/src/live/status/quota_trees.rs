//! What visibility.sluice.dev says of trees of cohorts, and of ClusterQueues without a cohort, added to what their objects
//! say: what gates hold, what cohorts use, what is lent, and shares.

use kube::Client;
use serde::Deserialize;
use sluice_crds::Quantity;

use super::super::listed::{Unseen, visible_tree};
use super::super::queues::{Node, Resource};

/// Trees that are asked about; those after them show what their objects say.
const TREES_MAX: usize = 100;

#[derive(Debug, Deserialize)]
struct QuotaTree {
    nodes: Vec<TreeNode>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TreeNode {
    kind: String,
    name: String,
    gated_workloads: i32,
    pending_workloads: i32,
    fair_sharing: Option<FairSharing>,
    flavors: Vec<Flavor>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FairSharing {
    weighted_share: i64,
}

#[derive(Debug, Deserialize)]
struct Flavor {
    name: String,
    resources: Vec<Amounts>,
}

#[derive(Debug, Deserialize)]
struct Amounts {
    name: String,
    quota: Quantity,
    used: Quantity,
    borrowed: Quantity,
    lent: Quantity,
}

/// Adds what the API says of each tree. Returns the note about those that are not asked about, if there are too many.
///
/// # Errors
/// Why it does not say it; then the trees after that are as they were.
pub async fn add_trees(client: &Client, nodes: &mut [Node]) -> Result<Option<String>, Unseen> {
    let roots = nodes.iter().filter(|node| node.depth == 0);
    let paths: Vec<String> = roots.map(path).collect();
    for path in paths.iter().take(TREES_MAX) {
        match visible_tree::<QuotaTree>(client, path).await {
            Ok(tree) => tree.nodes.into_iter().for_each(|node| add(node, nodes)),
            // It is gone meanwhile.
            Err(Unseen::NotFound(why)) if why.contains("not found") => {}
            Err(why) => return Err(why),
        }
    }
    let left_out = paths.len().saturating_sub(TREES_MAX);
    Ok((0 < left_out).then(|| {
        format!(
            "what cohorts use and queues lend is asked of {TREES_MAX} trees, and not known of {left_out} more"
        )
    }))
}

/// Where the tree below a root is: that of a cohort, or of a ClusterQueue without one.
fn path(root: &Node) -> String {
    let resource = match root.kind {
        "Cohort" => "cohorts",
        _ => "clusterqueues",
    };
    format!("{resource}/{}/tree", root.name)
}

fn add(known: TreeNode, nodes: &mut [Node]) {
    let is_it = |node: &&mut Node| node.kind == known.kind && node.name == known.name;
    let Some(node) = nodes.iter_mut().find(is_it) else {
        return;
    };
    node.gated = Some(known.gated_workloads);
    node.pending = Some(known.pending_workloads);
    node.weighted_share = known.fair_sharing.map(|fair| fair.weighted_share);
    for flavor in known.flavors {
        for amounts in flavor.resources {
            let mut resources = node.resources.iter_mut();
            let own = resources.find(|own| own.flavor == flavor.name && own.name == amounts.name);
            match own {
                Some(own) if node.kind == "ClusterQueue" => own.lent = Some(amounts.lent),
                // Of a cohort, its own nominal quota is the smaller part: what is lent to it counts as well.
                Some(own) => *own = of_cohort(flavor.name.clone(), amounts),
                None if node.kind == "Cohort" => {
                    node.resources.push(of_cohort(flavor.name.clone(), amounts));
                }
                None => {}
            }
        }
    }
}

fn of_cohort(flavor: String, amounts: Amounts) -> Resource {
    Resource {
        flavor,
        name: amounts.name,
        nominal: Some(amounts.quota),
        used: Some(amounts.used),
        borrowed: Some(amounts.borrowed),
        lent: Some(amounts.lent),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use insta::assert_snapshot;
    use kube::client::Body;
    use serde_json::json;
    use sluice_crds::ClusterQueue;

    use super::super::super::queues::trees;
    use super::super::tree;
    use super::*;

    #[test]
    fn a_tree_shows_what_cohorts_use_and_what_queues_lend() {
        let queue = |name: &str, used: &str, borrowed: &str| {
            serde_json::from_value(json!({
                "apiVersion": "sluice.dev/v1alpha1", "kind": "ClusterQueue", "metadata": {"name": name},
                "spec": {"cohortName": "family", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
                    {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]}]},
                "status": {"pendingWorkloads": 2, "admittedWorkloads": 1, "flavorsUsage": [
                    {"name": "spot", "resources": [{"name": "cpu", "total": used, "borrowed": borrowed}]}]},
            }))
            .unwrap()
        };
        let mut nodes = trees(&[queue("team-a", "6", "2"), queue("team-b", "1", "0")], &[]);
        let known = |kind: &str, name: &str, quota: &str, used: &str, lent: &str| {
            serde_json::from_value(json!({
                "kind": kind, "name": name, "gatedWorkloads": 3, "pendingWorkloads": 4,
                "fairSharing": {"weight": "1", "weightedShare": 250},
                "flavors": [{"name": "spot", "resources": [
                    {"name": "cpu", "quota": quota, "used": used, "borrowed": "0", "lent": lent}]}],
            }))
            .unwrap()
        };
        add(known("Cohort", "family", "8", "7", "0"), &mut nodes);
        add(known("ClusterQueue", "team-a", "4", "6", "0"), &mut nodes);
        add(known("ClusterQueue", "team-b", "4", "1", "2"), &mut nodes);
        add(known("ClusterQueue", "new", "4", "1", "2"), &mut nodes);
        assert_snapshot!(tree(&nodes, true), @r"
        QUEUE             GATED   PENDING   ADMITTED   RESOURCE   USED   QUOTA   BORROWED   LENT   USAGE                  FLAVOR   SHARE
        family (cohort)   3       4                    cpu        7      8                         ##################..   spot     250
          team-a          3       4         1          cpu        6      4       2                 #############+++++++   spot     250
          team-b          3       4         1          cpu        1      4                  2      #####...............   spot     250
        ");
    }

    fn queue(name: &str, cohort: Option<&str>) -> ClusterQueue {
        serde_json::from_value(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "ClusterQueue", "metadata": {"name": name},
            "spec": {"cohortName": cohort, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
                {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]}]},
        }))
        .unwrap()
    }

    /// Adds the trees of these queues, where the API says that 3 objects are gated of a ClusterQueue without a cohort.
    /// Returns what it was asked, too.
    async fn asked(queues: &[ClusterQueue]) -> (Vec<Node>, Option<String>, Vec<String>) {
        let paths = Arc::new(Mutex::new(Vec::new()));
        let seen = paths.clone();
        let answering = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let name = path.split('/').rev().nth(1).unwrap_or_default().to_owned();
            seen.lock().unwrap().push(path);
            let tree = json!({"nodes": [{"kind": "ClusterQueue", "name": name, "gatedWorkloads": 3,
                "pendingWorkloads": 4, "fairSharing": {"weightedShare": 250}, "flavors": []}]});
            let tree = Body::from(tree.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::new(tree)) }
        });
        let mut nodes = trees(queues, &[]);
        let note = add_trees(&Client::new(answering, "default"), &mut nodes).await;
        let paths = paths.lock().unwrap().clone();
        (nodes, note.unwrap(), paths)
    }

    #[tokio::test]
    async fn a_queue_without_a_cohort_is_asked_about_too() {
        let queues = [queue("alone", None), queue("team-a", Some("family"))];
        let (nodes, note, paths) = asked(&queues).await;
        let below = "/apis/visibility.sluice.dev/v1alpha1";
        assert_eq!(
            paths,
            [
                format!("{below}/cohorts/family/tree"),
                format!("{below}/clusterqueues/alone/tree")
            ]
        );
        let alone = nodes.iter().find(|node| node.name == "alone").unwrap();
        assert_eq!((alone.gated, alone.weighted_share), (Some(3), Some(250)));
        assert_eq!(note, None);
    }

    #[tokio::test]
    async fn trees_that_are_too_many_are_told_of() {
        let queues: Vec<_> = (0..TREES_MAX + 2)
            .map(|number| queue(&format!("q{number}"), None))
            .collect();
        let (_, note, paths) = asked(&queues).await;
        assert_eq!(paths.len(), TREES_MAX);
        assert_eq!(
            note.as_deref(),
            Some("what cohorts use and queues lend is asked of 100 trees, and not known of 2 more")
        );
    }
}
