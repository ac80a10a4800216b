//! Keeps the webhook's certificate: made here, stored in a Secret that all replicas share, renewed in
//! time, served without a restart, and trusted by the webhook configurations and by the APIService of
//! visibility.sluice.dev, which shares it.
//!
//! Only the leader writes. Others serve what is stored, so a process at somebody's desk, with other names
//! and an administrator's rights, changes nothing of it. No key of a CA is kept: each certificate is
//! signed by a CA of its own, whose key is forgotten at once, so nobody who reads the Secret can sign.
//!
//! Must not know what the webhooks are asked about.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error, ResourceExt};
use serde_json::Value;
use sluice_webhooks::CertificateSlot;
use sluice_webhooks::certificates::{
    Pair, certified_key, issue_ca, issue_serving, merge_bundle, needs_renewal, service_dns_names,
    validity,
};
use sluice_webhooks::manifests::{self, CONFIGURATION, DECLARED, FIELD_MANAGER};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::process::api_service;
use crate::process::clock::Moment;
use crate::process::metrics::Metrics;
use crate::process::notices::Notices;
use crate::process::term::Term;

/// The Secret.
const SECRET: &str = "sluice-webhook-certificate";
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
/// Longest time for one look.
const DEADLINE: Duration = Duration::from_secs(15);

/// Most looks at the webhook configurations until none needs a CA any more.
const LOOKS: usize = 3;

const CA: &str = "ca.crt";
/// Stored by earlier versions. It goes with the next write, which its presence makes due.
const CA_KEY: &str = "ca.key";
const BUNDLE: &str = "ca-bundle.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const NAMES: &str = "names";

/// Keeps the certificate.
pub struct Keeper {
    client: Client,
    namespace: String,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    slot: Arc<CertificateSlot>,
    term: Arc<Term>,
    metrics: Arc<Metrics>,
    /// The certificate that is served, and the CAs that came with it.
    served: String,
    served_bundle: String,
    /// Since when the CA of this certificate is in place.
    trusted: Option<(String, Moment)>,
    /// Why the APIService does not trust it, as was told last.
    told: Option<String>,
    /// Of changes of the webhook configurations.
    notices: Notices,
}

impl Keeper {
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
            served_bundle: String::new(),
            trusted: None,
            told: None,
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
        let Some(stored) = self.stored().await? else {
            // The leader makes one in a moment.
            return Ok(false);
        };
        let pair = Pair {
            certificate_pem: text(&stored, CERTIFICATE),
            key_pem: text(&stored, KEY),
        };
        let bundle = text(&stored, BUNDLE);
        self.trust_for_readers(&bundle).await;
        let trust = self.trust(&bundle).await?;
        if self.served != pair.certificate_pem && self.may_serve(&pair.certificate_pem, trust) {
            let key = certified_key(&pair).context("read the stored certificate")?;
            self.slot.set(key);
            if let Ok(validity) = validity(&pair.certificate_pem) {
                self.metrics.process.certificate(validity.not_after);
            }
            self.served.clone_from(&pair.certificate_pem);
            self.served_bundle = bundle;
            info!("serving webhooks with a new certificate");
        }
        Ok(trust == Trust::InPlace && self.served == pair.certificate_pem)
    }

    /// Trust comes before use: API servers must know the CA when they see the certificate. Whoever serves another one
    /// goes on with that until then.
    fn may_serve(&mut self, certificate_pem: &str, trust: Trust) -> bool {
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
    async fn stored(&self) -> Result<Option<BTreeMap<String, ByteString>>> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut secret = api.get(SECRET).await.with_context(|| {
            format!(
                "get Secret {}/{SECRET}, which is part of the manifests",
                self.namespace
            )
        })?;
        let data = secret.data.clone().unwrap_or_default();
        let now = Timestamp::now();
        let mut names = self.names.clone();
        names.extend(self.addresses.iter().map(ToString::to_string));
        let names = names.join(",");
        let serving = Pair {
            certificate_pem: text(&data, CERTIFICATE),
            key_pem: text(&data, KEY),
        };
        let can_be_served = certified_key(&serving).is_ok();
        let is_current = can_be_served
            && text(&data, NAMES) == names
            && !data.contains_key(CA_KEY)
            && !needs_renewal(&text(&data, CERTIFICATE), now)
            && !needs_renewal(&text(&data, CA), now);
        if is_current || !self.term.is_valid() {
            return Ok(can_be_served.then_some(data));
        }
        let renewed = self.renew(&data, names, now)?;
        secret.data = Some(renewed.clone());
        // Carries the resourceVersion: of two replicas one fails and reads what the other has stored.
        match api.replace(SECRET, &PostParams::default(), &secret).await {
            Ok(_) => {
                info!("stored a new webhook certificate");
                Ok(Some(renewed))
            }
            Err(Error::Api(status)) if status.code == 409 => Err(anyhow!(
                "another replica stored a certificate at the same time"
            )),
            Err(error) => Err(error).context("store the webhook certificate"),
        }
    }

    fn renew(
        &self,
        data: &BTreeMap<String, ByteString>,
        names: String,
        now: Timestamp,
    ) -> Result<BTreeMap<String, ByteString>> {
        let ca = issue_ca(now)?;
        let serving = issue_serving(&ca, &self.names, &self.addresses, now)?;
        // What is served now is trusted until the new one is served, also where somebody has emptied the Secret.
        let known = format!("{}\n{}", text(data, BUNDLE), self.served_bundle);
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

/// Whether the webhook configurations trust what is served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// They do.
    InPlace,
    /// They did not, and have just been told: API servers may not know it yet.
    Mended,
    /// One of those that are shipped isn't there.
    Missing,
    /// They trust another CA, and the leader has not mended that yet.
    Stale,
}

