//! The objects that gates wait for (`spec.after` of Gates): which kinds are to be watched, and what the rules of the
//! Gates say of each object. One watch for each kind, for all Gates; of an object nothing is kept but what the rules
//! say of it. What follows for held objects is `controller/gates/after.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_gates::{CompiledAfter, Dependency, DependencyRule, GroupKind, Outcome, Waiting};

use crate::cache::gates::trouble::{Trouble, TroubleReason};
use crate::cache::subject::{NamespacedName, Subject};
use crate::process::clock::Moment;
use crate::process::hashing::{HashMap, HashSet};

/// How long the start waits for the first list of a kind.
const PATIENCE: Duration = Duration::from_secs(30);
/// Changed objects that are told apart. If there are more, all held objects are looked at.
const CHANGED_MAX: usize = 4096;

/// What is to be done about the watch of a kind.
#[derive(Debug, PartialEq, Eq)]
pub enum DependencyOrder {
    /// It begins.
    Start {
        /// Which life of it this is.
        life: u64,
        /// The kind.
        kind: GroupKind,
        /// What each object is judged by.
        rules: Vec<Arc<DependencyRule>>,
    },
    /// It ends.
    Stop {
        /// Which life of it.
        life: u64,
    },
}

/// What the watch of a kind has found out.
#[derive(Debug)]
pub struct DependencyReport {
    /// The kind.
    pub kind: GroupKind,
    /// Which life of the watch says so.
    pub life: u64,
    /// What.
    pub news: DependencyNews,
}

/// What there is to say of a kind.
#[derive(Debug)]
pub enum DependencyNews {
    /// It is served.
    Found {
        /// Whether its objects are in namespaces.
        is_namespaced: bool,
    },
    /// It can't be watched.
    Refused(Trouble),
}

/// What has changed about the objects of a kind.
#[derive(Debug, Default)]
pub struct KindChanges {
    objects: ChangedObjects,
    /// Rules whose condition was true of an object, and is not any more, or it is gone.
    over: HashMap<NamespacedName, Vec<Arc<DependencyRule>>>,
}

/// Which objects of a kind the rules say something else of.
#[derive(Debug)]
enum ChangedObjects {
    /// These.
    Some(HashSet<NamespacedName>),
    /// Any of them.
    Any,
}

impl Default for ChangedObjects {
    fn default() -> Self {
        Self::Some(HashSet::default())
    }
}

/// All kinds that gates wait for.
#[derive(Debug, Default)]
pub struct Dependencies {
    watches: BTreeMap<GroupKind, KindWatch>,
    lives: u64,
    orders: Vec<DependencyOrder>,
    /// Whether Gates say something else than when it was last said what is wanted.
    is_outdated: bool,
    /// Held objects that still wait, and may have to be told something else about that.
    untold: BTreeSet<Subject>,
}

#[derive(Debug)]
struct KindWatch {
    life: u64,
    since: Moment,
    rules: Vec<Arc<DependencyRule>>,
    is_namespaced: bool,
    /// Whether all objects were seen, and the watch goes on.
    is_listed: bool,
    trouble: Option<Trouble>,
    /// What the rules say of each object, in their order. None: the rule is new, and has not seen it.
    outcomes: HashMap<NamespacedName, Box<[Option<Outcome>]>>,
    changes: KindChanges,
}

impl Dependencies {
    /// A Gate says something else, or is gone.
    pub fn gates_changed(&mut self) {
        self.is_outdated = true;
    }

    /// Whether Gates have changed since this was last asked.
    pub fn take_outdated(&mut self) -> bool {
        std::mem::take(&mut self.is_outdated)
    }

    /// Has just those kinds watched that these rules are about.
    pub fn want(&mut self, rules: impl Iterator<Item = Arc<DependencyRule>>, now: Moment) {
        let mut wanted: BTreeMap<GroupKind, Vec<Arc<DependencyRule>>> = BTreeMap::new();
        for rule in rules {
            wanted.entry(rule.kind().clone()).or_default().push(rule);
        }
        for rules in wanted.values_mut() {
            rules.sort_unstable();
            rules.dedup();
        }
        let ended = self
            .watches
            .extract_if(.., |kind, _| !wanted.contains_key(kind));
        let ended = ended.map(|(_, watch)| DependencyOrder::Stop { life: watch.life });
        self.orders.extend(ended);
        for (kind, rules) in wanted {
            let watch = self.watches.get_mut(&kind);
            if watch.as_ref().is_some_and(|watch| watch.rules == rules) {
                continue;
            }
            self.lives += 1;
            let life = self.lives;
            if let Some(watch) = watch {
                let ended = watch.life;
                self.orders.push(DependencyOrder::Stop { life: ended });
                watch.begin_again(life, rules.clone());
            } else {
                let watch = KindWatch::new(life, rules.clone(), now);
                self.watches.insert(kind.clone(), watch);
            }
            let order = DependencyOrder::Start { life, kind, rules };
            self.orders.push(order);
        }
    }

