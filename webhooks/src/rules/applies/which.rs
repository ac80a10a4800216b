//! Which Gates apply to an object, and which objects are asked about.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_gates::Applies;
use sluice_kinds::gates::Gate;
use sluice_kinds::metadata::annotation;
use sluice_kinds::pod_hold::MIRROR_ANNOTATION;
use sluice_kinds::problem::Problem;

use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::applies::requested_object::RequestedObject;
use crate::rules::author::{Author, is_made_for_owner};
use crate::rules::top::is_top;

/// What is told while the labels of a namespace are not known: the namespace.
const NAMESPACE_UNKNOWN: &str = "this replica of Sluice has not seen namespace";

/// The gates that are to be on an object, each with why that is not clear.
pub(super) type Applying<'a> = BTreeMap<&'a Gate, Option<String>>;

/// The gates whose Gates apply to `object`.
///
/// # Errors
/// It can't be judged yet.
pub(super) fn applying<'a>(
    request: &Request,
    object: &Value,
    policy: &'a Policy,
) -> Result<Applying<'a>, Verdict> {
    let applicants = RequestedObject::each(request, object, policy);
    applying_to(applicants, policy, &request.namespace)
}

/// The gates whose Gates apply to one of these.
///
/// # Errors
/// It can't be judged yet.
pub(super) fn applying_to<'a, 'p>(
    applicants: impl Iterator<Item = RequestedObject<'a>>,
    policy: &'p Policy,
    namespace: &str,
) -> Result<Applying<'p>, Verdict> {
    let mut applying = Applying::new();
    for applicant in applicants {
        for (gate, rule) in policy.applied() {
            match rule.applies(&applicant) {
                Applies::No => {}
                Applies::Yes => {
                    applying.insert(gate, None);
                }
                Applies::Unclear(why) => {
                    applying.entry(gate).or_insert(Some(why));
                }
                Applies::Early => return Err(early(namespace)),
            }
        }
    }
    Ok(applying)
}

pub(crate) fn early(namespace: &str) -> Verdict {
    let detail = format!("{NAMESPACE_UNKNOWN} {namespace:?} yet; try again");
    Verdict::early(Problem::forbidden("metadata.namespace", detail))
}

/// Whether Gates are asked about a pod: not if Sluice writes it, nor if it is the copy of a manifest on a node, nor if
/// the controller of its owner makes it, of whom Gates have been asked about that one.
fn is_pod_judged(request: &Request, pod: &Value, policy: &Policy) -> bool {
    !policy.is_sluice(&request.user_info.username)
        && annotation(pod, MIRROR_ANNOTATION).is_none()
        && !is_made_for_owner(pod, Author::of(request), policy)
}

/// Whether Gates are asked about `object`.
pub(super) fn is_judged(request: &Request, object: &Value, policy: &Policy) -> bool {
    let is_judged = if request.is_pod() {
        is_pod_judged(request, object, policy)
    } else {
        is_top(request, object, policy)
    };
    is_judged && !policy.applied().is_empty()
}