type Bundles = Vec<(String, String)>;

fn bundles(webhooks: impl Iterator<Item = (String, Option<ByteString>)>) -> Bundles {
    webhooks
        .map(|(name, bundle)| {
            (
                name,
                bundle
                    .map(|b| String::from_utf8_lossy(&b.0).into_owned())
                    .unwrap_or_default(),
            )
        })
        .collect()
}

/// The patches for the configurations of one kind that don't trust `bundle`, by their names. None if the shipped one is
/// not there: then Sluice's own may not be written, and goes.
async fn patches<K>(
    api: &Api<K>,
    bundles: impl Fn(K) -> Bundles,
    bundle: &str,
) -> Result<Option<Vec<(&'static str, Value)>>>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let Some(shipped) = api.get_opt(CONFIGURATION).await? else {
        return Ok(None);
    };
    // Sluice's own may not be made yet.
    let own = api.get_opt(DECLARED).await?;
    let found = [(CONFIGURATION, Some(shipped)), (DECLARED, own)];
    let patches = found.into_iter().filter_map(|(name, found)| {
        let patch = patch(&bundles(found?), bundle)?;
        Some((name, patch))
    });
    Ok(Some(patches.collect()))
}

/// The patch for the webhooks that don't trust `bundle`.
fn patch(found: &Bundles, bundle: &str) -> Option<Value> {
    let stale: Vec<&str> = found
        .iter()
        .filter(|(_, known)| known != bundle)
        .map(|(name, _)| name.as_str())
        .collect();
    (!stale.is_empty()).then(|| manifests::ca_bundle_patch(&stale, bundle))
}

async fn trust_in<K>(api: &Api<K>, name: &str, patch: &Value) -> Result<()>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug + kube::Resource<DynamicType = ()>,
{
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patched = api.patch(name, &params, &Patch::Strategic(patch)).await;
    let configuration = patched.context("put the CA into the webhook configuration")?;
    info!(kind = %K::kind(&()), name = %configuration.name_any(), "put the CA into the webhook configuration");
    Ok(())
}

fn text(data: &BTreeMap<String, ByteString>, key: &str) -> String {
    data.get(key)
        .map(|value| String::from_utf8_lossy(&value.0).into_owned())
        .unwrap_or_default()
}
