//! Which requests are answered. A page of another site must not be able to ask, neither by a name that it has led to
//! 127.0.0.1 (DNS rebinding) nor from its own origin; and nobody without the token learns anything of the cluster.
//! Pure.

use std::time::Instant;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::token::Tokens;

/// Below it is what the cluster says; all else is the page itself.
pub const API: &str = "/api/";
/// Where the code may be changed for the token.
pub const SESSION: &str = "/api/session";
/// How the token is presented.
const SCHEME: &str = "Bearer ";

/// Decides about requests.
pub struct Guard {
    /// What the browser may call this server.
    hosts: [String; 2],
    tokens: Tokens,
}

/// The token that a request was let pass with. It may be another one when the answer is made.
#[derive(Debug, Clone, PartialEq, Eq)]
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
                "the header Host must be 127.0.0.1 or localhost with the port of this server",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "pages of other sites are not answered",
            ),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: open the address that kubectl sluice web printed",
            ),
        }
    }
}

impl Guard {
    /// For a server on this port.
    pub fn new(port: u16, tokens: Tokens) -> Self {
        Self {
            hosts: ["127.0.0.1", "localhost"].map(|host| format!("{host}:{port}")),
            tokens,
        }
    }

    /// The token.
    pub fn session(&self) -> String {
        self.tokens.session()
    }

