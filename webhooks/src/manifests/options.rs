//! What the manifests depend on, and what all of them have: names, labels, and the namespaces that are left out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta,
};
use sluice_crds::{ENFORCEMENT_LABEL, QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_gates::ManagedNamespacesSpec;
use sluice_kinds::PodMetadata;
use sluice_kinds::aliases::KeyAliases;

/// Namespaces that Sluice never writes to, whoever queues what there.
pub const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// What a generated configuration depends on.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where Sluice runs. Requests from here are never asked about, so that it can be repaired.
    pub namespace: String,
    /// The service of the webhook server.
    pub service: String,
    /// The port of the service.
    pub port: i32,
    /// Sluice's own service account.
    pub service_account: String,
    /// The labels that name a queue.
    pub queue_labels: Vec<String>,
    /// The names of the queue gate, and of the annotation by which a pod asks for it.
    pub queue_gates: Vec<String>,
    /// Other keys for keys of Sluice's own, besides the two above.
    pub key_aliases: KeyAliases,
    /// The resources of the managed kinds that the shipped manifests name.
    pub resources: Vec<ManagedResource>,
    /// Those of all other managed kinds.
    pub declared: Vec<ManagedResource>,
    /// The Gates that may apply to objects that ask for nothing of Sluice.
    pub applied: Vec<AppliedGate>,
    /// Whether some Gate applies to objects, so that a queue counts that only their pod templates name.
    pub judges_templates: bool,
    /// The namespaces where objects need a queue.
    pub enforced: Vec<EnforcedNamespaces>,
    /// What policies are to know of such namespaces besides their label; webhooks know it by themselves.
    pub managed_namespaces: ManagedNamespacesSpec,
}

/// The resource of a managed kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedResource {
    /// Its API group.
    pub group: String,
    /// The version that its JobKind reads.
    pub version: String,
    /// The plural name.
    pub resource: String,
    /// Subresources by which annotations, labels or the spec can be edited, such as `status`.
    pub subresources: Vec<String>,
    /// Where an object has the metadata of its pods.
    pub pod_metadata: Vec<PodMetadata>,
}

/// A Gate that may apply to objects that ask for nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedGate {
    /// Its name.
    pub name: String,
    /// The namespaces that it selects.
    pub namespaces: LabelSelector,
    /// The resources of the managed kinds that it may apply to.
    pub resources: Vec<ManagedResource>,
    /// Whether it may apply to pods.
    pub pods: bool,
}

/// Namespaces where objects need a queue, or where it is reported what becomes of those without.
#[derive(Debug, Clone, PartialEq)]
pub struct EnforcedNamespaces {
    /// What the name of their webhook begins with: none that a Gate could have.
    pub name: &'static str,
    /// Which they are.
    pub namespaces: LabelSelector,
    /// Whether what would be done there is only reported. Then no request waits for that.
    pub is_dry_run: bool,
}

impl EnforcedNamespaces {
    /// Those whose label `sluice.dev/enforcement` requires a queue. A value that is not known does.
    pub fn labelled() -> Self {
        let free = vec![DRY_RUN.to_owned(), "Ignore".to_owned()];
        let expressions = vec![labelled("Exists", None), labelled("NotIn", Some(free))];
        Self {
            name: "enforcement-by-label",
            namespaces: selecting(expressions),
            is_dry_run: false,
        }
    }

    /// Those with the label `sluice.dev/enforcement: DryRun`.
    pub fn labelled_dry_run() -> Self {
        Self {
            name: DRY_RUN_BY_LABEL,
            namespaces: selecting(vec![labelled("In", Some(vec![DRY_RUN.to_owned()]))]),
            is_dry_run: true,
        }
    }

    /// Those of the others that the configuration selects, if it requires or reports anything there.
    pub fn configured(managed: &ManagedNamespacesSpec) -> Option<Self> {
        let selector = managed.selector.as_ref();
        let selector = selector.filter(|_| managed.unlabelled.is_judged())?;
        Some(Self::selected(selector, managed.dry_run))
    }

    /// Those of the others that `selector` selects.
    pub fn selected(selector: &LabelSelector, is_dry_run: bool) -> Self {
        let mut namespaces = selector.clone();
        let expressions = namespaces.match_expressions.get_or_insert_default();
        expressions.push(labelled("DoesNotExist", None));
        Self {
            name: if is_dry_run {
                CONFIGURED_DRY_RUN
            } else {
                "enforcement"
            },
            namespaces,
            is_dry_run,
        }
    }
}

