//! `ResourceFlavor`: a kind of node that quota is counted for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A kind of node (a GPU model, spot or on-demand, a zone) for which ClusterQueues have quota. The
/// nodeLabels and tolerations of the flavor are added to the pods of jobs that are admitted with it.
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
    doc = "A kind of node (a GPU model, spot or on-demand, a zone) for which ClusterQueues have quota.",
    printcolumn(name = "Node Labels", type_ = "string", json_path = ".spec.nodeLabels"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFlavorSpec {
    /// The labels of the nodes of this flavor. They are added to the nodeSelector of admitted jobs. The
    /// flavor is not assigned to a job whose nodeSelector or required node affinity contradicts them. A
    /// flavor without labels stands for any node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub node_labels: BTreeMap<String, String>,
    /// The taints of the nodes of this flavor. The flavor is assigned only to jobs that tolerate its
    /// NoSchedule and NoExecute taints, with the tolerations below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new("self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])").message("effect must be one of: NoSchedule, PreferNoSchedule, NoExecute"))]
    pub node_taints: Vec<Taint>,
    /// Tolerations that are added to jobs that are admitted with this flavor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(
        validation = Rule::new("self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])").message("operator must be one of: Equal, Exists"),
        validation = Rule::new("self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value) || t.value == '')").message("value must be empty when operator is Exists")
    )]
    pub tolerations: Vec<Toleration>,
}
