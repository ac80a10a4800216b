//! What match conditions are made of: labels and annotations that concern Sluice, what differs, who asks.
//! `object` is null on deletion, which no rule names; `oldObject` is null on creation; labels and annotations
//! may be absent.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_kinds::aliases::MetadataKey;
use sluice_kinds::gates::{GATE_ANNOTATIONS, OF_GATES, OF_RELEASE};

use crate::manifests::options::Options;

/// What Sluice does itself must not depend on its own webhook.
pub(crate) fn not_by(username: &str) -> MatchCondition {
    condition(
        "not-by-sluice",
        format!("request.userInfo.username != '{username}'"),
    )
}

/// Whatever is wrong with an object, it can be got rid of: whoever does that takes finalizers and owners away, and
/// never what the object tells of its gates and its release. Its pods may run on for long.
pub(crate) fn not_being_deleted() -> MatchCondition {
    let kept = OF_GATES.into_iter().chain(OF_RELEASE);
    let told = gate_annotations().chain(kept.map(Entry::annotation));
    let told: Vec<_> = told.map(|entry| entry.differs()).collect();
    condition(
        "not-being-deleted",
        format!(
            "!has(object.metadata.deletionTimestamp) ||\nrequest.operation == 'UPDATE' && (\n{})",
            told.join(" ||\n")
        ),
    )
}

/// The same of objects of Sluice's own: a Gate reads what it waits for until it is gone.
pub(crate) fn own_not_being_deleted() -> MatchCondition {
    condition(
        "not-being-deleted",
        format!(
            "!has(object.metadata.deletionTimestamp) ||\nrequest.kind.kind == 'Gate' && {}",
            after_differs()
        ),
    )
}

/// CEL: the edit changes what a Gate waits for.
pub(crate) fn after_differs() -> String {
    differs("has({}.spec) && has({}.spec.after)", "{}.spec.after")
}

/// The object is new, or its spec is.
pub(crate) fn spec_is_new() -> MatchCondition {
    let expression = format!(
        "request.operation == 'CREATE' ||\n{}",
        differs("has({}.spec)", "{}.spec")
    );
    condition("spec-is-new", expression)
}

/// CEL: the edit changes the owners of an object that has a controller then. The garbage collector takes
/// references away, and has to get on while nobody answers.
pub(crate) fn gets_controller() -> String {
    let owners = "{}.metadata.ownerReferences";
    format!(
        "{} && {}",
        controller(""),
        differs(&format!("has({owners})"), owners)
    )
}

/// CEL: the edit takes the controller away that an object had.
pub(crate) fn loses_controller() -> String {
    let controller = controller("");
    format!(
        "{} && !{controller}",
        controller.replace("object.", "oldObject.")
    )
}

pub(crate) fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition {
        name: name.to_owned(),
        expression,
    }
}

/// A label or annotation that concerns Sluice.
pub(crate) struct Entry<'a> {
    map: &'static str,
    key: &'a str,
}

impl<'a> Entry<'a> {
    pub(crate) const fn label(key: &'a str) -> Self {
        Self { map: "labels", key }
    }

    pub(crate) const fn annotation(key: &'a str) -> Self {
        Self {
            map: "annotations",
            key,
        }
    }

    fn of(key: &'a MetadataKey) -> Self {
        let (map, key) = key.parts();
        Self { map, key }
    }

    /// CEL: `object` has the entry.
    pub(crate) fn is_on(&self, object: &str) -> String {
        format!("({})", self.present().replace("{}", object))
    }

    /// CEL with `{}` for the object: it has the entry.
    pub(crate) fn present(&self) -> String {
        let Self { map, key } = self;
        format!("has({{}}.metadata.{map}) && '{key}' in {{}}.metadata.{map}")
    }

    /// CEL: the entry is not the same before and after.
    pub(crate) fn differs(&self) -> String {
        let Self { map, key } = self;
        differs(&self.present(), &format!("{{}}.metadata.{map}['{key}']"))
    }
}

/// By what an object names a queue.
pub(crate) fn queue_names(options: &Options) -> impl Iterator<Item = Entry<'_>> {
    let own = MetadataKey::Label(QUEUE_NAME_LABEL.to_owned());
    let labels = options.queue_labels.iter().map(|key| Entry::label(key));
    labels.chain(options.key_aliases.of(&own).iter().map(Entry::of))
}

/// All keys that stand for keys of Sluice's own, but for queue labels and gates.
pub(crate) fn aliases(options: &Options) -> impl Iterator<Item = Entry<'_>> {
    options.key_aliases.all().map(Entry::of)
}

pub(crate) fn gate_annotations<'a>() -> impl Iterator<Item = Entry<'a>> {
    GATE_ANNOTATIONS.into_iter().map(Entry::annotation)
}

/// CEL: `object` has one of the `entries`.
pub(crate) fn any<'a>(entries: impl Iterator<Item = Entry<'a>>, object: &str) -> String {
    let present: Vec<_> = entries.map(|entry| entry.is_on(object)).collect();
    present.join(" ||\n")
}

/// CEL: `value` before and after are not equal; a list of none or one tells absent from empty.
pub(crate) fn differs(present: &str, value: &str) -> String {
    let of = |object: &str| {
        format!(
            "({} ? [{}] : [])",
            present.replace("{}", object),
            value.replace("{}", object)
        )
    };
    format!("{} != {}", of("object"), of("oldObject"))
}

/// CEL: `object` has a controller `o`, for which what is in `rule` also holds.
pub(crate) fn controller(rule: &str) -> String {
    format!(
        "(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, \
         has(o.controller) && o.controller{rule}))"
    )
}
