//! The jail: what Sluice's own account may do, enforced by the API server. RBAC names resources; these
//! policies name fields. Whoever steals the account's token can hold and release jobs, and no more.
//!
//! Part of every variant of the manifests. Each policy looks at requests of that account only, so that
//! a policy which can't be evaluated refuses nobody else's request. The account is known without its
//! namespace (`is_sluice`), so an overlay may install Sluice anywhere.
//!
//! Of the shipped kinds exactly the paths that their JobKinds name may change (`kinds`). A kind of one's
//! own has no policy of its own, and needs none: its objects are bounded by the names and types of fields
//! (`every_request`), so that a new JobKind works at once and is never a way out.

use sluice_crds::JobKindSpec;

use crate::manifests::jail::{api_service, declared, every_request, pods, webhook_configurations};
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Validating, document};

/// The policies, with the paths of these kinds.
pub fn policies(options: &Options, kinds: &[JobKindSpec]) -> Vec<Validating> {
    [
        every_request::cell(kinds),
        pods::cell(),
        webhook_configurations::cell(),
        api_service::cell(),
    ]
    .into_iter()
    .chain(declared::cells())
    .map(|cell| cell.lock(options))
    .collect()
}

/// The text of `config/jail/manifests.yaml`.
pub fn yaml(options: &Options, kinds: &[JobKindSpec]) -> Result<String, serde_saphyr::ser::Error> {
    let mut text =
        "# What Sluice's own account may do, enforced by the API server: docs/threat-model.md.\n\
                    # Generated from webhooks/src/manifests/jail by\n\
                    # UPDATE_GENERATED=1 cargo test -p sluice-webhooks. Do not edit.\n"
            .to_owned();
    for Validating { policy, binding } in policies(options, kinds) {
        text += &document(&policy)?;
        text += &document(&binding)?;
    }
    Ok(text)
}
