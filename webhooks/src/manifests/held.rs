//! The kinds that policies can hold, and in which of three ways.

use std::collections::BTreeMap;

use sluice_crds::{AdmissionMode, JobKindSpec, PodSetRule, WhenAbsent};
use sluice_kinds::{PodMetadata, Problem};

use crate::manifests::options::ManagedResource;

/// A kind whose objects the policies hold.
#[derive(Debug, Clone)]
pub struct HeldKind {
    pub(crate) resource: ManagedResource,
    pub(crate) job_kind: JobKindSpec,
    way: Way,
}

/// In which way a kind is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By its suspend field, or by the gates in pod templates whose paths are known.
    Templates,
    /// By what is written into the metadata of its pods; by its suspend field while there are gates.
    Metadata,
    /// By its suspend field alone: its pod templates are many, or not its own.
    Suspend,
}

/// The kinds that one policy is for.
pub(crate) enum PolicyKinds<'a> {
    /// A kind with pod templates at fixed paths.
    Templates(&'a HeldKind),
    /// A kind that says nothing of its pods but their metadata.
    Metadata(&'a HeldKind),
    /// Kinds that are suspended by the same path.
    Suspended(Group<'a>),
}

/// Kinds that are suspended by the same path.
pub(crate) struct Group<'a> {
    /// The path.
    pub(crate) suspend: &'a str,
    /// The kinds.
    pub(crate) kinds: Vec<&'a HeldKind>,
}

impl HeldKind {
    /// The kind that `job_kind` declares, whose objects are `resource`. The expressions of the
    /// JobKind must be such as the API server takes.
    ///
    /// # Errors
    /// Policies can't hold such a kind: why.
    pub fn new(resource: ManagedResource, job_kind: JobKindSpec) -> Result<Self, Problem> {
        let way = way(&job_kind)?;
        let resource = ManagedResource {
            pod_metadata: PodMetadata::of(&job_kind.pod_sets),
            ..resource
        };
        Ok(Self {
            resource,
            job_kind,
            way,
        })
    }

    /// The name of both policies of the kind: resource and API group, as in `kubectl get jobs.batch`.
    pub(crate) fn policy_name(&self) -> String {
        let Self { resource, .. } = self;
        let name = ["sluice-", &resource.resource, ".", &resource.group].concat();
        name.trim_end_matches('.').to_owned()
    }
}

/// What there are policies for: one each, or one for all that are suspended by the same path.
pub(crate) fn policy_kinds(kinds: &[HeldKind]) -> Vec<PolicyKinds<'_>> {
    let mut found = Vec::new();
    let mut groups: BTreeMap<&str, Vec<&HeldKind>> = BTreeMap::new();
    for kind in kinds {
        match (kind.way, &kind.job_kind.suspend) {
            (Way::Suspend, Some(path)) => groups.entry(path).or_default().push(kind),
            (Way::Metadata, _) => found.push(PolicyKinds::Metadata(kind)),
            (Way::Templates | Way::Suspend, _) => found.push(PolicyKinds::Templates(kind)),
        }
    }
    let groups = groups.into_iter();
    found.extend(groups.map(|(suspend, kinds)| PolicyKinds::Suspended(Group { suspend, kinds })));
    found
}

fn way(kind: &JobKindSpec) -> Result<Way, Problem> {
    let field = |is: fn(&PodSetRule) -> bool, name: &str| {
        let index = kind.pod_sets.iter().position(is);
        index.map(|index| format!("spec.podSets[{index}].{name}"))
    };
    let is_marked = |set: &PodSetRule| set.pod_metadata.is_some();
    if !kind.pod_sets.is_empty() && kind.pod_sets.iter().all(is_marked) {
        return Ok(Way::Metadata);
    }
    if let Some(field) = field(is_marked, "podMetadata") {
        let rule =
            "policies hold a kind by its pod templates or by the metadata of its pods, not by both";
        return Err(Problem::forbidden(field, rule));
    }
    if let Some(field) = field(|set| set.when_absent == WhenAbsent::Create, "whenAbsent") {
        return Err(Problem::forbidden(
            field,
            "policies can't make a pod template",
        ));
    }
    let many = field(|set| set.for_each.is_some(), "forEach");
    if many.is_none() && !kind.pod_sets.is_empty() {
        return Ok(Way::Templates);
    }
    let field = many.unwrap_or_else(|| "spec.podSets".to_owned());
    if kind.suspend.is_none() {
        let rule = "policies can hold such a kind only by a suspend field, which it doesn't have: use the webhooks";
        return Err(Problem::forbidden(field, rule));
    }
    if kind.admission == AdmissionMode::PerPod {
        let rule = "policies hold such a kind by its suspend field, as a whole: use the webhooks for PerPod";
        return Err(Problem::forbidden("spec.admission", rule));
    }
    Ok(Way::Suspend)
}
