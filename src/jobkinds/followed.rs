//! Objects of one kind as their watch shows them: a list takes effect when it is complete.

use kube::api::DynamicObject;

use crate::api::watch::Change;

/// What is known of one kind of objects by its watch.
#[derive(Default)]
pub(super) struct Followed<T> {
    /// None until the first list is complete.
    pub(super) known: Option<T>,
    listing: Option<T>,
}

impl<T: Default> Followed<T> {
    /// Takes in what the watch has seen, which begins with a list. `put` takes in an object; with what was known before
    /// the list that it is in, if it is in one. Returns whether no list is under way.
    pub(super) fn take_in(
        &mut self,
        change: Change<DynamicObject>,
        put: impl Fn(&mut T, Option<&T>, &DynamicObject),
        remove: impl Fn(&mut T, &str),
    ) -> bool {
        match change {
            Change::Listing(_) => self.listing = Some(T::default()),
            Change::InList(object) => {
                let listing = self.listing.get_or_insert_default();
                put(listing, self.known.as_ref(), &object);
            }
            Change::Listed => self.known = Some(self.listing.take().unwrap_or_default()),
            Change::Applied(object) => {
                if let Some(known) = &mut self.known {
                    put(known, None, &object);
                }
            }
            Change::Deleted(object) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                if let Some(known) = &mut self.known {
                    remove(known, name);
                }
            }
        }
        self.listing.is_none()
    }
}
