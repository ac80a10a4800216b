//! Those who read the page: one, who has started the plugin, or all whom the API server knows by their tokens. What is
//! remembered of a user is found by his token alone, so nobody meets what another one was told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answers::{Turns, Viewer};
use super::guard::Token;
use super::problem::Problem;
use super::token::is_equal;
use crate::cluster::{ApiServer, ClusterError, who};
use crate::simulate::Assumed;

/// Answers for one user at a time, of those that are made for all. Others wait.
const ANSWERS_OF_ONE: usize = 3;
/// Tokens that nobody is known by, which the API server is asked about at a time.
const ARRIVALS_MAX: usize = 4;
/// Most tokens that are remembered.
const KNOWN_MAX: usize = 64;
/// How long a token is remembered. Then the API server is asked again whose it is.
const KNOWN_AGE_MAX: Duration = Duration::from_mins(5);

/// What the names of service accounts begin with.
const ACCOUNT: &str = "system:serviceaccount:";
/// Whom the API server takes those for who have no token.
const ANONYMOUS: &str = "system:anonymous";

/// One who reads, and his turns.
#[derive(Clone)]
pub struct Reader {
    viewer: Viewer,
    answers: Arc<Semaphore>,
    party: String,
}

impl Reader {
    /// The only one.
    pub fn only(viewer: Viewer) -> Self {
        Self {
            viewer,
            answers: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            party: String::new(),
        }
    }

    /// His turn at an answer.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.answers.clone().acquire_owned().await.ok()
    }

    /// Whom answers are made for.
    pub fn viewer(&self) -> Viewer {
        self.viewer.clone()
    }
}

/// Those who read.
pub enum Readers {
    /// The one who has started the plugin.
    One(Reader),
    /// Whoever has a token of the cluster.
    Users(Users),
}

/// Why nobody is known by a token.
#[derive(Debug)]
pub enum Stranger {
    /// The API server does not accept it.
    Unaccepted,
    /// It can't be asked.
    Unknown(Problem),
}

/// All whom the API server knows.
pub struct Users {
    server: ApiServer,
    namespace: Option<String>,
    assumed: Assumed,
    known: Mutex<Known<Reader>>,
    arrivals: Semaphore,
    turns: Turns,
}

impl Readers {
    /// Who reads with this token.
    ///
    /// # Errors
    /// The API server does not accept it, or can't be asked.
    pub async fn of(&self, token: &Token) -> Result<Reader, Stranger> {
        match self {
            Self::One(reader) => Ok(reader.clone()),
            Self::Users(users) => users.of(token).await,
        }
    }

    /// The API server has refused the token.
    pub fn forget(&self, token: &Token) {
        if let Self::Users(users) = self {
            users.known().forget(token);
        }
    }
}

impl Users {
    /// Those of this API server. Who may not look into all namespaces looks into `namespace`; without it an account looks
    /// into its own, and anybody else into `default`.
    pub fn new(server: ApiServer, namespace: Option<String>, assumed: Assumed) -> Self {
        Self {
            server,
            namespace,
            assumed,
            known: Mutex::new(Known(Vec::new())),
            arrivals: Semaphore::new(ARRIVALS_MAX),
            turns: Turns::new(),
        }
    }

    async fn of(&self, token: &Token) -> Result<Reader, Stranger> {
        let known = self.known().find(token, Instant::now());
        if let Some(reader) = known {
            return Ok(reader);
        }
        // The semaphore is never closed.
        let _turn = self.arrivals.acquire().await.ok();
        let known = self.known().find(token, Instant::now());
        if let Some(reader) = known {
            return Ok(reader);
        }
        let unknown = |error: &ClusterError| match error {
            ClusterError::Refused(status) if status.code == 401 => Stranger::Unaccepted,
            _ => Stranger::Unknown(Problem::of("who you are", error)),
        };
        let client = self.server.client(&token.0).await;
        let client = client.map_err(|error| unknown(&error))?;
        let name = match who(&client).await {
            Ok(name) => name,
            // Clusters may forbid the question.
            Err(error) => named_in(&error).ok_or_else(|| unknown(&error))?,
        };
        if name == ANONYMOUS {
            return Err(Stranger::Unaccepted);
        }
        let namespace = self.namespace.as_deref().or_else(|| home(&name));
        let namespace = namespace.unwrap_or("default").to_owned();
        let url = self.server.url().to_string();
        let viewer = Viewer::new(client, url, namespace, self.assumed.clone());
        let party = party(&name).to_owned();
        let mut known = self.known();
        // Several tokens of a party have the turns of one.
        let own = known
            .all()
            .find(|other| !party.is_empty() && other.party == party);
        let answers = own.map(|own| own.answers.clone());
        let reader = Reader {
            viewer: viewer.among(self.turns.clone(), name, party.clone()),
            answers: answers.unwrap_or_else(|| Arc::new(Semaphore::new(ANSWERS_OF_ONE))),
            party,
        };
        known.keep(token, reader.clone(), Instant::now());
        Ok(reader)
    }