/// The value of the label `sluice.dev/enforcement` where nothing is enforced yet.
const DRY_RUN: &str = "DryRun";

const DRY_RUN_BY_LABEL: &str = "enforcement-dry-run-by-label";
const CONFIGURED_DRY_RUN: &str = "enforcement-dry-run";
/// What the names of the webhooks begin with that only report.
pub(crate) const DRY_RUNS: [&str; 2] = [DRY_RUN_BY_LABEL, CONFIGURED_DRY_RUN];

fn labelled(operator: &str, values: Option<Vec<String>>) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: ENFORCEMENT_LABEL.to_owned(),
        operator: operator.to_owned(),
        values,
    }
}

fn selecting(expressions: Vec<LabelSelectorRequirement>) -> LabelSelector {
    LabelSelector {
        match_expressions: Some(expressions),
        ..LabelSelector::default()
    }
}

impl Default for Options {
    /// What `config/webhook` is generated from.
    fn default() -> Self {
        Self {
            namespace: "sluice-system".to_owned(),
            service: "sluice-webhook".to_owned(),
            port: 443,
            service_account: "sluice".to_owned(),
            queue_labels: vec![QUEUE_NAME_LABEL.to_owned()],
            queue_gates: vec![QUEUE_GATE.to_owned()],
            key_aliases: KeyAliases::default(),
            resources: [
                ("batch", "jobs"),
                ("apps", "deployments"),
                ("apps", "statefulsets"),
            ]
            .map(|(group, resource)| ManagedResource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
                subresources: vec!["status".to_owned()],
                pod_metadata: vec![PodMetadata::of_template()],
            })
            .to_vec(),
            declared: Vec::new(),
            applied: Vec::new(),
            judges_templates: false,
            enforced: Vec::new(),
            managed_namespaces: ManagedNamespacesSpec::default(),
        }
    }
}

impl Options {
    /// The same for these managed kinds.
    #[must_use]
    pub fn with_managed(self, managed: &[ManagedResource]) -> Self {
        let shipped = Self::default().resources;
        let managed = managed.iter().cloned();
        let (resources, declared) = managed.partition(|resource| shipped.contains(resource));
        Self {
            resources,
            declared,
            ..self
        }
    }

    /// The same where no aliases are configured, as what is shipped knows none.
    #[must_use]
    pub fn without_aliases(self) -> Self {
        let Self {
            queue_labels,
            queue_gates,
            key_aliases,
            ..
        } = Self::default();
        Self {
            queue_labels,
            queue_gates,
            key_aliases,
            ..self
        }
    }

    /// The resources of all managed kinds.
    pub(super) fn managed(&self) -> impl Iterator<Item = &ManagedResource> {
        self.resources.iter().chain(&self.declared)
    }

    /// Sluice's own user name.
    pub fn username(&self) -> String {
        format!(
            "system:serviceaccount:{}:{}",
            self.namespace, self.service_account
        )
    }
}

/// CEL: whether Sluice's own account asks, whatever namespace it is in. The name alone can be had by
/// anybody who makes service accounts in a namespace of their own; writing the status of Workloads
/// everywhere is what only Sluice's role allows.
pub(crate) fn is_sluice(options: &Options) -> String {
    let (group, account) = (sluice_crds::GROUP, &options.service_account);
    format!(
        "request.userInfo.username.startsWith('system:serviceaccount:') &&\n\
         request.userInfo.username.endsWith(':{account}') &&\n\
         authorizer.group('{group}').resource('workloads').subresource('status').check('patch').allowed()"
    )
}

/// The label by which all of Sluice is found, such as by who takes it away.
pub(crate) const OWN_LABEL: (&str, &str) = ("app.kubernetes.io/name", "sluice");

/// Named so, and with Sluice's label.
pub(crate) fn metadata(name: &str) -> ObjectMeta {
    let (key, value) = OWN_LABEL;
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([(key.to_owned(), value.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

/// By the label that no tenant can set.
pub(crate) fn namespace_selector(options: &Options) -> LabelSelector {
    // Sluice sees nothing of the namespaces of the system: what was held there would wait for ever.
    let namespaces = SYSTEM_NAMESPACES.into_iter();
    let namespaces = namespaces.chain([options.namespace.as_str()]);
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "kubernetes.io/metadata.name".to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(namespaces.map(str::to_owned).collect()),
        }]),
        ..LabelSelector::default()
    }
}
