//! A CEL expression over an object that is being created and who creates it.

use serde_json::Value;
use sluice_kinds::{Condition, Problem};

use super::subject::Candidate;
use super::values;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct When(Condition);

impl When {
    /// Compiles the expression at `field`. One that fails whatever an object holds, as its types don't fit, is
    /// refused.
    pub(crate) fn compile(source: &str, field: &str) -> Result<Self, Problem> {
        let condition = Condition::compile(field, source, values::VARIABLES)?;
        // What an object holds is not known before there is one.
        if condition.reads("object") {
            return Ok(Self(condition));
        }
        let outcomes = values::samples(&condition)
            .map(|sample| condition.is_true(&|name| sample.get(name).unwrap_or(&Value::Null)));
        match outcomes {
            [Err(first), Err(_)] => Err(Problem::invalid(field, source, mistyped(&first))),
            [Ok(_), _] | [_, Ok(_)] => Ok(Self(condition)),
        }
    }

    /// Whether it names who makes the request.
    pub(crate) fn reads_author(&self) -> bool {
        let Self(condition) = self;
        condition.reads("user") || condition.reads("groups")
    }

    /// Whether it is true for `candidate`, or why that can't be told.
    pub(crate) fn is_true(&self, candidate: &dyn Candidate) -> Result<bool, String> {
        let Self(condition) = self;
        let values = values::read(condition, candidate)?;
        condition.is_true(&|name| values.get(name).unwrap_or_else(|| candidate.object()))
    }
}

fn mistyped(why: &str) -> String {
    format!("fails for every object: {why}; requests are doubles, priority and pods are ints")
}