    /// What is to be done about watches since the last time.
    pub fn take_orders(&mut self) -> Vec<DependencyOrder> {
        std::mem::take(&mut self.orders)
    }

    /// Whether what this life of a watch says still counts.
    pub fn is_current(&self, kind: &GroupKind, life: u64) -> bool {
        self.watches
            .get(kind)
            .is_some_and(|watch| watch.life == life)
    }

    /// Takes in what a watch has found out.
    pub fn report(&mut self, report: DependencyReport) {
        let watch = self.watches.get_mut(&report.kind);
        let Some(watch) = watch.filter(|watch| watch.life == report.life) else {
            return;
        };
        match report.news {
            DependencyNews::Found { is_namespaced } => watch.is_namespaced = is_namespaced,
            DependencyNews::Refused(trouble) => {
                if watch.is_listed && !trouble.reason.is_passing() {
                    watch.is_listed = false;
                }
                if !watch.is_listed {
                    watch.changes.objects = ChangedObjects::Any;
                }
                watch.trouble = Some(trouble);
            }
        }
    }

    /// An object is there, and the rules say this of it.
    pub fn put(&mut self, kind: &GroupKind, place: NamespacedName, outcomes: Vec<Outcome>) {
        let Some(watch) = self.watches.get_mut(kind) else {
            return;
        };
        let outcomes: Box<[_]> = outcomes.into_iter().map(Some).collect();
        if watch.outcomes.get(&place) != Some(&outcomes) {
            let before = watch.outcomes.insert(place.clone(), outcomes);
            watch.note(place, &before.unwrap_or_default());
        }
    }

    /// An object is gone.
    pub fn remove(&mut self, kind: &GroupKind, namespace: &Arc<str>, name: &Arc<str>) {
        let place = (namespace.clone(), name.clone());
        if let Some(watch) = self.watches.get_mut(kind)
            && let Some(before) = watch.outcomes.remove(&place)
        {
            watch.note(place, &before);
        }
    }

    /// All objects of a kind have been seen.
    pub fn listed(&mut self, kind: &GroupKind) {
        if let Some(watch) = self.watches.get_mut(kind) {
            watch.is_listed = true;
            watch.trouble = None;
            watch.changes.objects = ChangedObjects::Any;
        }
    }

    /// The objects of a kind that are known.
    pub fn known(&self, kind: &GroupKind) -> Vec<NamespacedName> {
        let watch = self.watches.get(kind);
        watch.map_or_else(Vec::new, |watch| watch.outcomes.keys().cloned().collect())
    }

    /// Whether no kind is about to be listed for the first time. One that takes too long is not waited for.
    pub fn all_settled(&self, now: Moment) -> bool {
        !self.is_outdated
            && self.watches.values().all(|watch| {
                watch.is_listed || watch.trouble.is_some() || PATIENCE < now.since(watch.since)
            })
    }

    /// Whether the object that one in `namespace` waits for satisfies its condition.
    ///
    /// # Errors
    /// Why it does not, as far as is known.
    pub fn check(&self, dependency: &Dependency<'_>, namespace: &str) -> Result<(), Waiting> {
        let object = || dependency.to_string();
        let Some(watch) = self.watches.get(dependency.rule.kind()) else {
            return Err(Waiting::NotRead(object()));
        };
        if !watch.is_listed {
            return Err(match watch.trouble {
                Some(_) => Waiting::NotWatched(object()),
                None => Waiting::NotRead(object()),
            });
        }
        let Ok(namespace) = dependency.namespace(namespace, watch.is_namespaced) else {
            return Err(Waiting::NotWatched(object()));
        };
        let place = (namespace.into(), dependency.name.into());
        let Some(outcomes) = watch.outcomes.get(&place) else {
            return Err(Waiting::Missing(object()));
        };
        let mut outcomes = watch.rules.iter().zip(outcomes);
        let outcome = outcomes.find(|(rule, _)| *rule == dependency.rule);
        match outcome.and_then(|(_, outcome)| outcome.as_ref()) {
            Some(Outcome::Done) => Ok(()),
            Some(Outcome::Failed) => Err(Waiting::Failed(object())),
            Some(Outcome::NotYet) => Err(Waiting::NotYet(object())),
            Some(Outcome::Unknown(why)) => Err(Waiting::Unknown {
                object: object(),
                why: why.to_string(),
            }),
            None => Err(Waiting::NotRead(object())),
        }
    }

    /// Why a Gate can't be followed, if so. None: that is not known yet.
    pub fn trouble(&self, after: &CompiledAfter) -> Option<Result<(), Trouble>> {
        for sample in after.samples() {
            let watch = self.watches.get(sample.rule.kind())?;
            if let Some(trouble) = &watch.trouble {
                return Some(Err(trouble.clone()));
            }
            if !watch.is_listed {
                return None;
            }
            if let Err(wrong) = sample.namespace("", watch.is_namespaced) {
                return Some(Err(Trouble {
                    reason: TroubleReason::WrongScope,
                    message: wrong.to_string(),
                }));
            }
        }
        Some(Ok(()))
    }

