//! Devices that pods ask for by claims (dynamic resource allocation, KEP-4381): they stand in objects
//! beside the pod, so that nothing in the pod says how many they are. Reads which claims a pod names;
//! what they come to is said by `devices.rs`, and what holds a pod whose claims can't be counted by `pod.rs`.

use std::sync::Arc;

use serde_json::Value;

use crate::field::problem::Problem;

/// Most claims of a pod.
pub(crate) const CLAIMS_MAX: usize = 64;
/// Most claims that are told of.
pub(crate) const TOLD_MAX: usize = 10;

/// Why claims are not counted where nobody says what they come to.
const NOT_COUNTED: &str = "devices of a claim can't be counted, and nothing in a queue runs without usage: request an extended resource in resources.limits instead";
/// Why the claims of a pod are not counted that no job stands for.
const NOT_BY_ITSELF: &str = "devices of a claim can't be counted for a pod that is admitted by itself or in a group, and nothing in a queue runs without usage: request an extended resource in resources.limits instead, or let a Job create the pod";

/// A claim that a pod names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// What the pod calls it.
    pub name: Arc<str>,
    /// Where it comes from.
    pub source: ClaimSource,
}

/// Where a claim comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimSource {
    /// Each pod gets one of its own, made from the `ResourceClaimTemplate` with this name.
    Template(Arc<str>),
    /// It is the `ResourceClaim` with this name, which others may use as well.
    Shared(Arc<str>),
    /// Nothing says so that is known here.
    Unknown,
}

impl Claim {
    /// The template that it is made from.
    pub fn template(&self) -> Option<&Arc<str>> {
        match &self.source {
            ClaimSource::Template(name) => Some(name),
            ClaimSource::Shared(_) | ClaimSource::Unknown => None,
        }
    }

    fn read(claim: &Value) -> Self {
        let text = |key: &str| claim.get(key).and_then(Value::as_str).map(Arc::from);
        let template = text("resourceClaimTemplateName").map(ClaimSource::Template);
        let shared = text("resourceClaimName").map(ClaimSource::Shared);
        Self {
            name: text("name").unwrap_or_default(),
            source: match (template, shared) {
                (Some(source), None) | (None, Some(source)) => source,
                (Some(_), Some(_)) | (None, None) => ClaimSource::Unknown,
            },
        }
    }
}

/// The claims of the pod spec `pod`, however many: those of a template are [`bounded`], and those of a pod while it waits.
pub(crate) fn read(pod: &Value) -> Arc<[Claim]> {
    let claims = pod.get("resourceClaims").and_then(Value::as_array);
    let claims = claims.map_or(&[][..], Vec::as_slice);
    claims.iter().map(Claim::read).collect()
}

/// The claims of a template whose spec lies at `field`, if they are not too many.
pub(crate) fn bounded(claims: Arc<[Claim]>, field: &str) -> Result<Arc<[Claim]>, Problem> {
    if claims.len() <= CLAIMS_MAX {
        return Ok(claims);
    }
    let detail = format!("must have at most {CLAIMS_MAX} elements");
    let field = format!("{field}.resourceClaims");
    Err(Problem::too_many(field, claims.len(), detail))
}

/// What is wrong with each of the `claims` of a pod whose spec lies at `field`, while nobody says what they
/// come to.
pub(crate) fn not_counted(claims: &[Claim], field: &str) -> Vec<Problem> {
    refused(claims, field, NOT_COUNTED)
}

/// The same of a pod that is its own record.
pub(crate) fn not_by_itself(claims: &[Claim], field: &str) -> Vec<Problem> {
    refused(claims, field, NOT_BY_ITSELF)
}

fn refused(claims: &[Claim], field: &str, rule: &str) -> Vec<Problem> {
    let claims = claims.iter().enumerate().take(TOLD_MAX);
    claims
        .map(|(index, claim)| refuse(claim, index, field, rule))
        .collect()
}

/// What is wrong with the claim `index` of a pod whose spec lies at `field`.
pub(crate) fn refuse(claim: &Claim, index: usize, field: &str, rule: impl Into<String>) -> Problem {
    Problem::invalid(
        format!("{field}.resourceClaims[{index}]"),
        &*claim.name,
        rule,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_claim_is_reported() {
        let pod = json!({"resourceClaims": [
            {"name": "gpu", "resourceClaimTemplateName": "one"},
            {"name": "shared", "resourceClaimName": "two"},
            {"name": "odd", "resourceClaimName": "two", "resourceClaimTemplateName": "one"},
            {"resourceClaimName": 7},
            7,
        ]});
        let claims = read(&pod);
        let sources: Vec<_> = claims.iter().map(|claim| claim.source.clone()).collect();
        assert_eq!(
            sources,
            [
                ClaimSource::Template("one".into()),
                ClaimSource::Shared("two".into()),
                ClaimSource::Unknown,
                ClaimSource::Unknown,
                ClaimSource::Unknown,
            ]
        );
        let told = not_counted(&claims, "spec.template.spec");
        assert_eq!(
            told[0].to_string(),
            format!("spec.template.spec.resourceClaims[0]: Invalid value: \"gpu\": {NOT_COUNTED}")
        );
        assert_eq!(told[1].field, "spec.template.spec.resourceClaims[1]");
        assert_eq!(told.len(), 5);
    }

    #[test]
    fn what_claims_nothing_has_no_claims() {
        for pod in [
            json!({}),
            json!({"resourceClaims": []}),
            json!({"resourceClaims": null}),
            json!({"resourceClaims": "gpu"}),
        ] {
            assert!(read(&pod).is_empty(), "{pod}");
        }
    }

    #[test]
    fn there_are_so_many_claims_at_most() {
        let claim = json!({"name": "gpu", "resourceClaimTemplateName": "one"});
        let many = json!({"resourceClaims": vec![claim; CLAIMS_MAX + 1]});
        assert_eq!(
            bounded(read(&many), "spec").unwrap_err().to_string(),
            "spec.resourceClaims: Too many: 65: must have at most 64 elements"
        );
    }
}
