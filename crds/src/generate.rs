//! Renders the CRDs as the YAML files that users apply. Which files exist is said here and nowhere else.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{
    ClusterQueue, Cohort, JobKind, LocalQueue, ResourceFlavor, Workload, WorkloadPriorityClass,
};

/// A file that is generated from the types.
#[derive(Debug, Clone)]
pub struct GeneratedFile {
    /// Its name in the `crds` folder.
    pub name: String,
    /// The definition it holds.
    pub definition: CustomResourceDefinition,
}

/// All CRDs of the group, each with the name of its file.
pub fn crd_files() -> Vec<GeneratedFile> {
    [
        ResourceFlavor::crd(),
        ClusterQueue::crd(),
        Cohort::crd(),
        LocalQueue::crd(),
        Workload::crd(),
        WorkloadPriorityClass::crd(),
        JobKind::crd(),
    ]
    .into_iter()
    .map(|definition| GeneratedFile {
        name: format!("{}.yaml", definition.spec.names.plural),
        definition,
    })
    .collect()
}
