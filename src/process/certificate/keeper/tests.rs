//! When a new certificate may be served, and who makes it.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Mutex;

use http::{Method, Request, Response};
use k8s_openapi::jiff::SignedDuration;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

/// A keeper that serves another certificate, and that has known for long that this one is trusted.
fn keeper(certificate: &str) -> CertificateKeeper {
    let never = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
    let slot = Arc::new(CertificateSlot::default());
    let ca = issue_ca(Timestamp::now()).unwrap();
    let served = issue_serving(&ca, &["old".to_owned()], &[], Timestamp::now()).unwrap();
    slot.set(certified_key(&served).unwrap());
    let mut keeper = CertificateKeeper::new(
        Client::new(never, "default"),
        "sluice-system",
        &[],
        slot,
        Arc::new(Term::new()),
        Arc::new(Metrics::new()),
        Notices::default(),
    );
    keeper.trusted = Some((certificate.to_owned(), Moment::from_millis(0)));
    keeper
}

#[tokio::test]
async fn trust_comes_before_use() {
    for (name, trust, expected) in [
        ("known for long", Trust::InPlace, true),
        ("just told", Trust::Mended, false),
        ("not told yet", Trust::Stale, false),
        ("nobody to tell", Trust::Missing, true),
    ] {
        assert_eq!(keeper("new").follow_trust("new", trust), expected, "{name}");
    }
}

/// Whoever takes the CA away at the last moment has API servers hear of it anew.
#[tokio::test]
async fn a_ca_that_was_put_back_has_to_spread_again() {
    let mut keeper = keeper("new");
    assert!(!keeper.follow_trust("new", Trust::Mended));
    assert!(!keeper.follow_trust("new", Trust::InPlace));
}

#[tokio::test]
async fn what_cert_manager_issues_is_served_once_its_ca_is_trusted() {
    // It does not lead, so it waits for the leader to trust a CA.
    let keeper = keeper("new");
    let api: Api<Secret> = Api::namespaced(keeper.client.clone(), "sluice-system");
    let ca = issue_ca(Timestamp::now()).unwrap();
    let pair = issue_serving(&ca, &["new".to_owned()], &[], Timestamp::now()).unwrap();
    let secret = |ca: &str, bundle: &str| {
        let data = [
            (CA, ca),
            (BUNDLE, bundle),
            (CERTIFICATE, &*pair.certificate_pem),
            (KEY, &*pair.key_pem),
        ];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.into())));
        Secret {
            data: Some(data.into()),
            ..Secret::default()
        }
    };
    let ca = &*ca.certificate_pem;
    for (name, secret, is_served) in [
        ("nothing issued yet", Secret::default(), false),
        ("not trusted yet", secret(ca, "another"), false),
        ("trusted", secret(ca, &format!("another\n{ca}")), true),
    ] {
        let kept = keeper.kept_by_cert_manager(&api, secret).await.unwrap();
        assert_eq!(kept.is_some(), is_served, "{name}");
    }
    let told = keeper.kept_by_cert_manager(&api, secret("", "")).await;
    assert_eq!(
        told.unwrap_err().to_string(),
        "Secret sluice-webhook-certificate: cert-manager has put no ca.crt into it: the issuer must be one that does, such as those of kind CA or SelfSigned"
    );
}

/// The Secret with what was issued so many days ago, as cert-manager annotates it.
fn kept(days: i64) -> Secret {
    let then = Timestamp::now() - SignedDuration::from_hours(24 * days);
    let ca = issue_ca(then).unwrap();
    let pair = issue_serving(&ca, &["new".to_owned()], &[], then).unwrap();
    let data = [
        (CA, &ca.certificate_pem),
        (BUNDLE, &ca.certificate_pem),
        (CERTIFICATE, &pair.certificate_pem),
        (KEY, &pair.key_pem),
    ];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into())));
    let mut secret = Secret {
        data: Some(data.into()),
        ..Secret::default()
    };
    for key in [CERT_MANAGER_ANNOTATION, "cert-manager.io/issuer-name"] {
        let value = "sluice-webhook".to_owned();
        secret.annotations_mut().insert(key.to_owned(), value);
    }
    secret.metadata.resource_version = Some("7".to_owned());
    secret
}

