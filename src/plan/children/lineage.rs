//! Whether an object goes with one above it: its controllers are followed upwards, by UID, to one that
//! is managed. Only known things are followed here; who asks for what isn't known is `controller/intake/owners.rs`.

use std::sync::Arc;

use sluice_gates::GroupKind;

use crate::cache::pod::{CHAIN_MAX, OwnerRef};

/// What an object is to the one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lineage {
    /// Nothing above it is managed: it is looked after by itself.
    Root,
    /// An object above it is managed: that one is queued, and lets its
    /// children go by its own means.
    Child,
    /// As [`Lineage::Root`], but it names an owner that is gone.
    Orphan,
    /// This owner has to be looked up first.
    Unknown(Arc<OwnerRef>),
    /// This owner can't be read: what is above the object nobody knows.
    Unreadable(Arc<OwnerRef>),
}

/// What is known of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// It is managed.
    Managed,
    /// It is there.
    There {
        /// Whether it carries a queue label or a gate.
        is_marked: bool,
        /// The controller that owns it.
        owner: Option<Arc<OwnerRef>>,
    },
    /// There is no such object: none by the name has the UID.
    Gone,
    /// The API server refuses to show it: Sluice has no right to read its kind.
    Forbidden,
    /// It could not be read.
    Unreadable,
    /// It has not been looked up.
    Nothing,
}

/// What an object is whose group and kind are `own` and whose controller is `owner`.
///
/// `makes` says whether objects that `owner` names make objects of a group and kind, pods among them;
/// none for a kind that no JobKind declares. A link that a JobKind does not declare leads nowhere: else anybody who
/// names a job of his own as the owner of the next would be rid of the queue.
pub fn lineage(
    own: GroupKind,
    owner: Option<&Arc<OwnerRef>>,
    makes: impl Fn(&OwnerRef, &GroupKind) -> Option<bool>,
    known: impl Fn(&Arc<OwnerRef>) -> Known,
) -> Lineage {
    let mut below = own;
    let mut above = owner.cloned();
    // What was made for a pod, as LeaderWorkerSet makes a StatefulSet for each leader: who makes pods
    // does not make it, so one further up must.
    let mut made_for_pod: Option<GroupKind> = None;
    for _ in 0..CHAIN_MAX {
        let Some(owner) = above else {
            return Lineage::Root;
        };
        let declared = makes(&owner, &below);
        if declared == Some(false) {
            return Lineage::Root;
        }
        let is_maker = made_for_pod
            .as_ref()
            .is_none_or(|made| makes(&owner, made) == Some(true));
        match known(&owner) {
            Known::Managed if is_maker => return Lineage::Child,
            Known::Managed => return Lineage::Root,
            // It is looked after, if not yet seen to be; or goes with what is above it. Either way
            // what is below goes with it.
            Known::There {
                is_marked: true, ..
            } if declared.is_some() && is_maker => return Lineage::Child,
            Known::Gone => return Lineage::Orphan,
            // No JobKind says that this kind makes anything, and administrators have given no right to read it: what
            // asks for a queue itself gets its place there.
            Known::Forbidden if declared.is_none() => return Lineage::Root,
            Known::Forbidden | Known::Unreadable => return Lineage::Unreadable(owner),
            Known::Nothing => return Lineage::Unknown(owner),
            Known::There { owner: next, .. } => {
                let (group, _) = owner.group_version();
                let owner = GroupKind::new(group, owner.kind.as_str());
                if is_pod(&owner) {
                    made_for_pod.get_or_insert(below);
                }
                below = owner;
                above = next;
            }
        }
    }
    Lineage::Root
}

