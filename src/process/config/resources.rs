//! Resources that no ClusterQueue covers: which of them are not counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_crds::UndeclaredResources;
use sluice_engine::ResourceName;
use sluice_kinds::Problem;
use sluice_kinds::names::is_qualified_name;

/// What jobs often ask for and hardly a queue has quota for: it is bound to a node, where the scheduler
/// counts it.
const IGNORED_RESOURCES: [&str; 3] = ["ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi"];

/// `ignoredResources`, unless the file has others.
pub(super) fn ignored_by_default() -> Vec<String> {
    IGNORED_RESOURCES.map(str::to_owned).to_vec()
}

/// What is wrong with the names in `ignoredResources`, by the rules of the API server for the names of requests.
pub(super) fn check(names: &[String], problems: &mut Vec<Problem>) {
    for (index, name) in names.iter().enumerate() {
        let field = format!("ignoredResources[{index}]");
        if !is_qualified_name(name) {
            let detail = "must be the name of a resource, such as \"ephemeral-storage\" or \"example.com/licence\"";
            problems.push(Problem::invalid(field, name.clone(), detail));
        } else if names.iter().take(index).any(|before| before == name) {
            problems.push(Problem::duplicate(field, name.clone()));
        }
    }
}

/// What the engine is told of both fields.
pub(super) fn undeclared(
    policy: UndeclaredResources,
    ignored: &[String],
) -> sluice_engine::UndeclaredResources {
    match policy {
        UndeclaredResources::Ignore => sluice_engine::UndeclaredResources::Ignore,
        UndeclaredResources::Block => {
            let ignored = ignored.iter().map(|name| ResourceName::from(name.as_str()));
            let ignored: BTreeSet<ResourceName> = ignored.collect();
            sluice_engine::UndeclaredResources::IgnoreOnly(Arc::new(ignored))
        }
    }
}
