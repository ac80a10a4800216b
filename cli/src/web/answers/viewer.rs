//! Who asks, of which cluster. Lists are of all namespaces, or of one where the caller may not list all.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use crate::cluster::{ClusterError, Served};
use crate::live::listed::list;
use crate::live::{LiveError, list::Objects};
use crate::web::problem::{Problem, Problems};

/// How long what the API server serves is believed to be the same.
const SERVED_AGE_MAX: Duration = Duration::from_mins(1);

/// What the API server serves, and when it said so.
type Known = (Instant, Arc<Served>);

/// The caller of the plugin, whose rights the page has.
#[derive(Clone)]
pub struct Viewer {
    pub(super) client: Client,
    server: String,
    namespace: String,
    served: Arc<Mutex<Option<Known>>>,
}

/// An answer, with what is missing in it.
#[derive(Debug, Serialize)]
pub struct Answer<T> {
    #[serde(flatten)]
    body: T,
    problems: Vec<Problem>,
}

/// Where the page looks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    server: String,
    namespace: String,
    version: &'static str,
    token: String,
}

impl<T> Answer<T> {
    pub(super) fn new(body: T, problems: Problems) -> Self {
        Self {
            body,
            problems: problems.all(),
        }
    }
}

impl Viewer {
    /// A caller who looks into `namespace` if he may not look into all.
    pub fn new(client: Client, server: String, namespace: String) -> Self {
        Self {
            client,
            server,
            namespace,
            served: Arc::default(),
        }
    }

    /// Where the page looks, and the token that it asks with.
    pub fn session(&self, token: &str) -> Session {
        Session {
            server: self.server.clone(),
            namespace: self.namespace.clone(),
            version: env!("CARGO_PKG_VERSION"),
            token: token.to_owned(),
        }
    }

    /// The objects of a kind in a namespace, or in all that the caller may list.
    pub(super) async fn list<K>(
        &self,
        namespace: Option<&str>,
        problems: &mut Problems,
    ) -> Result<Vec<K>, Problem>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Debug,
    {
        let what = K::plural(&()).into_owned();
        let found = list(&self.client, namespace, None, &mut problems.tell()).await;
        match found {
            Err(error) if namespace.is_none() && is_forbidden(&error) => {
                problems.or_nothing::<()>(&format!("{what} of other namespaces"), Err(error))?;
                let own = list(
                    &self.client,
                    Some(&self.namespace),
                    None,
                    &mut problems.tell(),
                )
                .await;
                problems.or_nothing(&what, own)
            }
            found => problems.or_nothing(&what, found),
        }
    }

    /// The objects that jobs are seen by, as far as the caller may see them.
    pub(super) async fn objects(
        &self,
        namespace: Option<&str>,
        problems: &mut Problems,
    ) -> Result<Objects, Problem> {
        let workloads = self.list(namespace, problems).await?;
        let queues = self.list(namespace, problems).await?;
        let mut pods = crate::live::list::pods(&self.client, namespace, &mut problems.tell()).await;
        if namespace.is_none() && pods.as_ref().is_err_and(is_forbidden) {
            let own = Some(self.namespace.as_str());
            pods = crate::live::list::pods(&self.client, own, &mut problems.tell()).await;
        }
        Ok(Objects {
            workloads,
            queues,
            pods: problems.or_nothing("pods that are admitted by themselves", pods)?,
        })
    }

    /// What the API server serves.
    pub(super) async fn served(&self) -> Result<Arc<Served>, ClusterError> {
        let mut known = self.served.lock().await;
        match &*known {
            Some((at, served)) if at.elapsed() < SERVED_AGE_MAX => Ok(served.clone()),
            _ => {
                let served = Arc::new(Served::ask(&self.client).await?);
                *known = Some((Instant::now(), served.clone()));
                Ok(served)
            }
        }
    }
}

fn is_forbidden(error: &LiveError) -> bool {
    matches!(error, LiveError::Cluster(ClusterError::Refused(status)) if status.code == 403)
}
