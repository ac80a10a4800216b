//! ClusterQueues and cohorts as a tree, with what is used of their quota; and LocalQueues in the same form. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde::Serialize;
use sluice_crds::conditions::find_false;
use sluice_crds::{
    ClusterQueue, Cohort, ConditionType, FlavorUsage, LocalQueue, Quantity, ResourceGroup,
    StopPolicy,
};

/// How many signs a bar has.
const BAR: usize = 20;

/// A cohort or a ClusterQueue; or a LocalQueue, for who may not see these.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// `Cohort`, `ClusterQueue` or `LocalQueue`.
    pub kind: &'static str,
    /// The namespace of a LocalQueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The ClusterQueue of a LocalQueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// How deep in the tree it is, from 0 on.
    pub depth: usize,
    /// Why it admits nothing, if so: the message of its condition Active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inactive: Option<String>,
    /// Pending workloads. Absent for a cohort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<i32>,
    /// Objects that gates hold before its queues, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gated: Option<i32>,
    /// With fair sharing: its share of what its parent lends, in thousandths, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighted_share: Option<i64>,
    /// Admitted workloads. Absent for a cohort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<i32>,
    /// What is used of each resource in each flavor. Empty for a cohort without quota of its own.
    pub resources: Vec<Resource>,
}

/// A resource in a flavor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The ResourceFlavor.
    pub flavor: String,
    /// The resource.
    pub name: String,
    /// The nominal quota; absent for a LocalQueue, which has none of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal: Option<Quantity>,
    /// What is used; absent for a cohort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// The part of it that is above the nominal quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub borrowed: Option<Quantity>,
    /// The part of the quota that others use, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lent: Option<Quantity>,
}

/// The trees of cohorts and queues, parents before their children.
pub fn trees(queues: &[ClusterQueue], cohorts: &[Cohort]) -> Vec<Node> {
    let parents: BTreeMap<String, Option<String>> = cohorts
        .iter()
        .map(|cohort| (cohort.name_any(), cohort.spec.parent_name.clone()))
        .collect();
    let mut names: BTreeSet<String> = parents.keys().cloned().collect();
    names.extend(parents.values().flatten().cloned());
    names.extend(
        queues
            .iter()
            .filter_map(|queue| queue.spec.cohort_name.clone()),
    );
    let parent_of = |name: &String| parents.get(name).cloned().flatten();
    let mut tree = Tree {
        queues,
        cohorts,
        names: &names,
        parents: &parents,
        nodes: Vec::new(),
        placed: BTreeSet::new(),
    };
    for name in names.iter().filter(|name| parent_of(name).is_none()) {
        tree.place(name, 0);
    }
    // What is left is part of a cycle: it has no root.
    for name in &names {
        tree.place(name, 0);
    }
    let mut alone: Vec<&ClusterQueue> = queues
        .iter()
        .filter(|queue| queue.spec.cohort_name.is_none())
        .collect();
    alone.sort_by_key(|queue| queue.name_any());
    let mut nodes = tree.nodes;
    nodes.extend(alone.into_iter().map(|queue| of_queue(queue, 0)));
    nodes
}

struct Tree<'a> {
    queues: &'a [ClusterQueue],
    cohorts: &'a [Cohort],
    names: &'a BTreeSet<String>,
    parents: &'a BTreeMap<String, Option<String>>,
    nodes: Vec<Node>,
    placed: BTreeSet<String>,
}

impl Tree<'_> {
    /// Adds a cohort and all below it, unless it was added.
    fn place(&mut self, name: &str, depth: usize) {
        if !self.placed.insert(name.to_owned()) {
            return;
        }
        let cohort = self.cohorts.iter().find(|cohort| cohort.name_any() == name);
        self.nodes.push(of_cohort(name, cohort, depth));
        let below: Vec<&String> = self
            .names
            .iter()
            .filter(|child| self.parents.get(*child).and_then(Option::as_deref) == Some(name))
            .collect();
        for child in below {
            self.place(child, depth.saturating_add(1));
        }
        let mut queues: Vec<&ClusterQueue> = self
            .queues
            .iter()
            .filter(|queue| queue.spec.cohort_name.as_deref() == Some(name))
            .collect();
        queues.sort_by_key(|queue| queue.name_any());
        let queues = queues.into_iter();
        self.nodes
            .extend(queues.map(|queue| of_queue(queue, depth.saturating_add(1))));
    }
}

