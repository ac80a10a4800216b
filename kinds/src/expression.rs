//! CEL expressions over `object`: compiled once with bounds, evaluated on just the fields they name.
//! What an expression means for a job is said elsewhere.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, Program};
use serde_json::Value;

/// Longest expression in bytes; the CRD has the same limit.
const SOURCE_BYTES_MAX: usize = 2048;
/// Deepest nesting of brackets. The parser and the evaluator recurse, so depth is stack.
const NESTING_MAX: usize = 32;
/// Most elements of a list that an expression may be handed: bounds the work of one evaluation, as
/// an expression's own text is bounded and macros may nest at most [`MACRO_DEPTH_MAX`] deep.
const ELEMENTS_MAX: usize = 1024;
/// Deepest nesting of `all`, `exists`, `map` and the like: each one multiplies the work.
const MACRO_DEPTH_MAX: usize = 2;
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
    "min",
    "max",
    "type",
    "dyn",
];

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
    needs: Needs,
}

/// Which parts of `object` an expression reads: second-level fields by first-level field, or all
/// of a first-level field (`None`).
type Needs = BTreeMap<String, Option<Vec<String>>>;

impl Expression {
    /// Compiles `source`.
    ///
    /// # Errors
    /// What is wrong and where, as a sentence for the user.
    pub(crate) fn compile(source: &str) -> Result<Self, String> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(format!("must not be longer than {SOURCE_BYTES_MAX} bytes"));
        }
        if nesting(source) > NESTING_MAX {
            return Err(format!(
                "must not be nested deeper than {NESTING_MAX} brackets"
            ));
        }
        let program = Program::compile(source)
            .map_err(|e| format!("must be a CEL expression: {}", one_line(&e.to_string())))?;
        check_functions(&program)?;
        let mut walk = Walk::default();
        walk.expression(program.expression(), 0);
        if let Some(name) = walk.undeclared {
            return Err(format!(
                "undeclared reference to {name:?}: only \"object\" is declared"
            ));
        }
        if walk.macro_depth > MACRO_DEPTH_MAX {
            return Err(format!(
                "must not nest more than {MACRO_DEPTH_MAX} of all, exists, map and filter"
            ));
        }
        Ok(Self {
            program,
            needs: walk.needs,
        })
    }

    /// Evaluates the expression on `object`.
    ///
    /// # Errors
    /// What went wrong, as a sentence for the user.
    pub(crate) fn evaluate(&self, object: &Value) -> Result<cel::Value, String> {
        let mut context = Context::default();
        let projected = project(object, &self.needs)?;
        context.add_variable_from_value("object", projected);
        self.program
            .execute(&context)
            .map_err(|e| one_line(&e.to_string()))
    }
}

fn check_functions(program: &Program) -> Result<(), String> {
    let references = program.references();
    let unknown = references
        .functions()
        .into_iter()
        .find(|f| f.chars().next().is_some_and(char::is_alphabetic) && !FUNCTIONS.contains(f));
    match unknown {
        Some(name) => Err(format!("undeclared function {name:?}")),
        None => Ok(()),
    }
}

/// Brackets that are open at once, counted without regard to strings: too strict at worst.
fn nesting(source: &str) -> usize {
    let mut open = 0_usize;
    let mut deepest = 0;
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            // Chains of unary operators and of `?:` recurse without brackets.
            b'!' | b'?' | b'-' => deepest = deepest.max(consecutive_operators(source)),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// The number of operators that nest to the right without a bracket.
fn consecutive_operators(source: &str) -> usize {
    let conditionals = source.bytes().filter(|b| *b == b'?').count();
    let mut run = 0_usize;
    let mut longest = 0;
    for byte in source.bytes().filter(|b| !b.is_ascii_whitespace()) {
        run = if matches!(byte, b'!' | b'-') {
            run + 1
        } else {
            0
        };
        longest = longest.max(run);
    }
    longest.max(conditionals)
}

#[derive(Default)]
struct Walk {
    needs: Needs,
    macro_depth: usize,
    /// The variables of the macros around the place that is looked at.
    bound: Vec<String>,
    undeclared: Option<String>,
}

impl Walk {
    fn expression(&mut self, expression: &IdedExpr, macros: usize) {
        self.macro_depth = self.macro_depth.max(macros);
        match &expression.expr {
            Expr::Select(select) => match (&select.operand.expr, select.field.as_str()) {
                (Expr::Ident(root), field) if root == "object" => self.whole(field),
                (Expr::Select(inner), field) if is_object(&inner.operand) => {
                    self.part(&inner.field, field);
                }
                _ => self.expression(&select.operand, macros),
            },
            Expr::Call(call) => {
                for inner in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
                    self.expression(inner, macros);
                }
            }
            Expr::Comprehension(comprehension) => {
                self.expression(&comprehension.iter_range, macros);
                let outside = self.bound.len();
                self.bound.extend([
                    comprehension.iter_var.clone(),
                    comprehension.accu_var.clone(),
                ]);
                self.bound.extend(comprehension.iter_var2.clone());
                for inner in [
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ] {
                    self.expression(inner, macros + 1);
                }
                self.bound.truncate(outside);
            }
            Expr::List(list) => {
                for inner in &list.elements {
                    self.expression(inner, macros);
                }
            }
            Expr::Map(map) => self.entries(&map.entries, macros),
            Expr::Struct(fields) => self.entries(&fields.entries, macros),
            Expr::Ident(name) if self.bound.contains(name) => {}
            Expr::Ident(name) => {
                // A bare `object` would have to be converted whole: fields must be named.
                self.undeclared.get_or_insert_with(|| name.clone());
            }
            Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn entries(&mut self, entries: &[cel::common::ast::IdedEntryExpr], macros: usize) {
        for entry in entries {
            match &entry.expr {
                EntryExpr::StructField(field) => self.expression(&field.value, macros),
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key, macros);
                    self.expression(&entry.value, macros);
                }
            }
        }
    }

    fn whole(&mut self, field: &str) {
        self.needs.insert(field.to_owned(), None);
    }

    fn part(&mut self, field: &str, below: &str) {
        match self.needs.entry(field.to_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(Some(vec![below.to_owned()]));
            }
            Entry::Occupied(mut entry) => {
                if let Some(parts) = entry.get_mut() {
                    parts.push(below.to_owned());
                }
            }
        }
    }
}

