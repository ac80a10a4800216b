//! What is wrong with an expression: when it is compiled, and when it is evaluated. The texts name no values of an
//! object, as who reads them may not be allowed to read the object.

use thiserror::Error;

use crate::expression::limits::{
    MACRO_DEPTH_MAX, NESTING_MAX, SOURCE_BYTES_MAX, STEPS_MAX, TEXT_BYTES_MAX, VALUES_MAX,
};

/// The rule that the text of an expression breaks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum CompileError {
    #[error("must not be longer than {SOURCE_BYTES_MAX} bytes")]
    TooLong,
    #[error("must not be nested deeper than {NESTING_MAX} brackets, operators and fields")]
    TooNested,
    #[error("must be a CEL expression: {0}")]
    Syntax(String),
    #[error("undeclared function {0:?}")]
    UndeclaredFunction(String),
    /// A variable that is not declared, where it stands, and which variables are.
    #[error("undeclared reference to {name:?}{at}: {rule}")]
    UndeclaredVariable {
        name: String,
        at: String,
        rule: String,
    },
    #[error("must not nest more than {MACRO_DEPTH_MAX} of all, exists, map and filter")]
    TooManyMacros,
    #[error("must give a {wanted}, not a {given}")]
    GivesAnotherType {
        wanted: &'static str,
        given: &'static str,
    },
}

/// Why an expression has no value for an object.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// It names more of the object than may be read.
    #[error("it reads more than the {VALUES_MAX} values that an expression may read")]
    TooManyValues,
    /// It names longer texts than may be read.
    #[error("it reads more than the {TEXT_BYTES_MAX} bytes of text that an expression may read")]
    TooMuchText,
    /// It could take too long.
    #[error(
        "it reads a list of {elements} elements and a text of {text_bytes} bytes and could take more than {STEPS_MAX} steps, which is all that an expression may take"
    )]
    TooManySteps {
        /// Of the longest list.
        elements: usize,
        /// Of the longest text.
        text_bytes: usize,
    },
    /// It does not fit the object.
    #[error("{0}")]
    Failed(String),
    /// It gives something else than it has to give.
    #[error("gave {given}, not a bool")]
    NotABool {
        /// The type of what it gives.
        given: String,
    },
}
