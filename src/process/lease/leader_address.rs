//! Who leads, by the Lease, and where that replica is found. Who may lead is decided in `election.rs`.

use std::net::SocketAddr;

use k8s_openapi::api::coordination::v1::Lease;

/// The annotation of the Lease that says where the leader answers questions about queues: an address and a port.
const ADDRESS: &str = "sluice.dev/visibility-address";

/// Who leads, as one replica knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leader {
    /// Nobody, or one that can't be found.
    Unknown,
    /// This replica.
    Here,
    /// The replica that is found here.
    At(SocketAddr),
}

impl Leader {
    /// The replica that holds this Lease, which is another one.
    pub(super) fn of(lease: &Lease) -> Self {
        let annotations = lease.metadata.annotations.as_ref();
        let address = annotations.and_then(|annotations| annotations.get(ADDRESS)?.parse().ok());
        address.map_or(Self::Unknown, Self::At)
    }

    /// Says in a Lease where its next holder is found. What the last one said goes in any case.
    pub(super) fn put(address: Option<SocketAddr>, lease: &mut Lease) {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        match address {
            Some(address) => annotations.insert(ADDRESS.to_owned(), address.to_string()),
            None => annotations.remove(ADDRESS),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_says_where_its_holder_is_found() {
        let mut lease = Lease::default();
        assert_eq!(Leader::of(&lease), Leader::Unknown);
        let address = SocketAddr::from(([10, 0, 0, 3], 9444));
        Leader::put(Some(address), &mut lease);
        assert_eq!(Leader::of(&lease), Leader::At(address));
        // The next holder is of a version that does not say.
        Leader::put(None, &mut lease);
        assert_eq!(Leader::of(&lease), Leader::Unknown);
    }
}
