//! How long the certificate of the webhooks is valid, who renews it, and whether the webhooks trust it.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::Api;
use kube::{Client, ResourceExt};
use sluice_crds::{CERT_MANAGER_ANNOTATION, CERTIFICATE_SECRET, RENEWED_AT_ONE_IN};
use x509_parser::pem::parse_x509_pem;

use super::admission::client_configs;
use super::finding::{Finding, of};
use crate::cluster::answer;

/// Whoever renews it has this long for it.
const RENEWAL: SignedDuration = SignedDuration::from_hours(24);

/// From when to when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Validity {
    from: Timestamp,
    until: Timestamp,
}

/// Checks it.
pub(super) async fn check(client: &Client, namespace: &str) -> Finding {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = async {
        let secret = answer("read the certificate", secrets.get(CERTIFICATE_SECRET)).await?;
        Ok((secret, client_configs(client).await?))
    };
    of("certificate", found.await, |(secret, webhooks)| {
        let told = judge(&secret, Timestamp::now())?;
        match untrusting(&webhooks, &secret) {
            0 => Ok(told),
            count => Err(format!(
                "{told}; {count} webhooks trust another CA: the leader puts that right within seconds, if its account may"
            )),
        }
    })
}

/// How long it is valid, and who renews it when.
fn judge(secret: &Secret, now: Timestamp) -> Result<String, String> {
    let pem = field(secret, "tls.crt").filter(|pem| !pem.is_empty());
    let pem = pem.ok_or("there is none yet: no replica has led since Sluice was installed")?;
    let valid = validity(pem)?;
    let renews = match secret.annotations().get(CERT_MANAGER_ANNOTATION) {
        Some(name) => format!("cert-manager renews it by Certificate {name}"),
        None => format!("the leader renews it from {} on", valid.renewal()),
    };
    let until = valid.until;
    if until <= now {
        return Err(format!(
            "it has ended at {until}, so the API server refuses the webhooks; {renews}"
        ));
    }
    if now < valid.from {
        return Err(format!(
            "it is valid from {} only: clocks differ",
            valid.from
        ));
    }
    if RENEWAL < now.duration_since(valid.renewal()) {
        return Err(format!(
            "it is valid until {until}, and should have been renewed since {}; {renews}",
            valid.renewal()
        ));
    }
    Ok(format!("valid until {until}; {renews}"))
}

impl Validity {
    /// When it is to be renewed.
    fn renewal(self) -> Timestamp {
        let life = self.until.duration_since(self.from);
        self.until
            .checked_sub(life / RENEWED_AT_ONE_IN)
            .unwrap_or(self.from)
    }
}

/// That of the first certificate in a text.
fn validity(pem: &[u8]) -> Result<Validity, String> {
    let unread = |error: &dyn std::fmt::Display| format!("it can't be read: {error}");
    let (_, block) = parse_x509_pem(pem).map_err(|error| unread(&error))?;
    let certificate = block.parse_x509().map_err(|error| unread(&error))?;
    let at = |second: i64| Timestamp::from_second(second).map_err(|error| unread(&error));
    Ok(Validity {
        from: at(certificate.validity().not_before.timestamp())?,
        until: at(certificate.validity().not_after.timestamp())?,
    })
}

/// How many webhooks don't trust the CA of the certificate.
fn untrusting(webhooks: &[WebhookClientConfig], secret: &Secret) -> usize {
    let bundles = webhooks.iter().map(|webhook| webhook.ca_bundle.as_ref());
    bundles.filter(|bundle| !trusts(*bundle, secret)).count()
}

/// Whether the CA of the certificate is in a bundle.
pub(super) fn trusts(bundle: Option<&ByteString>, secret: &Secret) -> bool {
    let ca = field(secret, "ca.crt").map(<[u8]>::trim_ascii);
    let ca = ca.unwrap_or_default();
    let has_ca =
        |bundle: &ByteString| ca.is_empty() || bundle.0.windows(ca.len()).any(|part| part == ca);
    bundle.is_some_and(has_ca)
}

