//! CEL expressions over the fields of an object: compiled once with bounds, evaluated on just the
//! fields they name. What an expression means for a job is in `jobkind/kind.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};
use cel::{Context, Env, ExecutionError, Program};
use serde_json::Value;

use crate::expression::error::{CompileError, EvaluationError};
use crate::expression::failure;
use crate::expression::indexes;
use crate::expression::limits::{
    MACRO_DEPTH_MAX, NESTING_MAX, SOURCE_BYTES_MAX, STEPS_MAX, TEXT_STEP_BYTES,
};
use crate::expression::nesting::nesting;
use crate::expression::project::Projection;
use crate::expression::types::{self, Type};
use crate::expression::walk::{Parts, Reference, Walk};
use crate::field::problem::Problem;

#[cfg(test)]
mod tests;

/// Functions that are looked up at admission time, so that a typo is found there.
const FUNCTIONS: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "type",
    "dyn",
];

/// The functions of CEL: making them costs more than most evaluations.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(indexes::environment()));

/// What an expression may name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Declared {
    /// `object`.
    Object,
    /// `object`, `item` and `key`.
    Element,
    /// These.
    Named(&'static [&'static str]),
}

impl Declared {
    fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Object => &["object"],
            Self::Element => &["object", "item", "key"],
            Self::Named(variables) => variables,
        }
    }
}

/// What an expression has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// A bool.
    Bool,
    /// An int.
    Int,
    /// An int of an expression that no API server compiles: it may call Sluice's own function.
    OwnInt,
    /// A string.
    Text,
}

impl Returns {
    fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int | Self::OwnInt => "int",
            Self::Text => "string",
        }
    }
}

/// The values of what is declared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variables<'a> {
    /// The object.
    pub(crate) object: &'a Value,
    /// The element of a list or map, and its key or place.
    pub(crate) element: Option<(&'a Value, &'a Value)>,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
    needs: BTreeMap<String, Parts>,
    references: Vec<Reference>,
    keys: BTreeMap<String, BTreeSet<String>>,
    cost_depth: u32,
    nodes_in_macros: usize,
}

impl Expression {
    /// Compiles `source`.
    ///
    /// # Errors
    /// What is wrong and where.
    pub(crate) fn compile(
        source: &str,
        declared: Declared,
        returns: Returns,
    ) -> Result<Self, CompileError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(CompileError::TooLong);
        }
        if nesting(source) > NESTING_MAX {
            return Err(CompileError::TooNested);
        }
        let program =
            Program::compile(source).map_err(|e| CompileError::Syntax(one_line(&e.to_string())))?;
        check_functions(&program, returns)?;
        let variables = declared.variables();
        let walk = Walk::over(program.expression(), variables);
        if let Some((name, id)) = walk.undeclared {
            let rule = match (name.as_str(), declared) {
                ("object", _) => "a field of \"object\" must be named".to_owned(),
                (_, Declared::Object) => "only \"object\" is declared".to_owned(),
                (_, Declared::Element) => {
                    "only \"object\", \"item\" and \"key\" are declared".to_owned()
                }
                (_, Declared::Named(variables)) => {
                    let names: Vec<_> = variables.iter().map(|name| format!("{name:?}")).collect();
                    let are = if names.len() == 1 { "is" } else { "are" };
                    format!("only {} {are} declared", names.join(", "))
                }
            };
            let at = position(&program, id);
            return Err(CompileError::UndeclaredVariable { name, at, rule });
        }
        if walk.macro_depth > MACRO_DEPTH_MAX {
            return Err(CompileError::TooManyMacros);
        }
        if let Some(given) = type_of(program.expression())
            && given != returns.name()
        {
            let wanted = returns.name();
            return Err(CompileError::GivesAnotherType { wanted, given });
        }
        Ok(Self {
            needs: walk.needs,
            references: walk.references,
            keys: walk.keys,
            cost_depth: walk.cost_depth,
            nodes_in_macros: walk.nodes_in_macros,
            program,
        })
    }

    /// Compiles `source`, which stands at `field` of a JobKind.
    pub(crate) fn compile_at(
        field: &str,
        source: &str,
        declared: Declared,
        returns: Returns,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        Self::compile(source, declared, returns)
            .map_err(|rule| problems.push(Problem::invalid(field, source, rule.to_string())))
            .ok()
    }

    /// The fields that it names.
    pub(crate) fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The variables that it names.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.needs.keys().map(String::as_str)
    }

    /// The fields and keys of `variable` that stand in the text.
    pub(crate) fn keys(&self, variable: &str) -> impl Iterator<Item = &str> {
        let keys = self.keys.get(variable).into_iter().flatten();
        keys.map(String::as_str)
    }

    /// Whether it names what every object has: its type or its metadata.
    pub(crate) fn reads_metadata(&self) -> bool {
        let is_metadata = |key| ["apiVersion", "kind", "metadata"].contains(&key);
        self.keys("object").any(is_metadata)
    }

    /// Where `reference` stands in the text, as ` at 1:12`, if that is known.
    pub(crate) fn position(&self, reference: &Reference) -> String {
        position(&self.program, reference.id)
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// What went wrong.
    pub(crate) fn evaluate(&self, variables: Variables<'_>) -> Result<cel::Value, EvaluationError> {
        let Variables { object, element } = variables;
        self.evaluate_by(&|name| match (name, element) {
            ("item", Some((item, _))) => item,
            ("key", Some((_, key))) => key,
            _ => object,
        })
    }

    /// What does not fit in it whatever the variables hold, of which `declared` says the types.
    pub(crate) fn mismatch(&self, declared: &dyn Fn(&str) -> Option<Type>) -> Option<String> {
        types::mismatch(self.program.expression(), declared)
    }

    /// As it is written.
    pub(crate) fn source(&self) -> &str {
        &self.program.source_info().source
    }

    /// Evaluates the expression with what `value_of` says of each variable that it names.
    ///
    /// # Errors
    /// What went wrong.
    pub(crate) fn evaluate_by<'a>(
        &self,
        value_of: &dyn Fn(&str) -> &'a Value,
    ) -> Result<cel::Value, EvaluationError> {
        self.execute(value_of)?
            .map_err(|e| EvaluationError::Failed(failure::text(&e, self.source())))
    }

    /// Why these values are of the wrong types for it, if that is why its evaluation fails.
    pub(crate) fn misfit<'a>(&self, value_of: &dyn Fn(&str) -> &'a Value) -> Option<String> {
        let error = self.execute(value_of).ok()?.err()?;
        (!failure::is_about_values(&error)).then(|| failure::text(&error, self.source()))
    }

    fn execute<'a>(
        &self,
        value_of: &dyn Fn(&str) -> &'a Value,
    ) -> Result<Result<cel::Value, ExecutionError>, EvaluationError> {
        let mut context = Context::with_env(ENVIRONMENT.clone());
        let mut projection = Projection::default();
        for (name, parts) in &self.needs {
            let projected = projection.of(value_of(name), parts)?;
            context.add_variable_from_value(name.as_str(), projected);
        }
        self.check_cost(&projection)?;
        Ok(self.program.execute(&context))
    }

    fn check_cost(&self, projection: &Projection) -> Result<(), EvaluationError> {
        let (longest, text_bytes) = (projection.longest(), projection.longest_text_bytes());
        let text = (text_bytes / TEXT_STEP_BYTES).saturating_add(1);
        let steps = longest
            .checked_pow(self.cost_depth)
            .and_then(|elements| elements.checked_mul(self.nodes_in_macros))
            .and_then(|steps| steps.checked_mul(text));
        if self.cost_depth == 0 || steps.is_some_and(|steps| steps <= STEPS_MAX) {
            return Ok(());
        }
        Err(EvaluationError::TooManySteps {
            elements: longest,
            text_bytes,
        })
    }
}

