//! `WithinQuota`: what is admitted is within quota at every revision that adds an admission. The quota of
//! a tree of cohorts is worked out anew each time, slowly, as docs/queues.md says it in words.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cluster::{
    Cluster, holds_quota, list, name_of, nanos, own_admission, plain_requests, text,
};
use crate::history::Kind;

/// A flavor and a resource of it.
type Share = (String, String);
/// The usage of a queue, in nano-units.
type Usage = BTreeMap<Share, i128>;

/// Deeper than any tree that is looked at; a cycle of cohorts ends here.
const DEEPEST: usize = 32;

/// The usage of an object, with its ClusterQueue: a Workload, or a pod that is admitted by itself.
pub(super) fn usage_of(object: &Value) -> Option<(String, Usage)> {
    if object["kind"] == "Pod" {
        let record = own_admission(object)?;
        let queue = text(&record, "/clusterQueue").to_owned();
        let requests = plain_requests(object)?;
        let flavors = record["flavors"].as_object()?;
        let shares = flavors.iter().map(|(resource, flavor)| {
            let amount = match resource.as_str() {
                "pods" => POD,
                resource => requests.get(resource).copied().unwrap_or_default(),
            };
            (
                (
                    flavor.as_str().unwrap_or_default().to_owned(),
                    resource.clone(),
                ),
                amount,
            )
        });
        return Some((queue, shares.collect()));
    }
    holds_quota(object).then(|| usage_for(object, i128::MAX))
}

/// The usage of a Workload, for so many pods of each set at most.
fn usage_for(object: &Value, most: i128) -> (String, Usage) {
    let mut usage = Usage::new();
    for set in list(object, "/status/admission/podSetAssignments") {
        let count = i128::from(set["count"].as_i64().unwrap_or_default());
        let left = (count - reclaimed(object, text(set, "/name"))).min(most);
        for (resource, flavor) in set["flavors"].as_object().into_iter().flatten() {
            let flavor = flavor.as_str().unwrap_or_default().to_owned();
            let amount = left * each(object, text(set, "/name"), resource);
            *usage.entry((flavor, resource.clone())).or_default() += amount;
        }
    }
    (
        text(object, "/status/admission/clusterQueue").to_owned(),
        usage,
    )
}

/// What is wrong with the amounts that a Workload with an admission says itself: they are what its
/// pods ask for, times how many there are.
pub(super) fn wrong_amounts(workload: &Value, job: Option<&Value>) -> Vec<String> {
    let mut wrong = Vec::new();
    let job = job.and_then(|job| job.pointer("/spec/template"));
    let asked = job.and_then(plain_requests);
    for set in list(workload, "/status/admission/podSetAssignments") {
        let name = text(set, "/name");
        let count = i128::from(set["count"].as_i64().unwrap_or_default());
        for (resource, amount) in set["resourceUsage"].as_object().into_iter().flatten() {
            let each = each(workload, name, resource);
            if nanos(amount) != each * count {
                wrong.push(format!(
                    "pod set {name} uses {amount} of {resource} for {count} pods of {each} n"
                ));
            }
            let asked = asked
                .as_ref()
                .and_then(|asked| asked.get(resource.as_str()));
            if let Some(asked) = asked
                && *asked != each
            {
                wrong.push(format!(
                    "pod set {name} says {each} n of {resource}, its job asks for {asked} n"
                ));
            }
        }
    }
    wrong
}

/// Where usage in the tree of this ClusterQueue is above its limit, of what this admission adds to.
pub(super) fn exceeded(cluster: &Cluster, queue: &str, admitted: &Usage) -> Vec<String> {
    let tree = Tree {
        cluster,
        usage: usage_by_queue(cluster),
    };
    let mut problems = Vec::new();
    for (share, amount) in admitted {
        if 0 < *amount {
            problems.extend(tree.exceeded(queue, share));
        }
    }
    problems
}

/// One pod, in nano-units.
const POD: i128 = 1_000_000_000;

/// What one pod of a set asks for.
fn each(workload: &Value, set: &str, resource: &str) -> i128 {
    if resource == "pods" {
        return POD;
    }
    let set = list(workload, "/spec/podSets").find(|s| s["name"] == set);
    set.map_or(0, |set| nanos(&set["requests"][resource]))
}

/// How many pods of a set have ended for good, as the Workload says.
fn reclaimed(workload: &Value, set: &str) -> i128 {
    let set = list(workload, "/status/reclaimablePods").find(|s| s["name"] == set);
    set.map_or(0, |set| {
        i128::from(set["count"].as_i64().unwrap_or_default())
    })
}

fn usage_by_queue(cluster: &Cluster) -> BTreeMap<String, Usage> {
    let mut queues: BTreeMap<String, Usage> = BTreeMap::new();
    let objects = cluster.of(Kind::Workload).chain(cluster.of(Kind::Pod));
    let usages = objects
        .filter(|object| !cluster.is_late(object))
        .filter_map(usage_of);
    let outlived = cluster
        .outlived()
        .map(|(workload, pods)| usage_for(workload, pods));
    for (queue, usage) in usages.chain(outlived) {
        let sum = queues.entry(queue).or_default();
        for (share, amount) in usage {
            *sum.entry(share).or_default() += amount;
        }
    }
    queues
}

