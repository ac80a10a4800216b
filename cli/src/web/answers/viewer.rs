//! Who asks, of which cluster. Lists are of all namespaces, or of one where the caller may not list all.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::turns::Turns;
use crate::cluster::{ClusterError, Served};
use crate::live::listed::list;
use crate::live::{LiveError, list::Objects};
use crate::simulate::Assumed;
use crate::web::problem::{Problem, Problems};

/// How long what the API server serves is believed to be the same.
const SERVED_AGE_MAX: Duration = Duration::from_mins(1);

/// What the API server serves, and when it said so.
type Known = (Instant, Arc<Served>);

/// One whose rights the page has. What is remembered here is of him alone.
#[derive(Clone)]
pub struct Viewer {
    pub(super) client: Client,
    server: String,
    /// His name, where there are several.
    user: String,
    /// Whose turns he has.
    pub(super) party: String,
    namespace: String,
    /// What he says of the cluster.
    pub(super) assumed: Assumed,
    served: Arc<Mutex<Option<Known>>>,
    pub(super) turns: Turns,
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
    #[serde(skip_serializing_if = "String::is_empty")]
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
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
    pub fn new(client: Client, server: String, namespace: String, assumed: Assumed) -> Self {
        Self {
            client,
            server,
            user: String::new(),
            party: String::new(),
            namespace,
            assumed,
            served: Arc::default(),
            turns: Turns::new(),
        }
    }

    /// The same, as one of several users, who share these turns by parties.
    pub fn among(self, turns: Turns, user: String, party: String) -> Self {
        Self {
            user,
            party,
            turns,
            ..self
        }
    }

    /// The same, who looks into `namespace` if he may not look into all.
    pub fn within(self, namespace: String) -> Self {
        Self { namespace, ..self }
    }

    /// Where the page looks, and the token that it asks with if that is not its own.
    pub fn session(&self, token: Option<String>) -> Session {
        Session {
            server: self.server.clone(),
            namespace: self.namespace.clone(),
            version: env!("CARGO_PKG_VERSION"),
            user: self.user.clone(),
            token,
        }
    }

    /// The objects of a kind that is in no namespace.
    pub(super) async fn list_of_cluster<K>(
        &self,
        problems: &mut Problems,
    ) -> Result<Vec<K>, Problem>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + DeserializeOwned + Debug,
    {
        let found = list(&self.client, None, None, &mut problems.tell()).await;
        problems.or_nothing(&K::plural(&()), found)
    }

    /// The objects of a kind in a namespace, or in all that the caller may list.
    pub(super) async fn list<K>(
        &self,
        namespace: Option<&str>,
        problems: &mut Problems,
    ) -> Result<Vec<K>, Problem>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Debug,
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
        let objects = Objects {
            workloads,
            queues,
            pods: problems.or_nothing("pods that are admitted by themselves", pods)?,
            names: self.assumed.names.clone(),
        };
        if let Some(note) = objects.left_out() {
            problems.note(note);
        }
        Ok(objects)
    }

    /// What the API server serves. It is asked without the lock, which nobody holds while he waits for an answer.
    pub(super) async fn served(&self) -> Result<Arc<Served>, ClusterError> {
        let known = self.served.lock().await.clone();
        match known {
            Some((at, served)) if at.elapsed() < SERVED_AGE_MAX => Ok(served),
            _ => {
                let served = Arc::new(Served::ask(&self.client).await?);
                *self.served.lock().await = Some((Instant::now(), served.clone()));
                Ok(served)
            }
        }
    }
}

fn is_forbidden(error: &LiveError) -> bool {
    matches!(error, LiveError::Cluster(error) if error.is_forbidden())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use tokio::sync::Notify;
    use tokio::time::timeout;

    use super::*;

    /// More than enough for an answer that is there at once.
    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn nobody_waits_for_an_answer_to_somebody_else() {
        let (asked, is_first) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(true)));
        let has_asked = Arc::clone(&asked);
        // The first request has no answer.
        let slow = tower::service_fn(move |_: Request<Body>| {
            let is_first = is_first.swap(false, Ordering::Relaxed);
            asked.notify_one();
            async move {
                if is_first {
                    pending::<()>().await;
                }
                let refused = Response::builder().status(403);
                Ok::<_, Infallible>(refused.body(Body::empty()).unwrap())
            }
        });
        let client = Client::new(slow, "default");
        let viewer = Viewer::new(client, String::new(), "blue".to_owned(), Assumed::default());
        let waits = viewer.clone();
        let waits = tokio::spawn(async move { waits.served().await.map(drop) });
        has_asked.notified().await;
        let told = timeout(SOON, viewer.served()).await;
        assert!(told.is_ok_and(|told| told.is_err()));
        waits.abort();
    }
}
