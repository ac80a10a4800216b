//! `kubectl sluice status`: the tree of cohorts and ClusterQueues, with what is used. Who may not see ClusterQueues
//! sees the LocalQueues of a namespace.
//!
//! Must not know how Sluice decides.

mod quota_trees;
mod tree;

use clap::Args;
use kube::{Api, Client};
use sluice_crds::{ClusterQueue, Cohort, LocalQueue};

use super::listed::{Unseen, list, unless_refused};
use super::outcome::{EXIT_CODES, Ended, LiveError};
use super::queues::{Node, local, trees};
use super::view::{Look, View};
use crate::cluster::{ClusterError, Tell, Told, answer};

use tree::local_table;
pub use tree::tree;

const DETAILS: &str = "\
Shows the tree of cohorts and ClusterQueues. In a bar # is used nominal quota, + is borrowed on top of it, and . is \
free. If visibility.sluice.dev answers: what gates hold, what cohorts use and what is lent. -o wide adds the flavors, and with \
fair sharing the shares in thousandths. Who may not list ClusterQueues sees the LocalQueues of the namespace instead, \
with a note. In -o json and -o yaml, kind says which of these a queue is.";

/// Show queues as a tree, with what is used of their quota.
#[derive(Debug, Args)]
#[command(long_about = DETAILS, after_help = EXIT_CODES)]
pub struct Status {
    #[command(flatten)]
    view: View,
}

impl Status {
    /// Shows them.
    ///
    /// # Errors
    /// The cluster does not answer, or the result can't be written.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let look =
            async |client: &Client, namespace: Option<&str>, note: &mut Tell<'_>| match nodes(
                client, note,
            )
            .await
            {
                Ok(nodes) => Look::of(self.view.output, &nodes, |is_wide| tree(&nodes, is_wide)),
                Err(LiveError::Cluster(why)) if why.is_forbidden() => {
                    let queues = local_queues(client, namespace, &why, note).await?;
                    let rows = local(&queues);
                    Look::of(self.view.output, &rows, |_| local_table(&queues))
                }
                Err(error) => Err(error),
            };
        self.view.show(tell, look).await
    }
}

/// The LocalQueues of a namespace, or of all, and a note that they stand for the ClusterQueues.
async fn local_queues(
    client: &Client,
    namespace: Option<&str>,
    why: &ClusterError,
    tell: &mut Tell<'_>,
) -> Result<Vec<LocalQueue>, LiveError> {
    let queues = list(client, namespace, None, tell).await?;
    let place = namespace.map_or_else(
        || "all namespaces".to_owned(),
        |namespace| format!("namespace {namespace}"),
    );
    tell(Told::Note(format!(
        "these are the LocalQueues of {place}, as ClusterQueues may not be listed: {why}"
    )))?;
    Ok(queues)
}

/// The tree of cohorts and ClusterQueues.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn nodes(client: &Client, tell: &mut Tell<'_>) -> Result<Vec<Node>, LiveError> {
    let queues: Vec<ClusterQueue> = list(client, None, None, tell).await?;
    let cohorts = list(client, None, None, tell).await;
    let without = "the quota of cohorts, and which cohort is in which";
    let cohorts: Vec<Cohort> = unless_refused(without, cohorts, tell)?;
    let mut nodes = trees(&queues, &cohorts);
    let told = quota_trees::add_trees(client, &mut nodes).await;
    note(told, tell)?;
    Ok(nodes)
}

/// One ClusterQueue, as it stands in the tree of all; none if there is no such. Of others nothing is asked.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn node(
    client: &Client,
    name: &str,
    tell: &mut Tell<'_>,
) -> Result<Option<Node>, LiveError> {
    let mut node = cluster_queue(client, name).await?;
    let told = quota_trees::add_trees(client, node.as_mut_slice()).await;
    note(told, tell)?;
    Ok(node)
}

/// One ClusterQueue by what its object says; none if there is no such.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn cluster_queue(client: &Client, name: &str) -> Result<Option<Node>, ClusterError> {
    let api: Api<ClusterQueue> = Api::all(client.clone());
    let found = answer("read the ClusterQueue", api.get_opt(name)).await?;
    let nodes = found.map_or_else(Vec::new, |queue| trees(&[queue], &[]));
    let node = nodes.into_iter().find(|node| node.kind == "ClusterQueue");
    Ok(node.map(|node| Node { depth: 0, ..node }))
}

/// Tells what is not known of trees.
fn note(told: Result<Option<String>, Unseen>, tell: &mut Tell<'_>) -> Result<(), LiveError> {
    let note = told.unwrap_or_else(|why| {
        Some(format!(
            "what cohorts use and queues lend is not known: {why}"
        ))
    });
    note.map_or(Ok(()), |text| Ok(tell(Told::Note(text))?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::live::tests::refusing;

    #[tokio::test]
    async fn who_may_not_list_cohorts_sees_the_queues() {
        let client = refusing("/apis/sluice.dev/v1alpha1/cohorts");
        let mut notes = Vec::new();
        let mut tell = |told| {
            if let Told::Note(text) = told {
                notes.push(text);
            }
            Ok(())
        };
        assert_eq!(nodes(&client, &mut tell).await.unwrap(), []);
        assert_eq!(
            notes,
            ["left out: the quota of cohorts, and which cohort is in which: not for you"]
        );
    }

    /// Programs find the same fields, whoever asks.
    #[test]
    fn local_queues_have_the_fields_of_other_queues() {
        let usage = json!([{"name": "spot", "resources": [{"name": "cpu", "total": "3"}]}]);
        let queue: LocalQueue = serde_json::from_value(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "LocalQueue",
            "metadata": {"name": "main", "namespace": "blue"},
            "spec": {"clusterQueue": "team-a", "stopPolicy": "Hold"},
            "status": {"pendingWorkloads": 2, "gatedWorkloads": 1, "admittedWorkloads": 3, "flavorsUsage": usage},
        }))
        .unwrap();
        assert_eq!(
            serde_json::to_value(local(&[queue])).unwrap(),
            json!([{
                "kind": "LocalQueue", "namespace": "blue", "name": "main", "clusterQueue": "team-a", "depth": 0,
                "inactive": "spec.stopPolicy is Hold", "pending": 2, "gated": 1, "admitted": 3,
                "resources": [{"flavor": "spot", "name": "cpu", "used": "3"}],
            }])
        );
    }

    #[tokio::test]
    async fn who_sees_local_queues_only_is_told_so() {
        let refused = "/apis/sluice.dev/v1alpha1/clusterqueues";
        let client = refusing(refused);
        let why = nodes(&client, &mut |_| Ok(())).await.unwrap_err();
        let LiveError::Cluster(why) = why else {
            panic!("{why}")
        };
        assert!(why.is_forbidden());
        let mut told = Vec::new();
        for namespace in [Some("blue"), None] {
            let mut tell = |line| {
                if let Told::Note(text) = line {
                    told.push(text);
                }
                Ok(())
            };
            let queues = local_queues(&client, namespace, &why, &mut tell).await;
            assert!(queues.unwrap().is_empty());
        }
        assert_eq!(
            told,
            [
                "these are the LocalQueues of namespace blue, as ClusterQueues may not be listed: not for you",
                "these are the LocalQueues of all namespaces, as ClusterQueues may not be listed: not for you",
            ]
        );
    }
}
