//! Who asks, of which cluster. Lists are of all namespaces, or of one where the caller may not list all.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::core::ClusterResourceScope;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_crds::LocalQueue;
use tokio::sync::Mutex;

use super::turns::Turns;
use crate::cluster::{ClusterError, Served};
use crate::live::LiveError;
use crate::live::list::{KeepOf, Objects};
use crate::live::listed::{each, list};
use crate::simulate::Assumed;
use crate::web::problem::{Problem, Problems};

/// How long what the API server serves is believed to be the same.
const SERVED_AGE_MAX: Duration = Duration::from_mins(1);

/// Where many read, what is kept of the jobs of an answer takes so many bytes of memory at most, and its LocalQueues so many. An
/// answer is made of both, and eight are made at a time.
const JOBS_BYTES_MAX: usize = 48 << 20;
const QUEUES_BYTES_MAX: usize = 8 << 20;
/// What is read of the cluster for an estimate, of which there is one at a time, takes so many.
const SEEN_BYTES_MAX: usize = 96 << 20;
/// How many times its text an object may take of memory.
const BYTES_PER_TEXT: usize = 8;

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
    pub(super) jobs_bytes_max: usize,
    queues_bytes_max: usize,
    pub(super) seen_bytes_max: usize,
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
            jobs_bytes_max: usize::MAX,
            queues_bytes_max: usize::MAX,
            seen_bytes_max: usize::MAX,
        }
    }

    /// The same, as one of several users, who share these turns by parties, and the memory.
    pub fn among(self, turns: Turns, user: String, party: String) -> Self {
        Self {
            user,
            party,
            turns,
            jobs_bytes_max: JOBS_BYTES_MAX,
            queues_bytes_max: QUEUES_BYTES_MAX,
            seen_bytes_max: SEEN_BYTES_MAX,
            ..self
        }
    }

    /// The same, who looks into `namespace` if he may not look into all.
    pub fn within(self, namespace: String) -> Self {
        Self { namespace, ..self }
    }

    /// The same, whose jobs take so much memory at most.
    pub(super) fn with_jobs_bytes(self, jobs_bytes_max: usize) -> Self {
        Self {
            jobs_bytes_max,
            ..self
        }
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

    /// The LocalQueues of a namespace, or of all that the caller may list.
    pub(super) async fn local_queues(
        &self,
        namespace: Option<&str>,
        problems: &mut Problems,
    ) -> Result<Vec<LocalQueue>, Problem> {
        let what = LocalQueue::plural(&()).into_owned();
        match self.local_queues_of(namespace, problems).await {
            Err(error) if namespace.is_none() && is_forbidden(&error) => {
                problems.or_nothing::<()>(&format!("{what} of other namespaces"), Err(error))?;
                let own = Some(self.namespace.as_str());
                let own = self.local_queues_of(own, problems).await;
                problems.or_nothing(&what, own)
            }
            found => problems.or_nothing(&what, found),
        }
    }

    /// Without what is not shown, which whoever creates them may make large.
    async fn local_queues_of(
        &self,
        namespace: Option<&str>,
        problems: &mut Problems,
    ) -> Result<Vec<LocalQueue>, LiveError> {
        let (mut all, mut left) = (Vec::new(), Some(self.queues_bytes_max));
        let mut tell = problems.tell();
        let read = each(
            &self.client,
            namespace,
            None,
            &mut tell,
            |mut queue: LocalQueue| {
                (queue.metadata.annotations, queue.metadata.labels) = (None, None);
                let text = serde_json::to_vec(&queue).map_or(0, |text| text.len());
                let bytes = text.saturating_mul(BYTES_PER_TEXT);
                left = left.and_then(|left| left.checked_sub(bytes));
                match left {
                    Some(_) => {
                        all.push(queue);
                        ControlFlow::Continue(())
                    }
                    None => ControlFlow::Break(()),
                }
            },
        );
        read.await?;
        drop(tell);
        if left.is_none() {
            let shown = all.len();
            let text = format!(
                "there are more LocalQueues than one answer can hold: only {shown} of them are shown"
            );
            problems.note(text);
        }
        Ok(all)
    }

    /// The objects that jobs are seen by, as far as the caller may see them.
    pub(super) async fn objects(
        &self,
        namespace: Option<&str>,
        queues: Vec<LocalQueue>,
        keep: &KeepOf<'_>,
        problems: &mut Problems,
    ) -> Result<Objects, Problem> {
        let client = &self.client;
        let own = Some(self.namespace.as_str()).filter(|_| namespace.is_none());
        let names = self.assumed.names.clone();
        let mut objects = Objects::new(queues, names, self.jobs_bytes_max);
        let mut read = objects
            .add_workloads(client, namespace, keep, &mut problems.tell())
            .await;
        if let (Some(own), true) = (own, is_refused(&read)) {
            problems.or_nothing("workloads of other namespaces", read)?;
            read = objects
                .add_workloads(client, Some(own), keep, &mut problems.tell())
                .await;
        }
        problems.or_nothing("workloads", read)?;
        let mut read = objects
            .add_pods(client, namespace, keep, &mut problems.tell())
            .await;
        if let (Some(own), true) = (own, is_refused(&read)) {
            read = objects
                .add_pods(client, Some(own), keep, &mut problems.tell())
                .await;
        }
        problems.or_nothing("pods that are admitted by themselves", read)?;
        for note in objects.left_out() {
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

fn is_refused(read: &Result<(), LiveError>) -> bool {
    read.as_ref().is_err_and(is_forbidden)
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
