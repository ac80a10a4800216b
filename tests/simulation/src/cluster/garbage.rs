//! The garbage collector: deletes what belongs to objects that are gone, and takes the finalizers off that
//! ask for its help.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{all, is_deleted};
use crate::api::{Author, Part, Server};

/// Kinds whose objects may belong to others.
const OWNED: [&str; 3] = ["Pod", "Workload", "Job"];

pub(super) async fn collect(server: &Arc<Server>, author: &Author) {
    let kinds = OWNED.into_iter().chain(["Namespace", "ReplicaSet"]);
    let objects: Vec<_> = kinds.flat_map(|kind| all(server, kind)).collect();
    let uids: BTreeSet<&str> = objects
        .iter()
        .filter_map(|(_, object)| object["metadata"]["uid"].as_str())
        .collect();
    for (place, object) in &objects {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten().peekable();
        let has_owners = owners.peek().is_some();
        let is_owned = owners.any(|owner| owner["uid"].as_str().is_some_and(|o| uids.contains(o)));
        if has_owners && !is_owned && !is_deleted(object) {
            let options = json!({"preconditions": {"uid": object["metadata"]["uid"]}});
            drop(server.delete(author, place, &options));
        }
        let has_finalizer = |name: &str| {
            let mut list = object["metadata"]["finalizers"]
                .as_array()
                .into_iter()
                .flatten();
            list.any(|known| known == name)
        };
        if is_deleted(object) && has_finalizer("orphan") {
            for (place, dependent) in &objects {
                if owned_by(dependent, &object["metadata"]["uid"]) {
                    let change = |old: &Value| {
                        let mut new = old.clone();
                        new["metadata"]["ownerReferences"] = Value::Null;
                        Ok(new)
                    };
                    drop(
                        server
                            .change(author, place, Part::Main, false, change)
                            .await,
                    );
                }
            }
            let change = |old: &Value| {
                let mut new = old.clone();
                new["metadata"]["finalizers"] = json!([]);
                Ok(new)
            };
            drop(
                server
                    .change(author, place, Part::Main, false, change)
                    .await,
            );
        }
    }
}

fn owned_by(object: &Value, uid: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner["uid"] == *uid)
}
