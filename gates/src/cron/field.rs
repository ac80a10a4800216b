//! One field of a schedule: a list of numbers, ranges and steps. What the fields mean together is in `expression`.

use super::numbers::Numbers;

/// What a field may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldRule {
    /// What its numbers are, for a person.
    pub(crate) name: &'static str,
    /// Which there are, for a person.
    pub(crate) accepted: &'static str,
    pub(crate) min: i8,
    pub(crate) max: i8,
    /// Names in capitals, from `min` on.
    pub(crate) names: &'static [&'static str],
}

/// The numbers that a field names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) numbers: Numbers,
    /// Whether it has `*` or `?`, without a step.
    pub(crate) is_any: bool,
}

/// What is wrong with a field.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum FieldError {
    /// There is something that is no number of this field.
    #[error(
        "the {name} {part:?} must be {accepted}, or a range (1-5), a list (1,3) or a step (*/2) of these"
    )]
    Number {
        name: &'static str,
        part: String,
        accepted: &'static str,
    },
    /// A range begins behind its end.
    #[error(
        "the {name} range {part:?} must begin with its smaller number: write two ranges, such as \"22-23,0-5\""
    )]
    Reversed { name: &'static str, part: String },
    /// A step is zero, or no number.
    #[error("the {name} {part:?} must have a step of 1 or more behind the slash")]
    Step { name: &'static str, part: String },
}

impl FieldRule {
    /// Reads a field.
    pub(crate) fn parse(&self, text: &str) -> Result<Field, FieldError> {
        let mut field = Field {
            numbers: Numbers::default(),
            is_any: false,
        };
        for part in text.split(',') {
            let (numbers, is_any) = self.parse_part(part)?;
            field.numbers = field.numbers.union(numbers);
            field.is_any |= is_any;
        }
        Ok(field)
    }

    /// Reads one element of the list, and whether it is any number.
    fn parse_part(&self, part: &str) -> Result<(Numbers, bool), FieldError> {
        let (head, step) = match part.split_once('/') {
            None => (part, None),
            Some((head, step)) => (head, Some(self.parse_step(part, step)?)),
        };
        let is_any = matches!(head, "*" | "?");
        let (first, last) = if is_any {
            (self.min, self.max)
        } else if let Some((first, last)) = head.split_once('-') {
            (
                self.parse_number(part, first)?,
                self.parse_number(part, last)?,
            )
        } else {
            let first = self.parse_number(part, head)?;
            // As in a CronJob, `5/15` are 5, 20, 35 and 50.
            (first, if step.is_some() { self.max } else { first })
        };
        if last < first {
            let (name, part) = (self.name, part.to_owned());
            return Err(FieldError::Reversed { name, part });
        }
        let step = step.unwrap_or(1);
        Ok((Numbers::steps(first, last, step), is_any && step == 1))
    }

    fn parse_step(&self, part: &str, step: &str) -> Result<usize, FieldError> {
        let number = digits(step).and_then(|step| step.parse().ok());
        number.filter(|step| *step != 0).ok_or(FieldError::Step {
            name: self.name,
            part: part.to_owned(),
        })
    }

    fn parse_number(&self, part: &str, text: &str) -> Result<i8, FieldError> {
        let is_named = |name: &&str| name.eq_ignore_ascii_case(text);
        let named = (self.min..=self.max).zip(self.names);
        let named = named.into_iter().find(|(_, name)| is_named(name));
        let number = match named {
            Some((number, _)) => Some(number),
            None => digits(text).and_then(|text| text.parse().ok()),
        };
        let is_in_range = |number: &i8| (self.min..=self.max).contains(number);
        number.filter(is_in_range).ok_or(FieldError::Number {
            name: self.name,
            part: part.to_owned(),
            accepted: self.accepted,
        })
    }
}

/// The text, if it is nothing but digits: no sign.
fn digits(text: &str) -> Option<&str> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(text)
}
