//! `Cohort`: a node of the tree in which ClusterQueues lend and borrow quota.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster_queue::ResourceGroup;
use crate::fair_sharing::{FairSharing, FairSharingStatus};

/// A node of the tree in which ClusterQueues lend and borrow quota.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sluice.dev",
    version = "v1alpha1",
    kind = "Cohort",
    plural = "cohorts",
    category = "sluice",
    derive = "PartialEq",
    derive = "Default",
    status = "CohortStatus",
    doc = "A node of the tree in which ClusterQueues lend and borrow quota. Needed only to give a cohort a parent or quota of its own.",
    validation = Rule::new("!has(self.spec.parentName) || self.spec.parentName != self.metadata.name").message("spec.parentName must not be the cohort itself"),
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parentName"),
    printcolumn(name = "Active", type_ = "string", json_path = ".status.conditions[?(@.type==\"Active\")].status"),
    printcolumn(name = "Usage", type_ = "string", json_path = ".status.usage"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.resourceGroups) || self.resourceGroups.map(g, size(g.flavors)).sum() <= 256").message("all resource groups together must have at most 256 flavors"))]
#[x_kube(validation = Rule::new("!has(self.resourceGroups) || self.resourceGroups.map(g, size(g.coveredResources)).sum() <= 256").message("all resource groups together must cover at most 256 resources"))]
pub struct CohortSpec {
    /// The parent cohort. Empty: this cohort is the root of its tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub parent_name: Option<String>,
    /// Quota of the cohort itself, which all queues below it may borrow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub resource_groups: Vec<ResourceGroup>,
    /// This cohort's part of the quota that its parent can lend. It counts only if the controller's
    /// configuration has fairSharing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
}

/// The observed state of a Cohort.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CohortStatus {
    /// Active: whether queues of this cohort can admit jobs, and why not: the cohort is part of a cycle, its tree is
    /// too deep, or its quota can't be counted.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What ClusterQueues below use of the quota of each resource that can be shared in this cohort, for people: `cpu 3/4, memory 2Gi/8Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// This cohort's share in its parent. Present only if the controller's configuration has fairSharing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharingStatus>,
}
