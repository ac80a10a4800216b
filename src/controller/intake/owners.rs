//! Who owns what, where no watch says so: a pod of a Deployment belongs to a ReplicaSet that nobody
//! watches. Asked once for each owner, by name, and believed only if the UID is right. What follows from
//! it for a job is `lineage.rs`.

use std::sync::Arc;
use std::time::Duration;

use kube::api::ObjectMeta;
use sluice_crds::HELD_ANNOTATION;
use sluice_kinds::view::{LabelledQueue, QueueLabels};
use sluice_kinds::{HeldMark, gates};

use crate::api::lookup::FoundOwner;
use crate::cache::pod::OwnerRef;
use crate::cache::{Subject, Uid};
use crate::controller::Controller;
use crate::controller::intake::lookups::{InNamespace, Lookups};
use crate::plan::children::lineage::Known;
use crate::process::clock::{Moment, Now};
use crate::process::hashing::{HashMap, HashSet};

/// How long to wait before one that was not answered is asked again, and how often. Then it is asked
/// again when something is seen of its pods.
const RETRY: Duration = Duration::from_secs(2);
const TRIES: u32 = 3;
/// How long an answer is kept for the next object with the same owner, and how many are.
const KEPT: Duration = Duration::from_mins(1);
const KEPT_MAX: usize = 10_000;
/// Most owners without an owner that are asked for again at a time: somebody may make thousands.
const ASKED_AGAIN_MAX: usize = 600;

/// Questions about owners.
pub struct Owners {
    queue_labels: QueueLabels,
    lookups: Lookups<OwnerQuestion>,
    asked: HashSet<OwnerInNamespace>,
    /// What was found out lately.
    facts: HashMap<OwnerInNamespace, (Known, Moment)>,
    /// Owners of owners, which no pod names.
    between: HashMap<Uid, Arc<OwnerRef>>,
}

/// An owner as an object in this namespace names it. Another one may lie about the same UID.
type OwnerInNamespace = (Arc<str>, Arc<OwnerRef>);

/// A question what an owner is.
#[derive(Debug, Clone)]
pub struct OwnerQuestion {
    /// The namespace of the objects that name the owner.
    pub namespace: Arc<str>,
    /// The owner, as they name it.
    pub owner: Arc<OwnerRef>,
    tries: u32,
}

impl InNamespace for OwnerQuestion {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }
}

/// What was found out about an owner.
#[derive(Debug)]
pub struct OwnerAnswer {
    /// What was asked.
    pub question: OwnerQuestion,
    /// What the API server said.
    pub found: FoundOwner,
}

impl Owners {
    /// No questions.
    pub fn new(queue_labels: QueueLabels) -> Self {
        Self {
            queue_labels,
            lookups: Lookups::default(),
            asked: HashSet::default(),
            facts: HashMap::default(),
            between: HashMap::default(),
        }
    }

    /// Asks who owns the owner `uid` of pods, which is `direct` or one that an answer has named.
    pub fn ask(&mut self, uid: &Uid, direct: Option<&Arc<OwnerRef>>, namespace: &Arc<str>) {
        let direct = direct.filter(|owner| owner.uid == *uid);
        let Some(owner) = direct.or_else(|| self.between.get(uid)).cloned() else {
            return;
        };
        self.look_up(&owner, namespace);
    }

    /// Asks what an owner is that an object in this namespace names.
    pub fn look_up(&mut self, owner: &Arc<OwnerRef>, namespace: &Arc<str>) {
        if self.asked.insert((namespace.clone(), owner.clone())) {
            self.lookups.ask(OwnerQuestion {
                namespace: namespace.clone(),
                owner: owner.clone(),
                tries: 0,
            });
        }
    }

    /// What was found out lately about an owner that an object in this namespace names.
    pub fn known(&self, owner: &Arc<OwnerRef>, namespace: &Arc<str>) -> Known {
        let fact = self.facts.get(&(namespace.clone(), owner.clone()));
        fact.map_or(Known::Nothing, |(known, _)| known.clone())
    }

    /// The owners that are being looked up.
    pub fn asked(&self) -> HashSet<&Uid> {
        self.asked.iter().map(|(_, owner)| &owner.uid).collect()
    }

    /// Keeps an answer for a while.
    fn keep(&mut self, question: &OwnerQuestion, known: Known, now: Now) {
        if KEPT_MAX <= self.facts.len() {
            self.facts.clear();
        }
        let place = (question.namespace.clone(), question.owner.clone());
        self.facts.insert(place, (known, now.moment));
    }

