//! What is told of an evaluation that fails. The texts of the evaluator print the values that it has met, as large as
//! they are, and the reader of the text may not be allowed to read the object. So values are told by their types.

use cel::ExecutionError;

/// Longest text, in bytes.
const BYTES_MAX: usize = 256;

/// Why an evaluation of `source` failed, as a sentence on one line.
pub(super) fn text(error: &ExecutionError, source: &str) -> String {
    let text = match error {
        // A key may be a value of the object, too.
        ExecutionError::NoSuchKey(key) if !source.contains(key.as_str()) => {
            "No such key".to_owned()
        }
        ExecutionError::UnsupportedTargetType { target } => {
            format!("Invalid argument type: {}", target.type_of())
        }
        ExecutionError::NotSupportedAsMethod { method, target } => format!(
            "Method '{method}' not supported on type '{}'",
            target.type_of()
        ),
        ExecutionError::UnsupportedKeyType(key) => {
            format!("Unable to use a {} as a key", key.type_of())
        }
        ExecutionError::ValuesNotComparable(one, other) => format!(
            "{} can not be compared to {}",
            one.type_of(),
            other.type_of()
        ),
        ExecutionError::UnsupportedBinaryOperator(operator, one, other) => format!(
            "Unsupported binary operator '{operator}': {}, {}",
            one.type_of(),
            other.type_of()
        ),
        ExecutionError::UnsupportedIndex(index, value) => {
            format!(
                "Cannot use {} to index {}",
                index.type_of(),
                value.type_of()
            )
        }
        ExecutionError::DivisionByZero(_) => "Division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "Remainder by zero".to_owned(),
        ExecutionError::Overflow(operator, ..) => {
            format!("Overflow from binary operator '{operator}'")
        }
        ExecutionError::IndexOutOfBounds(_) => "Index out of bounds".to_owned(),
        ExecutionError::DuplicateKey(_) => "Failed with repeated key".to_owned(),
        // These say what is wrong with a number, and not which it is.
        ExecutionError::FunctionError { function, .. }
            if ["int", "uint", "double", "indexes"].contains(&function.as_str()) =>
        {
            error.to_string()
        }
        ExecutionError::FunctionError { function, .. } => {
            format!("Error executing function '{function}'")
        }
        // These name what the expression is written with, and types.
        ExecutionError::InvalidArgumentCount { .. }
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::NoSuchKey(_)
        | ExecutionError::NoSuchOverload(_)
        | ExecutionError::UndeclaredReference(_)
        | ExecutionError::MissingArgumentOrTarget => error.to_string(),
        _ => "It can't be evaluated".to_owned(),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.floor_char_boundary(BYTES_MAX);
    text.get(..end).unwrap_or_default().to_owned()
}

/// Whether other values of the same types may not fail so.
pub(super) fn is_about_values(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::IndexOutOfBounds(_)
        | ExecutionError::NoSuchKey(_)
        | ExecutionError::DivisionByZero(_)
        | ExecutionError::RemainderByZero(_)
        | ExecutionError::Overflow(..)
        | ExecutionError::DuplicateKey(_) => true,
        ExecutionError::FunctionError { function, .. } => {
            ["int", "uint", "double", "matches", "indexes"].contains(&function.as_str())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use crate::Condition;

    #[rstest]
    #[case::missing("object.status.phase == 'a'", "No such key: status")]
    #[case::compared(
        "object.secret < 1",
        "found no matching overload for '_<_' applied to '(string, int)'"
    )]
    #[case::added(
        "object.secret + 1 == 2",
        "Unsupported binary operator 'add': string, int"
    )]
    #[case::converted(
        "int(object.secret) == 1",
        "Error executing function 'int': string parse error: invalid digit found in string"
    )]
    #[case::pattern(
        "'a'.matches(object.secret + '[')",
        "Error executing function 'matches'"
    )]
    #[case::index("object.list[7] == 1", "Index out of bounds")]
    #[case::divided("1 / object.zero == 1", "Division by zero")]
    #[case::computed_key("object.map[object.secret] == 1", "No such key")]
    #[case::no_bool("object.secret", "gave string, not a bool")]
    fn a_failure_names_no_values(#[case] source: &str, #[case] expected: &str) {
        let object = json!({"secret": "hunter2", "list": ["hunter2"], "map": {}, "zero": 0});
        let told = Condition::over_object("x", source)
            .unwrap()
            .is_true_of(&object);
        let told = told.unwrap_err().to_string();
        assert!(told.contains(expected), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}
