//! The match conditions: CEL that the API server evaluates before it asks. `object` is null on
//! deletion, which no rule names; `oldObject` is null on creation; labels and annotations may be
//! absent.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_crds::{ADMISSION_ANNOTATION, RELEASED_ANNOTATION};
use sluice_kinds::gates::GATE_ANNOTATIONS;

use super::Options;

mod pods;

pub(super) use pods::{hold_pod, validate_pod};

/// What Sluice does itself must not depend on its own webhook.
pub(super) fn not_by(username: &str) -> MatchCondition {
    condition(
        "not-by-sluice",
        format!("request.userInfo.username != '{username}'"),
    )
}

/// Whatever is wrong with an object, it can be got rid of.
pub(super) fn not_being_deleted() -> MatchCondition {
    condition(
        "not-being-deleted",
        "!has(object.metadata.deletionTimestamp)".to_owned(),
    )
}

/// The object asks to be held; and if it is not new, the edit touches what there are rules for.
pub(super) fn hold_job(options: &Options) -> MatchCondition {
    let expression = format!(
        "(\n{}) && (\nrequest.operation == 'CREATE' ||\n{})",
        concerns("object", options),
        touches_job(options)
    );
    condition("has-queue-or-gate", expression)
}

/// The object asks to be held, or did, and the edit touches what there are rules for.
pub(super) fn validate_job(options: &Options) -> MatchCondition {
    let expression = format!(
        "request.operation == 'CREATE' ? (\n{}) : (\n{} ||\n{}) && (\n{})",
        concerns("object", options),
        concerns("object", options),
        concerns("oldObject", options),
        touches_job(options)
    );
    condition("has-queue-or-gate-and-touches-it-or-the-spec", expression)
}

/// CEL: the edit of a job touches what there are rules for.
fn touches_job(options: &Options) -> String {
    let ours = [RELEASED_ANNOTATION, ADMISSION_ANNOTATION].map(Entry::annotation);
    let entries = entries(options).chain(ours);
    let mut touched: Vec<_> = entries.map(|entry| entry.differs()).collect();
    touched.push(differs("has({}.spec)", "{}.spec"));
    // Who says later that an object belongs to one that is queued gets it past the queue too.
    touched.push(gets_controller());
    touched.join(" ||\n")
}

/// CEL: the edit changes the owners of an object that has a controller then. The garbage collector takes
/// references away, and has to get on while nobody answers.
fn gets_controller() -> String {
    let owners = "{}.metadata.ownerReferences";
    format!(
        "{} && {}",
        pods::controller(""),
        differs(&format!("has({owners})"), owners)
    )
}

/// The object is new, or its spec is.
pub(super) fn spec_is_new() -> MatchCondition {
    let expression = format!(
        "request.operation == 'CREATE' ||\n{}",
        differs("has({}.spec)", "{}.spec")
    );
    condition("spec-is-new", expression)
}

fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition {
        name: name.to_owned(),
        expression,
    }
}

/// A label or annotation that concerns Sluice.
struct Entry<'a> {
    map: &'static str,
    key: &'a str,
}

impl<'a> Entry<'a> {
    const fn label(key: &'a str) -> Self {
        Self { map: "labels", key }
    }

    const fn annotation(key: &'a str) -> Self {
        Self {
            map: "annotations",
            key,
        }
    }

    /// CEL: `object` has the entry.
    fn is_on(&self, object: &str) -> String {
        format!("({})", self.present().replace("{}", object))
    }

    /// CEL with `{}` for the object: it has the entry.
    fn present(&self) -> String {
        let Self { map, key } = self;
        format!("has({{}}.metadata.{map}) && '{key}' in {{}}.metadata.{map}")
    }

    /// CEL: the entry is not the same before and after.
    fn differs(&self) -> String {
        let Self { map, key } = self;
        differs(&self.present(), &format!("{{}}.metadata.{map}['{key}']"))
    }
}

fn queue_labels(options: &Options) -> impl Iterator<Item = Entry<'_>> {
    options.queue_labels.iter().map(|key| Entry::label(key))
}

fn gate_annotations<'a>() -> impl Iterator<Item = Entry<'a>> {
    GATE_ANNOTATIONS.into_iter().map(Entry::annotation)
}

fn entries(options: &Options) -> impl Iterator<Item = Entry<'_>> {
    queue_labels(options).chain(gate_annotations())
}

/// CEL: `object` has an entry.
fn concerns(object: &str, options: &Options) -> String {
    any(entries(options), object)
}

/// CEL: `object` has one of the `entries`.
fn any<'a>(entries: impl Iterator<Item = Entry<'a>>, object: &str) -> String {
    let present: Vec<_> = entries.map(|entry| entry.is_on(object)).collect();
    present.join(" ||\n")
}

/// CEL: `value` before and after are not equal; a list of none or one tells absent from empty.
fn differs(present: &str, value: &str) -> String {
    let of = |object: &str| {
        format!(
            "({} ? [{}] : [])",
            present.replace("{}", object),
            value.replace("{}", object)
        )
    };
    format!("{} != {}", of("object"), of("oldObject"))
}
