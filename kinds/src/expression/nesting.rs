//! How deep an expression nests, told from its text alone: parser and evaluator recurse, so depth is
//! stack, and what overflows the stack ends the process. Never less than what the parser will find.

/// How much a pair of brackets counts besides: the parser goes through all its rules for what is inside.
const BRACKET: usize = 3;

/// What stands between two brackets.
#[derive(Default)]
struct Level {
    /// Operators in a row: each nests what stands before it.
    operators: usize,
    /// Fields, indexes and calls in a row behind one operand.
    postfixes: usize,
    /// The deepest operand so far.
    deepest: usize,
}

impl Level {
    fn end_operand(&mut self) {
        self.deepest = self.deepest.max(self.postfixes);
        self.postfixes = 0;
    }

    fn end_argument(&mut self) -> usize {
        self.end_operand();
        let depth = self.operators.saturating_add(self.deepest);
        self.operators = 0;
        self.deepest = depth;
        depth
    }
}

/// The depth of `source`; of one whose brackets don't match, which the parser refuses, any.
pub(super) fn nesting(source: &str) -> usize {
    let mut levels = vec![Level::default()];
    let mut bytes = source.as_bytes();
    let mut before = 0_u8;
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        let is_inside = 1 < levels.len();
        let Some(level) = levels.last_mut() else {
            break;
        };
        match byte {
            b'\'' | b'"' => bytes = after_text(byte, matches!(before, b'r' | b'R'), rest),
            b'(' | b'[' | b'{' => {
                level.postfixes = level.postfixes.saturating_add(1);
                levels.push(Level::default());
            }
            b')' | b']' | b'}' if is_inside => {
                let inner = levels.pop().map_or(0, |mut level| level.end_argument());
                if let Some(level) = levels.last_mut() {
                    level.deepest = level.deepest.max(inner.saturating_add(BRACKET));
                }
            }
            b',' => {
                level.end_argument();
            }
            b'.' => level.postfixes = level.postfixes.saturating_add(1),
            // The second half of an operator.
            b'&' | b'|' | b'=' if byte == before || matches!(before, b'!' | b'<' | b'>') => {}
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'?'
            | b':' => {
                level.end_operand();
                level.operators = level.operators.saturating_add(1);
            }
            // `a in b`, or a name that ends so.
            b'n' if before == b'i' => {
                level.end_operand();
                level.operators = level.operators.saturating_add(1);
            }
            _ => {}
        }
        before = byte;
    }
    let depths = levels.into_iter().map(|mut level| level.end_argument());
    depths.fold(0, usize::saturating_add)
}

/// What comes behind the text that `quote` has begun.
fn after_text(quote: u8, is_raw: bool, text: &[u8]) -> &[u8] {
    let triple = [quote; 3];
    let (end, mut rest): (&[u8], _) = match text {
        [first, second, rest @ ..] if *first == quote && *second == quote => (&triple, rest),
        _ => (&triple[..1], text),
    };
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(end) {
            return behind;
        }
        let skipped = if rest.first() == Some(&b'\\') && !is_raw {
            2
        } else {
            1
        };
        rest = rest.get(skipped..).unwrap_or_default();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_told_from_the_text() {
        let cases = [
            ("1", 0),
            ("a.b.c", 2),
            ("a.b + c.d.e", 3),
            ("a && b && c", 2),
            ("!!a", 2),
            ("(((1)))", 9),
            ("f(a, b, c)", 3),
            ("f(a + b, c.d)", 4),
            ("a[0][1]", 3),
            ("x == '((((' && y", 2),
            ("x == \")))\" + '\\'(('", 2),
            ("r'\\' + (1)", 4),
            ("'''it's (''' + 'x'", 1),
            ("a ? b : c ? d : e", 4),
            ("a in [1]", 4),
            ("))((", 2),
        ];
        for (source, expected) in cases {
            assert_eq!(nesting(source), expected, "{source}");
        }
    }
}
