//! What a run may change about its control plane. The defaults are what most tests want.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::controlplane::components::Component;
use crate::controlplane::nodes::NodeSpec;

/// How to start a control plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many nodes to begin with: `node-0`, `node-1`, …
    pub nodes: usize,
    /// What each of them is like.
    pub node: NodeSpec,
    /// The audit policy, as YAML; by default every request at the level Metadata, once.
    pub audit_policy: String,
    /// YAML applied before the controllers start. CRDs belong here: the garbage collector sees
    /// them at once, where it takes up to 30 s to notice those that come later. Objects of these
    /// CRDs can't be among them: apply those afterwards.
    pub manifests: Vec<String>,
    /// Whether a second API server runs on the same etcd: [`Component::SecondApiServer`].
    pub second_api_server: bool,
    /// The common name of the client certificate that API servers show to webhooks; by default none, as on most
    /// clusters. The CA of the control plane signs it.
    pub webhook_client: Option<String>,
    /// The minor version of Kubernetes, for instance `1.33`, as which API servers, controllers and scheduler behave:
    /// what is newer is off, and CEL knows what that version knows. By default their own; they can go back three.
    pub emulated_version: Option<String>,
    /// The port of the API server; by default one that is free.
    pub api_port: Option<u16>,
    /// More arguments for the API server.
    pub api_server_args: Vec<String>,
    /// More arguments for the controller manager.
    pub controller_manager_args: Vec<String>,
    /// More arguments for the scheduler.
    pub scheduler_args: Vec<String>,
    /// Components not to start. Without KWOK or the controller manager no node gets ready.
    pub without: Vec<Component>,
    /// How long each step of the start may take. It takes 1–2 s; the rest is for a loaded machine.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 2,
            node: NodeSpec::default(),
            audit_policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\n\
                           omitStages: [RequestReceived]\nrules:\n- level: Metadata\n"
                .into(),
            manifests: Vec::new(),
            second_api_server: false,
            webhook_client: None,
            emulated_version: None,
            api_port: None,
            api_server_args: Vec::new(),
            controller_manager_args: Vec::new(),
            scheduler_args: Vec::new(),
            without: Vec::new(),
            deadline: Duration::from_mins(5),
        }
    }
}

impl Options {
    /// The defaults and Sluice's CRDs, for a control plane that gets a [`crate::Sluice`].
    ///
    /// # Errors
    /// When the CRDs can't be read.
    pub fn with_crds() -> Result<Self> {
        Self::with_crds_of(&crate::programs::assets::repository()?)
    }

    /// As [`Options::with_crds`], with the CRDs of another version: those in the folder `root`.
    ///
    /// # Errors
    /// When the CRDs can't be read.
    pub fn with_crds_of(root: &Path) -> Result<Self> {
        Ok(Self {
            manifests: crate::sluice::crds(root)?,
            ..Self::default()
        })
    }

    /// Leaves all nodes to a [`crate::Karpenter`].
    #[must_use]
    pub fn for_karpenter(mut self) -> Self {
        self.nodes = 0;
        // Until Karpenter knows a new node, its taint evicts. The eviction may come late, when the
        // taint has gone and a pod has come; a test would lose that pod now and then.
        self.controller_manager_args
            .push("--controllers=*,-taint-eviction-controller".into());
        self
    }

    /// Plays no nodes: whoever starts it brings real ones. Their pods reach the API server at this address of the
    /// machine, by its Service or at the port that NetworkPolicies expect.
    #[must_use]
    pub fn for_real_nodes(mut self, address: Ipv4Addr) -> Self {
        self.nodes = 0;
        self.without.push(Component::Kwok);
        self.api_port = Some(6443);
        self.api_server_args.extend([
            "--bind-address=0.0.0.0".into(),
            format!("--advertise-address={address}"),
            "--endpoint-reconciler-type=lease".into(),
            // Nothing resolves the names of nodes here.
            "--kubelet-preferred-address-types=InternalIP".into(),
        ]);
        self
    }

    pub(crate) fn initial_nodes(&self) -> Vec<NodeSpec> {
        let playing = [Component::ControllerManager, Component::Kwok];
        if playing.iter().any(|c| self.without.contains(c)) {
            return Vec::new();
        }
        (0..self.nodes)
            .map(|i| self.node.named(format!("node-{i}")))
            .collect()
    }
}
