//! Whether Sluice's account may do what its roles say: by asking the API server about each right, as the roles that
//! give them may be gone, or bound to another account.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kube::api::{Api, PostParams};
use serde::Deserialize;
use sluice_crds::JobKind;

use super::finding::{Finding, of};
use crate::cluster::{ClusterError, Served, answer};

/// The shipped roles.
const IN_THE_CLUSTER: &str = include_str!("../../../../config/rbac/controller.yaml");
const IN_ITS_NAMESPACE: &str = include_str!("../../../../config/rbac/controller-namespaced.yaml");
/// What the role of a JobKind gives, of objects of its kind.
const OF_JOB_KINDS: [&str; 4] = ["get", "list", "patch", "watch"];
/// Questions at the same time.
const AT_ONCE: usize = 8;
/// Rights that are named; the others are counted.
const NAMED_MAX: usize = 5;

/// The fields of a role that are read. A role that is the sum of others has no rules.
#[derive(Deserialize)]
struct Role {
    kind: String,
    #[serde(default)]
    rules: Vec<PolicyRule>,
}

/// One right.
#[derive(Debug, Clone, PartialEq)]
struct Right(ResourceAttributes);

/// Asks about all rights of an account.
pub(super) async fn check(
    client: &Client,
    served: &Served,
    namespace: &str,
    account: &str,
    job_kinds: &Result<Vec<JobKind>, ClusterError>,
) -> Finding {
    let kinds = job_kinds.as_ref().map_or(&[][..], Vec::as_slice);
    let mut rights = shipped(IN_THE_CLUSTER, None);
    rights.extend(shipped(IN_ITS_NAMESPACE, Some(namespace)));
    rights.extend(kinds.iter().flat_map(|kind| of_job_kind(kind, served)));
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let groups = vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let count = rights.len();
    let asked = stream::iter(rights)
        .map(async |right| {
            let is_given = is_given(client, &user, &groups, &right).await?;
            Ok::<_, ClusterError>((!is_given).then_some(right))
        })
        .buffered(AT_ONCE)
        .try_filter_map(async |right| Ok(right))
        .try_collect::<Vec<_>>();
    of("rights", asked.await, |missing| {
        told(&user, count, &missing)
    })
}

fn told(user: &str, count: usize, missing: &[Right]) -> Result<String, String> {
    if missing.is_empty() {
        return Ok(format!("{user} has the {count} rights that its roles give"));
    }
    let named: Vec<String> = missing
        .iter()
        .take(NAMED_MAX)
        .map(Right::to_string)
        .collect();
    let more = match missing.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Err(format!(
        "{user} may not {}{more}: apply config/rbac and the roles of its JobKinds again",
        named.join(", ")
    ))
}

/// The rights of the roles in a text of YAML.
fn shipped(text: &str, namespace: Option<&str>) -> Vec<Right> {
    let roles = text.split("\n---\n").filter_map(|document| {
        let role: Option<Role> = serde_saphyr::from_str(document).ok();
        role.filter(|role| role.kind.ends_with("Role"))
    });
    let rules = roles.flat_map(|role| role.rules);
    rules.flat_map(|rule| of_rule(&rule, namespace)).collect()
}

/// One for each group, resource, name and verb.
fn of_rule(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Right> {
    let names = match rule.resource_names.as_deref() {
        None | Some([]) => vec![None],
        Some(names) => names.iter().cloned().map(Some).collect(),
    };
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for name in &names {
                for verb in &rule.verbs {
                    rights.push(Right::new(verb, group, resource, name.clone(), namespace));
                }
            }
        }
    }
    rights
}

/// Those of a JobKind whose kind is served.
fn of_job_kind(kind: &JobKind, served: &Served) -> Vec<Right> {
    let spec = &kind.spec;
    let found = served.of_kind(&spec.group, &spec.version, &spec.kind);
    let right = |verb: &str| {
        let resource = found.as_ref()?;
        Some(Right::new(
            verb,
            &spec.group,
            &resource.api.plural,
            None,
            None,
        ))
    };
    OF_JOB_KINDS.into_iter().filter_map(right).collect()
}

impl Right {
    fn new(
        verb: &str,
        group: &str,
        resource: &str,
        name: Option<String>,
        namespace: Option<&str>,
    ) -> Self {
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (resource, None),
        };
        Self(ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            name,
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        })
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let Self(right) = self;
        write!(f, "{} {}", text(&right.verb), text(&right.resource))?;
        if let Some(subresource) = &right.subresource {
            write!(f, "/{subresource}")?;
        }
        if let Some(group) = right.group.as_ref().filter(|group| !group.is_empty()) {
            write!(f, ".{group}")?;
        }
        if let Some(name) = &right.name {
            write!(f, " {name:?}")?;
        }
        Ok(())
    }
}

async fn is_given(
    client: &Client,
    user: &str,
    groups: &[String],
    right: &Right,
) -> Result<bool, ClusterError> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(groups.to_vec()),
            resource_attributes: Some(right.0.clone()),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let params = PostParams::default();
    let asked = answer("ask what Sluice may do", reviews.create(&params, &review)).await?;
    Ok(asked.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_roles_are_read() {
        let rights = shipped(IN_THE_CLUSTER, None);
        let named: Vec<String> = rights.iter().map(Right::to_string).collect();
        for right in [
            "patch pods",
            "patch workloads/status.sluice.dev",
            "patch mutatingwebhookconfigurations.admissionregistration.k8s.io \"sluice\"",
            "create subjectaccessreviews.authorization.k8s.io",
        ] {
            assert!(
                named.iter().any(|named| named == right),
                "{right}: {named:#?}"
            );
        }
        let own = shipped(IN_ITS_NAMESPACE, Some("sluice-system"));
        let of_secret = Right::new(
            "get",
            "",
            "secrets",
            Some("sluice-webhook-certificate".to_owned()),
            Some("sluice-system"),
        );
        assert!(own.contains(&of_secret), "{own:#?}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let all = shipped(IN_THE_CLUSTER, None);
        assert_eq!(
            told("u", 7, &[]),
            Ok("u has the 7 rights that its roles give".to_owned())
        );
        let missing = |count| told("u", 7, &all[..count]).unwrap_err();
        assert_eq!(
            missing(1),
            "u may not get clusterqueues.sluice.dev: apply config/rbac and the roles of its JobKinds again"
        );
        assert!(missing(7).contains(", and 2 more: "), "{}", missing(7));
    }
}
