//! Objects of Kubernetes itself that make jobs or pods and are no jobs (`applies::makers`), where what they make needs a
//! queue. They are judged by the template that names the queue of what they make.

use serde_json::Value;
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_gates::{Enforced, Unlabelled};
use sluice_kinds::problem::{Problem, fill};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::aliases::with_own_keys;
use crate::rules::applies::makers::Maker;
use crate::rules::enforcement::made;
use crate::rules::enforcement::required::{REQUIRED, in_namespace, is_excepted, quoted};
use crate::rules::queue_label::queue_of;
use crate::rules::top::is_without_controller;

/// The kind that has the same pods as those whose pods are not judged when they are made.
const WITH_THE_SAME_PODS: (&str, &str) = ("apps", "Deployment");

/// What is told of one whose own label names a queue; with the field of the label, the kind, what it makes and the field
/// that counts.
const OUTER: &str =
    "{}: has no effect, as the {} of a {} are queued, not the object itself; set {}";
/// What is told of one whose template names no queue; with the field of the label, the kind, what it makes and what becomes
/// of them.
const MADE_WITHOUT: &str = "{}: is not set, so the {} of this {} {}";

/// What is told besides, where the author of a CronJob is an exception, and its Jobs are not.
const NOT_EXCEPTED: &str =
    "; its exception does not cover them, as the controller of CronJobs makes them";

/// What is wrong with creating or editing a maker, and what its author is told. An edit is refused only for a queue that it
/// takes away, or for an exception that does not cover what is made any more.
pub(crate) fn validate(
    maker: &Maker,
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Verdict {
    let is_judged = request.sub_resource.is_empty()
        && !policy.is_sluice(&request.user_info.username)
        && is_without_controller(request, edit.new);
    // What names a queue is right in each namespace, also in one that is not known yet.
    if !is_judged || maker.names_queue(edit.new, policy) {
        return Verdict::allowed();
    }
    let enforced = match in_namespace(request, policy) {
        Ok(Some(enforced)) => enforced,
        Ok(None) => return Verdict::allowed(),
        Err(verdict) => return verdict,
    };
    let may_run = |object| maker.may_run_what_it_makes(request, object, policy);
    if may_run(edit.new) {
        return Verdict::allowed();
    }
    let field = maker.field();
    let is_excepted = maker.is_judged_later && is_excepted(request, edit.new, policy);
    let is_refused = !enforced.is_dry_run
        && !is_excepted
        && (enforced.unlabelled == Unlabelled::Refuse || !maker.is_judged_later);
    if is_refused && edit.old.is_none_or(may_run) {
        let detail = fill(REQUIRED, &[&quoted(&request.namespace)]);
        return Verdict {
            enforced: Some(enforced),
            ..Verdict::of(vec![Problem::required(field, detail)])
        };
    }
    let outer = queue_of(edit.new, policy.queue_labels()).map(|label| {
        let (outer, makes, kind) = (label.field(), maker.makes, maker.kind);
        fill(OUTER, &[&outer, makes, kind, &field])
    });
    let mut made = maker.warning(&field, enforced, policy);
    if is_excepted {
        made.push_str(NOT_EXCEPTED);
    }
    let is_reported = enforced.is_dry_run && edit.old.is_none();
    Verdict {
        report: is_reported.then(|| made.clone()),
        warnings: outer.into_iter().chain([made]).collect(),
        ..Verdict::allowed()
    }
}

/// What becomes of what `object` makes: of the object itself, where what it makes is not judged. None: nothing.
pub(crate) fn required_of(
    maker: &Maker,
    request: &Request,
    object: &Value,
    policy: &Policy,
) -> Option<Enforced> {
    if maker.may_run_what_it_makes(request, object, policy) {
        return None;
    }
    let enforced = in_namespace(request, policy).ok()??;
    if maker.is_judged_later {
        return Some(enforced);
    }
    Some(Enforced {
        unlabelled: Unlabelled::Refuse,
        ..enforced
    })
}

impl Maker {
    /// The field that names the queue of what it makes.
    fn field(&self) -> String {
        format!("{}.metadata.labels[{QUEUE_NAME_LABEL}]", self.template)
    }

    fn template_of<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        object.pointer(&format!("/{}", self.template.replace('.', "/")))
    }

    /// Whether what it makes for `object` names a queue.
    fn names_queue(&self, object: &Value, policy: &Policy) -> bool {
        self.template_of(object).is_some_and(|template| {
            let (spelt, _) = with_own_keys(None, template, policy);
            let template = spelt.as_ref().unwrap_or(template);
            queue_of(template, policy.queue_labels()).is_some()
        })
    }

    /// Whether what it makes for `object` names a queue, or is an exception.
    fn may_run_what_it_makes(&self, request: &Request, object: &Value, policy: &Policy) -> bool {
        if self.names_queue(object, policy) {
            return true;
        }
        let Some(template) = self.template_of(object) else {
            return false;
        };
        let (spelt, _) = with_own_keys(None, template, policy);
        let template = spelt.as_ref().unwrap_or(template);
        if self.is_judged_later {
            made::are_jobs_excepted(template, request, object, policy)
        } else {
            made::is_excepted(WITH_THE_SAME_PODS, request, object, policy)
        }
    }

    fn warning(&self, field: &str, enforced: Enforced, policy: &Policy) -> String {
        let queue = policy.managed_namespaces().default_local_queue();
        let done = match enforced.unlabelled {
            Unlabelled::Default if self.is_judged_later => {
                &format!("queued in LocalQueue {queue:?}")
            }
            Unlabelled::Hold if self.is_judged_later => "held",
            _ => "refused",
        };
        let done = if enforced.is_dry_run {
            format!("would be {done}")
        } else {
            format!("will be {done}")
        };
        fill(MADE_WITHOUT, &[field, self.makes, self.kind, &done])
    }
}
