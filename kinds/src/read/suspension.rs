//! Whose a suspension is: the one rule of the annotation `sluice.dev/held`, which is written in the same
//! request as the suspend field, at creation by the webhook or the policies, later by the controller.
//!
//! | mark | written when | suspended, it waits for |
//! |---|---|---|
//! | none | Sluice has neither suspended nor released it | its queue, if it names one; else its user |
//! | `true` | Sluice suspended it | Sluice, which starts it when nothing holds it any more |
//! | `false` | Sluice released it | its user, who suspended it since |
//!
//! In a queue `suspend: true` at creation asks to be queued, as in every manifest written for Kueue. What
//! follows for the next write is decided by the controller.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, TestOperation};
use serde_json::{Value, json};
use sluice_crds::HELD_ANNOTATION;

use crate::field::location::Location;
use crate::field::metadata::annotation_text;

/// What Sluice last did to the suspend field of an object, by the annotation `sluice.dev/held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldMark {
    /// It suspended the object.
    Held,
    /// It released the object.
    Released,
}

impl HeldMark {
    /// The mark that the value of the annotation says, if it is there.
    pub fn read(value: Option<&str>) -> Option<Self> {
        value.map(|value| match value {
            "false" => Self::Released,
            _ => Self::Held,
        })
    }

    /// The mark that an object carries, if it carries one.
    pub fn of_object(object: &Value) -> Option<Self> {
        Self::read(annotation_text(object, HELD_ANNOTATION))
    }

    /// The value of the annotation.
    pub const fn value(self) -> &'static str {
        match self {
            Self::Held => "true",
            Self::Released => "false",
        }
    }
}

/// Whose suspension an object is under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspension {
    /// It is not suspended.
    None,
    /// Sluice suspended it.
    BySluice,
    /// It was suspended when it was created, and Sluice has never released it.
    AtCreation,
    /// Its user suspended it after Sluice had released it.
    ByUser,
}

impl Suspension {
    /// Whose suspension an object is under that carries this mark.
    pub const fn of(is_suspended: bool, mark: Option<HeldMark>) -> Self {
        match (is_suspended, mark) {
            (false, _) => Self::None,
            (true, Some(HeldMark::Held)) => Self::BySluice,
            (true, None) => Self::AtCreation,
            (true, Some(HeldMark::Released)) => Self::ByUser,
        }
    }

    /// Whether the object may be queued, to be started when it is admitted. One that its user suspended
    /// after Sluice had released it waits for its user.
    pub const fn ends_by_admission(self) -> bool {
        matches!(self, Self::BySluice | Self::AtCreation)
    }
}

/// Where a patch of an object that is known by a few fields alone writes the mark.
#[derive(Debug, Clone, Copy)]
pub enum MarkAt<'a> {
    /// The object has annotations.
    Annotations,
    /// It has none. The patch makes the map, and fails if the object is not this resourceVersion any
    /// more: annotations that somebody has added since would be lost.
    NoAnnotations {
        /// `metadata.resourceVersion`.
        resource_version: &'a str,
    },
}

impl MarkAt<'_> {
    /// The operations that write `mark`.
    pub(crate) fn write(self, mark: HeldMark) -> Vec<PatchOperation> {
        let annotations = ["metadata", "annotations"];
        match self {
            Self::Annotations => vec![add(
                PointerBuf::from_tokens(annotations.iter().copied().chain([HELD_ANNOTATION])),
                json!(mark.value()),
            )],
            Self::NoAnnotations { resource_version } => vec![
                PatchOperation::Test(TestOperation {
                    path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
                    value: json!(resource_version),
                }),
                add(
                    PointerBuf::from_tokens(annotations),
                    json!({HELD_ANNOTATION: mark.value()}),
                ),
            ],
        }
    }
}

/// The operation that writes `mark` into `object`; none if it carries that.
pub(crate) fn mark(object: &Value, mark: HeldMark) -> Option<PatchOperation> {
    if annotation_text(object, HELD_ANNOTATION) == Some(mark.value()) {
        return None;
    }
    let at = Location::default().keys(&["metadata", "annotations", HELD_ANNOTATION]);
    Some(at.set(object, json!(mark.value())))
}

fn add(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_says_whose_a_suspension_is() {
        use HeldMark::{Held, Released};
        let cases = [
            (false, None, Suspension::None, false),
            (false, Some(Held), Suspension::None, false),
            (false, Some(Released), Suspension::None, false),
            (true, None, Suspension::AtCreation, true),
            (true, Some(Held), Suspension::BySluice, true),
            (true, Some(Released), Suspension::ByUser, false),
        ];
        for (is_suspended, mark, whose, by_admission) in cases {
            let suspension = Suspension::of(is_suspended, mark);
            assert_eq!(suspension, whose);
            assert_eq!(suspension.ends_by_admission(), by_admission, "{whose:?}");
        }
    }

    #[test]
    fn a_mark_is_read_as_it_is_written() {
        for mark in [HeldMark::Held, HeldMark::Released] {
            assert_eq!(HeldMark::read(Some(mark.value())), Some(mark));
        }
        assert_eq!(HeldMark::read(None), None);
    }

    #[test]
    fn a_mark_leaves_other_annotations_alone() {
        let cases = [
            (json!({"metadata": {}}), json!({})),
            (json!({"metadata": {"annotations": null}}), json!({})),
            (
                json!({"metadata": {"annotations": {"a": "b"}}}),
                json!({"a": "b"}),
            ),
            (
                json!({"metadata": {"annotations": {"a": "b", HELD_ANNOTATION: "false"}}}),
                json!({"a": "b"}),
            ),
        ];
        for (mut object, mut expected) in cases {
            let operation = mark(&object, HeldMark::Held).unwrap();
            json_patch::patch(&mut object, &[operation]).unwrap();
            expected[HELD_ANNOTATION] = json!("true");
            assert_eq!(object["metadata"]["annotations"], expected);
            assert_eq!(mark(&object, HeldMark::Held), None, "once is enough");
        }
    }

    #[test]
    fn a_map_is_made_only_in_the_object_that_was_seen() {
        let at = MarkAt::NoAnnotations {
            resource_version: "7",
        };
        let patch = at.write(HeldMark::Released);
        let mut object = json!({"metadata": {"resourceVersion": "7"}});
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(
            object["metadata"]["annotations"],
            json!({HELD_ANNOTATION: "false"})
        );
        let mut newer = json!({"metadata": {"resourceVersion": "8", "annotations": {"a": "b"}}});
        assert!(json_patch::patch(&mut newer, &patch).is_err());
    }
}
