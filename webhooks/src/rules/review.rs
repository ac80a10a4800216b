//! Which rules a request meets. Two questions, as the API server asks them: [`mutate`] first, what
//! to change; then [`validate`], whether the outcome is right.

use json_patch::PatchOperation;
use serde_json::Value;
use sluice_gates::Enforced;
use sluice_kinds::metadata::controller;
use sluice_kinds::problem::Problem;

use crate::admission::access::{Access, Right};
use crate::admission::edit::{Edit, brought_in};
use crate::admission::policy::Policy;
use crate::admission::request::{GroupVersionKind, Request, UserInfo};
use crate::admission::schemas::Schemas;
use crate::admission::verdict::Verdict;
use crate::rules::advice::{templates, warnings};
use crate::rules::applies::makers::{self, Maker};
use crate::rules::enforcement::made::cron_job_controller;
use crate::rules::enforcement::owners_without_jobkind;
use crate::rules::enforcement::required::required;
use crate::rules::lifting::lift::NeededRight;
use crate::rules::{aliases, applies, enforcement, hold, jobs, lifting, own, pods};

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
        sluice_crds::GROUP => own::validate::validate(request, &edit, policy),
        _ if !policy.knows_kinds() => early(&request.kind.kind),
        _ => match makers::of(request, policy) {
            Some(maker) if maker.must_name_queue(policy) => {
                let verdict = owners_without_jobkind::validate(maker, request, &edit, policy);
                with_advice_of_template(maker, verdict, request, &edit, policy)
            }
            // Nothing holds it: all that counts is who writes it, which is asked in `has_rights`.
            Some(_) => Verdict::allowed(),
            None => validate_object(request, &edit, policy),
        },
    }
}

