//! Lists that are under way: what each has shown so far, and which of the first ones are not complete. What follows
//! from a complete list lies in `observe.rs`.

use std::collections::BTreeSet;

use crate::cache::{NamespacedName, Revision, Source};
use crate::process::hashing::{HashMap, HashSet};

/// What a list has shown so far, and what replies have shown meanwhile.
#[derive(Default)]
struct Shown {
    listed: HashSet<NamespacedName>,
    /// The newest revision of what was listed: the list is of that revision or a newer one.
    newest: Revision,
    /// New objects that only replies have shown, by revision. What was known when the list began is in the list, or gone.
    by_replies: HashMap<NamespacedName, Revision>,
}

/// All lists.
pub struct Lists {
    under_way: HashMap<Source, Shown>,
    /// Fixed kinds whose first list is not complete.
    awaited: BTreeSet<Source>,
}

impl Lists {
    /// The start waits for the first lists of these fixed kinds.
    pub fn new(awaited: BTreeSet<Source>) -> Self {
        Self {
            under_way: HashMap::default(),
            awaited,
        }
    }

    /// The fixed kinds whose first list is not complete.
    pub fn awaited(&self) -> impl Iterator<Item = &Source> {
        self.awaited.iter()
    }

    /// Whether the first lists of all fixed kinds are complete.
    pub fn are_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// A list begins.
    pub fn begin(&mut self, source: Source) {
        self.under_way.insert(source, Shown::default());
    }

    /// Notes that a list has this object, if one is under way.
    pub fn note(&mut self, source: &Source, place: &NamespacedName, revision: Revision) {
        if let Some(shown) = self.under_way.get_mut(source) {
            shown.newest = shown.newest.max(revision);
            shown.listed.insert(place.clone());
        }
    }

    /// Notes that a reply has shown this object, if a list is under way. `is_new` says whether it was not known before.
    pub fn note_reply(
        &mut self,
        source: &Source,
        place: &NamespacedName,
        revision: Revision,
        is_new: bool,
    ) {
        let Some(shown) = self.under_way.get_mut(source) else {
            return;
        };
        if is_new || shown.by_replies.contains_key(place) {
            shown.by_replies.insert(place.clone(), revision);
        }
    }

    /// A list is complete. Returns what exists: all that was listed, and new objects that only replies have shown, if
    /// they may be newer than the list. Anything else was deleted before the list was taken, and no watch tells of that.
    /// None if no list had begun.
    pub fn end(&mut self, source: &Source) -> Option<HashSet<NamespacedName>> {
        let Shown {
            mut listed,
            newest,
            by_replies,
        } = self.under_way.remove(source)?;
        let newer = by_replies.into_iter().filter(|(_, shown)| newest < *shown);
        listed.extend(newer.map(|(place, _)| place));
        Some(listed)
    }

    /// The first list of a fixed kind is complete. Returns whether it was the last one.
    pub fn end_first(&mut self, source: &Source) -> bool {
        self.awaited.remove(source) && self.awaited.is_empty()
    }

    /// Drops what lists of other watches have shown.
    pub fn retain(&mut self, is_current: impl Fn(&Source) -> bool) {
        self.under_way.retain(|source, _| is_current(source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> NamespacedName {
        ("blue".into(), name.into())
    }

    /// The list was asked for before the reply came, and taken after the object was gone.
    #[test]
    fn what_a_reply_has_shown_and_a_newer_list_lacks_is_gone() {
        let cases = [("older than the list", 4, false), ("newer", 6, true)];
        for (name, revision, is_there) in cases {
            let mut lists = Lists::new(BTreeSet::from([Source::Pod]));
            lists.begin(Source::Pod);
            for name in ["replied", "both"] {
                lists.note_reply(&Source::Pod, &place(name), Revision(revision), true);
            }
            lists.note(&Source::Pod, &place("both"), Revision(3));
            lists.note(&Source::Pod, &place("listed"), Revision(5));
            let there = lists.end(&Source::Pod).unwrap();
            assert!(there.contains(&place("listed")) && there.contains(&place("both")));
            assert_eq!(there.contains(&place("replied")), is_there, "{name}");
        }
    }

    /// The list was asked for while it was there, and nothing that is left is as new as the reply.
    #[test]
    fn what_was_known_and_a_list_lacks_is_gone_whatever_replies_have_shown() {
        let mut lists = Lists::new(BTreeSet::from([Source::Pod]));
        lists.begin(Source::Pod);
        lists.note_reply(&Source::Pod, &place("known"), Revision(150), false);
        lists.note(&Source::Pod, &place("listed"), Revision(100));
        let there = lists.end(&Source::Pod).unwrap();
        assert_eq!(there.into_iter().collect::<Vec<_>>(), [place("listed")]);
    }

    #[test]
    fn in_an_empty_list_all_that_replies_have_shown_is_new() {
        let mut lists = Lists::new(BTreeSet::from([Source::Pod]));
        lists.begin(Source::Pod);
        lists.note_reply(&Source::Pod, &place("replied"), Revision(1), true);
        // It is written to.
        lists.note_reply(&Source::Pod, &place("replied"), Revision(2), false);
        assert_eq!(lists.end(&Source::Pod).unwrap().len(), 1);
        assert!(lists.end(&Source::Pod).is_none());
    }
}
