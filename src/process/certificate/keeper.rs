//! Keeps the webhook's certificate: made here, stored in a Secret that all replicas share, renewed in
//! time, served without a restart, and trusted by the webhook configurations and by the APIService of
//! visibility.sluice.dev, which shares it.
//!
//! Only the leader writes. Others serve what is stored, so a process at somebody's desk, with other names
//! and an administrator's rights, changes nothing of it. No key of a CA is kept: each certificate is
//! signed by a CA of its own, whose key is forgotten at once, so nobody who reads the Secret can sign.
//!
//! A Secret that cert-manager keeps is left to it: what it issues is served and trusted in the same way. Whoever deletes the
//! Certificate leaves the annotation that says so: the leader takes the Secret back before what was issued ends.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::{Client, ResourceExt};
use sluice_crds::{CERT_MANAGER_ANNOTATION, CERTIFICATE_SECRET};
use sluice_webhooks::CertificateSlot;
use sluice_webhooks::certificates::{
    Pair, certified_key, issue_ca, issue_serving, merge_bundle, nears_its_end, needs_renewal,
    service_dns_names, validity,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::api_service;
use super::store::store;
use super::trust::{Trust, bundles, patches, trust_in};
use crate::process::backoff::RetryBackoff;
use crate::process::clock::Moment;
use crate::process::metrics::Metrics;
use crate::process::notices::Notices;
use crate::process::term::Term;

/// The service that is in front of the webhook.
const SERVICE: &str = "sluice-webhook";
/// The service that is in front of visibility.sluice.dev.
const VISIBILITY_SERVICE: &str = "sluice-visibility";
/// How often all is looked at again, whether or not a change of the webhook configurations is noticed: whoever replaces one
/// takes the CA away.
const CHECK: Duration = Duration::from_secs(5);
/// The same after a failure, and while the webhook configurations are missing or untrusting.
const CHECK_SOON: Duration = Duration::from_secs(2);
/// The same while there is no certificate at all: the process is not ready.
const CHECK_AT_ONCE: Duration = Duration::from_millis(250);
/// API servers hear of a CA by watches of their own, within milliseconds as a rule. A new certificate is served only
/// when its CA has been in place for so long.
const SPREADING: Duration = Duration::from_millis(1_500);
/// Longest time for the APIService.
const READERS_DEADLINE: Duration = Duration::from_secs(5);
/// How long until a certificate that could not be stored is made again.
const RETRY_MIN: Duration = CHECK_SOON;
const RETRY_MAX: Duration = Duration::from_mins(1);
/// Longest time for one look.
const DEADLINE: Duration = Duration::from_secs(15);

/// How long cert-manager may take to issue a certificate where there is none. Its own issuers take seconds. If another one
/// takes longer, what it issues at last takes the place of what the leader has made meanwhile.
const ISSUING: Duration = Duration::from_mins(5);

/// Most looks at the webhook configurations until none needs a CA any more.
const LOOKS: usize = 3;

const CA: &str = "ca.crt";
/// Stored by earlier versions. It goes with the next write, which its presence makes due.
const CA_KEY: &str = "ca.key";
const BUNDLE: &str = "ca-bundle.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const NAMES: &str = "names";

type Data = BTreeMap<String, ByteString>;

/// Keeps the certificate.
pub struct CertificateKeeper {
    client: Client,
    namespace: String,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    slot: Arc<CertificateSlot>,
    term: Arc<Term>,
    metrics: Arc<Metrics>,
    /// The certificate that is served.
    served: String,
    /// The CAs that were read or stored last: other replicas may serve what is not served here yet.
    bundle: String,
    /// Since when the CA of this certificate is in place.
    trusted: Option<(String, Moment)>,
    /// Since when cert-manager keeps the Secret, and there is no certificate in it.
    unissued: Option<Moment>,
    /// Why the APIService does not trust it, as was told last.
    told: Option<String>,
    /// When a certificate that could not be stored is made again.
    retry_at: Option<Moment>,
    retries: RetryBackoff,
    /// Of changes of the webhook configurations.
    notices: Notices,
}

impl CertificateKeeper {
    /// A keeper that serves through `slot`, with `sans` besides the names of the service. It writes only
    /// within `term`.
    pub fn new(
        client: Client,
        namespace: &str,
        sans: &[String],
        slot: Arc<CertificateSlot>,
        term: Arc<Term>,
        metrics: Arc<Metrics>,
        notices: Notices,
    ) -> Self {
        let (addresses, names): (Vec<_>, Vec<_>) = sans
            .iter()
            .map(|san| (san.parse::<IpAddr>().ok(), san.clone()))
            .partition(|(ip, _)| ip.is_some());
        let mut dns = service_dns_names(SERVICE, namespace);
        dns.extend(service_dns_names(VISIBILITY_SERVICE, namespace));
        dns.extend(names.into_iter().map(|(_, name)| name));
        Self {
            client,
            namespace: namespace.to_owned(),
            names: dns,
            addresses: addresses.into_iter().filter_map(|(ip, _)| ip).collect(),
            slot,
            term,
            metrics,
            served: String::new(),
            bundle: String::new(),
            trusted: None,
            unissued: None,
            told: None,
            retry_at: None,
            retries: RetryBackoff::new(RETRY_MIN, RETRY_MAX),
            notices,
        }
    }

    /// Looks after the certificate until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let wait = match timeout(DEADLINE, self.look()).await {
                Ok(Ok(true)) => CHECK,
                Ok(Ok(false)) if !self.slot.is_set() => CHECK_AT_ONCE,
                Ok(Ok(false)) => CHECK_SOON,
                Ok(Err(error)) => {
                    warn!(
                        error = format!("{error:#}"),
                        "the webhook certificate can't be renewed; trying again"
                    );
                    CHECK_SOON
                }
                Err(_) => {
                    warn!(
                        "the webhook certificate can't be renewed: the API server did not answer; trying again"
                    );
                    CHECK_SOON
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                // Whoever replaces a configuration again and again is followed no faster than this.
                () = self.notices.next() => sleep(CHECK_AT_ONCE).await,
                () = sleep(wait) => {}
            }
        }
    }

    /// Whether all is well: the certificate is served and both configurations trust it.
    async fn look(&mut self) -> Result<bool> {
        let stored = match self.stored().await {
            Ok(Some(stored)) => stored,
            // The leader makes one in a moment.
            Ok(None) => return Ok(false),
            Err(error) => {
                // What is served is to be trusted all the same.
                if !self.bundle.is_empty() {
                    self.trust(&self.bundle).await?;
                }
                return Err(error);
            }
        };
        let pair = pair(&stored);
        let bundle = text(&stored, BUNDLE);
        self.bundle.clone_from(&bundle);
        self.trust_for_readers(&bundle).await;
        let trust = self.trust(&bundle).await?;
        if self.served != pair.certificate_pem && self.follow_trust(&pair.certificate_pem, trust) {
            let key = certified_key(&pair).context("read the stored certificate")?;
            self.slot.set(key);
            if let Ok(validity) = validity(&pair.certificate_pem) {
                self.metrics.process.certificate(validity.not_after);
            }
            self.served.clone_from(&pair.certificate_pem);
            info!("serving webhooks with a new certificate");
        }
        Ok(trust == Trust::InPlace && self.served == pair.certificate_pem)
    }

    /// Notes since when a certificate is trusted; returns whether it may be served. Trust comes before use: API servers
    /// must know the CA when they see the certificate. Whoever serves another one goes on with that until then.
    fn follow_trust(&mut self, certificate_pem: &str, trust: Trust) -> bool {
        match trust {
            Trust::InPlace => {}
            // API servers only begin to hear of it.
            Trust::Mended => self.trusted = None,
            Trust::Missing | Trust::Stale => {
                self.trusted = None;
                return trust == Trust::Missing || !self.slot.is_set();
            }
        }
        let since = match &self.trusted {
            Some((trusted, since)) if trusted == certificate_pem => *since,
            _ => Moment::now(),
        };
        self.trusted = Some((certificate_pem.to_owned(), since));
        let has_expired =
            validity(certificate_pem).is_ok_and(|valid| valid.not_after < Timestamp::now());
        !self.slot.is_set() || !has_expired && SPREADING <= since.elapsed()
    }

    /// What is stored, made or renewed by the leader where need be. None before there is one that can be
    /// served.
    async fn stored(&mut self) -> Result<Option<Data>> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut secret = api.get(CERTIFICATE_SECRET).await.with_context(|| {
            format!(
                "get Secret {}/{CERTIFICATE_SECRET}, which is part of the manifests",
                self.namespace
            )
        })?;
        let data = secret.data.clone().unwrap_or_default();
        let now = Timestamp::now();
        let is_kept = secret.annotations().contains_key(CERT_MANAGER_ANNOTATION);
        let unissued = self.unissued(is_kept && certified_key(&pair(&data)).is_err());
        if is_kept && !(self.term.is_valid() && is_abandoned(&data, unissued, now)) {
            return self.kept_by_cert_manager(&api, secret).await;
        }
        // If cert-manager is there after all, it writes the annotation anew, with the next certificate at the latest.
        secret.annotations_mut().remove(CERT_MANAGER_ANNOTATION);
        let mut names = self.names.clone();
        names.extend(self.addresses.iter().map(ToString::to_string));
        let names = names.join(",");
        let can_be_served = certified_key(&pair(&data)).is_ok();
        let is_current = can_be_served
            && text(&data, NAMES) == names
            && !data.contains_key(CA_KEY)
            && !needs_renewal(&text(&data, CERTIFICATE), now)
            && !needs_renewal(&text(&data, CA), now);
        if is_current || !self.term.is_valid() {
            return Ok(can_be_served.then_some(data));
        }
        if can_be_served && self.retry_at.is_some_and(|at| Moment::now() < at) {
            return Ok(Some(data));
        }
        let renewed = self.renew(&data, names, now)?;
        secret.data = Some(renewed.clone());
        match store(&api, &secret).await {
            Ok(()) => self.retries.reset(),
            // What is stored is served and trusted until its end.
            Err(error) if can_be_served => {
                warn!(
                    error = format!("{error:#}"),
                    "the webhook certificate can't be renewed; serving the one before; trying again"
                );
                self.retry_at = Some(Moment::now().after(self.retries.next_wait()));
                return Ok(Some(data));
            }
            Err(error) => return Err(error),
        }
        if is_kept {
            warn!(
                "cert-manager has not issued a webhook certificate in time: the leader makes it, and renews it from now on"
            );
        }
        info!("stored a new webhook certificate");
        Ok(Some(renewed))
    }

    /// For how long cert-manager has kept the Secret without a certificate in it, where `is_unissued` says that it does.
    fn unissued(&mut self, is_unissued: bool) -> Duration {
        if !is_unissued {
            self.unissued = None;
            return Duration::ZERO;
        }
        self.unissued.get_or_insert_with(Moment::now).elapsed()
    }

    /// What cert-manager has issued, once the leader has put its CA beside those that are trusted. None before.
    async fn kept_by_cert_manager(
        &self,
        api: &Api<Secret>,
        mut secret: Secret,
    ) -> Result<Option<Data>> {
        let mut data = secret.data.take().unwrap_or_default();
        let (ca, bundle) = (text(&data, CA), text(&data, BUNDLE));
        if certified_key(&pair(&data)).is_err() {
            return Ok(None);
        }
        ensure!(
            !ca.trim().is_empty(),
            "Secret {CERTIFICATE_SECRET}: cert-manager has put no {CA} into it: the issuer must be one that does, such as those of kind CA or SelfSigned"
        );
        if bundle.contains(ca.trim()) {
            return Ok(Some(data));
        }
        if !self.term.is_valid() {
            return Ok(None);
        }
        let known = format!("{bundle}\n{}", self.bundle);
        let bundle = merge_bundle(&ca, &known, Timestamp::now());
        data.insert(BUNDLE.to_owned(), ByteString(bundle.into_bytes()));
        secret.data = Some(data.clone());
        store(api, &secret).await?;
        info!("trusting the CA of a certificate that cert-manager has issued");
        Ok(Some(data))
    }

    fn renew(&self, data: &Data, names: String, now: Timestamp) -> Result<Data> {
        let ca = issue_ca(now)?;
        let serving = issue_serving(&ca, &self.names, &self.addresses, now)?;
        // What is served now is trusted until the new one is served, also where somebody has emptied the Secret.
        let known = format!("{}\n{}", text(data, BUNDLE), self.bundle);
        let bundle = merge_bundle(&ca.certificate_pem, &known, now);
        let entries = [
            (CA, ca.certificate_pem),
            (BUNDLE, bundle),
            (CERTIFICATE, serving.certificate_pem),
            (KEY, serving.key_pem),
            (NAMES, names),
        ];
        Ok(entries
            .map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())))
            .into())
    }

    /// Has the APIService trust `bundle`, if there is one and this process leads. Webhooks must not wait for that.
    async fn trust_for_readers(&mut self, bundle: &str) {
        if !self.term.is_valid() {
            return;
        }
        match timeout(READERS_DEADLINE, api_service::trust(&self.client, bundle)).await {
            Ok(Ok(())) => self.told = None,
            Ok(Err(error)) => self.tell(format!("{error:#}")),
            Err(_) => self.tell("the API server did not answer".to_owned()),
        }
    }

    /// Tells once why the APIService can't be written to.
    fn tell(&mut self, error: String) {
        if self.told.as_ref() != Some(&error) {
            warn!(
                error,
                "visibility.sluice.dev does not answer, everything else does; trying again"
            );
            self.told = Some(error);
        }
    }

    /// Has all configurations trust `bundle`, if this process leads: the shipped ones, and those of Sluice's own making.
    async fn trust(&self, bundle: &str) -> Result<Trust> {
        let mut was_mended = false;
        for _ in 0..LOOKS {
            match self.trust_once(bundle).await? {
                // Whoever adds a webhook at this moment may have read the CA before.
                Trust::Mended => was_mended = true,
                Trust::InPlace if was_mended => break,
                trust => return Ok(trust),
            }
        }
        Ok(Trust::Mended)
    }

    async fn trust_once(&self, bundle: &str) -> Result<Trust> {
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let of_validating = |found: ValidatingWebhookConfiguration| {
            let webhooks = found.webhooks.into_iter().flatten();
            bundles(webhooks.map(|w| (w.name, w.client_config.ca_bundle)))
        };
        let of_mutating = |found: MutatingWebhookConfiguration| {
            let webhooks = found.webhooks.into_iter().flatten();
            bundles(webhooks.map(|w| (w.name, w.client_config.ca_bundle)))
        };
        let stale = (
            patches(&validating, of_validating, bundle).await?,
            patches(&mutating, of_mutating, bundle).await?,
        );
        let is_there = stale.0.is_some() && stale.1.is_some();
        let stale = (stale.0.unwrap_or_default(), stale.1.unwrap_or_default());
        if stale.0.is_empty() && stale.1.is_empty() {
            return Ok(if is_there {
                Trust::InPlace
            } else {
                Trust::Missing
            });
        }
        if !self.term.is_valid() {
            return Ok(Trust::Stale);
        }
        for (name, patch) in stale.0 {
            trust_in(&validating, name, &patch).await?;
        }
        for (name, patch) in stale.1 {
            trust_in(&mutating, name, &patch).await?;
        }
        Ok(Trust::Mended)
    }
}

/// Whether nobody keeps what cert-manager has kept, whatever its annotation says: `helm upgrade` and `helm rollback` delete
/// the Certificate, and leave the Secret as it is. What was issued nears its end then, or there has been nothing for long.
fn is_abandoned(data: &Data, unissued: Duration, now: Timestamp) -> bool {
    ISSUING <= unissued || nears_its_end(&text(data, CERTIFICATE), now)
}

/// What is served.
fn pair(data: &Data) -> Pair {
    Pair {
        certificate_pem: text(data, CERTIFICATE),
        key_pem: text(data, KEY),
    }
}

fn text(data: &Data, key: &str) -> String {
    data.get(key)
        .map(|value| String::from_utf8_lossy(&value.0).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