/// The same, where the author of a maker of jobs or pods is also told what is missing where these are to be queued, as far as
/// an edit brings it in.
fn with_advice_of_template(
    maker: &Maker,
    mut verdict: Verdict,
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Verdict {
    let field = format!("{}.metadata", maker.template);
    let at = format!("/{}", field.replace('.', "/"));
    let told = |object: &Value| {
        let place = (None, request.namespace.as_str());
        let metadata = object.pointer(&at);
        metadata.map(|metadata| templates::queued_by_itself(&field, metadata, place, policy))
    };
    if verdict.is_allowed() && request.sub_resource.is_empty() {
        let new = told(edit.new).unwrap_or_default();
        let brought_in = brought_in(new, edit.old.and_then(told));
        verdict.warnings.extend(brought_in);
    }
    verdict
}

fn validate_object(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    let mut problems = if request.is_pod() {
        pods::validate::validate(request, edit, policy)
    } else {
        jobs::validate::validate(request, edit, policy)
    };
    problems.extend(enforcement::removal::check(request, edit, policy));
    if !problems.is_empty() {
        return Verdict::of(problems);
    }
    let enforced = enforcement::creation::check(request, edit, policy);
    if !enforced.is_allowed() {
        return enforced;
    }
    let started = enforcement::start::check(request, edit, policy);
    if !started.is_allowed() {
        return started;
    }
    let mut verdict = applies::creation::check_set(request, edit, policy);
    if verdict.is_allowed() {
        verdict.problems.extend(hold::check(request, edit, policy));
    }
    if verdict.is_allowed() {
        verdict.warnings = warnings::warnings(request, edit, policy);
        verdict.report = enforcement::creation::report(request, edit, policy);
    }
    verdict
}

/// What becomes of `object`, or of what it makes, if it is created as it is: for whoever looks at objects that are there.
/// None: nothing. Nobody in particular is its author, but of a Job of a CronJob the controller of these.
pub fn required_of(
    kind: GroupVersionKind,
    namespace: &str,
    object: &Value,
    policy: &Policy,
) -> Option<Enforced> {
    let is_of_cron_job = controller(object) == Some(("batch", "CronJob"));
    let request = Request {
        kind,
        namespace: namespace.to_owned(),
        user_info: if is_of_cron_job {
            cron_job_controller()
        } else {
            UserInfo::default()
        },
        ..Request::creating(object.clone())
    };
    let edit = Edit::of(&request)?;
    if let Some(maker) = makers::of(&request, policy) {
        let is_judged = maker.must_name_queue(policy);
        return is_judged
            .then(|| owners_without_jobkind::required_of(maker, &request, edit.new, policy))?;
    }
    let (spelt, _) = aliases::spelt_out(&request, &edit, policy);
    let object = spelt.as_ref().unwrap_or(edit.new);
    required(&request, object, policy).ok()?
}

/// What only the API server can say of a request that [`validate`] has nothing against.
pub async fn look_up(request: &Request, schemas: &dyn Schemas) -> Verdict {
    match Edit::of(request) {
        Some(edit) if request.kind.group == sluice_crds::GROUP => {
            own::validate::look_up(request, &edit, schemas).await
        }
        Some(_) | None => Verdict::allowed(),
    }
}

/// Whether the author of a request that [`validate`] has nothing against has the rights that it needs: to lift the gates
/// that it lifts, and those whose Gates apply to the object only as edited; and to get what a Gate has Sluice read.
pub async fn has_rights(request: &Request, policy: &Policy, access: &dyn Access) -> Verdict {
    let Some(edit) = Edit::of(request) else {
        return Verdict::allowed();
    };
    if request.kind.group == sluice_crds::GROUP {
        return own::reads::judge(request, &edit, access).await;
    }
    let rights = match needed(request, &edit, policy) {
        Ok(rights) => rights,
        Err(verdict) => return verdict,
    };
    if let Some(problem) = lifting::lift::too_many(&rights) {
        return Verdict::of(vec![problem]);
    }
    // All at once: each may take as long as there is time for all.
    let (user, namespace) = (&request.user_info, &request.namespace);
    let answers = rights.into_iter().map(async |right| {
        let asked = Right::lift(namespace, &right.object);
        let answer = access.has(user, asked).await;
        (right, answer)
    });
    let answers = futures::future::join_all(answers).await;
    lifting::lift::verdict(request, &answers)
}

/// What to change in an object that is being created; in the templates of one that is being edited, where these hold
/// it; and in what an object tells of its gates. Applied to its own outcome it changes nothing.
///
/// A pod that breaks a rule is refused here already: [`validate`] is not asked about pods that a
/// template made, and can't tell them from others once they carry their gates.
pub fn mutate(request: &Request, policy: &Policy) -> Verdict {
    let Some(edit) = Edit::of(request) else {
        return Verdict::allowed();
    };
    if !policy.knows_kinds() {
        return early(&request.kind.kind);
    }
    if makers::of(request, policy).is_some() {
        return Verdict::allowed();
    }
    let (spelt, own_keys) = aliases::spelt_out(request, &edit, policy);
    let edit = Edit {
        new: spelt.as_ref().unwrap_or(edit.new),
        old: edit.old,
    };
    let (forgotten, records) = lifting::forget::forgotten(request, &edit, policy);
    let edit = Edit {
        new: forgotten.as_ref().unwrap_or(edit.new),
        old: edit.old,
    };
    let required = match enforcement::creation::set(request, &edit, policy) {
        Ok(required) => required,
        Err(verdict) => return verdict,
    };
    let edit = Edit {
        new: required.object.as_ref().unwrap_or(edit.new),
        old: edit.old,
    };
    let born = match applies::creation::set(request, &edit, policy) {
        Ok(born) => born,
        Err(verdict) => return verdict,
    };
    let edit = Edit {
        new: born.object.as_ref().unwrap_or(edit.new),
        old: edit.old,
    };
    let mut verdict = hold::hold(request, &edit, policy);
    if verdict.is_allowed() {
        let marks = marks(request, &edit, &verdict.patch);
        verdict.patch.extend(marks);
    }
    let first = own_keys.into_iter().chain(records);
    let first = first.chain(required.patch).chain(born.patch);
    verdict.patch.splice(..0, first);
    let told = required.warnings.into_iter().chain(born.warnings);
    verdict.warnings.extend(told);
    verdict.enforced = required.enforced;
    verdict
}

/// The rights that the author of a request needs besides those to write the object.
///
/// # Errors
/// It can't be judged yet.
fn needed(
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Result<Vec<NeededRight>, Verdict> {
    if let Some(maker) = makers::of(request, policy).filter(|maker| maker.makes_pods()) {
        return applies::pod_controllers::needed(maker, request, edit, policy);
    }
    let applied = applies::edit::needed(request, edit, policy)?;
    let mut rights = lifting::lift::needed(request, edit, policy);
    rights.extend(applied);
    rights.extend(enforcement::start::needed(request, edit, policy)?);
    Ok(rights)
}

/// What is told of its gates on the object that `patch` makes: that depends on all gates that it will have.
fn marks(request: &Request, edit: &Edit<'_>, patch: &[PatchOperation]) -> Vec<PatchOperation> {
    if patch.is_empty() {
        return lifting::marks::patch(request, edit);
    }
    let mut new = edit.new.clone();
    match json_patch::patch(&mut new, patch) {
        Ok(()) => lifting::marks::patch(request, &Edit { new: &new, ..*edit }),
        // The object has a shape that no schema allows, as a list for its spec: no state that must not occur, as anybody
        // can send that. The API server refuses it as well.
        Err(_) => Vec::new(),
    }
}

/// A request about jobs or pods that comes before the JobKinds are known.
fn early(kind: &str) -> Verdict {
    let detail = format!(
        "this replica of Sluice has not read its JobKinds yet, and can't review a {kind}; try again"
    );
    Verdict::early(Problem::forbidden("kind", detail))
}
