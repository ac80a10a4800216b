//! The tables of `kubectl sluice status`: the tree with its bars, and the LocalQueues of a namespace. Where the figures come
//! from is in `mod.rs` and `quota_trees.rs`.

use kube::ResourceExt as _;
use sluice_crds::LocalQueue;

use super::super::queues::Node;
use crate::table::{NONE, columns};

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
                amount(&resource.nominal),
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

pub(super) fn local_table(queues: &[LocalQueue]) -> String {
    if queues.is_empty() {
        return "No LocalQueues found\n".to_owned();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_says_so() {
        assert_eq!(tree(&[], false), "No ClusterQueues found\n");
        assert_eq!(local_table(&[]), "No LocalQueues found\n");
    }
}
