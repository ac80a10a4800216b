//! The connection to a cluster, with the caller's kubeconfig; deadlines; and what the API server says when it does
//! not do what it is asked.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use kube::config::{ExecInteractiveMode, KubeConfigOptions, KubeconfigError};
use kube::core::Status;
use kube::{Client, Config};
use sluice_kinds::names;
use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::kubeconfig::{self, Proxies};

/// How long an answer may take, with kube's repetitions when the API server is busy. An admission webhook has up to
/// 30 s of it.
const ANSWER_DEADLINE: Duration = Duration::from_mins(1);
/// How long a connection may take; and the credential plugin of a kubeconfig, if it asks the user nothing.
const CONNECT_DEADLINE: Duration = Duration::from_secs(30);
/// When the user is told that a credential plugin is waited for, which may ask something elsewhere, as in a browser.
const PLUGIN_IS_SLOW: Duration = Duration::from_secs(5);

/// What the API server says of a JSON patch whose `test` failed (`NewGenericServerResponse` in apimachinery): it leaves
/// the cause out, and no other 422 reads so.
const FAILED_TEST: &str = "the server rejected our request due to an error in our request";

/// Which cluster, and as whom.
#[derive(Debug, Args)]
pub struct Connection {
    /// The kubeconfig file; by default what KUBECONFIG names, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Which namespace.
#[derive(Debug, Args)]
pub struct Namespace {
    /// The namespace; by default that of the context.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

impl Namespace {
    /// The namespace that is named, if one is.
    ///
    /// # Errors
    /// No namespace has such a name.
    pub fn named(&self) -> Result<Option<&str>, ClusterError> {
        let name = self.namespace.as_deref();
        name.map(|name| check_namespace("--namespace", name))
            .transpose()?;
        Ok(name)
    }
}

/// Which namespaces.
#[derive(Debug, Args)]
pub struct Namespaces {
    #[command(flatten)]
    one: Namespace,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

impl Namespaces {
    /// The same, where it may be all.
    ///
    /// # Errors
    /// No namespace has such a name.
    pub fn named(&self) -> Result<Option<&str>, ClusterError> {
        self.one.named()
    }
}

/// Options for where a command looks.
pub trait NamespaceOptions: Args {
    /// The namespace that is asked for; None if these are all.
    ///
    /// # Errors
    /// No namespace has such a name.
    fn of(&self, cluster: &Cluster) -> Result<Option<String>, ClusterError>;
}

impl NamespaceOptions for Namespace {
    fn of(&self, cluster: &Cluster) -> Result<Option<String>, ClusterError> {
        cluster.one_namespace(self).map(Some)
    }
}

impl NamespaceOptions for Namespaces {
    fn of(&self, cluster: &Cluster) -> Result<Option<String>, ClusterError> {
        cluster.namespace(self)
    }
}

/// A cluster that can be asked.
pub struct Cluster {
    /// Repeats what the API server is too busy for. A patch that tests what it changes takes effect once all the same.
    pub client: Client,
    default_namespace: String,
    server: String,
}

/// Why the cluster does not answer what is asked for.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// A name that no namespace has.
    #[error("{given} {name:?}: must be a lowercase RFC 1123 subdomain")]
    NoNamespace {
        /// What says it: an option, or the context.
        given: &'static str,
        /// The name.
        name: String,
    },
    /// Nothing says which of several namespaces Sluice is in.
    #[error(
        "Sluice may be installed in several namespaces ({0}); choose one with --system-namespace"
    )]
    ManyHomes(String),
    /// There is no kubeconfig, or it can't be read.
    #[error("can't read the kubeconfig: {0}")]
    Kubeconfig(String),
    /// What the kubeconfig says can't be used.
    #[error("can't connect: {0}")]
    Connection(String),
    /// The API server refuses, in its own words.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// It can't be asked, or its answer can't be read.
    #[error("can't {what}: {detail}")]
    Unanswered {
        /// What was asked for.
        what: String,
        /// Why.
        detail: String,
    },
    /// It does not serve the kind.
    #[error(
        "can't {what}: the cluster does not serve this kind; if it is one of Sluice's, kubectl sluice check says what \
         of Sluice is not installed"
    )]
    Unserved {
        /// What was asked for.
        what: String,
    },
    /// It does not answer.
    #[error("can't {what}: no answer within {} s", .limit.as_secs())]
    Deadline {
        /// What was asked for.
        what: String,
        /// How long it had.
        limit: Duration,
    },
}