fn of_cohort(name: &str, cohort: Option<&Cohort>, depth: usize) -> Node {
    let groups = cohort.map(|cohort| cohort.spec.resource_groups.as_slice());
    let status = cohort.and_then(|cohort| cohort.status.as_ref());
    let conditions = status.map(|status| status.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    let inactive = find_false(conditions, ConditionType::Active);
    Node {
        kind: "Cohort",
        namespace: None,
        name: name.to_owned(),
        cluster_queue: None,
        depth,
        inactive: inactive.map(|condition| condition.message.clone()),
        pending: None,
        gated: None,
        weighted_share: None,
        admitted: None,
        resources: quotas(groups.unwrap_or_default(), None),
    }
}

fn of_queue(queue: &ClusterQueue, depth: usize) -> Node {
    let status = queue.status.clone().unwrap_or_default();
    Node {
        kind: "ClusterQueue",
        namespace: None,
        name: queue.name_any(),
        cluster_queue: None,
        depth,
        inactive: inactive(&status.conditions, queue.spec.stop_policy),
        pending: Some(status.pending_workloads),
        gated: None,
        weighted_share: None,
        admitted: Some(status.admitted_workloads),
        resources: quotas(&queue.spec.resource_groups, Some(&status.flavors_usage)),
    }
}

/// LocalQueues, which are no tree.
pub fn local(queues: &[LocalQueue]) -> Vec<Node> {
    queues.iter().map(of_local_queue).collect()
}

fn of_local_queue(queue: &LocalQueue) -> Node {
    let status = queue.status.clone().unwrap_or_default();
    let used = status.flavors_usage.into_iter().flat_map(|flavor| {
        let resources = flavor.resources.into_iter();
        resources.map(move |used| Resource {
            flavor: flavor.name.clone(),
            name: used.name,
            nominal: None,
            used: Some(used.total),
            borrowed: None,
            lent: None,
        })
    });
    Node {
        kind: "LocalQueue",
        namespace: queue.namespace(),
        name: queue.name_any(),
        cluster_queue: Some(queue.spec.cluster_queue.clone()),
        depth: 0,
        inactive: inactive(&status.conditions, queue.spec.stop_policy),
        pending: Some(status.pending_workloads),
        gated: Some(status.gated_workloads),
        weighted_share: None,
        admitted: Some(status.admitted_workloads),
        resources: used.collect(),
    }
}

/// Why a queue admits nothing, if so.
pub fn inactive(conditions: &[Condition], policy: StopPolicy) -> Option<String> {
    match (find_false(conditions, ConditionType::Active), policy) {
        (Some(told), _) => Some(told.message.clone()),
        (None, StopPolicy::None) => None,
        (None, policy) => Some(format!("spec.stopPolicy is {policy:?}")),
    }
}

/// Each resource in each flavor that there is quota for.
fn quotas(groups: &[ResourceGroup], usage: Option<&[FlavorUsage]>) -> Vec<Resource> {
    let quotas = groups.iter().flat_map(|group| &group.flavors);
    let quotas = quotas.flat_map(|flavor| flavor.resources.iter().map(move |r| (flavor, r)));
    quotas
        .map(|(flavor, quota)| {
            let flavors = usage.unwrap_or_default().iter();
            let used = flavors
                .filter(|used| used.name == flavor.name)
                .flat_map(|used| &used.resources)
                .find(|used| used.name == quota.name);
            Resource {
                flavor: flavor.name.clone(),
                name: quota.name.clone(),
                nominal: Some(quota.nominal_quota.clone()),
                used: usage.map(|_| {
                    used.map_or_else(|| Quantity("0".to_owned()), |used| used.total.clone())
                }),
                borrowed: used.and_then(|used| used.borrowed.clone()),
                lent: None,
            }
        })
        .collect()
}

impl Resource {
    /// `#` for what is used of the nominal quota, `+` for what is borrowed on top of it, `.` for the rest.
    pub fn bar(&self) -> String {
        let nanos = |quantity: &Quantity| quantity.nanos().unwrap_or_default().max(0);
        let amount = |amount: &Option<Quantity>| amount.as_ref().map_or(0, nanos);
        let (nominal, used) = (amount(&self.nominal), amount(&self.used));
        let own = used.min(nominal);
        let whole = nominal.max(used);
        if whole == 0 {
            return ".".repeat(BAR);
        }
        // What is not nothing shows.
        let signs = |part: i128| {
            let length = i128::try_from(BAR).unwrap_or_default();
            let signs = part.saturating_mul(length).saturating_add(whole - 1) / whole;
            usize::try_from(signs).unwrap_or_default().min(BAR)
        };
        let borrowed = signs(used.saturating_sub(own));
        let own = signs(own).min(BAR.saturating_sub(borrowed));
        let rest = BAR.saturating_sub(own).saturating_sub(borrowed);
        "#".repeat(own) + &"+".repeat(borrowed) + &".".repeat(rest)
    }
}
