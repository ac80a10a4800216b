//! Which requests are answered. A page of another site must not be able to ask, neither by a name that it has led to
//! 127.0.0.1 (DNS rebinding) nor from its own origin; and nobody without a token learns anything of the cluster.
//! Pure.

use std::sync::Arc;
use std::time::Instant;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::site::Site;
use super::token::Tokens;

/// Below it is what the cluster says; all else is the page itself.
pub const API: &str = "/api/";
/// Where the code may be changed for the token.
pub const SESSION: &str = "/api/session";
/// How the token is presented.
const SCHEME: &str = "Bearer ";

/// Decides about requests.
pub struct Guard {
    site: Site,
    access: Access,
}

/// Whose tokens let a request pass.
pub enum Access {
    /// Those of this run.
    Own(Arc<Tokens>),
    /// Any: the API server knows whose they are, and is asked with them.
    Users,
}

/// The token that a request was let pass with. It may be another one when the answer is made.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub struct Token(pub String);

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It wants to do something else than read.
    Method,
    /// It is for another host.
    Host,
    /// It comes from a page of another site.
    Origin,
    /// It has not the token.
    Token,
    /// It has no token of a user.
    SignIn,
    /// The API server knows no user of its token.
    Unaccepted,
}

impl Refusal {
    /// The status and the text of the answer.
    pub fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET is answered: the page reads and changes nothing",
            ),
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "the header Host must be that of the page's address: 127.0.0.1 or localhost with the port of this server, or \
                 the host of --public-url",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "pages of other sites are not answered",
            ),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: open the address that kubectl sluice web printed",
            ),
            Self::SignIn => (
                StatusCode::UNAUTHORIZED,
                "no token of the cluster came with the request",
            ),
            Self::Unaccepted => (
                StatusCode::UNAUTHORIZED,
                "the cluster does not accept the token: it may have expired",
            ),
        }
    }
}

impl Guard {
    /// For a server of these names.
    pub fn new(site: Site, access: Access) -> Self {
        Self { site, access }
    }

    /// Whether browsers reach the page by TLS alone.
    pub fn is_https(&self) -> bool {
        self.site.is_https()
    }

    /// Whether each user comes with a token of the cluster.
    pub fn is_of_users(&self) -> bool {
        matches!(self.access, Access::Users)
    }

    /// Lets a request pass. If it needs the token, that is what it has presented, or got for the code.
    ///
    /// # Errors
    /// Why it is not answered.
    pub fn check(&self, request: &Parts, now: Instant) -> Result<Option<Token>, Refusal> {
        if request.method != Method::GET {
            return Err(Refusal::Method);
        }
        let headers = &request.headers;
        let own = match Header::of(headers, HOST.as_str()) {
            Header::One(host) => self.site.origin(host),
            Header::Absent | Header::Bad => None,
        };
        let own = own.ok_or(Refusal::Host)?;
        match Header::of(headers, ORIGIN.as_str()) {
            Header::Absent => {}
            Header::One(origin) if origin == own => {}
            _ => return Err(Refusal::Origin),
        }
        let path = request.uri.path();
        if !path.starts_with(API) {
            return Ok(None);
        }
        // A browser says where a request comes from. `none` is the user himself.
        match Header::of(headers, "sec-fetch-site") {
            Header::Absent | Header::One("same-origin" | "none") => {}
            _ => return Err(Refusal::Origin),
        }
        let presented = match Header::of(headers, AUTHORIZATION.as_str()) {
            Header::One(header) => header.strip_prefix(SCHEME),
            _ => None,
        };
        let tokens = match &self.access {
            Access::Own(tokens) => tokens,
            Access::Users => {
                let token = presented.filter(|presented| is_token(presented));
                let token = token.ok_or(Refusal::SignIn)?;
                return Ok(Some(Token(token.to_owned())));
            }
        };
        let token = presented.and_then(|presented| {
            if tokens.is_session(presented) {
                Some(presented.to_owned())
            } else if path == SESSION {
                tokens.redeem(presented, now)
            } else {
                None
            }
        });
        token.map_or(Err(Refusal::Token), |token| Ok(Some(Token(token))))
    }
}

/// Whether the API server takes it as a token: one word of these letters. Where the word is empty, as after a second space,
/// it takes the request as one without a token.
fn is_token(presented: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-._~+/=".contains(letter);
    !presented.is_empty() && presented.chars().all(is_letter)
}

/// A header of a request.
enum Header<'a> {
    Absent,
    One(&'a str),
    /// It is there twice, or is no text.
    Bad,
}

impl<'a> Header<'a> {
    fn of(headers: &'a HeaderMap, name: &str) -> Self {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Self::Absent,
            (Some(value), None) => value.to_str().map_or(Self::Bad, Self::One),
            (Some(_), Some(_)) => Self::Bad,
        }
    }
}

#[cfg(test)]
mod tests;