/// The quota of one node for one share.
#[derive(Clone, Copy, Debug, Default)]
struct Quota {
    nominal: i128,
    borrowing: Option<i128>,
    lending: Option<i128>,
}

struct Tree<'a> {
    cluster: &'a Cluster,
    usage: BTreeMap<String, Usage>,
}

impl Tree<'_> {
    /// From the queue up to its root: where usage is above its limit.
    fn exceeded(&self, queue: &str, share: &Share) -> Option<String> {
        let used = self.usage.get(queue).and_then(|usage| usage.get(share));
        let used = used.copied().unwrap_or_default();
        let object = self.cluster.by_name(Kind::ClusterQueue, queue);
        let quota = quota_of(object, share);
        let cohort = object.map_or("", |object| text(object, "/spec/cohortName"));
        let limit = most(quota, quota.nominal, cohort);
        if limit < used {
            return Some(told("ClusterQueue", queue, share, used, limit));
        }
        let mut cohort = cohort;
        for _ in 0..DEEPEST {
            if cohort.is_empty() {
                break;
            }
            let object = self.cluster.by_name(Kind::Cohort, cohort);
            let parent = object.map_or("", |object| text(object, "/spec/parentName"));
            let used = self.used_of_cohort(cohort, share, 0);
            let quota = quota_of(object, share);
            let limit = most(quota, self.quota_of_cohort(cohort, share, 0), parent);
            if limit < used {
                return Some(told("Cohort", cohort, share, used, limit));
            }
            cohort = parent;
        }
        None
    }

    /// What a cohort has: its own, and what its members lend.
    fn quota_of_cohort(&self, cohort: &str, share: &Share, depth: usize) -> i128 {
        let mut sum = quota_of(self.cluster.by_name(Kind::Cohort, cohort), share).nominal;
        if DEEPEST < depth {
            return sum;
        }
        for queue in self.queues_in(cohort) {
            let quota = quota_of(Some(queue), share);
            sum += lent(quota, quota.nominal);
        }
        for child in self.cohorts_in(cohort) {
            let has = self.quota_of_cohort(name_of(child), share, depth + 1);
            sum += lent(quota_of(Some(child), share), has);
        }
        sum
    }

    /// What the members of a cohort use beyond what each keeps for itself.
    fn used_of_cohort(&self, cohort: &str, share: &Share, depth: usize) -> i128 {
        let mut sum = 0;
        if DEEPEST < depth {
            return sum;
        }
        for queue in self.queues_in(cohort) {
            let quota = quota_of(Some(queue), share);
            let used = self
                .usage
                .get(name_of(queue))
                .and_then(|usage| usage.get(share));
            let kept = quota.nominal - lent(quota, quota.nominal);
            sum += (used.copied().unwrap_or_default() - kept).max(0);
        }
        for child in self.cohorts_in(cohort) {
            let has = self.quota_of_cohort(name_of(child), share, depth + 1);
            let kept = has - lent(quota_of(Some(child), share), has);
            sum += (self.used_of_cohort(name_of(child), share, depth + 1) - kept).max(0);
        }
        sum
    }

    fn queues_in(&self, cohort: &str) -> impl Iterator<Item = &Value> {
        let queues = self.cluster.of(Kind::ClusterQueue);
        queues.filter(move |queue| text(queue, "/spec/cohortName") == cohort)
    }

    fn cohorts_in(&self, cohort: &str) -> impl Iterator<Item = &Value> {
        let cohorts = self.cluster.of(Kind::Cohort);
        cohorts.filter(move |child| text(child, "/spec/parentName") == cohort)
    }
}

/// Of what a node has, what others may use.
fn lent(quota: Quota, has: i128) -> i128 {
    quota.lending.map_or(has, |limit| limit.min(has))
}

/// The most that a node may use: what it has, and what it may borrow of a parent.
fn most(quota: Quota, has: i128, parent: &str) -> i128 {
    if parent.is_empty() {
        return has;
    }
    quota.borrowing.map_or(i128::MAX, |limit| has + limit)
}

fn quota_of(object: Option<&Value>, (flavor, resource): &Share) -> Quota {
    let groups = object.map(|object| list(object, "/spec/resourceGroups"));
    let flavors = groups
        .into_iter()
        .flatten()
        .flat_map(|group| list(group, "/flavors"));
    let resources = flavors
        .filter(|f| f["name"] == flavor.as_str())
        .flat_map(|f| list(f, "/resources"));
    let mut found = resources.filter(|r| r["name"] == resource.as_str());
    let limit = |value: &Value| (!value.is_null()).then(|| nanos(value));
    found.next().map_or_else(Quota::default, |resource| Quota {
        nominal: nanos(&resource["nominalQuota"]),
        borrowing: limit(&resource["borrowingLimit"]),
        lending: limit(&resource["lendingLimit"]),
    })
}

fn told(kind: &str, name: &str, (flavor, resource): &Share, used: i128, limit: i128) -> String {
    format!("{kind} {name} uses {used} n of {limit} n of {resource} in flavor {flavor}")
}
