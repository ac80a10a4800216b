//! The object that is answered with about a tree of cohorts: `QuotaTree`. Where a field means what it means in the status of
//! a ClusterQueue, it has the same name.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sluice_crds::Quantity;
use sluice_engine::{CohortName, NodeAmounts, NodeName, ResourceName, TreeNode, Weight};

use super::taken::TakenTree;
use crate::plan::status::shares;
use crate::visibility::discovery::{GROUP, VERSION};
use crate::visibility::pending::summary::{in_seconds, quantity};
use crate::visibility::table::{Column, Row, Tabular, number, text, wide};

/// A tree of cohorts: what each node has, uses, borrows and lends.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaTree {
    /// QuotaTree.
    kind: &'static str,
    /// The group and version of this API.
    api_version: String,
    /// The node that was asked for.
    metadata: Metadata,
    /// When that was so.
    taken: Time,
    /// All nodes, cohorts before what is in them.
    nodes: Vec<Node>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Metadata {
    /// The name of the cohort or ClusterQueue.
    name: String,
}

/// A cohort or a ClusterQueue.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Node {
    /// Cohort or ClusterQueue.
    kind: &'static str,
    /// The name.
    name: String,
    /// How deep in the tree it is, from 0 on.
    depth: usize,
    /// Whether it admits workloads, or what is in it can.
    active: bool,
    /// Why it is not active.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The reason in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// How many gates hold before its LocalQueues; of a cohort: of all ClusterQueues below it.
    gated_workloads: u64,
    /// How many wait; of a cohort: in all ClusterQueues below it.
    pending_workloads: usize,
    /// How many hold quota; of a cohort: in all ClusterQueues below it.
    reserving_workloads: usize,
    /// With fair sharing: its weight and its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    fair_sharing: Option<FairSharing>,
    /// Its amounts by flavor. An inactive tree has none.
    flavors: Vec<Flavor>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FairSharing {
    /// Its weight.
    weight: Quantity,
    /// Its share of what its parent lends, in thousandths.
    weighted_share: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Flavor {
    /// The flavor.
    name: String,
    /// Its amounts by resource.
    resources: Vec<Resource>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Resource {
    /// The resource.
    name: String,
    /// Its nominal quota.
    nominal: Quantity,
    /// What it may use without borrowing: that of a cohort includes what is lent to it.
    quota: Quantity,
    /// What it uses; of a cohort: what the nodes below it use of what they lend, or borrow.
    used: Quantity,
    /// What it uses above its quota.
    borrowed: Quantity,
    /// What it lends its parent at most.
    lendable: Quantity,
    /// How much of that others use.
    lent: Quantity,
}

/// What the ClusterQueues below a cohort add up to.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    gated: u64,
    pending: usize,
    reserving: usize,
}

impl QuotaTree {
    /// The tree as it was at that time.
    pub fn new(taken: TakenTree, at: Timestamp) -> Self {
        let name = match &taken.of {
            NodeName::Cohort(name) => name.to_string(),
            NodeName::ClusterQueue(name) => name.to_string(),
        };
        Self {
            kind: "QuotaTree",
            api_version: format!("{GROUP}/{VERSION}"),
            metadata: Metadata { name },
            taken: in_seconds(at),
            nodes: in_order(taken.nodes),
        }
    }
}

impl Tabular for QuotaTree {
    const COLUMNS: &'static [Column] = &[
        text("Name", "The cohort or ClusterQueue, below what it is in."),
        text("Kind", "Cohort or ClusterQueue."),
        number("Gated", "How many gates hold before its LocalQueues."),
        number("Waiting", "How many wait in it."),
        number("Reserving", "How many hold quota."),
        text("Flavor", "The flavor."),
        text("Resource", "The resource."),
        text("Used", "What it uses."),
        text("Quota", "What it may use without borrowing."),
        text("Borrowed", "What it uses above that."),
        text("Lent", "What others use of what it lends."),
        wide(
            "Share",
            "With fair sharing: its share of what its parent lends, in thousandths.",
        ),
        wide("Message", "Why it is not active."),
    ];

    fn rows(&self, _: Timestamp) -> Vec<Row> {
        let rows = self.nodes.iter().flat_map(|node| {
            let resources = node.flavors.iter().flat_map(|flavor| {
                let resources = flavor.resources.iter();
                resources.map(|resource| (flavor.name.as_str(), Some(resource)))
            });
            let mut resources: Vec<_> = resources.collect();
            if resources.is_empty() {
                resources.push(("", None));
            }
            resources
                .into_iter()
                .map(|(flavor, of)| node.row(flavor, of))
        });
        rows.collect()
    }
}

