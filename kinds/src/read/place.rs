//! Where Sluice writes what concerns one set of pods: into its template, or where the kind's
//! controller takes the labels, annotations and placement of its pods from. What is written there is
//! in `patch`.

use std::fmt;

use json_patch::jsonptr::PointerBuf;
use serde_json::Value;

use crate::field::location::Location;
use crate::field::path::FieldPath;
use crate::read::template::Placement;

/// Where Sluice writes for a set of pods.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// A pod template, or a pod itself: it has `metadata` and `spec`.
    Template(Location),
    /// The labels and annotations that the pods get.
    Metadata(Location),
    /// An element of a list beside the templates, which has labels, annotations, nodeSelector and
    /// tolerations; the template here is only read.
    Info {
        /// The template.
        template: Location,
        /// The list.
        list: Location,
        /// Which element is that of these pods.
        index: usize,
        /// How many elements the list has to have.
        len: usize,
        /// Whether it has them.
        is_there: bool,
        /// What the template itself says, which is not repeated in the element.
        beneath: Box<Placement>,
    },
}

impl Place {
    /// A pod itself.
    pub(crate) fn pod() -> Self {
        Self::Template(Location::default())
    }

    /// The field `names` below the metadata of the pods.
    pub(crate) fn metadata(&self, names: &[&str]) -> PointerBuf {
        match self {
            Self::Template(template) => template.pointer(&[&["metadata"], names].concat()),
            Self::Metadata(metadata) => metadata.pointer(names),
            Self::Info { list, index, .. } => list.place(*index).pointer(names),
        }
    }

    /// The field `names` below the spec of the pods. Pods of which only the metadata can be written
    /// have none.
    pub(crate) fn spec(&self, names: &[&str]) -> Option<PointerBuf> {
        match self {
            Self::Template(template) => Some(template.pointer(&[&["spec"], names].concat())),
            Self::Metadata(_) => None,
            Self::Info { list, index, .. } => Some(list.place(*index).pointer(names)),
        }
    }

    /// The metadata as problems name it.
    pub(crate) fn metadata_field(&self) -> String {
        self.own_metadata().to_string()
    }

    /// The metadata in `object`, if it is there: also that of a template which is only read.
    pub(crate) fn metadata_in<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.own_metadata().get(object)
    }

    fn own_metadata(&self) -> Location {
        match self {
            Self::Metadata(metadata) => metadata.clone(),
            Self::Template(template) | Self::Info { template, .. } => {
                template.below(&FieldPath::of(&["metadata"]))
            }
        }
    }

    /// The spec as problems name it.
    pub fn spec_field(&self) -> String {
        match self {
            Self::Metadata(metadata) => metadata.to_string(),
            Self::Template(template) | Self::Info { template, .. } => {
                template.below(&FieldPath::of(&["spec"])).to_string()
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(at) | Self::Metadata(at) | Self::Info { template: at, .. } => at.fmt(f),
        }
    }
}
