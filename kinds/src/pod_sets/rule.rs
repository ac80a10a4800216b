//! One rule of a JobKind about pod sets, compiled. What it finds in an object is said in `template.rs`.

use std::sync::Arc;

use sluice_crds::WhenAbsent;

use crate::expression::compiled::Expression;
use crate::field::path::FieldPath;
use crate::pod_sets::added::Added;

/// Most pods in a set: what a Kubernetes count field can hold.
pub(crate) const COUNT_MAX: u32 = i32::MAX.unsigned_abs();

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// The lists whose elements it is about, each in an element of the one before.
    pub(crate) lists: Vec<FieldPath>,
    pub(crate) source: Source,
    pub(crate) name_from: Option<FieldPath>,
    pub(crate) infos: Option<FieldPath>,
    pub(crate) when_absent: WhenAbsent,
    pub(crate) count: Option<Expression>,
    pub(crate) reclaimable: Option<Expression>,
    pub(crate) partial: Option<Partial>,
    pub(crate) added: Vec<Added>,
}

/// How an object says that it will do with fewer of these pods.
#[derive(Debug)]
pub(crate) struct Partial {
    /// The annotation that says how many will do.
    pub(crate) annotation: String,
    /// Where it is written how many there are.
    pub(crate) field: FieldPath,
}

/// Where pods come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// From the template at this path.
    Template(FieldPath),
    /// From the template whose path is the text at this path.
    TemplateFrom(FieldPath),
    /// From the object as a whole; they get the metadata at this path.
    Metadata(FieldPath),
}

impl Rule {
    /// Its expressions.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let added = self.added.iter().filter_map(|added| added.when.as_ref());
        self.count.iter().chain(&self.reclaimable).chain(added)
    }

    /// Whether only the pods themselves tell what they ask for.
    pub(crate) fn is_opaque(&self) -> bool {
        matches!(self.source, Source::Metadata(_)) || self.when_absent == WhenAbsent::Create
    }

    /// Whether every object has the pod set that it makes, by its name.
    pub(crate) fn is_fixed(&self) -> bool {
        self.lists.is_empty() && self.when_absent != WhenAbsent::Skip
    }

    /// Whether each object says itself where its templates are.
    pub(crate) fn is_named_by_object(&self) -> bool {
        matches!(self.source, Source::TemplateFrom(_))
    }

    /// Whether Sluice writes beside the templates, which can't be changed: objects with such pods wait
    /// by being suspended.
    pub(crate) fn has_infos(&self) -> bool {
        self.infos.is_some()
    }
}
