//! What a Gate says of the objects of one kind: when one satisfies it, and when one never will.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sluice_crds::AfterKind;
use sluice_kinds::{Condition, EvaluationError, Problem, names};

/// What a kind gets to hear that is not read.
const UNREAD: &str = "is not read by Sluice, whatever its roles say";
/// Kinds and groups that are never read: what is secret, what can't be listed, and what changes all the time
/// without ever being done.
const UNREAD_KINDS: [(&str, &str); 6] = [
    ("", "Secret"),
    ("", "Event"),
    ("authentication.k8s.io", "*"),
    ("authorization.k8s.io", "*"),
    ("coordination.k8s.io", "*"),
    ("events.k8s.io", "*"),
];

/// An API group and a kind. Its text is for people, as in `Job.batch`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
}

impl GroupKind {
    /// The kind `kind` of the API group `group`.
    pub fn new(group: impl Into<Arc<str>>, kind: impl Into<Arc<str>>) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

/// What a Gate says of the objects of one kind. Two that are written alike are equal.
#[derive(Debug)]
pub struct DependencyRule {
    kind: GroupKind,
    condition: Condition,
    failed: Option<Condition>,
}

/// What a rule says of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It satisfies the condition.
    Done,
    /// It does not, and is not expected to any more.
    Failed,
    /// It does not.
    NotYet,
    /// That can't be told, and why.
    Unknown(Box<str>),
}

impl DependencyRule {
    /// Checks the rule at `field`.
    pub(crate) fn compile(rule: &AfterKind, field: &str) -> Result<Self, Vec<Problem>> {
        let AfterKind {
            group,
            kind,
            condition,
            failed,
        } = rule;
        let mut problems = Vec::new();
        if !group.is_empty() {
            problems.extend(names::subdomain(group, &format!("{field}.group")));
        }
        if !is_kind(kind) {
            let rule = "must be the name of a kind (such as \"Job\")";
            problems.push(Problem::invalid(format!("{field}.kind"), kind, rule));
        }
        let is_unread = |(of, unread): &(&str, &str)| group == of && ["*", kind].contains(unread);
        if UNREAD_KINDS.iter().any(is_unread) {
            problems.push(Problem::invalid(format!("{field}.kind"), kind, UNREAD));
        }
        let mut compile = |field: String, source: &str| {
            let compiled = Condition::over_object(&field, source);
            compiled.map_err(|problem| problems.push(problem)).ok()
        };
        let compiled = compile(format!("{field}.condition"), condition);
        let failed = failed.as_deref();
        let failed = failed.and_then(|source| compile(format!("{field}.failed"), source));
        match compiled {
            Some(condition) if problems.is_empty() => Ok(Self {
                kind: GroupKind::new(group.as_str(), kind.as_str()),
                condition,
                failed,
            }),
            _ => Err(problems),
        }
    }

    /// The kind of the objects.
    pub fn kind(&self) -> &GroupKind {
        &self.kind
    }

    /// What it says of `object`. One that satisfies the condition has not failed.
    pub fn judge(&self, object: &Value) -> Outcome {
        let is_done = self.condition.is_true_of(object);
        if is_done == Ok(true) {
            return Outcome::Done;
        }
        let has_failed = self.failed.as_ref().map(|failed| failed.is_true_of(object));
        let unknown =
            |what: &str, why: EvaluationError| Outcome::Unknown(format!("{what}: {why}").into());
        match (has_failed, is_done) {
            (Some(Ok(true)), _) => Outcome::Failed,
            (_, Err(why)) => unknown("condition", why),
            (Some(Err(why)), _) => unknown("failed", why),
            (_, Ok(_)) => Outcome::NotYet,
        }
    }

    fn key(&self) -> (&GroupKind, &str, Option<&str>) {
        let failed = self.failed.as_ref().map(Condition::source);
        (&self.kind, self.condition.source(), failed)
    }
}

impl PartialEq for DependencyRule {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for DependencyRule {}

impl PartialOrd for DependencyRule {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DependencyRule {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

fn is_kind(kind: &str) -> bool {
    let is_letter = |first: u8| first.is_ascii_alphabetic();
    kind.bytes().next().is_some_and(is_letter)
        && kind.len() <= 63
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