    fn known(&self) -> MutexGuard<'_, Known<Reader>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom the API server forbids something: it knows whose the token is all the same.
fn named_in(error: &ClusterError) -> Option<String> {
    let ClusterError::Refused(status) = error else {
        return None;
    };
    let (_, after) = status.message.split_once("User \"")?;
    let (name, _) = after.split_once("\" cannot ")?;
    error.is_forbidden().then(|| name.to_owned())
}

/// The namespace of a service account, by its name as a user.
fn home(name: &str) -> Option<&str> {
    let (namespace, _) = name.strip_prefix(ACCOUNT)?.split_once(':')?;
    Some(namespace)
}

/// Who takes turns as one. All service accounts of a namespace do: whoever may make one may make many.
fn party(name: &str) -> &str {
    match home(name) {
        Some(_) => name.rsplit_once(':').map_or(name, |(account, _)| account),
        None => name,
    }
}

/// What is known by tokens, and since when; what was asked for last is last. It is compared with all that are known, each
/// in the same time, so no two are taken for each other.
struct Known<T>(Vec<(Token, Instant, T)>);

impl<T: Clone> Known<T> {
    fn find(&mut self, token: &Token, now: Instant) -> Option<T> {
        self.0
            .retain(|(_, since, _)| now.duration_since(*since) < KNOWN_AGE_MAX);
        let at = self
            .0
            .iter()
            .position(|(known, ..)| is_equal(&known.0, &token.0))?;
        let found = self.0.remove(at);
        let value = found.2.clone();
        self.0.push(found);
        Some(value)
    }

    fn keep(&mut self, token: &Token, value: T, now: Instant) {
        self.forget(token);
        if KNOWN_MAX <= self.0.len() {
            self.0.remove(0);
        }
        self.0.push((token.clone(), now, value));
    }

    fn forget(&mut self, token: &Token) {
        self.0.retain(|(known, ..)| !is_equal(&known.0, &token.0));
    }

    fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, _, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_is_known_by_a_token_is_for_nobody_else_and_not_for_long() {
        let token = |number: usize| Token(format!("token-{number}"));
        let (mut known, now) = (Known(Vec::new()), Instant::now());
        for number in 0..KNOWN_MAX {
            known.keep(&token(number), number, now);
        }
        for number in (0..KNOWN_MAX).rev() {
            assert_eq!(known.find(&token(number), now), Some(number));
        }
        for stranger in ["", "token-", "token-1 ", "token-100"] {
            assert_eq!(known.find(&Token(stranger.to_owned()), now), None);
        }
        // The one that nobody asked for goes.
        known.keep(&token(KNOWN_MAX), KNOWN_MAX, now);
        assert_eq!(known.find(&token(KNOWN_MAX - 1), now), None);
        assert_eq!(known.all().count(), KNOWN_MAX);
        known.forget(&token(0));
        assert_eq!(known.find(&token(0), now), None);
        assert_eq!(known.find(&token(1), now), Some(1));
        assert_eq!(known.find(&token(1), now + KNOWN_AGE_MAX), None);
        assert_eq!(known.all().count(), 0);
    }

    #[test]
    fn who_may_not_ask_who_he_is_is_named_by_the_refusal() {
        let refused = |code, message: &str| {
            let status = Status::failure(message, "").with_code(code);
            named_in(&ClusterError::Refused(status.boxed()))
        };
        let message = "selfsubjectreviews.authentication.k8s.io is forbidden: User \"jane\" cannot create resource";
        assert_eq!(refused(403, message).as_deref(), Some("jane"));
        assert_eq!(refused(500, message), None);
        assert_eq!(refused(403, "forbidden: not by this proxy"), None);
    }

    #[test]
    fn an_account_is_at_home_in_its_namespace() {
        assert_eq!(home("system:serviceaccount:blue:tenant"), Some("blue"));
        assert_eq!(home("jane"), None);
        assert_eq!(home("system:serviceaccount:blue"), None);
        let parties = [
            "system:serviceaccount:blue:a",
            "system:serviceaccount:blue:b",
        ]
        .map(party);
        assert_eq!(parties, ["system:serviceaccount:blue"; 2]);
        assert_eq!(party("ns:jane"), "ns:jane");
    }
}
