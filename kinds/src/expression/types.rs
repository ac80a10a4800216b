//! The types of the parts of an expression, as far as they are known before there is an object. CEL compares values of
//! different types without an error: they are never equal. So a comparison that can't be true is found here, and not
//! when it has let everything through.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};

use crate::expression::written::written;

/// The type of a value. What is below `object` has none: nothing is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A bool.
    Bool,
    /// A whole number.
    Int,
    /// A whole number that is not negative.
    Uint,
    /// A number.
    Double,
    /// A string.
    Text,
    /// Bytes.
    Bytes,
    /// null.
    Null,
    /// A list, and what is in it if that is known.
    List(Option<Box<Type>>),
    /// A map with strings as keys, and what is in it if that is known.
    Map(Option<Box<Type>>),
}

impl Type {
    fn name(&self) -> &'static str {
        match self {
            Self::Bool => "a bool",
            Self::Int => "an int",
            Self::Uint => "a uint",
            Self::Double => "a double",
            Self::Text => "a string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// Without its article.
    fn noun(&self) -> &'static str {
        let name = self.name();
        name.split_once(' ').map_or(name, |(_, noun)| noun)
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// Whether values of both may be equal. Numbers are equal across their types.
    fn may_equal(&self, other: &Self) -> bool {
        let within = |one: &Option<Box<Self>>, other: &Option<Box<Self>>| match (one, other) {
            (Some(one), Some(other)) => one.may_equal(other),
            _ => true,
        };
        match (self, other) {
            (Self::List(one), Self::List(other)) | (Self::Map(one), Self::Map(other)) => {
                within(one, other)
            }
            _ => self == other || self.is_number() && other.is_number(),
        }
    }
}

/// A walk that stops at the first part whose types don't fit.
pub(super) struct Check<'a> {
    declared: &'a dyn Fn(&str) -> Option<Type>,
    /// The variables of the macros around the place that is looked at, the innermost last.
    bound: Vec<(String, Option<Type>)>,
}

/// The type of a part, if it is known; or what does not fit in it.
type Found = Result<Option<Type>, Mismatch>;

/// What does not fit, as a sentence for the user.
struct Mismatch(String);

/// What does not fit in `expression`, whatever an object holds. `declared` says of which type a variable is.
pub(super) fn mismatch(
    expression: &IdedExpr,
    declared: &dyn Fn(&str) -> Option<Type>,
) -> Option<String> {
    let mut check = Check {
        declared,
        bound: Vec::new(),
    };
    check.part(expression).err().map(|Mismatch(text)| text)
}

