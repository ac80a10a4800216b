//! The secret in the address of the page, and a code for the browser that the plugin opens itself: it works once, and
//! not for long.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;
use tokio::sync::Notify;

use super::invitation::Invitation;

/// Random bytes of a token.
const BYTES: usize = 32;
/// How long a browser may take to start.
const CODE_AGE_MAX: Duration = Duration::from_mins(2);

/// The token of this run, and the code that stands for it once.
pub struct Tokens {
    state: Mutex<State>,
    stolen: Notify,
}

struct State {
    session: String,
    /// What becomes the token if the code was stolen. It is made beforehand: random bytes may fail.
    next: String,
    code: Code,
}

/// The code, and what became of it.
enum Code {
    /// Nobody has presented it. What holds it for the browser goes away when somebody does.
    Fresh(String, Instant, Option<Invitation>),
    /// Somebody has got the token for it.
    Spent(String),
    /// Two have presented it.
    Stolen,
}

impl Tokens {
    /// New ones, and the code.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new() -> Result<(Self, String), getrandom::Error> {
        let (session, next, code) = (random()?, random()?, random()?);
        let until = Instant::now() + CODE_AGE_MAX;
        let state = State {
            session,
            next,
            code: Code::Fresh(code.clone(), until, None),
        };
        let tokens = Self {
            state: Mutex::new(state),
            stolen: Notify::new(),
        };
        Ok((tokens, code))
    }

    /// The token.
    pub fn session(&self) -> String {
        self.state().session.clone()
    }

    /// Whether this is the token.
    pub fn is_session(&self, presented: &str) -> bool {
        is_equal(&self.state().session, presented)
    }

    /// Keeps what holds the code for the browser, until the code is spent.
    pub fn keep(&self, invitation: Invitation) {
        if let Code::Fresh(_, _, kept) = &mut self.state().code {
            *kept = Some(invitation);
        }
    }

    /// The token, if this is the code. It works once. Who presents it after somebody else may be the reader, and the other
    /// one a thief, so the token that was got for it no longer is one.
    pub fn redeem(&self, presented: &str, now: Instant) -> Option<String> {
        let mut state = self.state();
        match &state.code {
            Code::Fresh(code, until, _) if now <= *until && is_equal(code, presented) => {
                state.code = Code::Spent(presented.to_owned());
                Some(state.session.clone())
            }
            Code::Spent(code) if is_equal(code, presented) => {
                state.session = std::mem::take(&mut state.next);
                state.code = Code::Stolen;
                self.stolen.notify_one();
                None
            }
            _ => None,
        }
    }

    /// Waits until the code was presented twice. The token is another one then.
    pub async fn stolen(&self) {
        self.stolen.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two secrets are the same, in a time that says nothing of where they differ.
pub(super) fn is_equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// Random bytes, as digits.
///
/// # Errors
/// The system gives none.
pub(super) fn random() -> Result<String, getrandom::Error> {
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
        assert!(tokens.is_session(&tokens.session()));
        assert!(!tokens.is_session(&others.session()));
        assert!(!tokens.is_session("") && !tokens.is_session(&code));
        let now = Instant::now();
        let redeem = |presented: &str, now| tokens.redeem(presented, now);
        assert_eq!(redeem("", now), None);
        assert_eq!(redeem(&tokens.session(), now), None);
        assert_eq!(redeem(&code, now + CODE_AGE_MAX + CODE_AGE_MAX), None);
        assert_eq!(redeem(&code, now), Some(tokens.session()));
        assert_eq!(redeem(&code, now), None);
    }

    #[tokio::test]
    async fn a_code_that_two_present_ends_the_session_once() {
        let (tokens, code) = Tokens::new().unwrap();
        let (first, now) = (tokens.session(), Instant::now());
        assert_eq!(tokens.redeem(&code, now).as_ref(), Some(&first));
        assert!(tokens.is_session(&first));
        assert_eq!(tokens.redeem(&code, now), None);
        assert!(!tokens.is_session(&first));
        tokens.stolen().await;
        let second = tokens.session();
        assert_eq!(second.len(), 2 * BYTES);
        assert_eq!(tokens.redeem(&code, now), None);
        assert!(tokens.is_session(&second));
        assert!(!tokens.is_session(""));
    }
}
