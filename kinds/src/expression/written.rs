//! A part of an expression as its author may have written it, to be named in a message.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

/// Longest text, in bytes.
const BYTES_MAX: usize = 64;

/// How `part` is written.
pub(super) fn written(part: &IdedExpr) -> String {
    let text = text(part).unwrap_or_else(|| "a part of it".to_owned());
    let end = text.floor_char_boundary(BYTES_MAX);
    match text.get(..end) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text,
    }
}

/// None: it is too much for a message, as a macro is.
fn text(part: &IdedExpr) -> Option<String> {
    Some(match &part.expr {
        Expr::Ident(name) if name.starts_with(|first: char| first.is_alphabetic()) => name.clone(),
        Expr::Select(select) if select.test => {
            format!("has({}.{})", text(&select.operand)?, select.field)
        }
        Expr::Select(select) => format!("{}.{}", text(&select.operand)?, select.field),
        Expr::Literal(literal) => match literal {
            LiteralValue::Boolean(truth) => truth.inner().to_string(),
            LiteralValue::Bytes(_) => return None,
            LiteralValue::Double(number) => format!("{:?}", number.inner()),
            LiteralValue::Int(number) => number.inner().to_string(),
            LiteralValue::Null => "null".to_owned(),
            LiteralValue::String(text) => format!("{:?}", text.inner()),
            LiteralValue::UInt(number) => format!("{}u", number.inner()),
        },
        Expr::List(list) => format!("[{}]", texts(&list.elements)?),
        Expr::Call(call) => of_call(call)?,
        _ => return None,
    })
}

fn texts(parts: &[IdedExpr]) -> Option<String> {
    let texts: Option<Vec<_>> = parts.iter().map(text).collect();
    Some(texts?.join(", "))
}

fn of_call(call: &CallExpr) -> Option<String> {
    let CallExpr {
        func_name: name,
        target,
        args,
    } = call;
    match (name.as_str(), args.as_slice(), target) {
        (operators::INDEX, [whole, key], None) => Some(format!("{}[{}]", text(whole)?, text(key)?)),
        (operators::IN, [one, list], None) => Some(format!("{} in {}", text(one)?, text(list)?)),
        (operators::LOGICAL_NOT | operators::NEGATE, [one], None) => {
            Some(format!("{}{}", name.trim_end_matches('_'), text(one)?))
        }
        (operators::CONDITIONAL, [condition, yes, no], None) => {
            let (condition, yes, no) = (text(condition)?, text(yes)?, text(no)?);
            Some(format!("{condition} ? {yes} : {no}"))
        }
        (_, [one, other], None) if name.starts_with('_') => {
            let operator = name.trim_matches('_');
            Some(format!("{} {operator} {}", text(one)?, text(other)?))
        }
        (_, args, None) => Some(format!("{name}({})", texts(args)?)),
        (_, args, Some(target)) => Some(format!("{}.{name}({})", text(target)?, texts(args)?)),
    }
}
