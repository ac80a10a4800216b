//! An expression over one object that is true or false of it. What follows from that is said by its owner.

use serde_json::Value;

use crate::expression::compiled::{Declared, Expression, Returns, Variables};
use crate::field::problem::Problem;

/// A compiled CEL expression over `object` that gives a bool, with the bounds of those of a JobKind.
///
/// ```
/// use serde_json::json;
/// use sluice_kinds::Predicate;
/// let bound = Predicate::compile("spec.condition", "object.status.phase == 'Bound'").unwrap();
/// assert_eq!(bound.holds(&json!({"status": {"phase": "Bound"}})), Ok(true));
/// assert_eq!(bound.holds(&json!({})), Err("No such key: status".to_owned()));
/// ```
#[derive(Debug)]
pub struct Predicate {
    expression: Expression,
    source: String,
}

impl Predicate {
    /// Compiles `source`, which stands at `field`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(field: &str, source: &str) -> Result<Self, Problem> {
        let expression = Expression::compile(source, Declared::Object, Returns::Bool);
        let expression = expression.map_err(|rule| Problem::invalid(field, source, rule))?;
        Ok(Self {
            expression,
            source: source.to_owned(),
        })
    }

    /// As it is written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it is true of `object`.
    ///
    /// # Errors
    /// It can't be evaluated. The text names no values of the object.
    pub fn holds(&self, object: &Value) -> Result<bool, String> {
        let variables = Variables {
            object,
            element: None,
        };
        match self.expression.evaluate(variables)? {
            cel::Value::Bool(truth) => Ok(truth),
            other => Err(format!("gave {}, not a bool", other.type_of())),
        }
    }
}
