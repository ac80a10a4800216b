//! Resources that no ClusterQueue covers: which of them are not counted.

use sluice_kinds::Problem;
use sluice_kinds::names::is_qualified_name;
use sluice_translate::IGNORED_RESOURCES;

/// `ignoredResources`, unless the file has others.
pub(crate) fn ignored_by_default() -> Vec<String> {
    IGNORED_RESOURCES.map(str::to_owned).to_vec()
}

/// What is wrong with the names in `ignoredResources`, by the rules of the API server for the names of requests.
pub(crate) fn check(names: &[String], problems: &mut Vec<Problem>) {
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
