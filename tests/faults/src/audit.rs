//! Who made a change: the API server's audit log names the author of each write and, at the level
//! `RequestResponse`, the object that came of it, whose resourceVersion is etcd's revision.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::history::{Key, Revision, SLUICE};

/// The name under which the fields that Sluice writes are recorded.
const FIELD_MANAGER: &str = "sluice";

/// What the API server has to log for this: what Sluice writes, with the object that came of it.
pub const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n\
    omitStages: [RequestReceived]\nrules:\n\
    - level: RequestResponse\n  users: [\"system:serviceaccount:sluice-system:sluice\"]\n  \
      verbs: [create, update, patch, delete]\n  resources:\n  - group: \"\"\n  - group: batch\n  \
      - group: apps\n  - group: sluice.dev\n\
    - level: Metadata\n";

/// A write of Sluice that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// `patch jobs`, `patch workloads/status`.
    pub what: String,
    /// `namespace/name` of the object.
    pub object: String,
    /// The revision that it made; none for a deletion.
    pub revision: Option<u64>,
}

/// The audit logs of all API servers, read as they grow.
#[derive(Debug)]
pub struct AuditLog {
    files: Vec<Growing>,
    writes: Vec<Write>,
}

/// The log of one API server.
#[derive(Debug)]
struct Growing {
    path: PathBuf,
    read: u64,
}

impl AuditLog {
    /// The logs in these files, one of each API server.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = paths.into_iter().map(|path| Growing { path, read: 0 });
        Self {
            files: files.collect(),
            writes: Vec::new(),
        }
    }

    /// Sluice's writes so far that were answered with success, those of one API server in their order; not
    /// those to its Lease, and not events, which are no decisions.
    ///
    /// # Errors
    /// When a log can't be read.
    pub fn writes(&mut self) -> Result<&[Write]> {
        for file in &mut self.files {
            self.writes.extend(file.read()?);
        }
        Ok(&self.writes)
    }
}

impl Growing {
    /// The writes since the last time.
    fn read(&mut self) -> Result<Vec<Write>> {
        let mut file = std::fs::File::open(&self.path).context("the audit log")?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // What comes after the last end of a line is still being written.
        let end = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        text.truncate(end);
        self.read += text.len() as u64;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| line.contains(SLUICE));
        // A line is cut where the API server was killed.
        let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(events.filter_map(|event| read(&event)).collect())
    }
}

/// Names the author of each revision that a write of Sluice made.
///
/// A patch that changes nothing, as one does that is sent again, is answered with the revision that is there,
/// which somebody else may have made. What Sluice writes in truth shows in its own `managedFields`.
pub fn sign(revisions: &mut [Revision], writes: &[Write]) {
    let by_revision: BTreeSet<u64> = writes.iter().filter_map(|write| write.revision).collect();
    let mut managed: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for revision in revisions {
        let object = revision.object.as_ref();
        let fields = object.and_then(|object| object["metadata"]["managedFields"].as_array());
        let own = fields.into_iter().flatten();
        let own: Vec<Value> = own
            .filter(|entry| entry["manager"] == FIELD_MANAGER)
            .cloned()
            .collect();
        let before = managed.insert(revision.key.clone(), own.clone());
        if by_revision.contains(&revision.number) && before.as_ref() != Some(&own) {
            revision.author = Some(SLUICE.to_owned());
        }
    }
}

fn read(event: &Value) -> Option<Write> {
    let is_write = ["create", "update", "patch", "delete"].contains(&event["verb"].as_str()?);
    let code = event["responseStatus"]["code"].as_u64()?;
    let reference = &event["objectRef"];
    let resource = reference["resource"].as_str()?;
    let counts = is_write
        && event["user"]["username"] == SLUICE
        && event["stage"] == "ResponseComplete"
        && (200..300).contains(&code)
        && !["leases", "events"].contains(&resource);
    if !counts {
        return None;
    }
    let verb = event["verb"].as_str()?;
    let what = match reference["subresource"].as_str() {
        Some(subresource) => format!("{verb} {resource}/{subresource}"),
        None => format!("{verb} {resource}"),
    };
    let made = &event["responseObject"]["metadata"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let name = text(&reference["name"]).or_else(|| text(&made["name"]));
    let namespace = text(&reference["namespace"]).unwrap_or_default();
    let revision = made["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok());
    Some(Write {
        what,
        object: format!("{namespace}/{}", name.unwrap_or_default()),
        revision: revision.filter(|_| verb != "delete"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(user: &str, verb: &str, resource: &str, code: u64) -> Value {
        json!({
            "stage": "ResponseComplete", "verb": verb, "user": {"username": user},
            "objectRef": {"resource": resource, "namespace": "ns", "name": "a"},
            "responseStatus": {"code": code},
            "responseObject": {"metadata": {"name": "a", "resourceVersion": "12"}},
        })
    }

    #[test]
    fn only_what_sluice_wrote_with_success_counts() {
        let mut status = event(SLUICE, "patch", "workloads", 200);
        status["objectRef"]["subresource"] = json!("status");
        let write = |what: &str, revision| {
            Some(Write {
                what: what.to_owned(),
                object: "ns/a".to_owned(),
                revision,
            })
        };
        for (event, expected) in [
            (
                event(SLUICE, "patch", "jobs", 200),
                write("patch jobs", Some(12)),
            ),
            (status, write("patch workloads/status", Some(12))),
            (
                event(SLUICE, "delete", "pods", 200),
                write("delete pods", None),
            ),
            (event(SLUICE, "patch", "jobs", 422), None),
            (event(SLUICE, "update", "leases", 200), None),
            (event(SLUICE, "get", "jobs", 200), None),
            (
                event("system:serviceaccount:ns:sluice", "patch", "jobs", 200),
                None,
            ),
        ] {
            assert_eq!(read(&event), expected, "{event}");
        }
    }

    /// The reply to it names the revision that is there.
    #[test]
    fn a_patch_that_changes_nothing_makes_no_revision() {
        let revision = |number, time: &str| Revision {
            number,
            key: Key::parse("/registry/pods/ns/a").unwrap(),
            object: Some(json!({"metadata": {"managedFields": [
                {"manager": "sluice", "time": time}, {"manager": "kubelet", "time": number}]}})),
            author: None,
        };
        let write = |revision| Write {
            what: "patch pods".to_owned(),
            object: "ns/a".to_owned(),
            revision: Some(revision),
        };
        let mut revisions = [revision(3, "1"), revision(4, "2"), revision(5, "2")];
        sign(&mut revisions, &[write(4), write(5)]);
        let signed = revisions.iter().filter(|revision| revision.is_by_sluice());
        assert_eq!(signed.map(|r| r.number).collect::<Vec<_>>(), [4]);
    }
}
