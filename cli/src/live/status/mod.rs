//! `kubectl sluice status`: the tree of cohorts and ClusterQueues, with what is used. Who may not see ClusterQueues
//! sees the LocalQueues of a namespace.
//!
//! Must not know how Sluice decides.

mod quota_trees;

use clap::Args;
use kube::{Client, ResourceExt as _};
use sluice_crds::{ClusterQueue, Cohort, LocalQueue};

use super::listed::list;
use super::outcome::{EXIT_CODES, Ended, LiveError};
use super::queues::{Node, trees};
use super::view::{Look, View};
use crate::cluster::{ClusterError, Tell, Told};
use crate::table::{NONE, columns};

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
    let cohorts: Vec<Cohort> = list(client, None, None, tell).await?;
    let mut nodes = trees(&queues, &cohorts);
    if let Err(why) = quota_trees::add_trees(client, &mut nodes).await {
        let text = format!("what cohorts use and queues lend is not known: {why}");
        tell(Told::Note(text))?;
    }
    Ok(nodes)
}

/// The tree as a table.
pub fn tree(nodes: &[Node], is_wide: bool) -> String {
    if nodes.is_empty() {
        return "No ClusterQueues found\n".to_owned();
    }
    // What the objects don't say, and is said only if the API tells.
    let is_told = nodes.iter().any(|node| node.gated.is_some());
    let has_shares = is_wide && nodes.iter().any(|node| node.weighted_share.is_some());
    let mut headers = vec!["QUEUE"];
    headers.extend(is_told.then_some("GATED"));
    headers.extend([
        "PENDING", "ADMITTED", "RESOURCE", "USED", "QUOTA", "BORROWED",
    ]);
    headers.extend(is_told.then_some("LENT"));
    headers.push("USAGE");
    headers.extend(is_wide.then_some("FLAVOR"));
    headers.extend(has_shares.then_some("SHARE"));
    let mut rows = Vec::new();
    for node in nodes {
        let count = |count: Option<i32>| count.map_or_else(String::new, |count| count.to_string());
        let indent = "  ".repeat(node.depth);
        let name = match node.kind {
            "Cohort" => format!("{indent}{} (cohort)", node.name),
            _ => format!("{indent}{}", node.name),
        };
        let mut first = vec![name];
        first.extend(is_told.then(|| count(node.gated)));
        first.extend([count(node.pending), count(node.admitted)]);
        let width = first.len();
        let mut share = node.weighted_share.map(|share| share.to_string());
        if node.resources.is_empty() {
            rows.push(first.clone());
        }
        for resource in &node.resources {
            let amount = |amount: &Option<sluice_crds::Quantity>| {
                amount
                    .as_ref()
                    .map_or_else(String::new, |amount| amount.0.clone())
            };
            let is_borrowed = resource.borrowed.as_ref().is_some_and(|b| b.0 != "0");
            let borrowed = resource.borrowed.clone().filter(|_| is_borrowed);
            let lent = resource.lent.clone().filter(|lent| lent.0 != "0");
            let bar = resource.used.as_ref().map(|_| resource.bar());
            let mut row = std::mem::replace(&mut first, vec![String::new(); width]);
            row.extend([
                resource.name.clone(),
                amount(&resource.used),
                resource.nominal.0.clone(),
                amount(&borrowed),
            ]);
            row.extend(is_told.then(|| amount(&lent)));
            row.push(bar.unwrap_or_default());
            row.extend(is_wide.then(|| resource.flavor.clone()));
            row.extend(has_shares.then(|| share.take().unwrap_or_default()));
            rows.push(row);
        }
    }
    let mut text = columns(&headers, &rows, 0);
    for node in nodes {
        if let Some(why) = &node.inactive {
            let line = format!(
                "{} {:?} admits nothing: {why}
",
                node.kind, node.name
            );
            text.push_str(&line);
        }
    }
    text
}

fn local_queues(queues: &[LocalQueue]) -> String {
    let rows: Vec<Vec<String>> = queues
        .iter()
        .map(|queue| {
            let status = queue.status.clone().unwrap_or_default();
            vec![
                queue.namespace().unwrap_or_default(),
                queue.name_any(),
                queue.spec.cluster_queue.clone(),
                status.gated_workloads.to_string(),
                status.pending_workloads.to_string(),
                status.admitted_workloads.to_string(),
                status.usage.unwrap_or_else(|| NONE.to_owned()),
            ]
        })
        .collect();
    let headers = [
        "NAMESPACE",
        "QUEUE",
        "CLUSTERQUEUE",
        "GATED",
        "PENDING",
        "ADMITTED",
        "USAGE",
    ];
    columns(&headers, &rows, 0)
}