fn is_object(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == "object")
}

/// The parts of `object` that are needed. Converting a whole object costs more than evaluating.
fn project(object: &Value, needs: &Needs) -> Result<cel::Value, String> {
    let mut projected = HashMap::new();
    for (field, parts) in needs {
        let Some(value) = object.get(field) else {
            continue;
        };
        let kept = match (parts, value) {
            (Some(parts), Value::Object(map)) => {
                let named = parts
                    .iter()
                    .filter_map(|part| map.get(part).map(|v| (part, v)));
                convert_map(named, field)?
            }
            _ => convert(value, field)?,
        };
        projected.insert(field.clone(), kept);
    }
    Ok(projected.into())
}

/// `value` as CEL sees it: whole numbers are `int`, as in Kubernetes.
fn convert(value: &Value, field: &str) -> Result<cel::Value, String> {
    Ok(match value {
        Value::Null => cel::Value::Null,
        Value::Bool(truth) => cel::Value::Bool(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => cel::Value::Int(int),
            (None, Some(uint)) => cel::Value::UInt(uint),
            (None, None) => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(elements) => {
            check_size("list", elements.len(), field)?;
            let converted: Result<Vec<_>, _> = elements.iter().map(|e| convert(e, field)).collect();
            cel::Value::List(Arc::new(converted?))
        }
        Value::Object(map) => convert_map(map.iter(), field)?,
    })
}

fn convert_map<'a>(
    entries: impl Iterator<Item = (&'a String, &'a Value)>,
    field: &str,
) -> Result<cel::Value, String> {
    let mut map: HashMap<String, cel::Value> = HashMap::new();
    for (key, value) in entries {
        map.insert(key.clone(), convert(value, field)?);
    }
    check_size("map", map.len(), field)?;
    Ok(map.into())
}

fn check_size(what: &str, len: usize, field: &str) -> Result<(), String> {
    if len > ELEMENTS_MAX {
        return Err(format!(
            "a {what} below {field:?} has {len} elements, more than the {ELEMENTS_MAX} that an expression may read"
        ));
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evaluates_on_what_it_names() {
        let object = json!({
            "spec": {"parallelism": 3, "template": {"big": "x"}},
            "status": {"conditions": [{"type": "Complete", "status": "True"}]},
        });
        let cases = [
            ("object.spec.parallelism + 1", cel::Value::Int(4)),
            ("has(object.spec.completions)", cel::Value::Bool(false)),
            ("has(object.nothing)", cel::Value::Bool(false)),
            (
                "object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')",
                cel::Value::Bool(true),
            ),
            (
                "has(object.status) && size(object.status.conditions) == 1",
                cel::Value::Bool(true),
            ),
        ];
        for (source, expected) in cases {
            let expression = Expression::compile(source).unwrap();
            assert_eq!(expression.evaluate(&object).unwrap(), expected, "{source}");
        }
    }

    #[test]
    fn refuses_what_it_cannot_bound_or_know() {
        let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
        let negations = format!("{}true", "!".repeat(1500));
        let conditionals = format!("{}1", "true ? 1 : ".repeat(150));
        let cases = [
            ("object.spec.", "must be a CEL expression"),
            (
                "job.spec.x",
                "undeclared reference to \"job\": only \"object\" is declared",
            ),
            ("frobnicate(object)", "undeclared function \"frobnicate\""),
            (&deep, "must not be nested deeper than 32 brackets"),
            (&negations, "must not be nested deeper than 32 brackets"),
            (&conditionals, "must not be nested deeper than 32 brackets"),
            (
                "object.a.all(x, x.b.all(y, y.c.all(z, z)))",
                "must not nest more than 2 of all, exists, map and filter",
            ),
        ];
        for (source, expected) in cases {
            let message = Expression::compile(source).unwrap_err();
            assert!(message.starts_with(expected), "{source}: {message}");
        }
    }

    #[test]
    fn a_long_list_is_refused_not_walked() {
        let expression = Expression::compile("object.spec.items.all(x, x > 0)").unwrap();
        let object = json!({"spec": {"items": vec![1; 10_000]}});
        assert_eq!(
            expression.evaluate(&object).unwrap_err(),
            "a list below \"spec\" has 10000 elements, more than the 1024 that an expression may read"
        );
    }
}
