//! Which requests pass, by their method, path and headers.

use super::*;

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn guard(tokens: &Arc<Tokens>) -> Guard {
    Guard::new(Site::loopback(8001), Access::Own(tokens.clone()))
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
    let guard = guard(&Arc::new(tokens));
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
    let guard = guard(&Arc::new(tokens));
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
    let tokens = Arc::new(tokens);
    let guard = guard(&tokens);
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
    assert!(check("/api/queues", &tokens.session()).is_ok());
}

#[test]
fn in_the_cluster_each_brings_a_token_of_his_own_to_the_public_address() {
    let site = "https://sluice.example.com".parse().unwrap();
    let guard = Guard::new(site, Access::Users);
    let host = ("host", "sluice.example.com");
    let token = ("authorization", "Bearer his.own");
    let own = ("origin", "https://sluice.example.com");
    let cases = [
        ("/", vec![host], Ok(None)),
        ("/", vec![("host", "10.0.0.1:8443")], Err(Refusal::Host)),
        ("/api/jobs", vec![token], Err(Refusal::Host)),
        ("/api/jobs", vec![host], Err(Refusal::SignIn)),
        (
            "/api/jobs",
            vec![host, ("authorization", "Bearer ")],
            Err(Refusal::SignIn),
        ),
        // The API server would take these as nobody's.
        (
            "/api/jobs",
            vec![host, ("authorization", "Bearer  x")],
            Err(Refusal::SignIn),
        ),
        (
            "/api/jobs",
            vec![host, ("authorization", "Bearer x y")],
            Err(Refusal::SignIn),
        ),
        (
            "/api/jobs",
            vec![host, ("authorization", "Basic eA==")],
            Err(Refusal::SignIn),
        ),
        ("/api/jobs", vec![host, token, token], Err(Refusal::SignIn)),
        (
            "/api/jobs",
            vec![host, token, ("origin", "http://sluice.example.com")],
            Err(Refusal::Origin),
        ),
        (
            "/api/jobs",
            vec![host, token, ("sec-fetch-site", "cross-site")],
            Err(Refusal::Origin),
        ),
        (
            "/api/jobs",
            vec![host, token, own, ("sec-fetch-site", "same-origin")],
            Ok(Some(Token("his.own".to_owned()))),
        ),
    ];
    for (path, headers, expected) in cases {
        let request = request("GET", path, &headers);
        let checked = guard.check(&request, Instant::now());
        assert_eq!(checked, expected, "{path} {headers:?}");
    }
}
