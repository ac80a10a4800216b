//! The secret in the address of the page, and a code for the browser that the plugin opens itself: it works once, and
//! not for long.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;

/// Random bytes of a token.
const BYTES: usize = 32;
/// How long a browser may take to start.
const CODE_AGE_MAX: Duration = Duration::from_mins(2);

/// The token of this run, and the code that stands for it once.
pub struct Tokens {
    session: String,
    code: Mutex<Option<(String, Instant)>>,
}

impl Tokens {
    /// New ones, and the code.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new() -> Result<(Self, String), getrandom::Error> {
        let (session, code) = (random()?, random()?);
        let until = Instant::now() + CODE_AGE_MAX;
        let tokens = Self {
            session,
            code: Mutex::new(Some((code.clone(), until))),
        };
        Ok((tokens, code))
    }

    /// The token.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Whether this is the token.
    pub fn is_session(&self, presented: &str) -> bool {
        is_equal(&self.session, presented)
    }

    /// Whether this is the code. It works once.
    pub fn redeem(&self, presented: &str, now: Instant) -> bool {
        let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let is_code = code
            .as_ref()
            .is_some_and(|(code, until)| now <= *until && is_equal(code, presented));
        if is_code {
            *code = None;
        }
        is_code
    }
}

fn is_equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_the_code_works_once_and_not_for_long() {
        let (tokens, code) = Tokens::new().unwrap();
        let (others, _) = Tokens::new().unwrap();
        assert_eq!(tokens.session().len(), 2 * BYTES);
        assert!(tokens.is_session(tokens.session()));
        assert!(!tokens.is_session(others.session()));
        assert!(!tokens.is_session("") && !tokens.is_session(&code));
        let now = Instant::now();
        assert!(!tokens.redeem("", now) && !tokens.redeem(tokens.session(), now));
        assert!(!tokens.redeem(&code, now + CODE_AGE_MAX + CODE_AGE_MAX));
        assert!(tokens.redeem(&code, now) && !tokens.redeem(&code, now));
    }
}
