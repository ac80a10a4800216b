//! When a new certificate may be served.

use std::convert::Infallible;
use std::future::pending;

use http::{Request, Response};
use kube::client::Body;
use tower::service_fn;

use super::*;

/// A keeper that serves another certificate, and that has known for long that this one is trusted.
fn keeper(certificate: &str) -> Keeper {
    let never = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
    let slot = Arc::new(CertificateSlot::default());
    let ca = issue_ca(Timestamp::now()).unwrap();
    let served = issue_serving(&ca, &["old".to_owned()], &[], Timestamp::now()).unwrap();
    slot.set(certified_key(&served).unwrap());
    let mut keeper = Keeper::new(
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
