//! Starts the watches of the kinds that every cluster with Sluice has. Those of JobKinds have tasks of their
//! own (`kind_task.rs`).

use std::sync::Arc;

use kube::Client;
use kube::api::ApiResource;
use sluice_crds as crds;
use tokio::sync::mpsc;

use super::claim_templates;
use crate::api::watch::{self, Observation};
use crate::cache::Source;
use crate::controller::observe::Seen;
use crate::process::metrics::Metrics;

/// Starts the watch of a source. It ends when nobody listens any more.
pub fn start(
    source: &Source,
    client: &Client,
    observations: &mpsc::Sender<Observation<Seen>>,
    metrics: &Arc<Metrics>,
) {
    let (client, observations, metrics) = (client.clone(), observations.clone(), metrics.clone());
    match resource(source) {
        Some(resource) => {
            let read = |object| Seen::Object(Box::new(object));
            let watch = watch::watch(
                client,
                resource,
                source.clone(),
                read,
                observations,
                metrics,
            );
            tokio::spawn(watch);
        }
        None => {
            tokio::spawn(claim_templates::follow(client, observations, metrics));
        }
    }
}

/// Where the objects of a source are. None if that has to be found out.
fn resource(source: &Source) -> Option<ApiResource> {
    let own = |kind, plural| resource_of(crds::GROUP, crds::VERSION, kind, plural);
    Some(match source {
        Source::ResourceFlavor => own("ResourceFlavor", "resourceflavors"),
        Source::Cohort => own("Cohort", "cohorts"),
        Source::ClusterQueue => own("ClusterQueue", "clusterqueues"),
        Source::LocalQueue => own("LocalQueue", "localqueues"),
        Source::WorkloadPriorityClass => own("WorkloadPriorityClass", "workloadpriorityclasses"),
        Source::JobKind => own("JobKind", "jobkinds"),
        Source::Gate => own("Gate", "gates"),
        Source::Workload => own("Workload", "workloads"),
        Source::Pod => resource_of("", "v1", "Pod", "pods"),
        Source::Namespace => resource_of("", "v1", "Namespace", "namespaces"),
        Source::LimitRange => resource_of("", "v1", "LimitRange", "limitranges"),
        Source::RuntimeClass => resource_of("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses"),
        Source::PriorityClass => resource_of(
            "scheduling.k8s.io",
            "v1",
            "PriorityClass",
            "priorityclasses",
        ),
        Source::ResourceClaimTemplate | Source::Jobs(..) | Source::Dependencies(..) => return None,
    })
}

fn resource_of(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}
