//! Renders the CRDs as the YAML files that users apply. Which files exist is said here and nowhere else.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON,
};
use kube::CustomResourceExt;

use crate::cluster_queue::ClusterQueue;
use crate::cohort::Cohort;
use crate::gate::Gate;
use crate::job_kind::JobKind;
use crate::local_queue::LocalQueue;
use crate::priority_class::WorkloadPriorityClass;
use crate::resource_flavor::ResourceFlavor;
use crate::workload::Workload;

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
        with_empty_spec(ResourceFlavor::crd()),
        with_empty_spec(ClusterQueue::crd()),
        with_empty_spec(Cohort::crd()),
        LocalQueue::crd(),
        Workload::crd(),
        WorkloadPriorityClass::crd(),
        JobKind::crd(),
        with_empty_spec(Gate::crd()),
    ]
    .into_iter()
    .map(|definition| GeneratedFile {
        name: format!("{}.yaml", definition.spec.names.plural),
        definition,
    })
    .collect()
}

/// Lets `spec` be left out, as Kueue does: nothing in it is required.
fn with_empty_spec(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut());
        let spec = schema
            .and_then(|s| s.properties.as_mut())
            .and_then(|p| p.get_mut("spec"));
        if let Some(spec) = spec {
            spec.default = Some(JSON(serde_json::json!({})));
        }
    }
    definition
}
