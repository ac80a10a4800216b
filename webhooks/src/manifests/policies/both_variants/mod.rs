//! The policies of both variants, which `config/enforcement` applies: the label of namespaces, what holds the pods of a made
//! template, and warnings of keys that mean nothing.
//!
//! Must not know managed kinds: these policies are the same whatever JobKinds there are.

mod foreign_keys;
mod made_templates;
mod namespaces;
mod unknown_keys;

use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Validating, document};

/// The text of `config/enforcement/manifests.yaml`.
///
/// # Errors
/// It can't be written as YAML.
pub fn yaml(options: &Options) -> Result<String, serde_saphyr::ser::Error> {
    let text = "# Which values the label sluice.dev/enforcement of a namespace may have; that what holds pods stays in the\n\
                # templates that they are made from; and warnings of keys that mean nothing.\n\
                # Generated from webhooks/src/manifests/policies by\n\
                # UPDATE_GENERATED=1 cargo test -p sluice-webhooks. Do not edit.\n"
        .to_owned();
    let all = [
        namespaces::policy(options),
        made_templates::rules().validating(options),
    ];
    all.iter()
        .chain(&unknown_keys::all(options))
        .chain([&foreign_keys::policy(options)])
        .try_fold(text, |text, Validating { policy, binding }| {
            Ok(text + &document(policy)? + &document(binding)?)
        })
}
