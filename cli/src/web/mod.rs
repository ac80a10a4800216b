//! `kubectl sluice web`: a page that shows queues, jobs, gates and flavors, served on loopback to the caller's browser
//! with the caller's own rights; or in a cluster to many users, each with his own.
//!
//! | what | what lives there |
//! |---|---|
//! | `invitation` | the file that leads the browser to the page, which only the caller can read |
//! | `token` | the secret in the address, and the code for the browser that is opened |
//! | `site` | what the server is called. Pure |
//! | `guard` | which requests are answered: host, origin, method, token. Pure |
//! | `users` | who reads, by his token, and his share of what is answered at a time |
//! | `problem` | what could not be shown, and why, as the page gets it |
//! | `answers` | what the page asks for: one file for each view, from the models of the other commands |
//! | `assets` | the files of the page, from `page/`, where they are as the browser gets them |
//! | `routes` | the fixed list of paths, and the headers of each answer |
//! | `sent` | an answer on its way, and what is held until it is sent |
//! | `serve` | the listener: connections, limits, and the end |
//! | `certificate` | TLS from files that are written anew |
//! | `in_cluster` | the same for many users: options, and what is made of them |
//!
//! Must not write to the cluster, nor pass on a request to the API server as it is.

mod answers;
mod assets;
mod certificate;
mod guard;
mod in_cluster;
mod invitation;
mod problem;
mod routes;
mod sent;
mod serve;
mod site;
mod token;
mod users;

use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use thiserror::Error;

use self::answers::Viewer;
use self::guard::{Access, Guard};
use self::in_cluster::{InCluster, InClusterError};
use self::invitation::Invitation;
use self::serve::Limits;
use self::site::Site;
use self::token::{Tokens, random};
use self::users::{Reader, Readers};
use crate::cluster::{Cluster, ClusterError, Connection, Namespace, Tell, Told, run};
use crate::rules::queue_names::QueueAliases;
use crate::simulate::{Assumed, parse_span};

const DETAILS: &str = "\
Serves a page on 127.0.0.1 that shows the queues, jobs, gates and flavors of a cluster, until it is ended by Ctrl-C. It \
asks the cluster with the rights of the kubeconfig, and only reads. Who knows the address, with its token, sees what the \
caller may see. -n says where to look if the caller may not look into all namespaces. With --in-cluster it serves many \
users from a pod, with the rights of the token that each request brings, and none of its own (docs/web.md).";

/// Answers that are made at a time.
const ANSWERS_MAX: usize = 4;
/// A browser opens six connections.
const LIMITS: Limits = Limits {
    connections: 64,
    head_bytes: 16 << 10,
};

/// Show queues, jobs and gates in the browser.
#[derive(Debug, Args)]
#[command(long_about = DETAILS)]
pub struct Web {
    /// The port; by default one that is free.
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
    /// Open the browser, also where the output is no terminal.
    #[arg(long, conflicts_with = "no_open")]
    open: bool,
    /// Open no browser, only print the address.
    #[arg(long)]
    no_open: bool,
    /// The run time to assume for a job if no similar job has finished.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    duration: Option<Duration>,
    #[command(flatten)]
    aliases: QueueAliases,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    in_cluster: InCluster,
}

/// Why the page can't be served.
#[derive(Debug, Error)]
pub enum WebError {
    /// The cluster can't be asked.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The port can't be had.
    #[error("can't listen on 127.0.0.1:{port}: {source}")]
    Port {
        /// The port that was asked for.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("can't make a token: {0}")]
    NoToken(getrandom::Error),
    /// The address can't be written.
    #[error("the result can't be written: {0}")]
    Unwritable(#[from] io::Error),
    /// It can't be served in a cluster.
    #[error(transparent)]
    InCluster(#[from] InClusterError),
    /// There is no runtime to serve with.
    #[error("can't start: {0}")]
    NoRuntime(#[source] io::Error),
}

impl Web {
    /// Serves the page until it is told to end.
    ///
    /// # Errors
    /// The kubeconfig can't be used, or the port can't be had.
    pub fn run(&self, tell: &mut Tell<'_>) -> Result<(), WebError> {
        run(async {
            match self.in_cluster.site() {
                Some(site) => self.serve_users(site.clone(), tell).await,
                None => self.serve(tell).await,
            }
        })
        .map_err(WebError::NoRuntime)?
    }

    async fn serve_users(&self, site: Site, tell: &mut Tell<'_>) -> Result<(), WebError> {
        let namespace = self.namespace.named()?.map(str::to_owned);
        let served = self.in_cluster.serve(site, namespace, self.assumed(), tell);
        Ok(served.await?)
    }

    fn assumed(&self) -> Assumed {
        Assumed {
            duration: self.duration,
            names: self.aliases.names(),
        }
    }

    async fn serve(&self, tell: &mut Tell<'_>) -> Result<(), WebError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.one_namespace(&self.namespace)?;
        let port = self.port;
        let unbound = |source| WebError::Port { port, source };
        let listener = serve::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .await
            .map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let (tokens, code) = Tokens::new().map_err(WebError::NoToken)?;
        let tokens = Arc::new(tokens);
        let page = format!("http://{address}/#token=");
        tell(Told::Result(format!(
            "Serving on {page}{}\nOpen this address if no browser shows the page. Press Ctrl-C to end.\n",
            tokens.session()
        )))?;
        let opens = !self.no_open && (self.open || io::stdout().is_terminal());
        if opens && let Err(error) = open(&format!("{page}{code}"), &tokens) {
            let text = format!("no browser could be opened, so open the address: {error}");
            tell(Told::Note(text))?;
        }
        let viewer = Viewer::new(
            cluster.client.clone(),
            cluster.server().to_owned(),
            namespace,
            self.assumed(),
        );
        let site = Site::loopback(address.port());
        let guard = Arc::new(Guard::new(site, Access::Own(tokens.clone())));
        let readers = Readers::One(Reader::only(viewer));
        let router = routes::router(guard, readers, ANSWERS_MAX);
        let mut served = pin!(serve::until_ended(listener, None, LIMITS, router));
        tokio::select! {
            () = served.as_mut() => return Ok(()),
            () = tokens.stolen() => {}
        }
        tell(Told::Note(format!(
            "the code for the browser was presented twice, so another user of this machine may have opened the page. What \
             was open is closed; open {page}{}",
            tokens.session()
        )))?;
        served.await;
        Ok(())
    }
}

/// Opens the browser at an address that has the code. The arguments of a program are seen by all users of the machine, so
/// the browser gets the address from a file, which stays until the code is spent.
fn open(address: &str, tokens: &Tokens) -> io::Result<()> {
    let name = random().map_err(|why| io::Error::other(why.to_string()))?;
    let invitation = Invitation::new(&std::env::temp_dir(), &name, address)?;
    let opened = open::that_detached(invitation.path());
    if opened.is_ok() {
        tokens.keep(invitation);
    }
    opened
}
