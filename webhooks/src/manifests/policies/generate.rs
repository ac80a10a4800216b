//! Admission without a webhook: what the webhooks do to jobs and pods, as ValidatingAdmissionPolicy
//! and MutatingAdmissionPolicy objects that the API server (1.36 or newer) evaluates by itself.
//!
//! They hold the same objects, follow the same rules and refuse with the same words; the texts come
//! from the code that judges for the webhooks. What CEL can't do is said where it is missing, and
//! in `docs/`. A policy is made for each managed kind, because the paths of its fields differ; kinds
//! that are held by nothing but a suspend field, and by the same, share one.
//!
//! The mutating policies use ApplyConfiguration, and JSONPatch where a schema would let nothing be
//! merged: what is there stays, and applying one to its own outcome changes nothing.

use crate::manifests::held::{self, HeldKind, PolicyKinds};
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Mutating, Validating, document};
use crate::manifests::policies::{
    enforced, enforced_dry_run, gate_applies, gate_marks, gate_owners, gate_pods, gate_reads, hold,
    jobs, marking, pods, suspending, workloads,
};

/// The policies that refuse.
pub fn validating(options: &Options, kinds: &[HeldKind]) -> Vec<Validating> {
    let jobs = held::policy_kinds(kinds).into_iter();
    jobs.map(|subject| match subject {
        PolicyKinds::Templates(kind) => jobs::policy(options, kind, kinds),
        PolicyKinds::Metadata(kind) => marking::validating(options, kind, kinds),
        PolicyKinds::Suspended(group) => suspending::validating(options, &group, kinds),
    })
    .chain([
        pods::policy(options, kinds),
        workloads::policy(),
        gate_reads::policy(),
    ])
    .map(|rules| rules.validating(options))
    .chain(gate_owners::policies(options, kinds))
    .chain(gate_applies::policies(options, kinds))
    .chain(enforced::validating(options, kinds))
    .chain(enforced_dry_run::validating(options, kinds))
    .collect()
}

/// The policies that hold.
pub fn mutating(options: &Options, kinds: &[HeldKind]) -> Vec<Mutating> {
    let jobs = held::policy_kinds(kinds).into_iter();
    jobs.map(|subject| match subject {
        PolicyKinds::Templates(kind) => hold::policy(options, kind, kinds),
        PolicyKinds::Metadata(kind) => marking::mutating(options, kind, kinds),
        PolicyKinds::Suspended(group) => suspending::mutating(options, &group, kinds),
    })
    .chain([gate_pods::policy(options, kinds)])
    .chain(gate_marks::policies(kinds))
    .map(|rules| rules.mutating(options))
    .chain(enforced::mutating(options, kinds))
    .collect()
}

/// The text of `config/policies/manifests.yaml`.
pub fn yaml(options: &Options, kinds: &[HeldKind]) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = "# Generated from webhooks/src/manifests/policies by\n\
                    # UPDATE_GENERATED=1 cargo test -p sluice-webhooks. Do not edit.\n"
        .to_owned();
    for Validating { policy, binding } in validating(options, kinds) {
        text += &document(&policy)?;
        text += &document(&binding)?;
    }
    for Mutating { policy, binding } in mutating(options, kinds) {
        text += &document(&policy)?;
        text += &document(&binding)?;
    }
    Ok(text)
}
