//! Who asks, as the front proxy says, and how many questions each may have at a time: one tenant who asks much makes no
//! other wait.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::problem::Problem;

/// Set by the front proxy of every API server that is started as Kubernetes' documentation says.
const USER: &str = "x-remote-user";
/// Questions that one caller may have at a time.
pub const QUESTIONS_MAX: usize = 16;

/// Who asks. All service accounts of a namespace are one: whoever may make one may make many.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller(Arc<str>);

impl Caller {
    /// The caller of this user name.
    pub fn of(user: &str) -> Self {
        let account = user.strip_prefix("system:serviceaccount:");
        let namespace = account.and_then(|account| account.split(':').next());
        Self(match namespace {
            Some(namespace) => format!("system:serviceaccount:{namespace}").into(),
            None => user.into(),
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let user = parts.headers.get(USER);
        let user = user.map(|user| String::from_utf8_lossy(user.as_bytes()));
        Ok(Self::of(&user.unwrap_or_default()))
    }
}

/// Those who ask, and how many of their questions are not answered yet.
#[derive(Debug, Clone, Default)]
pub struct Callers(Arc<Mutex<BTreeMap<Caller, usize>>>);

/// A question that is not answered yet.
#[derive(Debug)]
pub struct Question {
    caller: Caller,
    callers: Callers,
}

impl Callers {
    /// One more question.
    ///
    /// # Errors
    /// The caller has as many as it may.
    pub fn ask(&self, caller: &Caller) -> Result<Question, Problem> {
        let mut counts = self.lock();
        let count = counts.entry(caller.clone()).or_default();
        if QUESTIONS_MAX <= *count {
            return Err(Problem::Busy);
        }
        *count += 1;
        Ok(Question {
            caller: caller.clone(),
            callers: self.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Caller, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut counts = self.callers.lock();
        if let Some(count) = counts.get_mut(&self.caller) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_has_so_many_questions_and_others_have_theirs() {
        let callers = Callers::default();
        let ask = |user: &str| callers.ask(&Caller::of(user));
        let mut asked: Vec<_> = (0..QUESTIONS_MAX).map(|_| ask("anna").unwrap()).collect();
        assert_eq!(ask("anna").unwrap_err(), Problem::Busy);
        ask("berta").unwrap();
        asked.pop();
        ask("anna").unwrap();
        drop(asked);
        assert!(callers.lock().is_empty());
    }

    #[test]
    fn service_accounts_of_a_namespace_are_one_caller() {
        let of = |user: &str| Caller::of(user);
        assert_eq!(
            of("system:serviceaccount:blue:a"),
            of("system:serviceaccount:blue:b")
        );
        assert_ne!(
            of("system:serviceaccount:blue:a"),
            of("system:serviceaccount:red:a")
        );
        assert_ne!(of("anna"), of("berta"));
    }
}
