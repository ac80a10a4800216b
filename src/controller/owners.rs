//! Who owns what, where no watch says so: a pod of a Deployment belongs to a ReplicaSet that nobody
//! watches. Asked once for each owner, by name, and believed only if the UID is right.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Error};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::Controller;
use crate::world::Uid;
use crate::world::pod::OwnerRef;

/// Questions at the same time.
const CONCURRENCY: usize = 8;
/// Longest time for one.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long to wait after one that was not answered.
const RETRY: Duration = Duration::from_secs(2);

/// Questions about owners.
pub struct Owners {
    client: Client,
    waiting: VecDeque<Question>,
    running: JoinSet<Answer>,
    asked: HashSet<Uid>,
    /// Owners of owners, which no pod names.
    between: HashMap<Uid, Arc<OwnerRef>>,
}

struct Question {
    namespace: Arc<str>,
    owner: Arc<OwnerRef>,
}

/// What was found out about an owner: the controller that owns it, if any.
pub struct Answer {
    uid: Uid,
    owner: Option<Arc<OwnerRef>>,
}

impl Owners {
    /// No questions.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            waiting: VecDeque::new(),
            running: JoinSet::new(),
            asked: HashSet::new(),
            between: HashMap::new(),
        }
    }

    /// Asks who owns the object `uid`, which is `direct` or one that an answer has named.
    pub fn ask(&mut self, uid: Uid, direct: Option<&Arc<OwnerRef>>, namespace: &Arc<str>) {
        let direct = direct.filter(|owner| owner.uid == uid);
        let Some(owner) = direct.or_else(|| self.between.get(&uid)).cloned() else {
            return;
        };
        if self.asked.insert(uid) {
            let namespace = namespace.clone();
            self.waiting.push_back(Question { namespace, owner });
            self.fill();
        }
    }

    /// The next answer. None if nothing is asked.
    pub async fn next(&mut self) -> Option<Answer> {
        let answer = self.running.join_next().await?;
        self.fill();
        answer.ok()
    }

    fn take(&mut self, answer: &Answer) {
        self.asked.remove(&answer.uid);
        self.between.remove(&answer.uid);
        if let Some(owner) = &answer.owner {
            self.between.insert(owner.uid.clone(), owner.clone());
        }
    }

    fn fill(&mut self) {
        while self.running.len() < CONCURRENCY {
            let Some(Question { namespace, owner }) = self.waiting.pop_front() else {
                return;
            };
            let client = self.client.clone();
            self.running.spawn(async move {
                let next = loop {
                    if let Some(next) = look(&client, &namespace, &owner).await {
                        break next;
                    }
                    tokio::time::sleep(RETRY).await;
                };
                Answer {
                    uid: owner.uid.clone(),
                    owner: next,
                }
            });
        }
    }
}

/// The controller that owns `owner`; the outer None says to ask again.
async fn look(client: &Client, namespace: &str, owner: &OwnerRef) -> Option<Option<Arc<OwnerRef>>> {
    let (group, version) = owner
        .api_version
        .split_once('/')
        .unwrap_or(("", &owner.api_version));
    let kind = GroupVersionKind::gvk(group, version, &owner.kind);
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let asked = tokio::time::timeout(DEADLINE, api.get_metadata(&owner.name)).await;
    match asked {
        Ok(Ok(found)) if found.metadata.uid.as_deref() == Some(&*owner.uid) => {
            let owners = found.metadata.owner_references.into_iter().flatten();
            let controller = owners
                .filter(|owner| owner.controller == Some(true))
                .map(|owner| {
                    Arc::new(OwnerRef {
                        api_version: owner.api_version,
                        kind: owner.kind,
                        name: owner.name,
                        uid: owner.uid.into(),
                    })
                });
            Some(controller.into_iter().next())
        }
        // Gone, another one by its name, or not served.
        Ok(Ok(_)) => Some(None),
        Ok(Err(Error::Api(status))) if status.code == 404 => Some(None),
        Ok(Err(Error::Api(status))) if status.code == 403 => {
            warn!(kind = %owner.kind, namespace, name = %owner.name, message = %status.message,
                "may not be read, so whom its pods belong to can't be told");
            Some(None)
        }
        Ok(Err(error)) => {
            debug!(%error, "an owner can't be read, asking again");
            None
        }
        Err(_) => None,
    }
}

impl Controller {
    /// Takes in who owns what: the pods below are looked at again.
    pub(super) fn owner_found(&mut self, answer: &Answer) {
        self.owners.take(answer);
        let owner = answer.owner.as_ref().map(|owner| owner.uid.clone());
        for pod in self.world.pods.link(&answer.uid, owner) {
            self.pod_changed(&pod);
        }
    }
}
