//! A proxy between Sluice and the API server that makes faults happen. It ends TLS with the API
//! server's own certificate, takes HTTP/1.1 and HTTP/2, and passes each request on with its
//! credentials. What goes wrong with which request, a [`Script`] says; how, is in `faults.rs`.

mod faults;
mod serve;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use http::{Method, Uri};
use kube::{Client, Config};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

pub use self::faults::{Fault, Moment};

/// What a script is asked about: a request of Sluice.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// Its path and query.
    pub target: String,
}

impl Asked {
    /// Whether it opens a watch.
    pub fn is_watch(&self) -> bool {
        self.method == Method::GET && self.target.contains("watch=true")
    }

    /// Whether it is about the Lease.
    pub fn is_lease(&self) -> bool {
        self.target.contains("/leases")
    }

    /// Whether it changes something that a decision is made of: not the Lease, and no events.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET && !self.is_lease() && !self.target.contains("/events")
    }

    fn new(method: &Method, uri: &Uri) -> Self {
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        Self {
            method: method.clone(),
            target: target.to_owned(),
        }
    }
}

/// Says what goes wrong with a request, if anything does.
pub type Script = Box<dyn FnMut(&Asked) -> Option<Fault> + Send>;

/// A proxy. It ends when this is dropped.
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    listener: JoinHandle<()>,
}

/// What the connections of a proxy share.
struct Shared {
    upstream: Client,
    script: Mutex<Script>,
    /// What [`Fault::Crash`] does.
    crash: Mutex<Box<dyn Fn() + Send>>,
    /// How often each fault was made.
    made: Mutex<BTreeMap<&'static str, usize>>,
    /// How often all was healed: a watch that is silent ends then.
    healed: watch::Sender<u64>,
}

impl Proxy {
    /// Starts one in front of the API server at this address, with the keys of the test bed's folder.
    /// Nothing goes wrong yet.
    ///
    /// # Errors
    /// When the keys can't be read, or there is no port.
    pub async fn start(server: &str, keys: &Path) -> Result<Self> {
        let mut config = Config::new(server.parse()?);
        let authorities = CertificateDer::pem_file_iter(keys.join("ca.crt"))?;
        config.root_cert = Some(
            authorities
                .map(|der| Ok(der?.to_vec()))
                .collect::<Result<_>>()?,
        );
        config.default_retry = false;
        config.read_timeout = None;
        let shared = Arc::new(Shared {
            upstream: Client::try_from(config)?,
            script: Mutex::new(Box::new(|_| None)),
            crash: Mutex::new(Box::new(|| {})),
            made: Mutex::default(),
            healed: watch::channel(0).0,
        });
        let acceptor = TlsAcceptor::from(Arc::new(tls(keys)?));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        Ok(Self {
            url: format!("https://{}", listener.local_addr()?),
            shared: shared.clone(),
            listener: tokio::spawn(serve::accept(listener, acceptor, shared)),
        })
    }

    /// Its address, in the API server's stead.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on things go wrong as this script says.
    pub fn follow(&self, script: Script) {
        *lock(&self.shared.script) = script;
    }

    /// What is to be done at a [`Fault::Crash`]: to kill who asks.
    pub fn at_a_crash(&self, crash: Box<dyn Fn() + Send>) {
        *lock(&self.shared.crash) = crash;
    }

    /// From now on nothing goes wrong any more, and watches that have fallen silent end.
    pub fn heal(&self) {
        self.follow(Box::new(|_| None));
        self.shared.healed.send_modify(|times| *times += 1);
    }

    /// How often each fault was made so far.
    pub fn made(&self) -> BTreeMap<&'static str, usize> {
        lock(&self.shared.made).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Shared {
    /// What goes wrong with this request.
    fn fault(&self, asked: &Asked) -> Option<Fault> {
        let fault = (*lock(&self.script))(asked)?;
        *lock(&self.made).entry(fault.name()).or_default() += 1;
        Some(fault)
    }
}

fn tls(keys: &Path) -> Result<rustls::ServerConfig> {
    let chain = CertificateDer::pem_file_iter(keys.join("apiserver.crt"))?;
    let chain = chain
        .collect::<Result<Vec<_>, _>>()
        .context("the certificate")?;
    let key = PrivateKeyDer::from_pem_file(keys.join("apiserver.key")).context("the key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
