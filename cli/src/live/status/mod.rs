//! `kubectl sluice status`: the tree of cohorts and ClusterQueues, with what is used. Who may not see ClusterQueues
//! sees the LocalQueues of a namespace.
//!
//! Must not know how Sluice decides.

mod quota_trees;
mod tree;

use clap::Args;
use kube::Client;
use sluice_crds::{ClusterQueue, Cohort, LocalQueue};

use super::listed::{list, unless_refused};
use super::outcome::{EXIT_CODES, Ended, LiveError};
use super::queues::{Node, trees};
use super::view::{Look, View};
use crate::cluster::{ClusterError, Tell, Told};

use tree::local_queues;
pub use tree::tree;

const DETAILS: &str = "\
Shows the tree of cohorts and ClusterQueues. In a bar # is used nominal quota, + is borrowed on top of it, and . is
free. If visibility.sluice.dev answers: what gates hold, what cohorts use and what is lent. -o wide adds the flavors, and with
fair sharing the shares in thousandths. Who may not list ClusterQueues sees the LocalQueues of the namespace instead.";

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
                Err(LiveError::Cluster(ClusterError::Refused(status))) if status.code == 403 => {
                    let local: Vec<LocalQueue> = list(client, namespace, None, note).await?;
                    Look::of(self.view.output, &local, |_| local_queues(&local))
                }
                Err(error) => Err(error),
            };
        self.view.show(tell, look).await
    }
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
    let note = match quota_trees::add_trees(client, &mut nodes).await {
        Ok(note) => note,
        Err(why) => Some(format!(
            "what cohorts use and queues lend is not known: {why}"
        )),
    };
    if let Some(text) = note {
        tell(Told::Note(text))?;
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
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
}
