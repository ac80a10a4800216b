//! Who, and which objects, need no queue in a managed namespace.

use sluice_kinds::Problem;

use crate::applies_to::applicant::Applicant;
use crate::applies_to::when::When;

/// An exception: all fields that are there must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exception {
    /// Names of users, one of which asks for the object.
    pub users: Vec<String>,
    /// Groups, in one of which the user is.
    pub groups: Vec<String>,
    /// A CEL expression, over the same variables as `spec.appliesTo.when` of a Gate.
    pub when: Option<String>,
}

/// The same, checked.
#[derive(Debug)]
pub(super) struct CompiledEnforcementException {
    users: Vec<String>,
    groups: Vec<String>,
    when: Option<When>,
}

impl CompiledEnforcementException {
    /// Checks the exception at `field`.
    pub(super) fn compile(exception: &Exception, field: &str) -> Result<Self, Vec<Problem>> {
        let Exception {
            users,
            groups,
            when,
        } = exception;
        let mut problems = Vec::new();
        if users.is_empty() && groups.is_empty() && when.is_none() {
            let detail = "must have at least one of users, groups and when";
            problems.push(Problem::required(field, detail));
        }
        for (name, list) in [("users", users), ("groups", groups)] {
            for (index, value) in list.iter().enumerate() {
                let field = format!("{field}.{name}[{index}]");
                if value.is_empty() {
                    problems.push(Problem::required(field, "must be a name"));
                } else if list.iter().take(index).any(|before| before == value) {
                    problems.push(Problem::duplicate(field, value.clone()));
                }
            }
        }
        let when = when.as_ref().and_then(|source| {
            let compiled = When::compile(source, &format!("{field}.when"));
            compiled.map_err(|problem| problems.push(problem)).ok()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            users: users.clone(),
            groups: groups.clone(),
            when,
        })
    }

    /// Whether it depends on who asks for the object.
    pub(super) fn depends_on_author(&self) -> bool {
        let reads_author = self.when.as_ref().is_some_and(When::reads_author);
        !self.users.is_empty() || !self.groups.is_empty() || reads_author
    }

    /// Whether it depends on the priority of the object.
    pub(super) fn reads_priority(&self) -> bool {
        self.when.as_ref().is_some_and(When::reads_priority)
    }

    /// What it says of objects, for the authors that it covers.
    pub(super) fn of_some_author(self) -> Self {
        Self {
            users: Vec::new(),
            groups: Vec::new(),
            when: self.when.filter(|when| !when.reads_author()),
        }
    }

    /// Whether it is true for `candidate`. An expression that fails is true for nothing.
    pub(super) fn applies(&self, candidate: &dyn Applicant) -> bool {
        let is_user = self.users.is_empty() || self.users.iter().any(|u| u == candidate.user());
        let is_member = |group| candidate.groups().contains(group);
        let is_in_group = self.groups.is_empty() || self.groups.iter().any(is_member);
        let is_true = |when: &When| when.is_true(candidate) == Ok(true);
        is_user && is_in_group && self.when.as_ref().is_none_or(is_true)
    }
}
