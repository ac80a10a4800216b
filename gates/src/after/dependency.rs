//! The object that another one waits for.

use std::fmt;
use std::sync::Arc;

use super::rule::{DependencyRule, GroupKind};

/// The object that a held object waits for, as far as the Gate and the held object name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// What is to be true of it.
    pub rule: &'a Arc<DependencyRule>,
    /// Its name.
    pub name: &'a str,
    /// Who names it.
    pub named_by: NamedBy<'a>,
}

/// Who names an object that another one waits for. Only a Gate may name one outside of the namespace of the held
/// object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy<'a> {
    /// The held object: it is in the same namespace.
    HeldObject,
    /// The Gate.
    Gate {
        /// The namespace that it names. None: that of the held object, if the kind has namespaces.
        namespace: Option<&'a str>,
    },
}

/// A kind and whether its objects are in namespaces do not fit how the object is named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongScope {
    /// Only a Gate may name such an object.
    #[error(
        "spec.after.kinds: {0} has no namespaces: only spec.after.object can name such an object"
    )]
    NotNamespaced(GroupKind),
    /// There is no namespace to be named.
    #[error("spec.after.object.namespace: must not be set, as {0} has no namespaces")]
    NoNamespace(GroupKind),
}

impl<'a> Dependency<'a> {
    /// The namespace of the object, if one in `namespace` waits for it. Empty: it has none.
    ///
    /// # Errors
    /// It can't be named like this.
    pub fn namespace(
        &self,
        namespace: &'a str,
        is_namespaced: bool,
    ) -> Result<&'a str, WrongScope> {
        let kind = || self.rule.kind().clone();
        match (self.named_by, is_namespaced) {
            (NamedBy::Gate { namespace: None } | NamedBy::HeldObject, true) => Ok(namespace),
            (NamedBy::Gate { namespace: None }, false) => Ok(""),
            (
                NamedBy::Gate {
                    namespace: Some(named),
                },
                true,
            ) => Ok(named),
            (NamedBy::Gate { namespace: Some(_) }, false) => Err(WrongScope::NoNamespace(kind())),
            (NamedBy::HeldObject, false) => Err(WrongScope::NotNamespaced(kind())),
        }
    }
}

impl Dependency<'_> {
    /// The same as the text, without quotes: as records of objects hold it.
    pub fn plain(&self) -> String {
        match self.named_by {
            NamedBy::Gate {
                namespace: Some(namespace),
            } => format!("{} {namespace}/{}", self.rule.kind(), self.name),
            NamedBy::Gate { namespace: None } | NamedBy::HeldObject => {
                format!("{} {}", self.rule.kind(), self.name)
            }
        }
    }
}

/// For people, as in `Job.batch "prepare"`.
impl fmt::Display for Dependency<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.rule.kind(), self.name)?;
        match self.named_by {
            NamedBy::Gate {
                namespace: Some(namespace),
            } => write!(f, " in namespace {namespace:?}"),
            NamedBy::Gate { namespace: None } | NamedBy::HeldObject => Ok(()),
        }
    }
}
