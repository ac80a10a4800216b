//! One walk over a parsed expression: what it names, how deep its macros nest, how large it is. What
//! is refused for that is said by its parent.

use std::collections::{BTreeMap, BTreeSet};

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, operators};

/// Which parts of a value an expression reads: all of it, or fields of it.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Whether it is read whole.
    pub(super) is_whole: bool,
    /// The fields that are read, if it is not.
    pub(super) fields: BTreeMap<String, Parts>,
}

/// A variable and fields below it, as an expression writes them: `object.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The variable.
    pub(crate) variable: String,
    /// The fields, outermost first.
    pub(crate) fields: Vec<String>,
    /// The node of the variable.
    pub(super) id: u64,
}

/// What a walk has found.
#[derive(Debug, Default)]
pub(super) struct Walk<'a> {
    /// The variables that are declared.
    pub(super) variables: &'a [&'a str],
    /// The parts of the variables that are read.
    pub(super) needs: BTreeMap<String, Parts>,
    /// All fields that are named, in order.
    pub(super) references: Vec<Reference>,
    /// The keys by which the variables themselves are indexed, as far as they stand in the text.
    pub(super) keys: BTreeMap<String, BTreeSet<String>>,
    /// How deep its macros nest.
    pub(super) macro_depth: u32,
    /// The same, where a macro that makes a list counts twice: it copies what it has so far for each
    /// element.
    pub(super) cost_depth: u32,
    /// How many nodes there are within macros: each is evaluated for each element.
    pub(super) nodes_in_macros: usize,
    /// The first name that is not declared.
    pub(super) undeclared: Option<(String, u64)>,
    /// The variables of the macros around the place that is looked at.
    bound: Vec<String>,
}

/// How deep a node lies in macros.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    macros: u32,
    cost: u32,
}

impl<'a> Walk<'a> {
    /// Walks over `expression`, where `variables` are declared.
    pub(super) fn over(expression: &IdedExpr, variables: &'a [&'a str]) -> Self {
        let mut walk = Self {
            variables,
            ..Self::default()
        };
        walk.expression(expression, Depth::default());
        walk
    }

    fn expression(&mut self, expression: &IdedExpr, depth: Depth) {
        self.macro_depth = self.macro_depth.max(depth.macros);
        self.cost_depth = self.cost_depth.max(depth.cost);
        if 0 < depth.macros {
            self.nodes_in_macros += 1;
        }
        match &expression.expr {
            Expr::Select(select) => match fields_below(expression) {
                Some((id, variable, fields)) if !self.bound.iter().any(|name| name == variable) => {
                    self.name(id, variable, fields);
                }
                _ => self.expression(&select.operand, depth),
            },
            Expr::Call(call) => {
                if let (operators::INDEX, [indexed, key]) =
                    (call.func_name.as_str(), call.args.as_slice())
                {
                    self.key(indexed, key);
                }
                for inner in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
                    self.expression(inner, depth);
                }
            }
            Expr::Comprehension(comprehension) => {
                self.expression(&comprehension.iter_range, depth);
                let makes_a_list = matches!(comprehension.accu_init.expr, Expr::List(_));
                let within = Depth {
                    macros: depth.macros.saturating_add(1),
                    cost: depth.cost.saturating_add(if makes_a_list { 2 } else { 1 }),
                };
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
                    self.expression(inner, within);
                }
                self.bound.truncate(outside);
            }
            Expr::List(list) => {
                for inner in &list.elements {
                    self.expression(inner, depth);
                }
            }
            Expr::Map(map) => self.entries(&map.entries, depth),
            Expr::Struct(fields) => self.entries(&fields.entries, depth),
            Expr::Ident(name) if self.bound.contains(name) => {}
            Expr::Ident(name) => self.name(expression.id, name, Vec::new()),
            Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn entries(&mut self, entries: &[IdedEntryExpr], depth: Depth) {
        for entry in entries {
            match &entry.expr {
                EntryExpr::StructField(field) => self.expression(&field.value, depth),
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key, depth);
                    self.expression(&entry.value, depth);
                }
            }
        }
    }

    /// Notes that `indexed` is read at `key`.
    fn key(&mut self, indexed: &IdedExpr, key: &IdedExpr) {
        if let (Expr::Ident(name), Expr::Literal(LiteralValue::String(key))) =
            (&indexed.expr, &key.expr)
            && !self.bound.contains(name)
        {
            let keys = self.keys.entry(name.clone()).or_default();
            keys.insert(key.inner().to_owned());
        }
    }

    fn name(&mut self, id: u64, variable: &str, fields: Vec<&str>) {
        // A bare `object` would have to be converted whole: fields must be named.
        let is_declared = self.variables.contains(&variable);
        if !is_declared || variable == "object" && fields.is_empty() {
            self.undeclared.get_or_insert((variable.to_owned(), id));
            return;
        }
        self.need(variable, &fields);
        if let Some(first) = fields.first() {
            let keys = self.keys.entry(variable.to_owned()).or_default();
            keys.insert((*first).to_owned());
        }
        self.references.push(Reference {
            variable: variable.to_owned(),
            fields: fields.into_iter().map(str::to_owned).collect(),
            id,
        });
    }

    fn need(&mut self, variable: &str, fields: &[&str]) {
        let mut here = self.needs.entry(variable.to_owned()).or_default();
        for field in fields {
            here = here.fields.entry((*field).to_owned()).or_default();
        }
        here.is_whole = true;
    }
}

/// The variable, with its node, and the fields that `expression` names, if it is nothing but that.
fn fields_below(expression: &IdedExpr) -> Option<(u64, &str, Vec<&str>)> {
    let mut fields = Vec::new();
    let mut here = expression;
    loop {
        match &here.expr {
            Expr::Select(select) => {
                fields.push(select.field.as_str());
                here = &select.operand;
            }
            Expr::Ident(name) => {
                fields.reverse();
                return Some((here.id, name, fields));
            }
            _ => return None,
        }
    }
}