    /// Takes out what has changed, by kind.
    pub fn take_changed(&mut self) -> BTreeMap<GroupKind, KindChanges> {
        let watches = self.watches.iter_mut();
        let changes =
            watches.map(|(kind, watch)| (kind.clone(), std::mem::take(&mut watch.changes)));
        changes.filter(|(_, changes)| !changes.is_empty()).collect()
    }

    /// A held object still waits, and may have to be told something else about that.
    pub fn tell_later(&mut self, subject: Subject) {
        self.untold.insert(subject);
    }

    /// Takes out at most so many of the held objects that are to be told something else.
    pub fn take_untold(&mut self, count: usize) -> Vec<Subject> {
        let taken = std::iter::from_fn(|| self.untold.pop_first());
        taken.take(count).collect()
    }

    /// Whether something was said of the object that one in `namespace` waits for.
    pub fn is_changed(
        &self,
        changed: &BTreeMap<GroupKind, KindChanges>,
        dependency: &Dependency<'_>,
        namespace: &str,
    ) -> bool {
        let Some(changes) = changed.get(dependency.rule.kind()) else {
            return false;
        };
        let is_watched = self.watches.contains_key(dependency.rule.kind());
        match &changes.objects {
            ChangedObjects::Any => true,
            ChangedObjects::Some(_) if !is_watched => true,
            ChangedObjects::Some(some) => {
                let place = self.place(dependency, namespace);
                place.is_some_and(|place| some.contains(&place))
            }
        }
    }

    /// Whether the object that one in `namespace` waits for satisfied its condition meanwhile, and does so no more.
    pub fn was_satisfied(
        &self,
        changed: &BTreeMap<GroupKind, KindChanges>,
        dependency: &Dependency<'_>,
        namespace: &str,
    ) -> bool {
        let changes = changed.get(dependency.rule.kind());
        changes.is_some_and(|changes| {
            let over = self.place(dependency, namespace);
            let over = over.and_then(|place| changes.over.get(&place));
            over.is_some_and(|rules| rules.contains(dependency.rule))
        })
    }

    /// Where the object is that one in `namespace` waits for.
    fn place(&self, dependency: &Dependency<'_>, namespace: &str) -> Option<NamespacedName> {
        let watch = self.watches.get(dependency.rule.kind())?;
        let namespace = dependency.namespace(namespace, watch.is_namespaced).ok()?;
        Some((namespace.into(), dependency.name.into()))
    }
}

impl KindChanges {
    fn is_empty(&self) -> bool {
        self.over.is_empty()
            && matches!(&self.objects, ChangedObjects::Some(some) if some.is_empty())
    }
}

impl KindWatch {
    fn new(life: u64, rules: Vec<Arc<DependencyRule>>, now: Moment) -> Self {
        Self {
            life,
            since: now,
            rules,
            is_namespaced: true,
            is_listed: false,
            trouble: None,
            outcomes: HashMap::default(),
            changes: KindChanges {
                objects: ChangedObjects::Any,
                over: HashMap::default(),
            },
        }
    }

    /// Other rules judge now. What those say that were there before stays until all objects are listed again.
    fn begin_again(&mut self, life: u64, rules: Vec<Arc<DependencyRule>>) {
        let before = std::mem::replace(&mut self.rules, rules);
        let places = self.rules.iter();
        let places = places.map(|rule| before.iter().position(|known| known == rule));
        let places: Vec<Option<usize>> = places.collect();
        for outcomes in self.outcomes.values_mut() {
            let kept = places.iter().map(|place| outcomes.get((*place)?)?.clone());
            *outcomes = kept.collect();
        }
        self.life = life;
        self.changes.objects = ChangedObjects::Any;
    }

    /// The rules have said this of an object before: of some it may have been true, and is not any more.
    fn note_over(&mut self, place: &NamespacedName, before: &[Option<Outcome>]) {
        let now = self.outcomes.get(place).map_or(&[][..], |now| now);
        let rules = self.rules.iter().zip(before).enumerate();
        let over = rules.filter(|(index, (_, before))| {
            **before == Some(Outcome::Done) && now.get(*index) != Some(*before)
        });
        for (_, (rule, _)) in over {
            let noted = self.changes.over.entry(place.clone()).or_default();
            if !noted.contains(rule) {
                noted.push(rule.clone());
            }
        }
    }

    /// The rules say something else of an object than before.
    fn note(&mut self, place: NamespacedName, before: &[Option<Outcome>]) {
        self.note_over(&place, before);
        match &mut self.changes.objects {
            ChangedObjects::Any => {}
            ChangedObjects::Some(some) if some.len() < CHANGED_MAX => {
                some.insert(place);
            }
            ChangedObjects::Some(_) => self.changes.objects = ChangedObjects::Any,
        }
    }
}

#[cfg(test)]
mod tests;
