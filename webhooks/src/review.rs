//! Which rules a request meets. Two questions, as the API server asks them: [`mutate`] first, what
//! to change; then [`validate`], whether the outcome is right.

use serde_json::Value;
use sluice_kinds::metadata::is_being_deleted;
use sluice_kinds::problem::Problem;

use crate::policy::Policy;
use crate::request::{Operation, Request};
use crate::schemas::Schemas;
use crate::verdict::Verdict;
use crate::{jobs, own, pods};

/// Whether the request may go on.
///
/// Deletions, and edits of an object that is being deleted, always may: whatever is wrong with an
/// object, it can be got rid of. A pod is judged meanwhile too: it runs on for as long as its grace period is,
/// and its usage is read from it.
pub fn validate(request: &Request, policy: &Policy) -> Verdict {
    let Some(edit) = Edit::of(request) else {
        return Verdict::allowed();
    };
    match request.kind.group.as_str() {
        sluice_crds::GROUP => own::validate(request, &edit),
        _ if !policy.knows_kinds() => early(&request.kind.kind),
        _ if is_pod(request) => Verdict::of(pods::validate(request, &edit, policy)),
        _ => Verdict::of(jobs::validate(request, &edit, policy)),
    }
}

/// What only the API server can say of a request that [`validate`] has nothing against.
pub async fn look_up(request: &Request, schemas: &dyn Schemas) -> Verdict {
    match Edit::of(request) {
        Some(edit) if request.kind.group == sluice_crds::GROUP => {
            own::look_up(request, &edit, schemas).await
        }
        Some(_) | None => Verdict::allowed(),
    }
}

/// What to change in an object that is being created; and in the templates of one that is being
/// edited, where these hold it. Applied to its own outcome it changes nothing.
///
/// A pod that breaks a rule is refused here already: [`validate`] is not asked about pods that a
/// template made, and can't tell them from others once they carry their gates.
pub fn mutate(request: &Request, policy: &Policy) -> Verdict {
    let Some(edit) = Edit::of(request).filter(|_| request.sub_resource.is_empty()) else {
        return Verdict::allowed();
    };
    if !policy.knows_kinds() {
        return early(&request.kind.kind);
    }
    if is_pod(request) {
        return pods::hold(request, &edit, policy);
    }
    if let Some(problem) = check_can_be_held(request, &edit, policy) {
        return Verdict::early(problem);
    }
    Verdict {
        patch: jobs::hold(request, &edit, policy),
        ..Verdict::allowed()
    }
}

/// A request about jobs or pods that comes before the JobKinds are known.
fn early(kind: &str) -> Verdict {
    let detail = format!(
        "this replica of Sluice has not read its JobKinds yet, and can't review a {kind}; try again"
    );
    Verdict::early(Problem::forbidden("kind", detail))
}

/// Whether an object that comes to ask to be held is of no kind that is managed. It was sent here by
/// a rule for a JobKind, so the JobKind has just gone, or this replica has not heard of it yet; and an
/// object that is taken unheld here would not be held by any other.
fn check_can_be_held(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<Problem> {
    if policy.manages(&request.kind.group, &request.kind.kind) {
        return None;
    }
    let asks = |object| jobs::check_is_managed(request, object, policy);
    match edit.old.and_then(asks) {
        Some(_) => None,
        None => asks(edit.new),
    }
}

fn is_pod(request: &Request) -> bool {
    request.kind.group.is_empty() && request.kind.kind == "Pod"
}

/// The objects of a request that rules apply to.
pub(crate) struct Edit<'a> {
    /// The object as it shall be.
    pub(crate) new: &'a Value,
    /// The object as it is; absent when it is being created.
    pub(crate) old: Option<&'a Value>,
}

impl<'a> Edit<'a> {
    fn of(request: &'a Request) -> Option<Self> {
        let new = request
            .object
            .as_ref()
            .filter(|object| is_pod(request) || !is_being_deleted(object))?;
        match request.operation {
            Operation::Create => Some(Self { new, old: None }),
            Operation::Update => Some(Self {
                new,
                old: Some(request.old_object.as_ref()?),
            }),
            Operation::Delete | Operation::Connect => None,
        }
    }
}