fn field<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let data = secret.data.as_ref()?;
    Some(data.get(key)?.0.as_slice())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Valid from 2026-01-01 to 2026-04-01.
    const PEM: &str = include_str!("../../../tests/files/serving.pem");

    fn secret(annotations: &Value, certificate: &str) -> Secret {
        let mut secret: Secret =
            serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
        let entry = ("tls.crt".to_owned(), ByteString(certificate.into()));
        secret.data = Some([entry].into());
        secret
    }

    #[test]
    fn its_end_and_who_renews_it_are_told() {
        let by_sluice = || json!({});
        let by_other = || json!({(CERT_MANAGER_ANNOTATION): "sluice-webhook"});
        for (name, now, annotations, certificate, expected) in [
            (
                "valid",
                "2026-01-15T00:00:00Z",
                by_sluice(),
                PEM,
                Ok(
                    "valid until 2026-04-01T00:00:00Z; the leader renews it from 2026-03-02T00:00:00Z on",
                ),
            ),
            (
                "by cert-manager",
                "2026-01-15T00:00:00Z",
                by_other(),
                PEM,
                Ok(
                    "valid until 2026-04-01T00:00:00Z; cert-manager renews it by Certificate sluice-webhook",
                ),
            ),
            (
                "not renewed",
                "2026-03-10T00:00:00Z",
                by_sluice(),
                PEM,
                Err(
                    "it is valid until 2026-04-01T00:00:00Z, and should have been renewed since 2026-03-02T00:00:00Z; the leader renews it from 2026-03-02T00:00:00Z on",
                ),
            ),
            (
                "ended",
                "2026-04-01T00:00:00Z",
                by_other(),
                PEM,
                Err(
                    "it has ended at 2026-04-01T00:00:00Z, so the API server refuses the webhooks; cert-manager renews it by Certificate sluice-webhook",
                ),
            ),
            (
                "not yet",
                "2025-12-31T00:00:00Z",
                by_sluice(),
                PEM,
                Err("it is valid from 2026-01-01T00:00:00Z only: clocks differ"),
            ),
            (
                "none",
                "2026-01-15T00:00:00Z",
                by_sluice(),
                "",
                Err("there is none yet: no replica has led since Sluice was installed"),
            ),
        ] {
            let told = judge(&secret(&annotations, certificate), now.parse().unwrap());
            let told = told.as_deref().map_err(String::as_str);
            assert_eq!(told, expected, "{name}");
        }
        assert!(judge(&secret(&by_sluice(), "nothing"), Timestamp::UNIX_EPOCH).is_err());
    }

    #[test]
    fn webhooks_with_another_ca_are_counted() {
        let mut secret = secret(&json!({}), PEM);
        let ca = ("ca.crt".to_owned(), ByteString(b"one\n".to_vec()));
        secret.data.as_mut().unwrap().extend([ca]);
        let webhook = |bundle: Option<&str>| {
            let bundle = bundle.map(|text| ByteString(text.as_bytes().to_vec()));
            WebhookClientConfig {
                ca_bundle: bundle,
                ..WebhookClientConfig::default()
            }
        };
        let webhooks = [
            webhook(Some("one\nother\n")),
            webhook(Some("other\n")),
            webhook(None),
        ];
        assert_eq!(untrusting(&webhooks, &secret), 2);
    }

    /// The webhooks of declared kinds, and those that hold, are called as those that judge.
    #[tokio::test]
    async fn all_webhooks_are_looked_at() {
        let each = tower::service_fn(async |request: http::Request<Body>| {
            let bundle = ByteString(request.uri().path().as_bytes().to_vec());
            let configuration = json!({"metadata": {}, "webhooks": [
                {"name": "w", "admissionReviewVersions": [], "sideEffects": "None", "clientConfig": {"caBundle": bundle}},
            ]});
            let body = Body::from(configuration.to_string().into_bytes());
            Ok::<_, Infallible>(http::Response::new(body))
        });
        let client = Client::new(each, "default");
        let all = client_configs(&client).await.unwrap().into_iter();
        let asked = all.map(|config| String::from_utf8(config.ca_bundle.unwrap().0).unwrap());
        let (group, names) = (
            "/apis/admissionregistration.k8s.io/v1",
            ["sluice", "sluice-declared"],
        );
        let expected = names.map(|name| {
            let kinds = [
                "mutatingwebhookconfigurations",
                "validatingwebhookconfigurations",
            ];
            kinds.map(|kind| format!("{group}/{kind}/{name}"))
        });
        assert_eq!(asked.collect::<Vec<_>>(), expected.concat());
    }
}
