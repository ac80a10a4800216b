//! A CEL expression over an object that is being created and who creates it.

use serde_json::Value;
use sluice_kinds::{Condition, Problem};

use super::applicant::{Applicant, NotKnown};
use super::values;

/// What is told besides of types that don't fit.
const TYPES: &str = "requests are doubles, pods and priority ints, queue and user strings, groups a list of strings";

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct When(Condition);

impl When {
    /// Compiles the expression at `field`. One whose types don't fit, whatever an object holds, is refused: it would
    /// fail for every object, or apply to none.
    pub(crate) fn compile(source: &str, field: &str) -> Result<Self, Problem> {
        let condition = Condition::compile(field, source, values::VARIABLES)?;
        if let Some(mismatch) = condition.mismatch(&values::type_of) {
            return Err(Problem::invalid(field, source, mistyped(&mismatch)));
        }
        // What an object holds is not known before there is one.
        if condition.reads("object") {
            return Ok(Self(condition));
        }
        let misfits = values::samples(&condition)
            .map(|sample| condition.misfit(&|name| sample.get(name).unwrap_or(&Value::Null)));
        match misfits {
            [Some(first), Some(_)] => Err(Problem::invalid(field, source, fails(&first))),
            [None, _] | [_, None] => Ok(Self(condition)),
        }
    }

    /// Whether it names who makes the request.
    pub(crate) fn reads_author(&self) -> bool {
        let Self(condition) = self;
        condition.reads("user") || condition.reads("groups")
    }

    /// Whether it names the priority of the object.
    pub(crate) fn reads_priority(&self) -> bool {
        let Self(condition) = self;
        condition.reads("priority")
    }

    /// Whether it is true for `candidate`, or why that can't be told.
    pub(crate) fn is_true(&self, candidate: &dyn Applicant) -> Result<bool, NotKnown> {
        let Self(condition) = self;
        let values = values::read(condition, candidate)?;
        let value_of = |name: &str| values.get(name).unwrap_or_else(|| candidate.object());
        Ok(condition.is_true(&value_of)?)
    }
}

fn mistyped(mismatch: &str) -> String {
    format!("{mismatch}; {TYPES}")
}

fn fails(why: &str) -> String {
    format!("fails for every object: {why}; {TYPES}")
}
