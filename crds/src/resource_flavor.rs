//! `ResourceFlavor`: a kind of node that quota is counted for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A kind of node (a model of GPU, spot or on-demand, a zone) that ClusterQueues give quota for. A
/// job that is admitted to a flavor gets the flavor's nodeLabels as nodeSelector and its tolerations.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sluice.dev",
    version = "v1alpha1",
    kind = "ResourceFlavor",
    plural = "resourceflavors",
    shortname = "rf",
    shortname = "flavor",
    category = "sluice",
    derive = "PartialEq",
    derive = "Default",
    doc = "A kind of node (a model of GPU, spot or on-demand, a zone) that ClusterQueues give quota for.",
    printcolumn(name = "Node Labels", type_ = "string", json_path = ".spec.nodeLabels"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFlavorSpec {
    /// Labels that tell the nodes of this flavor. A job admitted to it gets them as nodeSelector;
    /// a job whose nodeSelector or required node affinity contradicts them is not given this flavor.
    /// A flavor without labels stands for any node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub node_labels: BTreeMap<String, String>,
    /// Taints of the nodes of this flavor. Only jobs that tolerate the NoSchedule and NoExecute
    /// ones (with the tolerations below) are given this flavor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new("self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])").message("effect must be one of: NoSchedule, PreferNoSchedule, NoExecute"))]
    pub node_taints: Vec<Taint>,
    /// Tolerations that a job admitted to this flavor gets besides its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(
        validation = Rule::new("self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])").message("operator must be one of: Equal, Exists"),
        validation = Rule::new("self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value) || t.value == '')").message("value must be empty when operator is Exists")
    )]
    pub tolerations: Vec<Toleration>,
}
