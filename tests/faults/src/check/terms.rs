//! The terms of leaders as Leases and admissions name them: a number that the Lease counts, and its UID.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cluster::{text, uid_of};

/// The term that begins with this state of the Lease, as an admission names it.
pub(super) fn term_of(lease: &Value) -> Option<String> {
    let transitions = lease
        .pointer("/spec/leaseTransitions")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let is_held = !text(lease, "/spec/holderIdentity").is_empty();
    is_held.then(|| format!("{transitions}.{}", uid_of(lease)))
}

/// The term in which a Workload was admitted.
pub(super) fn signed_in(workload: &Value) -> &str {
    text(workload, "/status/admission/term")
}

/// The latest of these terms: of the Lease of `own`, else of the only other one. Of several others nobody knows.
pub(super) fn latest_term<'a>(own: &str, terms: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let parts = |term: &'a str| term.split_once('.').unwrap_or(("0", ""));
    let number = |term: &&'a str| parts(term).0.parse::<u64>().unwrap_or_default();
    let all: Vec<&str> = terms.collect();
    let lease = own.split_once('.').map_or("", |(_, lease)| lease);
    let of_own = all.iter().copied().filter(|term| parts(term).1 == lease);
    let leases: BTreeSet<&str> = all.iter().map(|term| parts(term).1).collect();
    of_own.max_by_key(number).or_else(|| {
        let is_known = leases.len() == 1;
        all.into_iter().max_by_key(number).filter(|_| is_known)
    })
}