/// A certificate of Sluice's own that was made so many days ago.
fn own(days: i64) -> Secret {
    let mut secret = kept(days);
    secret.metadata.annotations = None;
    secret
}

/// A client of an API server that has this Secret and refuses each write of it; what is asked for is counted by method. All
/// webhook configurations lack the CA.
fn refusing(secret: &Secret, asked: &Arc<Mutex<Vec<Method>>>) -> Client {
    let (secret, asked) = (secret.clone(), asked.clone());
    let service = service_fn(move |request: Request<Body>| {
        let is_secret = request.uri().path().contains("/secrets/");
        let method = request.method().clone();
        let refused = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": "secrets is forbidden"});
        let webhook = json!({"name": "a.b.c", "clientConfig": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        let (code, body) = match (is_secret, &method) {
            (true, &Method::PUT) => (403, refused),
            (true, _) => (200, json!(secret)),
            (false, _) => (
                200,
                json!({"metadata": {"name": "sluice"}, "webhooks": [webhook]}),
            ),
        };
        asked.lock().unwrap().push(method);
        let body = Body::from(body.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
    });
    Client::new(service, "default")
}

/// The right to write the Secret may be gone for weeks: a certificate that is valid is served until its end, by a leader that
/// starts meanwhile too, and webhook configurations that are applied anew get its CA.
#[tokio::test]
async fn what_can_not_be_renewed_is_served_and_trusted() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let count = |method: &Method| {
        let asked = asked.lock().unwrap();
        asked.iter().filter(|one| *one == method).count()
    };
    let mut keeper = keeper("new");
    keeper.slot = Arc::new(CertificateSlot::default());
    let (secret, lead) = (own(70), Duration::from_mins(1));
    keeper.client = refusing(&secret, &asked);
    keeper.term.extend(Moment::now().after(lead));
    keeper.look().await.unwrap();
    assert!(keeper.slot.is_set());
    let certificate = text(&secret.data.unwrap(), CERTIFICATE);
    assert_eq!(keeper.served, certificate);
    assert!(0 < count(&Method::PATCH), "the CA was put in place");
    // It is tried again later, and not with each look.
    let patched = count(&Method::PATCH);
    keeper.look().await.unwrap();
    assert_eq!(count(&Method::PUT), 1);
    assert!(patched < count(&Method::PATCH), "and is looked after");
    keeper.retry_at = Some(Moment::from_millis(0));
    keeper.look().await.unwrap();
    assert_eq!(count(&Method::PUT), 2);
    assert_eq!(keeper.served, certificate);
}

/// Other replicas may serve a new certificate while the leader still waits, and can't read the Secret any more.
#[tokio::test]
async fn a_newer_ca_is_not_taken_away_again() {
    let mut keeper = keeper("before");
    keeper.served = "before".to_owned();
    keeper.bundle = "the CA before".to_owned();
    let lead = Duration::from_mins(1);
    keeper.term.extend(Moment::now().after(lead));
    let (secret, patches) = (own(70), Arc::new(Mutex::new(Vec::new())));
    let bundle = text(secret.data.as_ref().unwrap(), BUNDLE);
    keeper.client = untrusting(Some(&secret), &patches);
    keeper.look().await.unwrap();
    assert_eq!(keeper.served, "before");
    keeper.client = untrusting(None, &patches);
    let was_told = std::mem::take(&mut *patches.lock().unwrap());
    keeper.look().await.unwrap_err();
    let is_told = patches.lock().unwrap().clone();
    assert!(!was_told.is_empty() && !is_told.is_empty());
    let expected = ByteString(bundle.into_bytes());
    for told in was_told.iter().chain(&is_told) {
        let told = &told["webhooks"][0]["clientConfig"]["caBundle"];
        assert_eq!(*told, json!(expected));
    }
}

/// A client of an API server with this Secret, which it lets nobody replace, and whose webhook configurations lack the CA
/// always. Their patches are kept.
fn untrusting(secret: Option<&Secret>, patches: &Arc<Mutex<Vec<Value>>>) -> Client {
    let (secret, patches) = (secret.cloned(), patches.clone());
    let service = service_fn(move |request: Request<Body>| {
        let (secret, patches) = (secret.clone(), patches.clone());
        async move {
            let (parts, body) = request.into_parts();
            let sent = body.collect_bytes().await.unwrap();
            let path = parts.uri.path();
            let is_read = parts.method == Method::GET;
            let webhook = json!({"name": "a.b.c", "clientConfig": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
            let body = if path.contains("webhookconfigurations") {
                if !is_read {
                    let patch = serde_json::from_slice(&sent).unwrap();
                    patches.lock().unwrap().push(patch);
                }
                Some(json!({"metadata": {"name": "sluice"}, "webhooks": [webhook]}))
            } else {
                secret
                    .filter(|_| is_read && path.contains("/secrets/"))
                    .map(|secret| json!(secret))
            };
            let code = if body.is_some() { 200 } else { 403 };
            let body = body.unwrap_or_else(|| {
                json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                    "message": "secrets is forbidden"})
            });
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

/// A client of an API server that has one Secret, which it lets be replaced.
fn storing(secret: &Arc<Mutex<Secret>>) -> Client {
    let secret = secret.clone();
    let service = service_fn(move |request: Request<Body>| {
        let secret = secret.clone();
        async move {
            let (parts, body) = request.into_parts();
            let sent = body.collect_bytes().await.unwrap();
            let mut stored = secret.lock().unwrap();
            if parts.method == Method::PUT {
                *stored = serde_json::from_slice(&sent).unwrap();
            }
            let body = Body::from(serde_json::to_vec(&*stored).unwrap());
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    Client::new(service, "default")
}

/// `helm upgrade --set certManager.enabled=false` deletes the Certificate, and leaves the annotation.
#[tokio::test]
async fn the_leader_takes_back_what_cert_manager_no_longer_renews() {
    for (name, days, leads, is_taken) in [
        ("just issued", 0, true, false),
        ("cert-manager is late", 75, true, false),
        ("about to end", 85, true, true),
        ("ended", 100, true, true),
        ("by another replica", 100, false, false),
    ] {
        let before = kept(days);
        let secret = Arc::new(Mutex::new(before.clone()));
        let mut keeper = keeper("new");
        keeper.client = storing(&secret);
        if leads {
            keeper
                .term
                .extend(Moment::now().after(Duration::from_mins(1)));
        }
        let served = keeper.stored().await.unwrap().unwrap();
        let after = secret.lock().unwrap().clone();
        assert_eq!(Some(&served), after.data.as_ref(), "{name}");
        let certificate = text(&served, CERTIFICATE);
        let was_issued = text(&before.data.unwrap(), CERTIFICATE) == certificate;
        assert_eq!(!was_issued, is_taken, "{name}");
        let is_annotated = after.annotations().contains_key(CERT_MANAGER_ANNOTATION);
        assert_eq!(!is_annotated, is_taken, "{name}");
        if is_taken {
            // Nobody else has written it meanwhile, and it is Sluice's from now on.
            assert_eq!(after.metadata.resource_version.as_deref(), Some("7"));
            assert!(!needs_renewal(&certificate, Timestamp::now()), "{name}");
            assert_eq!(keeper.stored().await.unwrap(), Some(served), "{name}");
        }
    }
}

#[tokio::test]
async fn cert_manager_has_time_to_issue_a_certificate() {
    let (none, now) = (Data::new(), Timestamp::now());
    for (unissued, expected) in [
        (Duration::ZERO, false),
        (Duration::from_mins(4), false),
        (Duration::from_mins(5), true),
    ] {
        assert_eq!(is_abandoned(&none, unissued, now), expected, "{unissued:?}");
    }
    let mut keeper = keeper("new");
    keeper.unissued = Some(Moment::from_millis(0));
    assert!(Duration::ZERO < keeper.unissued(true), "it waits still");
    assert_eq!(keeper.unissued(false), Duration::ZERO);
    assert_eq!(keeper.unissued, None, "it has been issued");
}