fn position(program: &Program, id: u64) -> String {
    let info = program.source_info();
    let Some(before) = info
        .offset_for(id)
        .and_then(|(start, _)| info.source.get(..usize::try_from(start).ok()?))
    else {
        return String::new();
    };
    let line = before.matches('\n').count().saturating_add(1);
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    format!(" at {line}:{}", column.saturating_add(1))
}

/// The type that an expression gives, as far as its outermost operation tells.
fn type_of(expression: &IdedExpr) -> Option<&'static str> {
    match &expression.expr {
        Expr::Literal(literal) => Some(match literal {
            LiteralValue::Boolean(_) => "bool",
            LiteralValue::Bytes(_) => "bytes",
            LiteralValue::Double(_) => "double",
            LiteralValue::Int(_) => "int",
            LiteralValue::Null => "null",
            LiteralValue::String(_) => "string",
            LiteralValue::UInt(_) => "uint",
        }),
        Expr::Select(select) if select.test => Some("bool"),
        Expr::List(_) => Some("list"),
        Expr::Map(_) => Some("map"),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (
                operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::LOGICAL_NOT
                | operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS
                | operators::IN
                | "contains"
                | "startsWith"
                | "endsWith"
                | "matches"
                | "bool",
                _,
            ) => Some("bool"),
            (operators::CONDITIONAL, [_, yes, no]) => type_of(yes).or_else(|| type_of(no)),
            ("size" | "int" | indexes::NAME, _) => Some("int"),
            ("string", _) => Some("string"),
            ("double", _) => Some("double"),
            ("uint", _) => Some("uint"),
            _ => None,
        },
        _ => None,
    }
}

fn check_functions(program: &Program, returns: Returns) -> Result<(), CompileError> {
    let is_known =
        |f: &str| FUNCTIONS.contains(&f) || f == indexes::NAME && returns == Returns::OwnInt;
    let references = program.references();
    let unknown = references
        .functions()
        .into_iter()
        .find(|f| f.chars().next().is_some_and(char::is_alphabetic) && !is_known(f));
    match unknown {
        Some(name) => Err(CompileError::UndeclaredFunction(name.to_owned())),
        None => Ok(()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