impl ClusterError {
    /// kube quotes the file of a kubeconfig that can't be read twice.
    fn of_kubeconfig(error: &KubeconfigError) -> Self {
        Self::Kubeconfig(match error {
            KubeconfigError::ReadConfig(why, file) => format!("{}: {why}", file.display()),
            other => causes(other),
        })
    }
}

impl Cluster {
    /// Connects as the caller's kubeconfig says; in a pod without one, as its service account.
    ///
    /// # Errors
    /// The kubeconfig can't be read, or can't be used.
    pub async fn connect(connection: &Connection) -> Result<Self, ClusterError> {
        let config = timeout(CONNECT_DEADLINE, connection.config());
        let mut config = config
            .await
            .map_err(|_| ClusterError::Deadline {
                what: "read the kubeconfig".to_owned(),
                limit: CONNECT_DEADLINE,
            })?
            .map_err(|error| ClusterError::of_kubeconfig(&error))?;
        config.connect_timeout = Some(CONNECT_DEADLINE);
        let default_namespace = config.default_namespace.clone();
        let server = config.cluster_url.to_string();
        Ok(Self {
            client: client(config, CONNECT_DEADLINE).await?,
            default_namespace,
            server,
        })
    }

    /// The namespace of the context.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// The address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace that is asked for; None if these are all.
    ///
    /// # Errors
    /// No namespace has such a name.
    pub fn namespace(&self, asked: &Namespaces) -> Result<Option<String>, ClusterError> {
        if asked.all_namespaces {
            return Ok(None);
        }
        self.one_namespace(&asked.one).map(Some)
    }

    /// The namespace that is asked for, where these can't be all.
    ///
    /// # Errors
    /// No namespace has such a name.
    pub fn one_namespace(&self, asked: &Namespace) -> Result<String, ClusterError> {
        let (given, name) = match &asked.namespace {
            Some(name) => ("--namespace", name),
            None => ("the namespace of the context", &self.default_namespace),
        };
        check_namespace(given, name)?;
        Ok(name.clone())
    }
}

/// That a namespace can have this name, which becomes part of a URL. `given` is what says it.
///
/// # Errors
/// It can't.
pub fn check_namespace(given: &'static str, name: &str) -> Result<(), ClusterError> {
    if names::subdomain(name, "").is_empty() {
        Ok(())
    } else {
        Err(ClusterError::NoNamespace {
            given,
            name: name.to_owned(),
        })
    }
}

impl ClusterError {
    /// Whether the API server has judged the request and refuses it. It may also not know the caller or the object,
    /// or have too much to do.
    pub fn is_refusal(&self) -> bool {
        self.code()
            .is_some_and(|code| [400, 403, 409, 422].contains(&code))
    }

