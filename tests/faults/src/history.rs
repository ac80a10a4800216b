//! The history of a cluster as data: every change of every object that a check looks at, in the order
//! in which etcd made them. Where it comes from is in [`crate::etcd`] and [`crate::audit`].

use serde_json::Value;

/// Sluice's own account.
pub const SLUICE: &str = "system:serviceaccount:sluice-system:sluice";

/// The kinds of objects that checks look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the kinds are called as the API calls them")]
pub enum Kind {
    Job,
    Pod,
    Workload,
    ClusterQueue,
    Cohort,
    Lease,
}

impl Kind {
    /// The folder of the kind's objects below `/registry/` in etcd.
    const FOLDERS: [(&'static str, Self); 6] = [
        ("jobs/", Self::Job),
        ("pods/", Self::Pod),
        ("sluice.dev/workloads/", Self::Workload),
        ("sluice.dev/clusterqueues/", Self::ClusterQueue),
        ("sluice.dev/cohorts/", Self::Cohort),
        // Sluice's own: who leads.
        ("leases/sluice-system/", Self::Lease),
    ];
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for objects without.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// Reads a key of etcd, as `/registry/jobs/team-a/train`. None for kinds that no check looks at.
    pub fn parse(path: &str) -> Option<Self> {
        let path = path.strip_prefix("/registry/")?;
        let (rest, kind) = Kind::FOLDERS
            .iter()
            .find_map(|(folder, kind)| Some((path.strip_prefix(folder)?, *kind)))?;
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        Some(Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its place in the history: etcd's revision, which is also the object's resourceVersion.
    pub number: u64,
    /// Which object.
    pub key: Key,
    /// The object from here on. None: it is gone.
    pub object: Option<Value>,
    /// Who made the change, where the audit log has it.
    pub author: Option<String>,
}

impl Revision {
    /// Whether Sluice is known to have made this change.
    pub fn is_by_sluice(&self) -> bool {
        self.author.as_deref() == Some(SLUICE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_etcd_are_read() {
        let key = |kind, namespace: &str, name: &str| {
            Some(Key {
                kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        };
        for (path, expected) in [
            (
                "/registry/jobs/team-a/train",
                key(Kind::Job, "team-a", "train"),
            ),
            (
                "/registry/pods/team-a/train-x",
                key(Kind::Pod, "team-a", "train-x"),
            ),
            (
                "/registry/sluice.dev/workloads/a/w",
                key(Kind::Workload, "a", "w"),
            ),
            (
                "/registry/sluice.dev/clusterqueues/q",
                key(Kind::ClusterQueue, "", "q"),
            ),
            ("/registry/sluice.dev/cohorts/c", key(Kind::Cohort, "", "c")),
            ("/registry/leases/kube-system/other", None),
            ("/registry/sluice.dev/jobkinds/job", None),
            ("compact_rev_key", None),
        ] {
            assert_eq!(Key::parse(path), expected, "{path}");
        }
    }
}
