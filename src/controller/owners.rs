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
/// How long to wait before one that was not answered is asked again, and how often. Then it is asked
/// again when something is seen of its pods.
const RETRY: Duration = Duration::from_secs(2);
const TRIES: u32 = 3;

/// Questions about owners.
pub struct Owners {
    client: Client,
    waiting: VecDeque<Question>,
    running: JoinSet<Answer>,
    asked: HashSet<Uid>,
    /// Owners of owners, which no pod names.
    between: HashMap<Uid, Arc<OwnerRef>>,
}

#[derive(Clone)]
struct Question {
    namespace: Arc<str>,
    owner: Arc<OwnerRef>,
    tries: u32,
}

/// What was found out about an owner.
pub struct Answer {
    question: Question,
    found: Found,
}

/// The controller that owns an owner.
enum Found {
    /// This one.
    Owner(Arc<OwnerRef>),
    /// None; or it is gone, or can't be read.
    Nobody,
    /// There was no answer.
    Unanswered,
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
            self.waiting.push_back(Question {
                namespace: namespace.clone(),
                owner,
                tries: 0,
            });
            self.fill();
        }
    }

    /// The next answer. None if nothing is asked.
    pub async fn next(&mut self) -> Option<Answer> {
        let answer = self.running.join_next().await?;
        self.fill();
        answer.ok()
    }

    /// Forgets owners of owners that `is_needed` does not name.
    pub fn forget(&mut self, is_needed: impl Fn(&Uid) -> bool) {
        self.between.retain(|uid, _| is_needed(uid));
    }

    fn fill(&mut self) {
        while self.running.len() < CONCURRENCY {
            let Some(question) = self.waiting.pop_front() else {
                return;
            };
            let client = self.client.clone();
            self.running.spawn(async move {
                // Others that wait for an answer are asked first: who waits again stands at the end.
                if 0 < question.tries {
                    tokio::time::sleep(RETRY).await;
                }
                let found = look(&client, &question.namespace, &question.owner).await;
                Answer { question, found }
            });
        }
    }
}

async fn look(client: &Client, namespace: &str, owner: &OwnerRef) -> Found {
    let (group, version) = owner
        .api_version
        .split_once('/')
        .unwrap_or(("", &owner.api_version));
    // A reference is what its writer says: only what can be a path is asked for.
    let parts = [group, version, &owner.kind, &owner.name];
    let is_plain = |text: &&str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    if !parts.iter().all(is_plain) || version.is_empty() || owner.name.is_empty() {
        return Found::Nobody;
    }
    let kind = GroupVersionKind::gvk(group, version, &owner.kind);
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let asked = tokio::time::timeout(DEADLINE, api.get_metadata(&owner.name)).await;
    match asked {
        Ok(Ok(found)) if found.metadata.uid.as_deref() == Some(&*owner.uid) => {
            let owners = found.metadata.owner_references.into_iter().flatten();
            let mut controllers = owners.filter(|owner| owner.controller == Some(true));
            controllers.next().map_or(Found::Nobody, |owner| {
                Found::Owner(Arc::new(OwnerRef {
                    api_version: owner.api_version,
                    kind: owner.kind,
                    name: owner.name,
                    uid: owner.uid.into(),
                }))
            })
        }
        // Another one by its name.
        Ok(Ok(_)) => Found::Nobody,
        Ok(Err(Error::Api(status))) if (400..500).contains(&status.code) && status.code != 429 => {
            if status.code == 403 {
                warn!(kind = %owner.kind, namespace, name = %owner.name, message = %status.message,
                    "may not be read, so whom its pods belong to can't be told");
            }
            Found::Nobody
        }
        Ok(Err(error)) => {
            debug!(%error, "an owner can't be read");
            Found::Unanswered
        }
        Err(_) => Found::Unanswered,
    }
}

impl Controller {
    /// Takes in who owns what: the pods below are looked at again.
    pub(super) fn owner_found(&mut self, answer: Answer) {
        let Answer { question, found } = answer;
        let Question {
            namespace, owner, ..
        } = question.clone();
        let is_needed = self.world.pods.is_owner(&namespace, &owner.uid);
        let next = match found {
            Found::Unanswered if is_needed && question.tries + 1 < TRIES => {
                self.owners.waiting.push_back(Question {
                    tries: question.tries + 1,
                    ..question
                });
                return self.owners.fill();
            }
            Found::Unanswered => {
                self.owners.asked.remove(&owner.uid);
                return;
            }
            Found::Owner(next) => Some(next),
            Found::Nobody => None,
        };
        self.owners.asked.remove(&owner.uid);
        if !is_needed {
            return;
        }
        let uid = next.as_ref().map(|next| next.uid.clone());
        if let Some(next) = next {
            self.owners.between.insert(next.uid.clone(), next);
        }
        for pod in self.world.pods.link(&namespace, &owner.uid, uid) {
            self.pod_changed(&pod);
        }
    }

    /// Looks again at owners that could not be read, or seemed to have no owner: rights may have been
    /// given meanwhile. Forgets jobs that are gone with their pods.
    pub(super) fn ask_again(&mut self) {
        for uid in self.world.gone_jobs() {
            self.prune(&uid);
        }
        for pod in self.world.pods.unlink_ownerless() {
            self.pod_changed(&pod);
        }
        let pods = &self.world.pods;
        self.owners.forget(|uid| pods.is_linked(uid));
    }
}
