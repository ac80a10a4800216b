//! The quota of ClusterQueues and Cohorts: amounts that can be counted, limits that mean something,
//! and no resource or flavor twice.

use std::collections::BTreeSet;

use sluice_crds::{FlavorQuotas, Quantity, ResourceGroup, ResourceQuota};
use sluice_kinds::problem::Problem;

/// Whether there is anyone to borrow from and lend to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lending {
    /// There is, and a ClusterQueue lends no more than its nominal quota.
    Nominal,
    /// There is, and a Cohort lends what is below it, too.
    Subtree,
    /// There is not, for want of the field named.
    Without(&'static str),
}

impl Lending {
    /// That of a ClusterQueue.
    pub(crate) fn of_queue(has_cohort: bool) -> Self {
        if has_cohort {
            Self::Nominal
        } else {
            Self::Without("spec.cohortName")
        }
    }

    /// That of a Cohort.
    pub(crate) fn of_cohort(has_parent: bool) -> Self {
        if has_parent {
            Self::Subtree
        } else {
            Self::Without("spec.parentName")
        }
    }
}

/// What is wrong with `groups`.
pub(crate) fn check(groups: &[ResourceGroup], lending: Lending) -> Vec<Problem> {
    let mut seen = Seen::default();
    let mut problems = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        check_group(
            &format!("spec.resourceGroups[{index}]"),
            group,
            lending,
            &mut seen,
            &mut problems,
        );
    }
    problems
}

/// What the groups so far have named.
#[derive(Default)]
struct Seen<'a> {
    resources: BTreeSet<&'a str>,
    flavors: BTreeSet<&'a str>,
}

fn check_group<'a>(
    field: &str,
    group: &'a ResourceGroup,
    lending: Lending,
    seen: &mut Seen<'a>,
    problems: &mut Vec<Problem>,
) {
    for (index, resource) in group.covered_resources.iter().enumerate() {
        if !seen.resources.insert(resource) {
            let field = format!("{field}.coveredResources[{index}]");
            problems.push(Problem::duplicate(field, resource));
        }
    }
    for (index, flavor) in group.flavors.iter().enumerate() {
        let field = format!("{field}.flavors[{index}]");
        if !seen.flavors.insert(&flavor.name) {
            problems.push(Problem::duplicate(format!("{field}.name"), &flavor.name));
        }
        check_flavor(&field, group, flavor, lending, problems);
    }
}

fn check_flavor(
    field: &str,
    group: &ResourceGroup,
    flavor: &FlavorQuotas,
    lending: Lending,
    problems: &mut Vec<Problem>,
) {
    let mut named = BTreeSet::new();
    for (index, quota) in flavor.resources.iter().enumerate() {
        let field = format!("{field}.resources[{index}]");
        if !named.insert(quota.name.as_str()) {
            problems.push(Problem::duplicate(format!("{field}.name"), &quota.name));
        } else if !group.covered_resources.contains(&quota.name) {
            let detail = "must be one of the coveredResources of its group";
            problems.push(Problem::invalid(
                format!("{field}.name"),
                &quota.name,
                detail,
            ));
        }
        check_quota(&field, quota, lending, problems);
    }
    let missing: Vec<_> = group
        .covered_resources
        .iter()
        .filter(|name| !named.contains(name.as_str()))
        .collect();
    for name in missing {
        let detail = format!("must have quota for {name:?}, one of the coveredResources");
        problems.push(Problem::required(format!("{field}.resources"), detail));
    }
}

fn check_quota(field: &str, quota: &ResourceQuota, lending: Lending, problems: &mut Vec<Problem>) {
    let nominal = amount(
        format!("{field}.nominalQuota"),
        &quota.nominal_quota,
        problems,
    );
    let limits = [
        ("borrowingLimit", &quota.borrowing_limit),
        ("lendingLimit", &quota.lending_limit),
    ];
    for (name, limit) in limits {
        let Some(limit) = limit else { continue };
        let field = format!("{field}.{name}");
        if let Lending::Without(needed) = lending {
            let detail = format!("must be absent without {needed}: quota is shared only there");
            problems.push(Problem::invalid(field.as_str(), limit.0.as_str(), detail));
        }
        let value = amount(field.clone(), limit, problems);
        if name == "lendingLimit"
            && lending == Lending::Nominal
            && let (Some(value), Some(nominal)) = (value, nominal)
            && nominal < value
        {
            let detail = "must be less than or equal to the nominalQuota";
            problems.push(Problem::invalid(field, limit.0.as_str(), detail));
        }
    }
}

/// The amount in nano-units, if it can be counted and is not negative.
fn amount(field: String, quantity: &Quantity, problems: &mut Vec<Problem>) -> Option<i128> {
    let detail = match quantity.nanos() {
        Ok(nanos) if 0 <= nanos => return Some(nanos),
        Ok(_) => "must be greater than or equal to 0".to_owned(),
        Err(error) => error.to_string(),
    };
    problems.push(Problem::invalid(field, quantity.0.as_str(), detail));
    None
}
