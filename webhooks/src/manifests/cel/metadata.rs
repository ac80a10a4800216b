//! What the policies read of labels, annotations and owners. Absent maps are empty, and so is all
//! that was there before a creation.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_kinds::gates::GATE_ANNOTATIONS;

use crate::manifests::cel::syntax::{text, texts, variable};

/// `variables.labels`, `annotations`, `oldLabels` and `oldAnnotations`; and `gateKeys`, the gate
/// annotations that the object carries.
pub(crate) fn variables() -> Vec<Variable> {
    let of = |object: &str, map: &str| {
        format!("{object}.metadata.?{map}.orValue({{}}).transformMap(k, v, string(v))")
    };
    let old = |map: &str| {
        format!(
            "oldObject == null ? {{}}.transformMap(k, v, string(v)) : {}",
            of("oldObject", map)
        )
    };
    vec![
        variable("labels", of("object", "labels")),
        variable("annotations", of("object", "annotations")),
        variable("oldLabels", old("labels")),
        variable("oldAnnotations", old("annotations")),
        variable("gateKeys", gate_keys("variables.annotations")),
    ]
}

/// CEL: the gate annotations among `annotations`.
pub(crate) fn gate_keys(annotations: &str) -> String {
    format!("{}.filter(k, k in {annotations})", texts(GATE_ANNOTATIONS))
}

/// CEL: whether the label or annotation `key` of the `map` is not the same before and after.
pub(crate) fn differs(map: Map, key: &str) -> String {
    let (new, old) = map.variables();
    format!("{new}[?{0}] != {old}[?{0}]", text(key))
}

/// Labels or annotations.
#[derive(Clone, Copy)]
pub(crate) enum Map {
    Labels,
    Annotations,
}

impl Map {
    /// The variables of the object, and of the object as it was.
    pub(crate) fn variables(self) -> (&'static str, &'static str) {
        match self {
            Self::Labels => ("variables.labels", "variables.oldLabels"),
            Self::Annotations => ("variables.annotations", "variables.oldAnnotations"),
        }
    }

    /// The literal of the field path of `key`.
    pub(crate) fn field(self, key: &str) -> String {
        text(&format!("metadata.{}[{key}]", self.name()))
    }

    /// The name of the field of the metadata.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }
}

/// CEL: whether `object` has a controller.
pub(crate) fn is_owned(object: &str) -> String {
    format!(
        "{object}.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))"
    )
}
