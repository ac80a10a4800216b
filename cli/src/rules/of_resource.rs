//! By what the objects of a resource are read in a cluster.

use kube::Client;
use sluice_kinds::CompiledKind;

use crate::cluster::{ClusterError, Declared, Resource, Served, declared};
use crate::rules::shipped;

/// What reads the objects of a resource.
#[derive(Debug)]
pub struct OfResource {
    /// What does; none if no JobKind for them is known that can be used.
    pub rules: Option<CompiledKind>,
    /// Why the JobKinds of the cluster are not known: then those that are shipped count.
    pub unlisted: Option<ClusterError>,
}

/// What reads the objects of a resource: the JobKind of the cluster, or the one that is shipped if the caller can't list
/// JobKinds.
pub async fn of_resource(client: &Client, served: &Served, resource: &Resource) -> OfResource {
    let of_kind = |kind: &Declared| kind.resource.name == resource.name;
    match declared(client, served).await {
        Ok(declared) => OfResource {
            rules: declared
                .into_iter()
                .find(of_kind)
                .and_then(|kind| kind.rules),
            unlisted: None,
        },
        Err(why) => OfResource {
            rules: shipped::of_kind(&resource.api.group, &resource.api.kind),
            unlisted: Some(why),
        },
    }
}
