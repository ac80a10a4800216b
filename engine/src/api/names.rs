//! Names of objects: shared strings, cheap to clone, ordered, one type for each kind. They are validated
//! where objects are stored.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name `text`.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    )*};
}

names! {
    /// The name of a ClusterQueue.
    ClusterQueueName;
    /// The name of a Cohort.
    CohortName;
    /// The name of a ResourceFlavor.
    FlavorName;
    /// The name of a resource, such as `cpu` or `example.com/gpu`.
    ResourceName;
    /// The name of a pod set within its workload.
    PodSetName;
    /// The identity of a workload: its UID.
    WorkloadId;
}

impl ResourceName {
    /// The resource that counts pods. The engine adds it itself.
    pub const PODS: &'static str = "pods";

    pub(crate) fn is_pods(&self) -> bool {
        self.as_str() == Self::PODS
    }
}

/// The namespace and name of a LocalQueue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalQueueKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name within the namespace.
    pub name: Arc<str>,
}

impl LocalQueueKey {
    /// The LocalQueue `name` of `namespace`.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for LocalQueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for LocalQueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A cohort or a ClusterQueue: a node of a tree of cohorts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeName {
    /// A cohort.
    Cohort(CohortName),
    /// A ClusterQueue.
    ClusterQueue(ClusterQueueName),
}
