//! A JobKind must compile: its paths, its expressions, and a kind that may be managed at all. And if
//! its kind is served, it must fit the schema that the API server publishes for it.

use sluice_crds::JobKind;
use sluice_kinds::metadata::api_version;
use sluice_kinds::problem::Problem;
use sluice_kinds::{CompiledKind, schema};

use crate::admission::edit::brought_in;
use crate::admission::schemas::{Published, Schemas};
use crate::admission::verdict::Verdict;

/// What is wrong with `kind`.
pub(crate) fn check(kind: &JobKind) -> Vec<Problem> {
    CompiledKind::compile(kind).err().unwrap_or_default()
}

/// What the published schema says of `kind`, which has nothing else wrong with it, and did not say of
/// it as it was: one that a new version of its CRD has broken can still be edited.
pub(crate) async fn look_up(
    kind: &JobKind,
    old: Option<&JobKind>,
    schemas: &dyn Schemas,
) -> Verdict {
    let Ok(compiled) = CompiledKind::compile(kind) else {
        return Verdict::allowed();
    };
    let spec = &kind.spec;
    let version = api_version(&spec.group, &spec.version);
    let warning = match schemas.published(&spec.group, &spec.version).await {
        Published::Document(document) if schema::has_kind(&compiled, &document) => {
            let stored = old.and_then(|old| CompiledKind::compile(old).ok());
            let stored = stored.filter(|old| old.version == compiled.version);
            let stored = stored.map(|old| schema::check(&old, &document));
            return Verdict::of(brought_in(schema::check(&compiled, &document), stored));
        }
        Published::Document(_) | Published::NotServed => format!(
            "{} of {version} is not served yet, so no path was checked; the condition Ready becomes true when it is watched",
            spec.kind
        ),
        Published::Unreadable(why) => format!(
            "the schema of {version} can't be read, so no path was checked: {why}; the condition Ready says whether it fits"
        ),
    };
    Verdict {
        warnings: vec![warning],
        ..Verdict::allowed()
    }
}
