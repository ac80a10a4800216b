//! A condition over named values, for crates that say themselves what may be named.

use serde_json::Value;

use crate::expression::compiled::{Declared, Expression, Returns};
use crate::expression::error::EvaluationError;
use crate::expression::types::Type;
use crate::field::problem::Problem;

/// A CEL expression that is true or false, with the bounds of those of a JobKind.
///
/// ```
/// use serde_json::json;
/// use sluice_kinds::Condition;
/// let source = "object.status.phase == 'Bound'";
/// let bound = Condition::over_object("spec.condition", source).unwrap();
/// assert_eq!(bound.is_true_of(&json!({"status": {"phase": "Bound"}})), Ok(true));
/// assert_eq!(bound.is_true_of(&json!({})).unwrap_err().to_string(), "No such key: status");
/// ```
#[derive(Debug)]
pub struct Condition(Expression);

impl Condition {
    /// Compiles `source`, which stands at `field` and may name these `variables`. Of `object` a field must be named.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn compile(
        field: &str,
        source: &str,
        variables: &'static [&'static str],
    ) -> Result<Self, Problem> {
        Expression::compile(source, Declared::Named(variables), Returns::Bool)
            .map(Self)
            .map_err(|rule| Problem::invalid(field, source, rule.to_string()))
    }

    /// The same for one that may name nothing but the fields of `object`.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn over_object(field: &str, source: &str) -> Result<Self, Problem> {
        Self::compile(field, source, &["object"])
    }

    /// As it is written.
    pub fn source(&self) -> &str {
        self.0.source()
    }

    /// Whether it names `variable`.
    pub fn reads(&self, variable: &str) -> bool {
        self.0.variables().any(|name| name == variable)
    }

    /// The fields and keys of `variable` that stand in the text.
    pub fn keys(&self, variable: &str) -> impl Iterator<Item = &str> {
        self.0.keys(variable)
    }

    /// What does not fit in it whatever the variables hold, as a sentence for the user. `declared` says of which type a
    /// variable is, if that is known.
    pub fn mismatch(&self, declared: &dyn Fn(&str) -> Option<Type>) -> Option<String> {
        self.0.mismatch(declared)
    }

    /// Whether it is true of these values. `value_of` is asked for each variable that it names.
    ///
    /// # Errors
    /// It can't be evaluated, or gives something else than a bool.
    pub fn is_true<'a>(
        &self,
        value_of: &dyn Fn(&str) -> &'a Value,
    ) -> Result<bool, EvaluationError> {
        match self.0.evaluate_by(value_of)? {
            cel::Value::Bool(truth) => Ok(truth),
            other => Err(not_a_bool(&other)),
        }
    }

    /// Why values of the types of these are wrong for it: evaluating it fails, and not as of what the values are; or it
    /// gives something else than a bool.
    pub fn misfit<'a>(&self, value_of: &dyn Fn(&str) -> &'a Value) -> Option<String> {
        match self.0.evaluate_by(value_of) {
            Ok(cel::Value::Bool(_)) => None,
            Ok(other) => Some(not_a_bool(&other).to_string()),
            Err(_) => self.0.misfit(value_of),
        }
    }

    /// The same for one that names nothing but `object`.
    ///
    /// # Errors
    /// As [`Condition::is_true`].
    pub fn is_true_of(&self, object: &Value) -> Result<bool, EvaluationError> {
        self.is_true(&|_| object)
    }
}

fn not_a_bool(value: &cel::Value) -> EvaluationError {
    let given = value.type_of().to_string();
    EvaluationError::NotABool { given }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluate(source: &str) -> Result<bool, String> {
        let condition = Condition::compile("spec.when", source, &["object", "amounts", "name"])
            .map_err(|problem| problem.to_string())?;
        let (object, amounts, name) = (json!({"a": {"b": 1}}), json!({"x/y": 2.5}), json!("n"));
        let is_true = condition.is_true(&|variable| match variable {
            "amounts" => &amounts,
            "name" => &name,
            _ => &object,
        });
        is_true.map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_found_by_their_names() {
        let cases = [
            ("object.a.b == 1 && name == 'n'", Ok(true)),
            ("amounts['x/y'] > 2", Ok(true)),
            ("amounts['x/y'] > 2.5", Ok(false)),
            ("amounts['x/y'] > 3", Ok(false)),
            ("amounts['z'] > 3", Err("No such key: z")),
            ("object.a.c == 1", Err("No such key: c")),
            ("object.a.b", Err("gave int, not a bool")),
        ];
        for (source, expected) in cases {
            assert_eq!(
                evaluate(source),
                expected.map_err(str::to_owned),
                "{source}"
            );
        }
    }

    #[test]
    fn what_is_not_declared_is_refused() {
        assert_eq!(
            evaluate("name == '' && other > 2").unwrap_err(),
            "spec.when: Invalid value: \"name == '' && other > 2\": undeclared reference to \"other\" at 1:15: only \"object\", \"amounts\", \"name\" are declared"
        );
    }

    #[test]
    fn it_says_what_it_reads() {
        let source = "amounts['x/y'] + amounts.cpu > 2 && [1].exists(amounts, amounts == 1)";
        let condition = Condition::compile("f", source, &["object", "amounts", "name"]).unwrap();
        assert!(condition.reads("amounts") && !condition.reads("name"));
        let keys: Vec<_> = condition.keys("amounts").collect();
        assert_eq!(keys, ["cpu", "x/y"]);
        assert_eq!(condition.keys("name").count(), 0);
    }
}