    /// What an owner is by its metadata.
    fn read(&self, metadata: &ObjectMeta) -> Known {
        let labels = metadata.labels.clone().unwrap_or_default();
        let annotations = metadata.annotations.clone().unwrap_or_default();
        Known::There {
            is_marked: self.queue_labels.read(&labels) != LabelledQueue::None
                || gates::read(&annotations).is_held()
                || HeldMark::read(annotations.get(HELD_ANNOTATION).map(String::as_str))
                    == Some(HeldMark::Held),
            owner: OwnerRef::of(metadata),
        }
    }

    /// The next question to be asked, if there may be one more at the same time.
    pub fn start(&mut self, now: Moment) -> Option<OwnerQuestion> {
        self.lookups.start(now, |_| true)
    }

    /// Forgets owners of owners that `is_needed` does not name, and answers that are old, or were none.
    pub fn forget(&mut self, is_needed: impl Fn(&Uid) -> bool, now: Now) {
        self.between.retain(|uid, _| is_needed(uid));
        self.facts.retain(|_, (known, since)| {
            !matches!(known, Known::Forbidden | Known::Unreadable) && now.since(*since) < KEPT
        });
    }
}

impl Controller {
    /// Takes in who owns what: the pods and jobs below are looked at again.
    pub(in crate::controller) fn owner_found(&mut self, answer: OwnerAnswer) {
        let OwnerAnswer { question, found } = answer;
        self.owners.lookups.ended();
        let OwnerQuestion {
            namespace, owner, ..
        } = question.clone();
        let jobs = self.objects.children.waiting_for(&owner.uid);
        let has_pods = self.objects.pods.is_owner(&namespace, &owner.uid);
        let is_last = TRIES <= question.tries + 1;
        let known = match found {
            FoundOwner::Unanswered if !is_last && (has_pods || !jobs.is_empty()) => {
                let again = OwnerQuestion {
                    tries: question.tries + 1,
                    ..question
                };
                let due = self.now.moment.after(RETRY);
                self.owners.lookups.ask_again(due, again);
                return;
            }
            FoundOwner::Unanswered => None,
            FoundOwner::Object(metadata) => Some(self.owners.read(&metadata)),
            FoundOwner::Gone => Some(Known::Gone),
            FoundOwner::Unreadable => Some(Known::Forbidden),
        };
        self.owners
            .asked
            .remove(&(namespace.clone(), owner.clone()));
        let fact = known.clone().unwrap_or(Known::Unreadable);
        self.owners.keep(&question, fact, self.now);
        self.decide_again(jobs);
        let next = match known {
            Some(Known::There { owner: above, .. }) => {
                above.filter(|above| self.may_own(above, &owner))
            }
            Some(_) => None,
            None => return,
        };
        if !has_pods {
            return;
        }
        let uid = next.as_ref().map(|next| next.uid.clone());
        if let Some(next) = next {
            self.owners.between.insert(next.uid.clone(), next);
        }
        for pod in self.objects.pods.link(&namespace, &owner.uid, uid) {
            self.pod_changed(&pod);
        }
    }

    /// Whether the pods of `below` may be those of what it names as its owner, `above`: else who names a job of his own
    /// as the owner of another object would have all pods of that object counted with the job. A JobKind says what its
    /// kind's controller makes. One that says nothing may have objects of a kind without a JobKind between itself and its
    /// pods, as a Deployment has ReplicaSets.
    fn may_own(&self, above: &OwnerRef, below: &OwnerRef) -> bool {
        let (group, _) = below.group_version();
        let Some(kind) = self.declared(above) else {
            return true;
        };
        // What wraps objects of any kind says itself which pods they have.
        let names_no_kinds = !kind.names_its_children() || kind.names_its_templates();
        let may_have_others = names_no_kinds && self.declared(below).is_none();
        kind.makes(group, &below.kind) || may_have_others
    }

    /// Looks again at owners that could not be read, or seemed to have no owner: rights may have been
    /// given meanwhile, or the API server has come back. Forgets jobs that are gone with their pods.
    pub(in crate::controller) fn ask_again(&mut self) {
        for uid in self.objects.gone_jobs() {
            self.prune(&Subject::Job(uid));
        }
        for pod in self.objects.pods.unlink_ownerless(ASKED_AGAIN_MAX) {
            self.pod_changed(&pod);
        }
        let linked = self.objects.pods.linked();
        self.owners.forget(|uid| linked.contains(uid), self.now);
        // What could not be read a while ago is asked for again.
        self.decide_again(self.objects.children.waiting());
    }
}
