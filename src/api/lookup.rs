//! Looks up the object that another one names as its controller: by name, and believed only if the UID is
//! right; whether there is such a kind at all; and a job that has to be read again. What is known, and when it is
//! asked for again, lies with those who ask.

use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use kube::discovery::{self, ApiCapabilities, ApiGroup};
use kube::{Client, Error};
use sluice_kinds::stored::Stored;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::cache::pod::OwnerRef;
use crate::process::answer::{ApiAnswer, words};

/// Longest time for one question.
const DEADLINE: Duration = Duration::from_secs(5);

/// What was found out about an owner.
#[derive(Debug)]
pub enum FoundOwner {
    /// Its metadata.
    Object(Box<ObjectMeta>),
    /// There is no such object.
    Gone,
    /// It can't be read.
    Unreadable,
    /// There was no answer.
    Unanswered,
}

/// What an object of this namespace says owns it.
pub async fn look_up(client: &Client, namespace: &str, owner: &OwnerRef) -> FoundOwner {
    let (group, version) = owner.group_version();
    // A reference is what its writer says: only what can be a path is asked for.
    let parts = [group, version, &owner.kind, &owner.name];
    let is_plain = |text: &&str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            && ![".", ".."].contains(text)
    };
    let is_named = !version.is_empty() && !owner.kind.is_empty() && !owner.name.is_empty();
    if !parts.iter().all(is_plain) || !is_named {
        return FoundOwner::Gone;
    }
    let kind = GroupVersionKind::gvk(group, version, &owner.kind);
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    match timeout(DEADLINE, api.get_metadata(&owner.name)).await {
        Ok(Ok(found)) if found.metadata.uid.as_deref() == Some(&*owner.uid) => {
            FoundOwner::Object(Box::new(found.metadata))
        }
        // Another one by its name.
        Ok(Ok(_)) => FoundOwner::Gone,
        Ok(Err(error)) => match ApiAnswer::of(&error) {
            ApiAnswer::NotFound => FoundOwner::Gone,
            // The API server asks for rights first: of a kind that it does not serve it says the same.
            ApiAnswer::Forbidden => match is_served(client, &kind).await {
                Some(false) => FoundOwner::Gone,
                Some(true) => {
                    warn!(kind = %owner.kind, namespace, name = %owner.name, error = %words(&error),
                        "may not be read, so its children are not recognised");
                    FoundOwner::Unreadable
                }
                None => FoundOwner::Unanswered,
            },
            ApiAnswer::Conflict | ApiAnswer::Refused => FoundOwner::Unreadable,
            ApiAnswer::Throttled | ApiAnswer::Unknown => {
                debug!(%error, "an owner can't be read");
                FoundOwner::Unanswered
            }
        },
        Err(_) => FoundOwner::Unanswered,
    }
}

/// What was found of a job.
#[derive(Debug)]
pub enum FoundJob {
    /// The object.
    Object(Box<DynamicObject>),
    /// There is no such object.
    Gone,
    /// There was no answer.
    Unanswered,
}

/// A job as it is now.
pub async fn read_job(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> FoundJob {
    let api: Api<Stored<DynamicObject>> = Api::namespaced_with(client.clone(), namespace, resource);
    match timeout(DEADLINE, api.get_opt(name)).await {
        Ok(Ok(Some(Stored(found)))) => FoundJob::Object(Box::new(found)),
        Ok(Ok(None)) => FoundJob::Gone,
        Ok(Err(error)) => {
            debug!(%error, namespace, name, "a job can't be read again");
            FoundJob::Unanswered
        }
        Err(_) => FoundJob::Unanswered,
    }
}

/// Whether there is such a kind of objects. None if that was not answered.
async fn is_served(client: &Client, kind: &GroupVersionKind) -> Option<bool> {
    match timeout(DEADLINE, discovery::pinned_kind(client, kind)).await {
        Ok(Ok(_)) => Some(true),
        Ok(Err(error)) if ApiAnswer::of(&error) == ApiAnswer::NotFound => Some(false),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// The resource of a kind, in whichever version it is served; none if it is not.
///
/// # Errors
/// That can't be told.
pub async fn resource(client: &Client, group: &str, kind: &str) -> Result<Option<String>, Error> {
    let Some(found) = served_group(client, group).await? else {
        return Ok(None);
    };
    let mut resources = found.versions().flat_map(|v| found.versioned_resources(v));
    let found = resources.find(|(resource, _)| resource.kind == *kind);
    Ok(found.map(|(resource, _)| resource.plural))
}

/// An API group; none if it is not served.
async fn served_group(client: &Client, group: &str) -> Result<Option<ApiGroup>, Error> {
    match timeout(DEADLINE, discovery::group(client, group)).await {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(error)) if ApiAnswer::of(&error) == ApiAnswer::NotFound => Ok(None),
        Ok(Err(error)) => Err(error),
        Err(elapsed) => Err(Error::Service(elapsed.into())),
    }
}

/// The resources of a kind, one of each version in which it is served.
///
/// # Errors
/// That can't be told.
pub async fn served(
    client: &Client,
    group: &str,
    kind: &str,
) -> Result<Vec<(ApiResource, ApiCapabilities)>, Error> {
    let Some(found) = served_group(client, group).await? else {
        return Ok(Vec::new());
    };
    let resources = found.versions().flat_map(|v| found.versioned_resources(v));
    let mut resources: Vec<_> = resources.filter(|(of, _)| of.kind == *kind).collect();
    resources.sort_unstable_by(|(one, _), (other, _)| one.version.cmp(&other.version));
    Ok(resources)
}

/// The versions of an API group in which there is such a kind of objects.
///
/// # Errors
/// That can't be told.
pub async fn served_versions(
    client: &Client,
    group: &str,
    kind: &str,
) -> Result<Vec<String>, Error> {
    let served = served(client, group, kind).await?;
    Ok(served.into_iter().map(|(of, _)| of.version).collect())
}
