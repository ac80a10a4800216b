//! Which rules a request meets. Two questions, as the API server asks them: [`mutate`] first, what
//! to change; then [`validate`], whether the outcome is right.

use serde_json::Value;

use crate::metadata::is_being_deleted;
use crate::policy::Policy;
use crate::request::{Operation, Request};
use crate::verdict::Verdict;
use crate::{jobs, own};

/// Whether the request may go on.
///
/// Deletions, and edits of an object that is being deleted, always may: whatever is wrong with an
/// object, it can be got rid of.
pub fn validate(request: &Request, policy: &Policy) -> Verdict {
    let Some(edit) = Edit::of(request) else {
        return Verdict::allowed();
    };
    if request.kind.group == sluice_crds::GROUP {
        own::validate(request, &edit)
    } else {
        Verdict::of(jobs::validate(request, &edit, policy))
    }
}

/// What to change in an object that is being created. Applied to its own outcome it changes nothing.
pub fn mutate(request: &Request, policy: &Policy) -> Verdict {
    match Edit::of(request) {
        Some(Edit { new, old: None }) => Verdict {
            patch: jobs::hold(request, new, policy),
            ..Verdict::allowed()
        },
        Some(Edit { old: Some(_), .. }) | None => Verdict::allowed(),
    }
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
            .filter(|object| !is_being_deleted(object))?;
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