impl Check<'_> {
    fn part(&mut self, part: &IdedExpr) -> Found {
        match &part.expr {
            Expr::Literal(literal) => Ok(Some(of_literal(literal))),
            Expr::Ident(name) => {
                let bound = self.bound.iter().rev().find(|(known, _)| known == name);
                Ok(match bound {
                    Some((_, of)) => of.clone(),
                    None => (self.declared)(name),
                })
            }
            Expr::Select(select) => match self.part(&select.operand)? {
                Some(Type::Map(_)) if select.test => Ok(Some(Type::Bool)),
                Some(Type::Map(of)) => Ok(of.map(|of| *of)),
                Some(of) => Err(Mismatch(format!(
                    "{} is {} and has no fields",
                    written(&select.operand),
                    of.name()
                ))),
                None => Ok(select.test.then_some(Type::Bool)),
            },
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                let mut all = Vec::new();
                for element in &list.elements {
                    all.push(self.part(element)?);
                }
                Ok(Some(Type::List(of_all(all).map(Box::new))))
            }
            Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => Ok(None),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Found {
        let mut of = Vec::new();
        for argument in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
            of.push(self.part(argument)?);
        }
        let operator = call.func_name.as_str();
        match (operator, call.args.as_slice(), of.as_slice()) {
            (operators::EQUALS | operators::NOT_EQUALS, [one, other], [left, right]) => {
                compared(operator, (one, left), (other, right))?;
                Ok(Some(Type::Bool))
            }
            (
                operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS,
                [one, other],
                [left, right],
            ) => {
                compared(operator, (one, left), (other, right))?;
                has_order((one, left))?;
                has_order((other, right))?;
                Ok(Some(Type::Bool))
            }
            (operators::IN, [one, list], [left, right]) => {
                is_in((one, left), (list, right), &mut |part| self.part(part))?;
                Ok(Some(Type::Bool))
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, args, of) => {
                args.iter().zip(of).try_for_each(is_bool)?;
                Ok(Some(Type::Bool))
            }
            (operators::CONDITIONAL, [condition, ..], [of, yes, no]) => {
                is_bool((condition, of))?;
                Ok(of_all([yes.clone(), no.clone()]))
            }
            (operators::INDEX, [whole, key], [of, key_type]) => {
                at_index((whole, of), (key, key_type))
            }
            (
                operators::ADD
                | operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO,
                [one, other],
                [left, right],
            ) => calculated(operator, (one, left), (other, right)),
            (operators::NEGATE, _, [of]) => Ok(of.clone()),
            ("contains" | "startsWith" | "endsWith" | "matches" | "bool", _, _) => {
                Ok(Some(Type::Bool))
            }
            ("size" | "int", _, _) => Ok(Some(Type::Int)),
            ("uint", _, _) => Ok(Some(Type::Uint)),
            ("double", _, _) => Ok(Some(Type::Double)),
            ("string", _, _) => Ok(Some(Type::Text)),
            _ => Ok(None),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Found {
        let element = match self.part(&comprehension.iter_range)? {
            Some(Type::List(of)) if comprehension.iter_var2.is_none() => of.map(|of| *of),
            Some(Type::Map(_)) if comprehension.iter_var2.is_none() => Some(Type::Text),
            _ => None,
        };
        let accumulated = self.part(&comprehension.accu_init)?;
        let outside = self.bound.len();
        self.bound.push((comprehension.iter_var.clone(), element));
        let second = comprehension.iter_var2.clone();
        self.bound.extend(second.map(|name| (name, None)));
        self.bound
            .push((comprehension.accu_var.clone(), accumulated));
        self.part(&comprehension.loop_cond)?;
        self.part(&comprehension.loop_step)?;
        let result = self.part(&comprehension.result)?;
        self.bound.truncate(outside);
        Ok(result)
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// The type that all of these have, if it is one.
fn of_all(all: impl IntoIterator<Item = Option<Type>>) -> Option<Type> {
    let mut all = all.into_iter();
    let first = all.next()??;
    all.all(|of| of.as_ref() == Some(&first)).then_some(first)
}

/// A part and its type.
type Typed<'a> = (&'a IdedExpr, &'a Option<Type>);

fn compared(operator: &str, one: Typed<'_>, other: Typed<'_>) -> Result<(), Mismatch> {
    let ((left, Some(left_type)), (right, Some(right_type))) = (one, other) else {
        return Ok(());
    };
    if left_type.may_equal(right_type) {
        return Ok(());
    }
    let operator = operator.trim_matches('_');
    Err(differ(
        (left, left_type),
        (right, right_type),
        operator,
        "can't compare them",
    ))
}

fn has_order((part, of): Typed<'_>) -> Result<(), Mismatch> {
    match of {
        Some(of @ (Type::List(_) | Type::Map(_) | Type::Null)) => Err(Mismatch(format!(
            "{} is {} and has no order",
            written(part),
            of.name()
        ))),
        _ => Ok(()),
    }
}

fn is_bool((part, of): Typed<'_>) -> Result<(), Mismatch> {
    match of {
        None | Some(Type::Bool) => Ok(()),
        Some(of) => Err(Mismatch(format!(
            "{} is {}, not a bool",
            written(part),
            of.name()
        ))),
    }
}

/// Whether the first may be in the second. Of a list that stands in the text each element is asked about.
fn is_in(
    (one, left): Typed<'_>,
    (list, right): Typed<'_>,
    type_of: &mut dyn FnMut(&IdedExpr) -> Found,
) -> Result<(), Mismatch> {
    let never = |part: &IdedExpr, of: &Type, other: &Type| {
        Err(Mismatch(format!(
            "{} is {}, so it never equals {}, which is {}",
            written(part),
            other.name(),
            written(one),
            of.name()
        )))
    };
    if let (Expr::List(elements), Some(of)) = (&list.expr, left) {
        for element in &elements.elements {
            match type_of(element)? {
                Some(other) if !of.may_equal(&other) => return never(element, of, &other),
                _ => {}
            }
        }
        return Ok(());
    }
    match (left, right) {
        (Some(of), Some(Type::List(Some(element)))) if !of.may_equal(element) => {
            Err(Mismatch(format!(
                "{} is a list of {}, so it never contains {}, which is {}",
                written(list),
                element.noun(),
                written(one),
                of.name()
            )))
        }
        (Some(of), Some(Type::Map(_))) if *of != Type::Text => Err(Mismatch(format!(
            "{} is a map with string keys, so it never contains {}, which is {}",
            written(list),
            written(one),
            of.name()
        ))),
        (_, None | Some(Type::List(_) | Type::Map(_))) => Ok(()),
        (_, Some(of)) => Err(Mismatch(format!(
            "{} is {}, and in looks in lists and maps",
            written(list),
            of.name()
        ))),
    }
}

fn at_index((whole, of): Typed<'_>, (key, key_type): Typed<'_>) -> Found {
    let (fits, needs, inner) = match of {
        None => return Ok(None),
        Some(Type::List(inner)) => (Type::Int, "an int", inner),
        Some(Type::Map(inner)) => (Type::Text, "a string", inner),
        Some(of) => {
            return Err(Mismatch(format!(
                "{} is {} and can't be indexed",
                written(whole),
                of.name()
            )));
        }
    };
    match key_type {
        Some(key_type) if !key_type.may_equal(&fits) => Err(Mismatch(format!(
            "{} is indexed by {needs}, and {} is {}",
            written(whole),
            written(key),
            key_type.name()
        ))),
        _ => Ok(inner.as_deref().cloned()),
    }
}

fn calculated(operator: &str, one: Typed<'_>, other: Typed<'_>) -> Found {
    let ((left, Some(left_type)), (right, Some(right_type))) = (one, other) else {
        return Ok(None);
    };
    if matches!((left_type, right_type), (Type::List(_), Type::List(_))) {
        return Ok(Some(Type::List(None)));
    }
    if left_type == right_type {
        return Ok(Some(left_type.clone()));
    }
    let operator = operator.trim_matches('_');
    let both = ((left, left_type), (right, right_type));
    Err(differ(both.0, both.1, operator, "needs two of one type"))
}

fn differ(
    (left, left_type): (&IdedExpr, &Type),
    (right, right_type): (&IdedExpr, &Type),
    operator: &str,
    rule: &str,
) -> Mismatch {
    let (is, other) = (left_type.name(), right_type.name());
    let (left, right) = (written(left), written(right));
    Mismatch(format!(
        "{left} is {is} and {right} is {other}: {operator} {rule}"
    ))
}