    /// Waits until the code for the browser was presented twice. The token is another one then.
    pub async fn stolen(&self) {
        self.tokens.stolen().await;
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
        let host = match Header::of(headers, HOST.as_str()) {
            Header::One(host) if self.hosts.iter().any(|own| own == host) => host,
            _ => return Err(Refusal::Host),
        };
        match Header::of(headers, ORIGIN.as_str()) {
            Header::Absent => {}
            Header::One(origin) if origin.strip_prefix("http://") == Some(host) => {}
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
        let token = presented.and_then(|presented| {
            if self.tokens.is_session(presented) {
                Some(presented.to_owned())
            } else if path == SESSION {
                self.tokens.redeem(presented, now)
            } else {
                None
            }
        });
        token.map_or(Err(Refusal::Token), |token| Ok(Some(Token(token))))
    }
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
mod tests {
    use super::*;

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// What it is, its method, path and headers, and what becomes of it.
    type Case<'a> = (
        &'a str,
        &'a str,
        &'a str,
        Vec<(&'a str, &'a str)>,
        Result<(), Refusal>,
    );

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn only_the_page_itself_reads_and_only_with_the_token() {
        let (tokens, _) = Tokens::new().unwrap();
        let bearer = format!("Bearer {}", tokens.session());
        let bare = tokens.session();
        let guard = Guard::new(8001, tokens);
        let host = ("host", "127.0.0.1:8001");
        let token = ("authorization", bearer.as_str());
        let refused = |refusal| Err(refusal);
        let cases: Vec<Case> = vec![
            ("the page", "GET", "/", vec![host], Ok(())),
            (
                "by localhost",
                "GET",
                "/",
                vec![("host", "localhost:8001")],
                Ok(()),
            ),
            (
                "a link from a chat",
                "GET",
                "/jobs",
                vec![host, ("sec-fetch-site", "cross-site")],
                Ok(()),
            ),
            (
                "with the token",
                "GET",
                "/api/queues",
                vec![host, token],
                Ok(()),
            ),
            (
                "as a browser asks",
                "GET",
                "/api/queues",
                vec![
                    host,
                    token,
                    ("origin", "http://127.0.0.1:8001"),
                    ("sec-fetch-site", "same-origin"),
                ],
                Ok(()),
            ),
            (
                "a write",
                "POST",
                "/api/queues",
                vec![host, token],
                refused(Refusal::Method),
            ),
            ("HEAD", "HEAD", "/", vec![host], refused(Refusal::Method)),
            (
                "a preflight",
                "OPTIONS",
                "/api/queues",
                vec![host],
                refused(Refusal::Method),
            ),
            (
                "a rebound name",
                "GET",
                "/",
                vec![("host", "evil.example.com:8001")],
                refused(Refusal::Host),
            ),
            (
                "another port",
                "GET",
                "/",
                vec![("host", "127.0.0.1:80")],
                refused(Refusal::Host),
            ),
            (
                "no port",
                "GET",
                "/",
                vec![("host", "127.0.0.1")],
                refused(Refusal::Host),
            ),
            ("no host", "GET", "/", vec![], refused(Refusal::Host)),
            (
                "two hosts",
                "GET",
                "/",
                vec![host, ("host", "evil.example.com")],
                refused(Refusal::Host),
            ),
            (
                "another site",
                "GET",
                "/api/queues",
                vec![host, token, ("origin", "https://evil.example.com")],
                refused(Refusal::Origin),
            ),
            (
                "another port of this machine",
                "GET",
                "/api/queues",
                vec![host, token, ("origin", "http://127.0.0.1:9000")],
                refused(Refusal::Origin),
            ),
            (
                "the other name",
                "GET",
                "/api/queues",
                vec![host, token, ("origin", "http://localhost:8001")],
                refused(Refusal::Origin),
            ),
            (
                "a sandbox",
                "GET",
                "/",
                vec![host, ("origin", "null")],
                refused(Refusal::Origin),
            ),
            (
                "a script tag elsewhere",
                "GET",
                "/api/queues",
                vec![host, token, ("sec-fetch-site", "same-site")],
                refused(Refusal::Origin),
            ),
            (
                "no token",
                "GET",
                "/api/queues",
                vec![host],
                refused(Refusal::Token),
            ),
            (
                "another token",
                "GET",
                "/api/queues",
                vec![host, ("authorization", "Bearer 0123")],
                refused(Refusal::Token),
            ),
            (
                "no scheme",
                "GET",
                "/api/queues",
                vec![host, ("authorization", bare.as_str())],
                refused(Refusal::Token),
            ),
            (
                "two tokens",
                "GET",
                "/api/queues",
                vec![host, token, token],
                refused(Refusal::Token),
            ),
            (
                "in a cookie",
                "GET",
                "/api/queues",
                vec![host, ("cookie", bearer.as_str())],
                refused(Refusal::Token),
            ),
            (
                "nothing that is served",
                "GET",
                "/api/secrets",
                vec![host],
                refused(Refusal::Token),
            ),
        ];
        for (name, method, path, headers, expected) in cases {
            let request = request(method, path, &headers);
            let passed = guard.check(&request, Instant::now());
            assert_eq!(passed.map(drop), expected, "{name}");
        }
    }

    #[test]
    fn the_code_opens_a_session_once_and_nothing_else() {
        let (tokens, code) = Tokens::new().unwrap();
        let token = Token(tokens.session());
        let guard = Guard::new(8001, tokens);
        let bearer = format!("Bearer {code}");
        let headers = [
            ("host", "127.0.0.1:8001"),
            ("authorization", bearer.as_str()),
        ];
        let check = |path| guard.check(&request("GET", path, &headers), Instant::now());
        assert_eq!(check("/api/queues"), Err(Refusal::Token));
        assert_eq!(check("/api/session"), Ok(Some(token)));
        assert_eq!(check("/api/session"), Err(Refusal::Token));
    }

    #[test]
    fn a_code_that_is_presented_twice_ends_the_session_that_it_opened() {
        let (tokens, code) = Tokens::new().unwrap();
        let guard = Guard::new(8001, tokens);
        let check = |path, token: &str| {
            let bearer = format!("Bearer {token}");
            let headers = [
                ("host", "127.0.0.1:8001"),
                ("authorization", bearer.as_str()),
            ];
            guard.check(&request("GET", path, &headers), Instant::now())
        };
        let got = check("/api/session", &code);
        let Ok(Some(Token(stolen))) = got else {
            panic!("{got:?}");
        };
        assert!(check("/api/queues", &stolen).is_ok());
        assert_eq!(check("/api/session", &code), Err(Refusal::Token));
        assert_eq!(check("/api/queues", &stolen), Err(Refusal::Token));
        assert!(check("/api/queues", &guard.session()).is_ok());
    }
}