    /// Whether the caller may not do that.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether there is no such object, or no such kind.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the object is not the one that was read: it has changed, or another one has its name by now. 409; 422 for
    /// a JSON patch whose `test` failed, and for another UID in a patch. 409 also if it exists already.
    pub fn is_conflict(&self) -> bool {
        let Self::Refused(status) = self else {
            return false;
        };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        match status.code {
            409 => true,
            422 => {
                status.message.starts_with(FAILED_TEST)
                    || causes.any(|cause| cause.field == "metadata.uid")
            }
            _ => false,
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the API server says no to a reader: the caller may not see it, or there is no such object. A resource that
    /// it does not serve is something else.
    pub fn is_no(&self) -> bool {
        match self {
            Self::Refused(status) => {
                self.is_forbidden() || (self.is_not_found() && status.reason == "NotFound")
            }
            _ => false,
        }
    }
}

impl Connection {
    /// To this context of this kubeconfig, or to those that count where they are not named.
    pub fn new(kubeconfig: Option<&str>, context: Option<&str>) -> Self {
        Self {
            kubeconfig: kubeconfig.map(PathBuf::from),
            context: context.map(str::to_owned),
        }
    }

    /// The contexts that its kubeconfig has; none if it can't be read.
    pub fn contexts(&self) -> Vec<String> {
        let read = kubeconfig::find(self.kubeconfig.as_deref());
        let contexts = read
            .map(|kubeconfig| kubeconfig.contexts)
            .unwrap_or_default();
        contexts.into_iter().map(|context| context.name).collect()
    }

    async fn config(&self) -> Result<Config, KubeconfigError> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let found = kubeconfig::find(self.kubeconfig.as_deref());
        let is_none = match &found {
            Ok(found) => kubeconfig::is_empty(found),
            Err(error) => kubeconfig::is_missing(error),
        };
        // One that is broken is not replaced: the caller would be somebody else.
        if is_none && self.kubeconfig.is_none() && self.context.is_none() {
            let in_pod = Config::incluster().ok();
            if let Some(config) = in_pod {
                return Ok(config);
            }
        }
        let found = found?;
        let proxy = kubeconfig::own_proxy(&found, self.context.as_deref()).map(str::to_owned);
        let mut config = Config::from_custom_kubeconfig(found, &options).await?;
        let proxies = Proxies::of_environment();
        config.proxy_url = proxies.to(&config.cluster_url, proxy.as_deref())?;
        Ok(config)
    }
}

/// A client. If the kubeconfig names a credential plugin it is run, on a thread of its own; within `limit`, unless it may
/// ask the user.
async fn client(config: Config, limit: Duration) -> Result<Client, ClusterError> {
    let exec = config.auth_info.exec.clone();
    let made = spawn_blocking(|| Client::try_from(config));
    let made = match exec {
        None => made.await,
        Some(exec) => {
            let plugin = exec.command.unwrap_or_default();
            let never_asks = exec.interactive_mode == Some(ExecInteractiveMode::Never);
            let limit = never_asks.then_some(limit);
            credentials(&plugin, limit, made).await?
        }
    };
    let failed = |error: &dyn StdError| ClusterError::Connection(causes(error));
    made.map_err(|ended| failed(&ended))?
        .map_err(|error| failed(&error))
}

/// What is made with the credentials of a plugin. Who waits for long is told for what: no command has anything to tell yet.
///
/// # Errors
/// It takes longer than the limit, if there is one.
async fn credentials<T>(
    plugin: &str,
    limit: Option<Duration>,
    made: impl Future<Output = T>,
) -> Result<T, ClusterError> {
    let made = async {
        let mut made = pin!(made);
        if let Ok(made) = timeout(PLUGIN_IS_SLOW, &mut made).await {
            return made;
        }
        // Nobody may read that.
        let _ = writeln!(
            io::stderr(),
            "note: waiting for the credential plugin {plugin:?} of the kubeconfig"
        );
        made.await
    };
    match limit {
        None => Ok(made.await),
        Some(limit) => timeout(limit, made)
            .await
            .map_err(|_| ClusterError::Deadline {
                what: format!("get credentials from the plugin {plugin:?} of the kubeconfig"),
                limit,
            }),
    }
}

/// The answer to a request.
///
/// # Errors
/// It is refused, can't be had, or does not come in time.
pub async fn answer<T>(
    what: impl fmt::Display,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ClusterError> {
    answer_within(ANSWER_DEADLINE, what, request).await
}

/// The same, if it has to come sooner.
///
/// # Errors
/// It is refused, can't be had, or does not come in time.
pub async fn answer_within<T>(
    limit: Duration,
    what: impl fmt::Display,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ClusterError> {
    match timeout(limit, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(ClusterError::Refused(status)),
        Ok(Err(error)) => Err(ClusterError::Unanswered {
            what: what.to_string(),
            detail: causes(&error),
        }),
        Err(_) => Err(ClusterError::Deadline {
            what: what.to_string(),
            limit,
        }),
    }
}

/// An error and what caused it. Some errors tell their causes themselves.
fn causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let told = cause.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        source = cause.source();
    }
    text
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
