//! Nodes that KWOK plays: objects with whatever resources, labels and taints a test needs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, NodeSpec as KubeNodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};

use crate::wait::eventually;

/// KWOK answers in well under a second; the rest is for a loaded machine.
const READY_DEADLINE: Duration = Duration::from_mins(3);

/// Only a finalizer keeps a node at all.
const GONE_DEADLINE: Duration = Duration::from_mins(3);

/// A node to be played.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    name: String,
    resources: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

impl NodeSpec {
    /// A node with 32 CPUs, 128 Gi of memory, 100 Gi of storage and 1000 pods.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Sets an allocatable resource: `("cpu", "8")`, `("nvidia.com/gpu", "4")`.
    #[must_use]
    pub fn resource(mut self, name: impl Into<String>, amount: impl Into<String>) -> Self {
        self.resources.insert(name.into(), amount.into());
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds a taint; the effect is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[must_use]
    pub fn taint(
        mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        self.taints.push(Taint {
            key: key.into(),
            value: Some(value.into()),
            effect: effect.into(),
            time_added: None,
        });
        self
    }

    /// The same node by another name.
    #[must_use]
    pub fn named(&self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self.clone()
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn object(&self) -> Node {
        let mut labels = self.labels.clone();
        labels.insert("kubernetes.io/hostname".into(), self.name.clone());
        labels
            .entry("kubernetes.io/os".into())
            .or_insert_with(|| "linux".into());
        labels
            .entry("kubernetes.io/arch".into())
            .or_insert_with(|| "amd64".into());
        labels.insert("type".into(), "kwok".into());
        let amounts: BTreeMap<_, _> = self
            .resources
            .iter()
            .map(|(k, v)| (k.clone(), Quantity(v.clone())))
            .collect();
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels),
                // What KWOK itself and Karpenter's KWOK provider put on their nodes.
                annotations: Some([("kwok.x-k8s.io/node".into(), "fake".into())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(KubeNodeSpec {
                taints: (!self.taints.is_empty()).then(|| self.taints.clone()),
                ..KubeNodeSpec::default()
            }),
            status: Some(NodeStatus {
                allocatable: Some(amounts.clone()),
                capacity: Some(amounts),
                ..NodeStatus::default()
            }),
        }
    }
}

impl Default for NodeSpec {
    fn default() -> Self {
        let resources = [
            ("cpu", "32"),
            ("ephemeral-storage", "100Gi"),
            ("memory", "128Gi"),
            ("pods", "1000"),
        ];
        Self {
            name: String::new(),
            resources: resources.map(|(k, v)| (k.into(), v.into())).into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }
}

pub(crate) async fn create(client: kube::Client, nodes: &[NodeSpec]) -> Result<()> {
    let api: Api<Node> = Api::all(client);
    for node in nodes {
        api.create(&PostParams::default(), &node.object())
            .await
            .with_context(|| format!("creating node {}", node.name))?;
    }
    Ok(())
}

/// Until the scheduler may use all of them: Ready, and without the taint that says otherwise.
pub(crate) async fn wait_ready(client: kube::Client, nodes: &[NodeSpec]) -> Result<()> {
    let api: Api<Node> = Api::all(client);
    for node in nodes {
        eventually(
            &format!("node {} to be ready", node.name),
            READY_DEADLINE,
            async || {
                let found = api.get(&node.name).await.map_err(|e| e.to_string())?;
                if usable(&found) {
                    Ok(())
                } else {
                    Err("not ready, or still tainted".to_owned())
                }
            },
        )
        .await?;
    }
    Ok(())
}

pub(crate) async fn remove(client: kube::Client, name: &str) -> Result<()> {
    let api: Api<Node> = Api::all(client);
    api.delete(name, &DeleteParams::default())
        .await
        .with_context(|| format!("deleting node {name}"))?;
    eventually(
        &format!("node {name} to be gone"),
        GONE_DEADLINE,
        async || match api.get_opt(name).await.map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(node) => Err(format!("{:?}", node.metadata)),
        },
    )
    .await
}

fn usable(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    let mut taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    conditions
        .into_iter()
        .any(|c| c.type_ == "Ready" && c.status == "True")
        && !taints.any(|t| t.key == "node.kubernetes.io/not-ready")
}
