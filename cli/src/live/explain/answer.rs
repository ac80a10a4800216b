//! What visibility.sluice.dev says about one workload, as far as it is shown to people: `docs/visibility.md`. Fields that
//! are not known here are passed on to programs as they are.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::jobs::{Job, KindNames};
use crate::table::{NONE, columns};

/// The explanation of a workload.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    message: Option<String>,
    reason: Option<String>,
    gates: Vec<String>,
    position_in_cluster_queue: Option<usize>,
    job: Option<Owner>,
    ahead: Option<Workloads>,
    can_ever_be_admitted: Option<bool>,
    lacking: Vec<Lacking>,
    flavors: Vec<Tried>,
    held_by: Vec<Holding>,
    stopping: Option<Workloads>,
    has_to_end: Option<Workloads>,
    pod_set_assignments: Vec<Assignment>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Workloads {
    items: Vec<Named>,
    in_namespace: usize,
    in_other_namespaces: usize,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    job: Option<Owner>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    api_group: String,
    kind: String,
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Lacking {
    flavor: String,
    resource: String,
    amount: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tried {
    pod_set: String,
    name: String,
    reason: String,
    message: Option<String>,
    resources: Vec<Needed>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Needed {
    name: String,
    requested: String,
    free: String,
    most: String,
    lacking: String,
    limited_by: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Holding {
    flavor: String,
    resource: String,
    in_namespace: Sum,
    in_cluster_queue: Sum,
    in_cohort: Sum,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Sum {
    count: usize,
    amount: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Assignment {
    name: String,
    flavors: BTreeMap<String, String>,
}

/// Where a workload stands in its queue: what counts, where the objects that the caller sees may say otherwise.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuePlace {
    priority: Option<i32>,
    position_in_cluster_queue: Option<usize>,
    position_in_local_queue: Option<usize>,
}

impl QueuePlace {
    /// What an explanation says of it.
    pub fn read(explanation: &Value) -> Option<Self> {
        Self::deserialize(explanation).ok()
    }

    /// Gives it to a job. One that waits and is in no list yet has no place. How many wait is not said with it.
    pub fn give_to(self, job: &mut Job) {
        job.priority = self.priority.unwrap_or(job.priority);
        if job.is_queued() {
            job.place = self
                .position_in_local_queue
                .map(|before| before.saturating_add(1));
            job.ahead = self.position_in_cluster_queue;
            job.pending = None;
        }
    }
}

impl Answer {
    /// Its fields, in the order in which they are shown. What conditions say already is not said again.
    pub fn fields(&self, has_conditions: bool) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        let kinds = self.kinds();
        let mut add = |name, text: String| {
            if !text.is_empty() {
                fields.push((name, text));
            }
        };
        if let (Some(reason), Some(message), false) = (&self.reason, &self.message, has_conditions)
        {
            add("Reason", format!("{reason}: {message}"));
        }
        add("Gates", self.gates.join(", "));
        if let (Some(position), Some(ahead)) = (self.position_in_cluster_queue, &self.ahead) {
            let of = match position {
                0 => "none in the ClusterQueue".to_owned(),
                _ => format!("{position} in the ClusterQueue: {}", ahead.text(&kinds)),
            };
            add("Ahead", of);
        }
        if self.can_ever_be_admitted == Some(false) {
            let text = "no: it requests more than the ClusterQueue can ever provide, or no flavor suits its pods";
            add("Ever Fits", text.to_owned());
        }
        let lacking = self.lacking.iter();
        let lacking =
            lacking.map(|l| format!("{} {} in flavor {}", l.resource, l.amount, l.flavor));
        add("Lacking", lacking.collect::<Vec<_>>().join("; "));
        let held = self.held_by.iter().map(Holding::text);
        add("In Use By", held.collect::<Vec<_>>().join("; "));
        let text = |workloads: &Option<Workloads>| {
            let text = workloads.as_ref().map(|them| them.text(&kinds));
            text.unwrap_or_default()
        };
        add("Stopping", text(&self.stopping));
        add("Waits For", text(&self.has_to_end));
        let assigned = self.pod_set_assignments.iter().map(Assignment::text);
        add("Flavors", assigned.collect::<Vec<_>>().join("; "));
        fields
    }

    /// What the kinds of all that it names are called.
    fn kinds(&self) -> KindNames {
        let others = [&self.ahead, &self.stopping, &self.has_to_end];
        let others = others.into_iter().flatten().flat_map(|them| &them.items);
        let named = others.filter_map(|named| named.job.as_ref());
        let all = self.job.iter().chain(named);
        KindNames::of(all.map(|job| (&*job.api_group, &*job.kind)))
    }

    /// Whether its fields have this message, where no conditions say it already.
    pub fn says(&self, message: &str) -> bool {
        self.reason.is_some() && self.message.as_deref() == Some(message)
    }

    /// Each pod set in each flavor, if any was tried.
    pub fn table(&self) -> Option<String> {
        let rows: Vec<Vec<String>> = self.flavors.iter().flat_map(Tried::rows).collect();
        let headers = [
            "FLAVOR",
            "POD SET",
            "RESULT",
            "RESOURCE",
            "REQUESTED",
            "FREE",
            "LACKING",
            "MOST",
            "LIMIT",
        ];
        (!rows.is_empty()).then(|| columns(&headers, &rows, 0))
    }
}

impl Workloads {
    fn text(&self, kinds: &KindNames) -> String {
        let named = self.items.iter().map(|named| named.text(kinds));
        let mut parts: Vec<String> = named.collect();
        let more = self.in_namespace.saturating_sub(self.items.len());
        if 0 < more {
            parts.push(format!("{more} more of this namespace"));
        }
        if 0 < self.in_other_namespaces {
            parts.push(format!("{} of other namespaces", self.in_other_namespaces));
        }
        parts.join(", ")
    }
}

impl Named {
    fn text(&self, kinds: &KindNames) -> String {
        let job = self.job.as_ref();
        job.map_or_else(
            || self.name.clone(),
            |job| format!("{}/{}", kinds.name(&job.api_group, &job.kind), job.name),
        )
    }
}

impl Holding {
    fn text(&self) -> String {
        let of = |sum: &Sum, place: &str| {
            let Sum { count, amount } = sum;
            let hold = if *count == 1 { "holds" } else { "hold" };
            (0 < *count).then(|| format!("{count} {place} {hold} {amount}"))
        };
        let parts: Vec<String> = [
            of(&self.in_namespace, "of this namespace"),
            of(&self.in_cluster_queue, "of others in the ClusterQueue"),
            of(&self.in_cohort, "of others in the cohort"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let Self {
            flavor, resource, ..
        } = self;
        format!("{resource} in flavor {flavor}: {}", parts.join(", "))
    }
}

impl Tried {
    fn rows(&self) -> Vec<Vec<String>> {
        let first = [&self.name, &self.pod_set, &self.reason].map(Clone::clone);
        if self.resources.is_empty() {
            let mut row = first.to_vec();
            row.push(self.message.clone().unwrap_or_default());
            return vec![row];
        }
        let mut first = Some(first);
        let row = |needed: &Needed| {
            let mut row = first.take().unwrap_or_default().to_vec();
            row.extend([
                needed.name.clone(),
                needed.requested.clone(),
                needed.free.clone(),
                needed.lacking.clone(),
                needed.most.clone(),
                needed.limited_by.clone().unwrap_or_else(|| NONE.to_owned()),
            ]);
            row
        };
        self.resources.iter().map(row).collect()
    }
}

impl Assignment {
    fn text(&self) -> String {
        let flavors = self.flavors.iter();
        let flavors = flavors.map(|(resource, flavor)| format!("{resource} from {flavor}"));
        format!("{}: {}", self.name, flavors.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;
    use crate::table;

    fn shown(answer: Value, has_conditions: bool) -> String {
        let answer: Answer = serde_json::from_value(answer).unwrap();
        let fields = table::fields(&answer.fields(has_conditions), 0);
        format!("{fields}\n{}", answer.table().unwrap_or_default())
    }

    /// The example in the page for users.
    #[test]
    fn what_is_documented_is_shown() {
        let page = include_str!("../../../../docs/visibility.md");
        let mut examples = page.split("```json\n").skip(2);
        let (example, _) = examples.next().unwrap().split_once("```").unwrap();
        let example = serde_json::from_str(example).unwrap();
        assert_snapshot!(shown(example, true), @r"
        Ahead:      2 in the ClusterQueue: Job/first, 1 of other namespaces
        Lacking:    cpu 2 in flavor spot
        In Use By:  cpu in flavor spot: 1 of this namespace holds 1, 1 of others in the ClusterQueue holds 2
        Waits For:  1 of other namespaces

        FLAVOR   POD SET   RESULT            RESOURCE   REQUESTED   FREE   LACKING   MOST   LIMIT
        spot     main      WaitingForQuota   cpu        2           0      2         3      ClusterQueue
        ");
    }

    /// Volcano has a Job, too.
    #[test]
    fn kinds_of_one_name_are_told_apart() {
        let of = |group: &str, kind: &str, name: &str| json!({"apiGroup": group, "kind": kind, "name": name});
        let named = |job: Value| json!({"name": "w", "job": job});
        let ahead = [
            named(of("batch.volcano.sh", "Job", "first")),
            named(of("ray.io", "RayJob", "second")),
        ];
        let told = json!({
            "job": of("batch", "Job", "train"), "positionInClusterQueue": 2,
            "ahead": {"items": ahead, "inNamespace": 2, "inOtherNamespaces": 0},
            "hasToEnd": {"items": [named(of("batch", "Job", "runs"))], "inNamespace": 1, "inOtherNamespaces": 0},
        });
        assert_snapshot!(shown(told, true), @r"
        Ahead:      2 in the ClusterQueue: Job.batch.volcano.sh/first, RayJob/second
        Waits For:  Job.batch/runs
        ");
    }

    #[test]
    fn what_can_never_fit_and_what_is_admitted_says_so() {
        let never = json!({
            "reason": "NoMatchingFlavor", "message": "the flavor has a taint", "canEverBeAdmitted": false, "lacking": [],
            "flavors": [
                {"podSet": "main", "name": "spot", "reason": "NoMatchingNodes", "message": "taint spot=true is not tolerated"},
                {"podSet": "main", "name": "fixed", "reason": "ExceedsMaxQuota", "resources": [
                    {"name": "cpu", "requested": "4", "free": "1", "most": "2", "lacking": "3", "limitedBy": "Cohort"},
                    {"name": "memory", "requested": "1Gi", "free": "2Gi", "most": "2Gi", "lacking": "0"},
                ]},
            ],
            "stopping": {"items": [], "inNamespace": 0, "inOtherNamespaces": 2},
        });
        let admitted = json!({"podSetAssignments": [
            {"name": "main", "count": 1, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}},
        ]});
        assert_snapshot!(shown(never, false) + &shown(admitted, true), @r"
        Reason:     NoMatchingFlavor: the flavor has a taint
        Ever Fits:  no: it requests more than the ClusterQueue can ever provide, or no flavor suits its pods
        Stopping:   2 of other namespaces

        FLAVOR   POD SET   RESULT            RESOURCE                           REQUESTED   FREE   LACKING   MOST   LIMIT
        spot     main      NoMatchingNodes   taint spot=true is not tolerated
        fixed    main      ExceedsMaxQuota   cpu                                4           1      3         2      Cohort
                                             memory                             1Gi         2Gi    0         2Gi    <none>
        Flavors:  main: cpu from spot
        ");
    }
}