/// Whether that is the kind of pods.
pub fn is_pod(of: &GroupKind) -> bool {
    of.group.is_empty() && *of.kind == *"Pod"
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::cache::Uid;

    fn mk_owner(kind: &str, uid: &str) -> Arc<OwnerRef> {
        Arc::new(OwnerRef {
            api_version: "example.com/v1".to_owned(),
            kind: kind.to_owned(),
            name: uid.to_owned(),
            uid: Uid::from(uid),
        })
    }

    /// Kinds: `Set` makes `Part`, `Leaf` makes nothing but pods, nobody has declared any other.
    fn makes(owner: &OwnerRef, below: &GroupKind) -> Option<bool> {
        let is_pod = is_pod(below);
        let below = &*below.kind;
        match owner.kind.as_str() {
            "Set" | "Leaf" | "Part" if is_pod => Some(true),
            "Set" => Some(below == "Part" || below == "Middle"),
            "Part" | "Leaf" => Some(false),
            _ => None,
        }
    }

    fn judge(own: &str, first: &Arc<OwnerRef>, known: impl Fn(&OwnerRef) -> Known) -> Lineage {
        let own = GroupKind::new("example.com", own);
        lineage(own, Some(first), makes, |owner| known(owner))
    }

    fn there(owner: Option<Arc<OwnerRef>>) -> Known {
        Known::There {
            is_marked: false,
            owner,
        }
    }

    #[test]
    fn a_queue_label_counts_only_on_a_declared_kind() {
        let marked = |_: &OwnerRef| Known::There {
            is_marked: true,
            owner: None,
        };
        let bare = |_: &OwnerRef| there(None);
        let set = mk_owner("Set", "set");
        let other = mk_owner("Other", "other");
        assert_eq!(judge("Part", &set, marked), Lineage::Child);
        assert_eq!(judge("Part", &set, bare), Lineage::Root);
        assert_eq!(judge("Part", &other, marked), Lineage::Root);
    }

    #[test]
    fn owners_are_followed_as_far_as_they_are_declared() {
        let managed = |_: &OwnerRef| Known::Managed;
        let gone = |_: &OwnerRef| Known::Gone;
        let unreadable = |_: &OwnerRef| Known::Unreadable;
        let set = mk_owner("Set", "set");
        let leaf = mk_owner("Leaf", "leaf");
        let other = mk_owner("Other", "other");
        assert_eq!(judge("Part", &set, managed), Lineage::Child, "made");
        assert_eq!(judge("Other", &set, managed), Lineage::Root, "not made");
        assert_eq!(judge("Part", &leaf, managed), Lineage::Root, "makes none");
        assert_eq!(judge("Part", &set, gone), Lineage::Orphan, "gone");
        assert_eq!(
            judge("Part", &other, unreadable),
            Lineage::Unreadable(other.clone()),
            "no answer: not the same as none"
        );
        let forbidden = |_: &OwnerRef| Known::Forbidden;
        assert_eq!(
            judge("Part", &set, forbidden),
            Lineage::Unreadable(set.clone()),
            "no right, and it may be queued"
        );
        assert_eq!(
            judge("Part", &other, forbidden),
            Lineage::Root,
            "no right, and of a kind that nobody has declared"
        );
        assert_eq!(
            judge("Part", &other, |_| Known::Nothing),
            Lineage::Unknown(other.clone()),
            "not looked up"
        );
    }

    #[test]
    fn an_owner_in_between_is_passed_through() {
        let through = |owner: &str, middle: &str| {
            let above = mk_owner(owner, "above");
            judge("Part", &mk_owner(middle, "middle"), |known| {
                match &*known.uid {
                    "middle" => there(Some(above.clone())),
                    _ => Known::Managed,
                }
            })
        };
        assert_eq!(through("Set", "Middle"), Lineage::Child);
        assert_eq!(through("Set", "Stranger"), Lineage::Root);
        assert_eq!(through("Leaf", "Middle"), Lineage::Root);
        assert_eq!(through("Set", "Leaf"), Lineage::Root);
    }

    /// As in a LeaderWorkerSet: the workers' part belongs to the leader's pod, which belongs to the leaders'
    /// part, which belongs to the set.
    #[test]
    fn what_is_made_for_a_pod_belongs_to_whom_the_pod_belongs_to() {
        let pod = Arc::new(OwnerRef {
            api_version: "v1".to_owned(),
            ..(*mk_owner("Pod", "pod")).clone()
        });
        let above_pod = |own: &str, first: &str, second: &str, is_marked: bool| {
            let (first, second) = (mk_owner(first, "first"), mk_owner(second, "second"));
            judge(own, &pod, move |known| match &*known.uid {
                "pod" => there(Some(first.clone())),
                "first" => Known::There {
                    is_marked,
                    owner: Some(second.clone()),
                },
                _ => Known::Managed,
            })
        };
        for is_marked in [false, true] {
            let got = |own, first, second| above_pod(own, first, second, is_marked);
            assert_eq!(got("Part", "Part", "Set"), Lineage::Child);
            assert_eq!(got("Stranger", "Part", "Set"), Lineage::Root, "not made");
            assert_eq!(
                got("Part", "Leaf", "Leaf"),
                Lineage::Root,
                "makes pods alone"
            );
        }
        // The pod of a job that is managed itself, and makes no such parts.
        let of_leaf = judge("Part", &pod, |known| match &*known.uid {
            "pod" => there(Some(mk_owner("Leaf", "leaf"))),
            _ => Known::Managed,
        });
        assert_eq!(of_leaf, Lineage::Root);
        // A pod of nobody's.
        assert_eq!(judge("Part", &pod, |_| there(None)), Lineage::Root);
    }

    #[test]
    fn a_chain_ends_after_ten_owners_and_a_cycle_too() {
        for (owners, expected) in [(10, Lineage::Child), (11, Lineage::Root)] {
            let looked = Cell::new(0);
            let got = judge("Part", &mk_owner("Other", "0"), |_| {
                looked.set(looked.get() + 1);
                if looked.get() == owners {
                    return Known::Managed;
                }
                let next = looked.get().to_string();
                there(Some(mk_owner("Other", &next)))
            });
            assert_eq!(got, expected, "{owners} owners");
        }
        let looked = Cell::new(0);
        let own = mk_owner("Other", "own");
        let got = judge("Other", &own, |_| {
            looked.set(looked.get() + 1);
            there(Some(own.clone()))
        });
        assert_eq!((got, looked.get()), (Lineage::Root, CHAIN_MAX));
    }
}