/// Parents before their children, and these by name. The nodes of a cycle have no root: they come as they are.
fn in_order(nodes: Vec<(TreeNode, u64)>) -> Vec<Node> {
    let nodes: BTreeMap<NodeName, (TreeNode, u64)> = (nodes.into_iter())
        .map(|(node, gated)| (node.name.clone(), (node, gated)))
        .collect();
    let mut children: BTreeMap<&CohortName, Vec<&NodeName>> = BTreeMap::new();
    let mut roots = Vec::new();
    for (name, (node, _)) in &nodes {
        match &node.parent {
            Some(parent) => children.entry(parent).or_default().push(name),
            None => roots.push(name),
        }
    }
    let mut order: Vec<(&NodeName, usize)> = Vec::new();
    let mut seen: BTreeSet<&NodeName> = BTreeSet::new();
    // The last one is next. All are listed once more at the end, for those that no root leads to.
    let mut next: Vec<(&NodeName, usize)> = nodes.keys().rev().map(|name| (name, 0)).collect();
    next.extend(roots.into_iter().rev().map(|name| (name, 0)));
    while let Some((name, depth)) = next.pop() {
        if !seen.insert(name) {
            continue;
        }
        order.push((name, depth));
        if let NodeName::Cohort(cohort) = name {
            let below = children.get(cohort).into_iter().flatten().rev();
            next.extend(below.map(|name| (*name, depth.saturating_add(1))));
        }
    }
    let mut counts: BTreeMap<&CohortName, Counts> = BTreeMap::new();
    for (name, _) in order.iter().rev() {
        if let Some((node, gated)) = nodes.get(*name)
            && let Some(parent) = &node.parent
        {
            let own = of_node(node, *gated, &counts);
            let sum = counts.entry(parent).or_default();
            sum.gated = sum.gated.saturating_add(own.gated);
            sum.pending = sum.pending.saturating_add(own.pending);
            sum.reserving = sum.reserving.saturating_add(own.reserving);
        }
    }
    let written = order.iter().filter_map(|(name, depth)| {
        let (node, gated) = nodes.get(*name)?;
        Some(Node::new(node, *depth, of_node(node, *gated, &counts)))
    });
    written.collect()
}

fn of_node(node: &TreeNode, gated: u64, counts: &BTreeMap<&CohortName, Counts>) -> Counts {
    match &node.name {
        NodeName::Cohort(name) => counts.get(name).copied().unwrap_or_default(),
        NodeName::ClusterQueue(_) => Counts {
            gated,
            pending: node.pending,
            reserving: node.reserving,
        },
    }
}

impl Node {
    fn new(node: &TreeNode, depth: usize, counts: Counts) -> Self {
        let (kind, name) = match &node.name {
            NodeName::Cohort(name) => ("Cohort", name.to_string()),
            NodeName::ClusterQueue(name) => ("ClusterQueue", name.to_string()),
        };
        let inactive = node.active.as_ref().err();
        let flavors = node.amounts.iter().map(|(flavor, resources)| Flavor {
            name: flavor.to_string(),
            resources: resources
                .iter()
                .map(|(resource, amounts)| Resource::new(resource, *amounts))
                .collect(),
        });
        Self {
            kind,
            name,
            depth,
            active: inactive.is_none(),
            reason: inactive.map(|inactive| inactive.reason().to_owned()),
            message: inactive.map(ToString::to_string),
            gated_workloads: counts.gated,
            pending_workloads: counts.pending,
            reserving_workloads: counts.reserving,
            fair_sharing: shares::share(node.share).map(|share| FairSharing {
                weight: weight(node.weight),
                weighted_share: share.weighted_share,
            }),
            flavors: flavors.collect(),
        }
    }
}

impl Node {
    /// What it has of a resource.
    fn row(&self, flavor: &str, of: Option<&Resource>) -> Row {
        let amount = |amount: fn(&Resource) -> &Quantity| {
            let text = of.map(|of| amount(of).0.as_str());
            json!(text.unwrap_or_default())
        };
        let share = self.fair_sharing.as_ref();
        let share = share.map(|share| share.weighted_share.to_string());
        Row {
            cells: vec![
                json!(format!("{}{}", "  ".repeat(self.depth), self.name)),
                json!(self.kind),
                json!(self.gated_workloads),
                json!(self.pending_workloads),
                json!(self.reserving_workloads),
                json!(flavor),
                json!(of.map(|of| of.name.as_str()).unwrap_or_default()),
                amount(|of| &of.used),
                amount(|of| &of.quota),
                amount(|of| &of.borrowed),
                amount(|of| &of.lent),
                json!(share.unwrap_or_default()),
                json!(self.message.as_deref().unwrap_or_default()),
            ],
            metadata: json!({"name": self.name}),
        }
    }
}

impl Resource {
    fn new(resource: &ResourceName, amounts: NodeAmounts) -> Self {
        let NodeAmounts {
            nominal,
            quota,
            used,
            borrowed,
            lendable,
            lent,
        } = amounts;
        let quantity = |amount| quantity(resource, amount);
        Self {
            name: resource.to_string(),
            nominal: quantity(nominal),
            quota: quantity(quota),
            used: quantity(used),
            borrowed: quantity(borrowed),
            lendable: quantity(lendable),
            lent: quantity(lent),
        }
    }
}

fn weight(weight: Weight) -> Quantity {
    let thousandths = weight.thousandths();
    Quantity(match thousandths % 1000 {
        0 => (thousandths / 1000).to_string(),
        _ => format!("{thousandths}m"),
    })
}
